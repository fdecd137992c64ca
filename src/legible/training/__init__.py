"""Training: many policies at once as a fleet, or one with Stable-Baselines3.

- `dqn`, `ppo`: the algorithms for N policies side by side.
- `fleet`: plans of fleets, and how policies come out as files of a zoo.
- `presets`: hyperparameters by environment.
- `checkpoint`: stopping and going on.
- `slots`: environments side by side.
- `networks`, `adam`, `draws`, `replay`, `steps`, `fused`: what the algorithms are made of.
- `selfcheck`: the fused kernels against double precision, and their times.
"""
