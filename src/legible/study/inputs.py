"""What a study is made from: what tells it from other studies, and the files that its folder keeps of it.

- `StudyInputs`: the inputs; `StudyInputs.identity`, `StudyInputs.about` and `StudyInputs.write` put them into a folder.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import legible
from legible.environments import EnvironmentSpec
from legible.features import FeatureSpace
from legible.files import write_text
from legible.guidance import GuidedPolicy
from legible.policies import NetworkPolicy, Policy, save_policy
from legible.relations import RelationsText
from legible.settings import StudySettings
from legible.study.folder import names_text, survives_json


@dataclass(frozen=True)
class StudyInputs:
    """What a study is made from.

    Parameters
    ----------
    environment, policy, policy_name, seed, settings
        As in `legible.study.Study`.
    fingerprint
        Stands for how policy and environment behave.
    names
        Names that the environment does not bring along; None where it does, or has none.
    relations
        The texts of the relations files.
    rules, veto
        Rules of the user's own, and those that must not be in the composition, as texts.
    """

    environment: EnvironmentSpec
    policy: Policy
    policy_name: str
    fingerprint: str
    seed: int
    settings: StudySettings
    names: FeatureSpace | None
    relations: tuple[RelationsText, ...]
    rules: tuple[str, ...]
    veto: tuple[str, ...]

    def identity(self) -> dict[str, Any]:
        """What makes this study, as plain data: two studies in which it differs are never mixed."""
        lost = self._lost_arguments()
        arguments = {name: str(value) if name in lost else value for name, value in self.environment.arguments.items()}
        return {
            "environment": self.environment.name,
            "arguments": arguments,
            "wrappers": list(self.environment.wrappers),
            "policy and environment": self.fingerprint,
            "seed": self.seed,
            "settings": self.settings.to_dict(),
            "names": None if self.names is None else hashlib.sha256(names_text(self.names).encode()).hexdigest(),
            "relations": [entry.checksum for entry in self.relations],
            "rules": list(self.rules),
            "veto": list(self.veto),
        }

    def about(self) -> dict[str, Any]:
        """What else is worth knowing."""
        is_file = bool(self.policy_name) and not self.policy_name.startswith("zoo:")
        return {
            "policy": self.policy_name,
            "policy file": str(Path(self.policy_name).resolve()) if is_file else self.policy_name or None,
            "lost arguments": self._lost_arguments(),
            "versions": _versions(),
        }

    def _lost_arguments(self) -> list[str]:
        """Arguments of the environment that no file can hold."""
        return [name for name, value in self.environment.arguments.items() if not survives_json(value)]

    def write(self, folder: Path) -> list[Path]:
        """Put policy, relations and names into the folder; returns the files."""
        written = []
        policy, file = self.policy, folder / "policy.safetensors"
        if isinstance(policy, GuidedPolicy) and isinstance(policy.network, NetworkPolicy):
            policy.save(file)
            written.append(file)
        elif isinstance(policy, NetworkPolicy):
            written.append(save_policy(policy, file))
        if self.relations:
            (folder / "relations").mkdir(exist_ok=True)
        for i, entry in enumerate(self.relations):
            written.append(folder / "relations" / f"{i:02}-{entry.name}.toml")
            write_text(written[-1], entry.text)
        if self.names is not None:
            written.append(folder / "names.json")
            write_text(written[-1], names_text(self.names))
        return written


def _versions() -> dict[str, str]:
    found = {"legible": legible.__version__, "python": platform.python_version()}
    for package in ("numpy", "numba", "gymnasium", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
