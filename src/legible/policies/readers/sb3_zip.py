"""Readers of the zips of Stable-Baselines3 and sb3-contrib, and of the RL Zoo's folders with such a zip."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legible.policies.normalising import frame_padding, normalised_file
from legible.policies.protocol import Policy, UnclearPolicyError
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.rl_zoo import ENVIRONMENT_NEEDS, Training, find_training, is_zoo_folder, policy_in_folder
from legible.policies.sb3.archive import read_contents
from legible.policies.sb3.description import ALGORITHMS, checked_algorithm, trained_normalised
from legible.policies.sb3.zip_policy import read_sb3_zip

if TYPE_CHECKING:
    from legible.policies.normalising import NormalisablePolicy


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
    return _read_trained(path, options, find_training(path))


def is_folder(source: Any) -> bool:
    """Return whether this is a folder with a policy and the zoo's files."""
    return isinstance(source, Path) and is_zoo_folder(source)


def read_folder(folder: Path, options: LoadOptions) -> Policy:
    """Read the policy of a folder, with its statistics and the settings of its environment."""
    path = policy_in_folder(folder)
    return _read_trained(path, options, find_training(path, anywhere=True))


def _read_trained(path: Path, options: LoadOptions, training: Training | None) -> Policy:
    """Return the policy of a zip of Stable-Baselines3, with its observation statistics.

    - `options`: the caller's options. With ``trust``, Stable-Baselines3's own loader opens the zip and runs the code in
      it.
    - `training`: the training settings in the RL Zoo's files next to the zip, None without such files. What they say
      about the environment (arguments, wrappers, stacked frames) goes into the policy's metadata.
    """
    # Read the network, with Stable-Baselines3's own loader or without running code. `refuse` raises an error if the
    # caller gave an option that does not apply.
    options.refuse("a policy file", "output")
    algorithm = checked_algorithm(options.algorithm)
    frames = 1 if training is None else training.frame_stack
    policy: NormalisablePolicy
    if options.trust:
        from legible.policies.sb3.models import load_trusted_zip, policy_of_model  # noqa: PLC0415 (slow import)

        options.refuse("a trusted zip", "activation", "encoding")
        model, is_normalised = load_trusted_zip(path, algorithm)
        policy = policy_of_model(model)
    else:
        contents = read_contents(path)
        is_normalised = trained_normalised(contents)
        policy = read_sb3_zip(contents, algorithm, options)
    policy = normalised_file(policy, path, options, trained_normalised=is_normalised, frames=frames)

    # The zip may not say that the policy was trained on normalised observations, but the RL Zoo's settings do.
    if training is None:
        return policy
    if training.normalised and policy.normalisation is None and options.normalisation is None:
        raise UnclearPolicyError(
            f"{path}: config.yml says that the policy was trained on normalised observations, but their statistics "
            "were not found. Put vecnormalize.pkl next to the policy, or name the file: --normalisation FILE (Python: "
            "normalisation=FILE). If observations were not normalised, pass --normalisation none",
            "normalisation",
        )

    # What an environment needs to be like the one that the policy was trained in.
    needed = {
        "env_arguments": dict(training.env_arguments),
        "wrappers": [[call.name, dict(call.arguments)] for call in training.wrappers],
        "frame_stack": training.frame_stack,
        "frame_padding": frame_padding(policy.normalisation, training.frame_stack),
    }
    return dataclasses.replace(policy, metadata={**policy.metadata, ENVIRONMENT_NEEDS: needed})


READER = PolicyReader("sb3", f"a .zip file of Stable-Baselines3 or sb3-contrib ({', '.join(ALGORITHMS)})", is_own, read)
FOLDER_READER = PolicyReader("rl-zoo", "a folder of the RL Zoo", is_folder, read_folder)
