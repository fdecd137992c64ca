"""Training: many policies at once as a fleet, or one with Stable-Baselines3.

- `plan`: plans of fleets, and how policies come out as files of a zoo.
- `fleet`, `dqn`, `ppo`: N policies that are trained side by side, and the algorithms.
- `presets`: hyperparameters by environment.
- `checkpoint`: stopping and going on.
- `slots`: environments side by side.
- `networks`, `adam`, `replay`, `gradient_step`, `random_numbers`: what the algorithms are made of.
- `fused`, `cuda_graphs`: the same on a GPU, in few launches.
- `check_fused`: the fused kernels against double precision, and their times.
- `sb3`: one policy with Stable-Baselines3, and policies as its zip files.
"""
