"""Driving as in Farama's highway-env 1.12, fast: highway, highway-fast, merge, intersection and roundabout.

- `roads`: highway-env's own road networks as arrays, and geometry along their lanes.
- `state`: the traffic of a batch of episodes in arrays; `scratch`: room in which the kernels work.
- `driving`: traffic a frame at a time, compiled, with `steering`, `idm` (how others drive), `neighbours`, `collisions`
  and `right_of_way`.
- `spawn`, `observation`, `rewards`: how traffic starts, what ego sees, what a step is worth.
- `kernel`: whole batches, compiled.
- `settings`: the scenarios' settings; `configuration`: made from highway-env's names, over one of the `presets`.
- `episodes`, `env`: the Gymnasium environments, single and vector, over that one kernel.
- `features`, `render`, `scene`: names and words of the observation; pictures from state; replays for a report.
- `farama`: Farama's own environments in the same form.
- `domain`: ids, and what legible knows about the scenarios; `training`: presets.
"""
