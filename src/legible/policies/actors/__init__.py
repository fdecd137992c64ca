"""Policies for any spaces: images, dictionaries and numbers in; discrete, continuous and multi-part actions out.

- `observations`: convert observations to network inputs.
- `networks`: parts of a network: layers, images, dictionaries, memory.
- `heads`: convert the output of the last hidden layer to actions.
- `policy`: `ActorPolicy`, which combines them.
"""
