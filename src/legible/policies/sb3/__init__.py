"""Policies of Stable-Baselines3 and sb3-contrib: their zips, read without unpickling, and their models in memory.

- `archive`: what is in a zip.
- `description`: what the zip says about its policy.
- `layers`: from tensors to layers.
- `zip_policy`: the policy of a zip.
- `models`: models in memory, and zips that are trusted; the only module that imports Stable-Baselines3.
"""
