"""The fleet trainer: many policies at once on one GPU.

- `plan`: plans of fleets, and how policies come out as files of a zoo.
- `fleet`, `dqn`, `ppo`: N policies that are trained side by side, and the algorithms.
- `checkpoint`: stopping and going on.
- `slots`: environments side by side; `fleet_rules`: rules that guide a fleet.
- `networks`, `adam`, `replay`, `gradient_step`, `random_numbers`: what the algorithms are made of.
- `fused`, `cuda_graphs`: the same on a GPU, in few launches; `check_fused`: their errors and times.
"""
