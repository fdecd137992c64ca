"""Driving as in Farama's highway-env 1.12, fast: highway, highway-fast, merge, intersection and roundabout.

- `roads`: highway-env's own road networks as arrays, and geometry along their lanes.
- `state`: the traffic of a batch of episodes in arrays.
- `driving`: steering, IDM, MOBIL, collisions and the rules of the road, compiled.
- `spawn`, `observation`, `rewards`: how traffic starts, what ego sees, what a step is worth.
- `kernel`: whole batches, compiled.
- `settings`: the scenarios' settings by highway-env's names.
- `episodes`, `env`: the Gymnasium environments, single and vector, over that one kernel.
- `features`, `render`: names and words of the observation; pictures from state.
- `farama`: Farama's own environments in the same form; `synchronise`: their states in legible's arrays.
"""
