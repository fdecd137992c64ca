"""Reader of the zips of Stable-Baselines3 and sb3-contrib."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from legible.policies.normalising import normalised_file
from legible.policies.protocol import Policy
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.sb3.archive import read_contents
from legible.policies.sb3.description import ALGORITHMS, checked_algorithm, trained_normalised
from legible.policies.sb3.zip_policy import Answers, read_sb3_zip


def is_own(source: Any) -> bool:
    """Return whether this is a zip file of Stable-Baselines3, by its name or its content."""
    if not isinstance(source, Path) or not source.is_file():
        return False
    if source.suffix == ".zip":
        return True
    try:
        with zipfile.ZipFile(source) as archive:
            return "policy.pth" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def read(path: Path, options: LoadOptions) -> Policy:
    """Read the policy of a zip without unpickling anything, or with Stable-Baselines3's own loader if it is trusted."""
    options.refuse("a policy file", "output")
    algorithm = checked_algorithm(options.algorithm)
    if options.trust:
        from legible.policies.sb3.models import load_trusted_zip, policy_of_model  # noqa: PLC0415 (slow import)

        options.refuse("a trusted zip", "activation", "encoding")
        model, trained_so = load_trusted_zip(path, algorithm)
        return normalised_file(policy_of_model(model), path, options, trained_so=trained_so)
    contents = read_contents(path)
    answers = Answers(algorithm, options.activation, options.encoding, options.n_actions)
    return normalised_file(read_sb3_zip(contents, answers), path, options, trained_so=trained_normalised(contents))


READER = PolicyReader("sb3", f"a .zip file of Stable-Baselines3 or sb3-contrib ({', '.join(ALGORITHMS)})", is_own, read)
