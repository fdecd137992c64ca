"""What a study is made from: what tells it from other studies, and the files that its folder keeps of it.

- `load_policy_for`: the policy by its path or address, as far as the environment can help.
- `names_to_keep`: the names that a folder has to keep.
- `found_again`: a file by its whole path.
- `StudyInputs`: the inputs; `StudyInputs.identity`, `StudyInputs.about` and `StudyInputs.write` put them into a folder.
- `read_inputs`: from a folder to the arguments that its study was made with.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import legible
from legible.environments import (
    EnvironmentSpec,
    FeatureMap,
    ObservationEncoder,
    is_flat,
    plain_environment,
    refuse_named_code,
)
from legible.environments.feature_readers import is_named_code
from legible.environments.names import read_names as given_names
from legible.errors import LegibleError
from legible.evaluation.objectives import check_objectives
from legible.features import FeatureSpace
from legible.files import DamagedFileError, write_text
from legible.guidance import GuidedPolicy
from legible.hypotheses import OTHERS, source_names
from legible.policies import Policy, UnclearPolicyError, load_policy, save_policy
from legible.policies.policy_file import why_not_saved
from legible.relations import RelationsText
from legible.settings import StudySettings
from legible.study.folder import (
    BEHAVIOUR,
    RULES_FROM,
    StudyFolder,
    environment_of,
    names_text,
    read_kept_names,
    survives_json,
)


def load_policy_for(
    environment: EnvironmentSpec,
    source: str | Path | Policy,
    *,
    typed: bool = True,
    options: Mapping[str, str] | None = None,
    features: str | None = None,
) -> Policy:
    """Load a policy; what a function does not say about its observations, the environment does.

    Parameters
    ----------
    environment
        The environment that it is for.
    source
        Its path or address, see `legible.load_policy`; a policy is returned as it is.
    typed
        Whether a person named it, and no file did. Only then it may be code itself.
    options
        What else `legible.load_policy` is told: ``normalisation``, ``output``.
    features
        What rules see, as a person says it: a function that is named here may be imported where the file of a guided
        policy names it, too.
    """
    loaded = _loaded(environment, source, typed=typed, options=options) if isinstance(source, (str, Path)) else source
    if features is not None and is_named_code(features) and isinstance(loaded, GuidedPolicy):
        return loaded.trusting(features)
    return loaded


def _loaded(
    environment: EnvironmentSpec, source: str | Path, *, typed: bool, options: Mapping[str, str] | None
) -> Policy:
    told: dict[str, Any] = dict(options or {})
    try:
        return load_policy(source, typed=typed, **told)
    except UnclearPolicyError as error:
        if error.argument not in {"n_features", "n_actions"}:
            raise
    env = plain_environment(environment).make()  # type: ignore[union-attr]  # that of a spec is a spec
    try:
        width = ObservationEncoder.of(env.observation_space).width
    finally:
        env.close()
    return load_policy(source, typed=typed, n_features=width, **told)


@dataclass(frozen=True)
class StudyInputs:
    """What a study is made from.

    Parameters
    ----------
    environment, policy, policy_name, policy_options, seed, settings
        As in `legible.study.Study`.
    fingerprint
        Stands for how policy and environment behave.
    names
        Names that the environment does not bring along; None where it does, or has none.
    relations
        The texts of the relations files.
    rules, veto
        Rules of the user's own, and those that must not be in the composition, as texts.
    rules_from
        Other policies and studies whose rules are tested, as plain data.
    features
        What rules see, if that is not the observation, as the user said it.
    """

    environment: EnvironmentSpec
    policy: Policy
    policy_name: str
    policy_options: Mapping[str, str]
    fingerprint: str
    seed: int
    settings: StudySettings
    names: FeatureSpace | None
    relations: tuple[RelationsText, ...]
    rules: tuple[str, ...]
    veto: tuple[str, ...]
    rules_from: list[dict[str, Any]]
    features: str | None = None

    def __post_init__(self) -> None:
        asked = self.settings.evaluation
        check_objectives(asked.objective, asked.constraint, self.settings.play)  # hours before they are needed
        names = source_names(self.settings.sources)
        if self.rules_from and OTHERS not in names:
            raise LegibleError(
                f"--rules-from: the sources of rule sets are {self.settings.sources}; --sources must name {OTHERS!r}, "
                "too, for rules of others to be tested."
            )

    def identity(self) -> dict[str, Any]:
        """What makes this study, as plain data: two studies in which it differs are never mixed."""
        lost = self._lost_arguments()
        arguments = {name: str(value) if name in lost else value for name, value in self.environment.arguments.items()}
        return {
            "environment": self.environment.name,
            "arguments": arguments,
            "wrappers": list(self.environment.wrappers),
            BEHAVIOUR: self.fingerprint,
            "seed": self.seed,
            "settings": self.settings.to_dict(),
            "names": None if self.names is None else hashlib.sha256(names_text(self.names).encode()).hexdigest(),
            "relations": [entry.checksum for entry in self.relations],
            "rules": list(self.rules),
            "veto": list(self.veto),
            RULES_FROM: self.rules_from,
            **({} if self.features is None else {"features": self.features}),
        }

    def about(self) -> dict[str, Any]:
        """What else is worth knowing."""
        found = {"legible": legible.__version__, "python": platform.python_version()}
        for package in ("numpy", "numba", "gymnasium", "torch"):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
        return {
            "policy": self.policy_name,
            "policy file": found_again(self.policy_name) if self.policy_name else None,
            "policy options": {name: found_again(value) for name, value in self.policy_options.items()},
            "lost arguments": self._lost_arguments(),
            "versions": found,
        }

    def _lost_arguments(self) -> list[str]:
        """Arguments of the environment that no file can hold."""
        return [name for name, value in self.environment.arguments.items() if not survives_json(value)]

    def write(self, folder: Path) -> list[Path]:
        """Put policy, relations and names into the folder; returns the files."""
        written = []
        policy, file = self.policy, folder / "policy.safetensors"
        if isinstance(policy, GuidedPolicy) and why_not_saved(policy.network) is None:
            policy.save(file)
            written.append(file)
        elif why_not_saved(policy) is None:
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


def read_inputs(
    place: StudyFolder, *, policy: Policy | None, trust: bool, most_failed: float | None
) -> tuple[str, dict[str, Any]]:
    """Return the name of a folder's policy and the arguments that make its study again; see `Study.open`."""
    kept = place.read()
    about = kept["about"]
    environment = environment_of(kept, place.path, trust=trust)
    place.check_files(kept)
    own, names = place / "policy.safetensors", place / "names.json"
    source: Any = policy or (own if own.exists() else about["policy file"])
    if source is None:
        raise LegibleError(
            f"{place.path}: its policy was an object in memory, which the folder cannot hold; only a program that "
            "has it can open the study."
        )
    features = kept.get("features")
    if features is not None and not isinstance(features, str):
        raise DamagedFileError(f"{place / 'study.json'}: is damaged (features {features!r}); use another folder.")
    if features is not None and is_named_code(features):  # it needs trust, as an environment's code does
        refuse_named_code(EnvironmentSpec(features), str(place.path), trust=trust)
    settings = kept["settings"] | ({} if most_failed is None else {"most_failed": most_failed})
    return about["policy"], {
        "environment": environment,
        "policy": source,
        "relations": sorted((place / "relations").glob("*.toml")),
        "rules": kept["rules"],
        "veto": kept["veto"],
        "rules_from": kept[RULES_FROM],
        "seed": kept["seed"],
        "settings": StudySettings.from_dict(settings, str(place / "study.json")),
        "names": read_kept_names(names) if names.exists() else None,
        "features": features,
        "policy_options": None if own.exists() else about.get("policy options"),
        "typed": trust,
    }


def names_to_keep(mapped: FeatureMap, names: str | Path | FeatureSpace | None) -> FeatureSpace | None:
    """Return the names that a folder has to keep: the user's, and the shipped ones; the environment's come with it."""
    if names is not None and not is_flat(mapped):
        return given_names(names)[0]
    named = mapped.names
    return named.space if named.is_given or named.is_shipped else None


def found_again(name: str) -> str:
    """A file by its whole path, so that it is found from elsewhere; other names, such as ``zoo:NAME``, as they are."""
    return str(Path(name).resolve()) if Path(name).exists() else name
