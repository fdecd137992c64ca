"""Draw the pictures of the documents: ``python docs/make_images.py``."""

from pathlib import Path

import gymnasium
from PIL import Image

import legible  # noqa: F401 (registers the environments)

HERE = Path(__file__).parent / "images"


def pacman_small() -> None:
    """The small level a few steps into an episode, one capsule eaten."""
    env = gymnasium.make("legible/PacmanSmall-v0", render_mode="rgb_array")
    env.reset(seed=4)
    for action in "WWWWWNNW":
        env.step("NSEW".index(action))
    Image.fromarray(env.render()).save(HERE / "pacman-small.png", optimize=True)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    pacman_small()
