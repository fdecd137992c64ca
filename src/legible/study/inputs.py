"""The inputs of a study: its identity, and the files of them that its folder keeps.

`inspect_environment` makes the environment once, and decides on features, names and relations. `StudyInputs` puts the
inputs into a folder, and `read_inputs` reads them from it.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, cast

from gymnasium import spaces

import legible
from legible.engines import Engine
from legible.environments import (
    EnvironmentSpec,
    FeatureMap,
    ObservationEncoder,
    explain_outside,
    find_feature_map,
    is_flat,
    map_features,
    refuse_named_code,
    resolve_names,
    with_features,
    without_features,
)
from legible.environments.feature_readers import flat_width, is_named_code
from legible.environments.names import read_names as given_names
from legible.errors import LegibleError, did_you_mean
from legible.evaluation.objectives import check_objectives
from legible.features import FeatureSpace
from legible.files import DamagedFileError, write_text
from legible.hypotheses import OTHERS, source_names
from legible.play import adapt_policy, check_can_be_studied
from legible.policies import Policy, UnclearPolicyError
from legible.policies.protocol import lacks_fallback
from legible.relations import ChosenRelations, RelationsArgument, RelationsText, resolve_relations
from legible.settings import StudySettings
from legible.study.fingerprint import fingerprint_of, walk_randomly
from legible.study.folder import (
    BEHAVIOUR,
    RULES_FROM,
    StudyFolder,
    environment_of,
    names_text,
    read_kept_names,
    survives_json,
)

# Arguments of `legible.load_policy` that an environment knows.
_IN_ENVIRONMENT = {"n_features", "n_actions", "action_space", "output"}


def load_policy_for(
    environment: EnvironmentSpec,
    source: str | Path | Policy | Callable[..., Any],
    *,
    allow_code: bool = True,
    trust: bool = False,
    options: Mapping[str, str] | None = None,
    features: str | None = None,
) -> Policy:
    """Return a policy from a file, an address, a function or an object, with the spaces of its environment if needed.

    Parameters
    ----------
    environment
        The environment that it is for. It answers what a file or function leaves open, such as the number of actions.
    source
        Its path or address, a function or an object with ``predict``. A `Policy` is returned as it is.
    allow_code, trust
        Whether the source may be the name of code, ``module:function`` (true if the user named it, false if a file
        did), and whether it may be a TorchScript program, which runs code when it is loaded.
    options
        Further arguments of `legible.load_policy`; ``fallback`` may be the name of an action.
    features
        What rules see, if the user chose it. If that is the name of a function, a guided policy whose file names the
        same function may import it.
    """
    if isinstance(source, Policy):
        loaded = source
    else:
        loaded = _loaded(environment, source, allow_code=allow_code, trust=trust, options=dict(options or {}))
    from legible.guidance import GuidedPolicy  # noqa: PLC0415 (it needs PyTorch)

    if features is not None and is_named_code(features) and isinstance(loaded, GuidedPolicy):
        return loaded.trusting(features)
    return loaded


def _loaded(
    environment: EnvironmentSpec, source: Any, *, allow_code: bool, trust: bool, options: dict[str, Any]
) -> Policy:
    """Return the policy of a source; what the source leaves open is taken from the spaces of the environment.

    The arguments are those of `load_policy_for`; `options` are changed in place.
    """
    from legible.policies import load_policy  # noqa: PLC0415 (it needs PyTorch)
    from legible.policies.torch_file import is_torchscript  # noqa: PLC0415 (it needs PyTorch)

    # Only TorchScript programs need trust. It is not passed on for other files: a zip would get another loader.
    options["trust"] = trust and isinstance(source, str | Path) and is_torchscript(Path(source))
    # First without the environment, which takes long to make; a fallback (the action taken where rules block the
    # policy's own) is a name that only the environment can translate.
    fallback = options.pop("fallback", None)
    if fallback is None:
        try:
            return load_policy(source, allow_code=allow_code, **options)
        except UnclearPolicyError as error:
            if error.argument not in _IN_ENVIRONMENT:
                raise  # only the user can say what is missing
    # Then with its spaces.
    with closing(cast("EnvironmentSpec", without_features(environment)).make()) as env:
        options |= {"observation_space": env.observation_space, "action_space": env.action_space}
        is_dict = isinstance(env.observation_space, spaces.Dict)
        if not is_dict:
            options["n_features"] = flat_width(env.observation_space)
        if fallback is not None:
            options["fallback"] = _choices_of_fallback(str(fallback), resolve_names(env).space)
        try:
            return load_policy(source, allow_code=allow_code, **options)
        except UnclearPolicyError as error:
            if is_dict and error.argument in {"n_features", "n_actions"}:
                ObservationEncoder.of(env.observation_space)  # raises, and says how to flatten observations
            raise


def _choices_of_fallback(text: str, space: FeatureSpace) -> tuple[int, ...]:
    """Return an action that is given by names or numbers, by the value of each part, counted from 0."""
    values = []
    for part, group in zip([part.strip() for part in text.split(",")], space.groups, strict=False):
        names = list(space.action_names[group.choices])
        short_names = [name.removeprefix(f"{group.name}.") for name in names]
        if part in names or part in short_names:
            values.append((names if part in names else short_names).index(part))
        elif part.isdigit() and int(part) < group.count:
            values.append(int(part))
        else:
            raise LegibleError(
                f"--fallback {text}: there is no action {part!r}.{did_you_mean(part, names)} Actions are "
                f"{', '.join(names[:20])}."
            )
    if len(values) != len(space.groups) or text.count(",") >= len(space.groups):
        raise LegibleError(f"--fallback {text}: an action has {len(space.groups)} parts, separated by commas.")
    return tuple(values)


def check_fallback(policy: Policy, rules: Iterable[str]) -> None:
    """Raise if a rule blocks actions of a policy that cannot say what is taken instead."""
    if lacks_fallback(policy) and any(text.lstrip().startswith("-") for text in rules):
        raise LegibleError(
            "a rule that blocks actions needs a fallback, because this policy has no scores: state the action that "
            "is taken instead (--fallback ACTION, policy_options={'fallback': ACTION})."
        )


def write_policy(policy: Policy, path: Path) -> bool:
    """Write a network, or a guided policy of one, as a ``.safetensors`` file; return False for any other policy."""
    from legible.guidance import GuidedPolicy  # noqa: PLC0415 (it needs PyTorch)
    from legible.policies.policy_file import save_policy, why_not_saved  # noqa: PLC0415

    if why_not_saved(policy.network if isinstance(policy, GuidedPolicy) else policy) is not None:
        return False
    if isinstance(policy, GuidedPolicy):
        policy.save(path)
    else:
        save_policy(policy, path)
    return True


@dataclass(frozen=True)
class StudyInputs:
    """The inputs of a study.

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
        The user's own rules, and rules that must not be in the composition, as texts.
    rules_from
        Other policies and studies whose rules are tested, as plain data.
    features
        The features that rules see, if not the observation, as the user wrote it.
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
        # Refuse unknown objectives and sources of rule sets now, hours before they are needed.
        evaluation, sources = self.settings.evaluation, source_names(self.settings.sources)
        check_objectives(evaluation.objective, evaluation.constraint, self.settings.play)
        if self.rules_from and OTHERS not in sources:
            raise LegibleError(
                f"--rules-from has no effect, because {OTHERS!r} is not among the sources of rule sets: --set "
                f"sources={self.settings.sources},{OTHERS} adds it."
            )

    def identity(self) -> dict[str, Any]:
        """Return the identity of the study as plain data; studies with different identities are never mixed."""
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
        """Return further facts for people: versions, names of files."""
        versions = {"legible": legible.__version__, "python": platform.python_version()}
        for package in ("numpy", "numba", "gymnasium", "torch"):
            with suppress(PackageNotFoundError):
                versions[package] = version(package)
        return {
            "policy": self.policy_name,
            "policy file": found_again(self.policy_name) if self.policy_name else None,
            "policy options": {name: found_again(value) for name, value in self.policy_options.items()},
            "lost arguments": self._lost_arguments(),
            "versions": versions,
        }

    def _lost_arguments(self) -> list[str]:
        """Return the names of the environment's arguments that no file can hold."""
        return [name for name, value in self.environment.arguments.items() if not survives_json(value)]

    def write(self, folder: Path) -> list[Path]:
        """Write policy, relations and names into the folder of a study, and return the paths of the files.

        A policy that is no network, such as a function, cannot be written; the folder then only has its name.
        """
        policy_file = folder / "policy.safetensors"
        written = [policy_file] if write_policy(self.policy, policy_file) else []
        if self.relations:
            (folder / "relations").mkdir(exist_ok=True)
        for i, relations_text in enumerate(self.relations):  # numbered, to keep their order
            written.append(folder / "relations" / f"{i:02}-{relations_text.name}.toml")
            write_text(written[-1], relations_text.text)
        if self.names is not None:
            written.append(folder / "names.json")
            write_text(written[-1], names_text(self.names))
        return written


def read_inputs(
    folder: StudyFolder, *, policy: Policy | None, trust: bool, most_failed: float | None
) -> tuple[str, dict[str, Any]]:
    """Return the name of the policy of a study, and the arguments with which its folder is opened as a `Study`.

    Parameters
    ----------
    folder
        The folder.
    policy
        The policy, for studies of a policy that was an object in memory; None: the one in the folder.
    trust
        Whether to run code that the folder names. Without, a folder that names code is refused.
    most_failed
        Share of episodes that may fail; None leaves it as it was.
    """
    saved = folder.read()  # the content of study.json
    about = saved["about"]
    environment = environment_of(saved, folder.path, trust=trust)
    folder.check_files(saved)
    policy_file, names_file = folder / "policy.safetensors", folder / "names.json"
    source: Any = policy or (policy_file if policy_file.exists() else about["policy file"])
    if source is None:
        raise LegibleError(
            f"{folder.path}: its policy was an object in memory, which the folder cannot hold. Open the study "
            "in a program that passes the object."
        )
    features = saved.get("features")
    if features is not None and not isinstance(features, str):
        raise DamagedFileError(f"{folder / 'study.json'}: is damaged (features {features!r}); use another folder.")
    # Names of code in the folder are refused unless the user trusts it: the features of rules, and the functions that
    # name endings and reward terms. `refuse_named_code` takes them as the name of an environment, which may be code.
    if features is not None and is_named_code(features):
        refuse_named_code(EnvironmentSpec(features), str(folder.path), trust=trust)
    play = saved["settings"].get("play", {})
    for function in filter(None, (play.get("endings"), play.get("terms"))):
        refuse_named_code(EnvironmentSpec(str(function)), str(folder.path), trust=trust)
    settings = saved["settings"] | ({} if most_failed is None else {"most_failed": most_failed})
    return about["policy"], {
        "environment": environment,
        "policy": source,
        "relations": sorted((folder / "relations").glob("*.toml")),
        "rules": saved["rules"],
        "veto": saved["veto"],
        "rules_from": saved[RULES_FROM],
        "seed": saved["seed"],
        "settings": StudySettings.from_dict(settings, str(folder / "study.json")),
        "names": read_kept_names(names_file) if names_file.exists() else None,
        "features": features,
        "policy_options": None if policy_file.exists() else about.get("policy options"),
        "allow_code": trust,
        "trust": trust,
    }


def names_to_keep(mapped: FeatureMap, names: str | Path | FeatureSpace | None) -> FeatureSpace | None:
    """Return the names that a folder has to keep: the user's, and the shipped ones; the environment's come with it."""
    if names is not None and not is_flat(mapped):
        return given_names(names)[0]
    named = mapped.names
    return named.space if named.is_given or named.is_shipped else None


def found_again(name: str) -> str:
    """Return a file by its whole path, which works from any folder; other names, such as ``zoo:NAME``, as they are."""
    return str(Path(name).resolve()) if Path(name).exists() else name


class EnvironmentInfo(NamedTuple):
    """Facts about an environment that a study needs before anything else.

    Parameters
    ----------
    environment
        The environment, showing rows of features where rules see something else than the observation.
    space
        Names of features and actions.
    names
        Those that the folder has to keep; None where the environment brings them along.
    relations
        The relations that are meant.
    fingerprint
        Stands for how policy and environment behave.
    outside
        Which observations leave their space; None if none was seen to.
    """

    environment: EnvironmentSpec
    space: FeatureSpace
    names: FeatureSpace | None
    relations: ChosenRelations
    fingerprint: str
    outside: str | None


def inspect_environment(
    environment: EnvironmentSpec,
    policy: Policy,
    names: str | Path | FeatureSpace | None,
    features: str | None,
    relations: RelationsArgument,
    *,
    engine: Engine,
    time_limit: float | None,
    masks: bool = True,
    seed: int = 0,
) -> EnvironmentInfo:
    """Return what a study needs to know about its environment: features, actions, relations and a fingerprint.

    Parameters
    ----------
    names, features, relations
        As the user gave them: names of features and actions, or their file (None: the environment's own); what rules
        see (None: the observation); symmetries of the task, their files, or "discover" (None: the shipped ones).
    engine, time_limit
        With a time limit, first steps are made on the engine, and given up after this many seconds.
    masks
        Whether to use the action masks of the environment.
    seed
        Seed of the study, for the discovery of relations.
    """
    env = environment.make()
    try:
        if time_limit is not None and not isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
            # The search for masks below resets the environment in this process, where no time limit holds. So notice
            # one that hangs before. Random steps need flat observations, and dictionaries and tuples are not.
            walk_randomly(environment, engine=engine, time_limit=time_limit)
        mapped = map_features(env, names, features, masks=masks)
        # An environment that shows features already is checked by itself, any other one with the features mapped.
        check_can_be_studied(policy, env, None if find_feature_map(env) is not None else mapped)
        # The environment as the study plays it, with the features that rules see. A flat observation is the features.
        with_rule_features = with_features(environment, mapped)

        def discover() -> str:
            """Return the text of a file of relations that are found by playing the environment."""
            from legible.relations.discovery import discover_relations  # noqa: PLC0415 (it takes half a second)

            played = environment if is_flat(mapped) else with_rule_features
            return discover_relations(played, mapped.space, seed=seed).text

        chosen = resolve_relations(env, mapped.space, relations, discover)
        # Some random steps: for the fingerprint, and to see whether observations lie outside their declared range.
        # This process can use the environment that is open; another process, for a time limit, makes its own.
        walked_env = env if time_limit is None and is_flat(mapped) else with_rule_features
        observations, rewards = walk_randomly(walked_env, engine=engine, time_limit=time_limit)
        outside = explain_outside(env.observation_space, observations) if is_flat(mapped) else None
        player = adapt_policy(policy, with_rule_features)
        fingerprint = fingerprint_of(player, walked_env, walked=(observations, rewards))
    finally:
        env.close()
    return EnvironmentInfo(with_rule_features, mapped.space, names_to_keep(mapped, names), chosen, fingerprint, outside)
