"""Policies of any spaces: images, dictionaries and numbers in, discrete, continuous and several actions out.

- `observations`: from what an environment gives to what a network reads.
- `networks`: the parts of a network: layers, pictures, dictionaries, memory.
- `heads`: from the last layer to actions.
- `policy`: `ActorPolicy`, which puts them together.
"""
