"""The zoo: trained policies by name. ``zoo:PacmanSmall/dqn/0`` works wherever a policy's path does.

The repository holds all policies, an installed package only those of the demo; ``LEGIBLE_ZOO`` sets another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from legible.errors import LegibleError, did_you_mean

PREFIX = "zoo:"
_PACKAGED = Path(__file__).parents[1] / "zoo_policies"  # in a wheel
_CHECKOUT = Path(__file__).parents[3] / "zoo"


class ZooError(LegibleError):
    """A policy that the zoo does not have."""


def zoo_folder() -> Path:
    """Return the folder with the policies of the zoo."""
    named = os.environ.get("LEGIBLE_ZOO")
    for folder in (Path(named),) if named else (_PACKAGED, _CHECKOUT):
        if folder.is_dir():
            return folder
    raise ZooError(f"there is no zoo at {named or _PACKAGED}; set LEGIBLE_ZOO to the folder zoo of the repository.")


def zoo_names() -> list[str]:
    """Return the names of all policies in the zoo, such as ``PacmanSmall/dqn/0``."""
    folder = zoo_folder()
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*/*.safetensors"))


def zoo_path(name: str) -> Path:
    """Return the file of a policy of the zoo by its name, with or without ``zoo:``.

    >>> zoo_path("zoo:PacmanSmall/dqn/0").name
    '0.safetensors'
    """
    name = name.removeprefix(PREFIX)
    known = zoo_names()
    if name not in known:
        hint = did_you_mean(name, known) or " 'legible zoo' lists what there is."
        if zoo_folder() == _PACKAGED:
            hint += (
                " The installed package holds only the policies of the demo. For all policies clone the repository and "
                "set LEGIBLE_ZOO to its folder zoo."
            )
        raise ZooError(f"the zoo has no policy {name!r}.{hint}")
    return zoo_folder() / f"{name}.safetensors"
