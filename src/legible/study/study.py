"""A study: one run from policy to guided policy, in a folder, that can be stopped and goes on where it stopped.

- `Study`: the steps of the paper as methods. Each makes what it needs, keeps it in the folder, and does nothing twice.
  Everything that it takes is in the folder, so `Study.open` needs nothing else.
- `UnitFiles`: played units on disk, each a file that is there whole or not at all.

All numbers are in `legible.settings.StudySettings`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np

import legible
from legible.engines import Engine, LocalProcesses
from legible.environments import Env, EnvironmentSpec, ObservationEncoder, count_actions, feature_space_of
from legible.errors import LegibleError
from legible.evaluation import Evaluation, Runner, evaluate
from legible.evaluation.baselines import random_rule_sets, random_tests
from legible.evaluation.units import Setup, Unit, UnitResult, run_units
from legible.explanation import WeaknessExplanation, explain_weaknesses, top_weaknesses
from legible.features import FeatureSpace, deciles
from legible.files import write_text, write_whole
from legible.guidance import GuidedPolicy
from legible.improvement import Improvement, improve
from legible.mining import Mining, mine
from legible.play import Experiences, check_policy, collect, stage_seeds
from legible.policies import NetworkPolicy, Policy, load_policy, save_policy
from legible.relations import (
    Generalisation,
    MetamorphicRelation,
    dump_relations,
    generalise_all,
    load_relations,
    share_cuts,
    shipped_features,
    shipped_relations,
)
from legible.rules import Rule, RuleSet, parse_rule
from legible.settings import BaselineSettings, StudySettings

__all__ = ["BASELINES", "BaselineSettings", "Progress", "Study", "StudySettings", "UnitFiles", "fingerprint_of"]

Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, of)`` whenever more of a stage became known."""

BASELINES = ("block", "enforce", "rules")


class UnitFiles(MutableMapping[str, UnitResult]):
    """Results of units as files of a folder, one each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._path(key).exists()

    def __getitem__(self, key: str) -> UnitResult:
        try:
            with np.load(self._path(key), allow_pickle=False) as data:
                return UnitResult(**{f.name: data[f.name] for f in fields(UnitResult)})
        except FileNotFoundError:
            raise KeyError(key) from None
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise LegibleError(f"{self._path(key)}: is damaged; delete it and run the study again.") from error

    def __setitem__(self, key: str, result: UnitResult) -> None:
        columns = {f.name: getattr(result, f.name) for f in fields(UnitResult)}
        write_whole(self._path(key), lambda file: np.savez_compressed(file, **columns))

    def __delitem__(self, key: str) -> None:
        self._path(key).unlink()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self._folder.glob("*.npz"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class _RelationsText:
    """A relations file's name and content."""

    name: str
    text: str

    @property
    def mark(self) -> str:
        """A text that changes when the content does."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class Study:
    """One study of one policy in one environment.

    Parameters
    ----------
    folder
        Where everything is kept. A folder that holds a study with other settings is refused, not mixed.
    environment
        An id, ``module:factory`` or a spec with arguments.
    policy
        A policy, or the path of one. A network is copied into the folder.
    relations
        Relations files, or relations; by default those that legible ships for the environment, if any.
    rules
        Rules of your own, as texts or values, that are tested like the mined ones.
    veto
        Rules, as texts or values, that must not be in the composition.
    seed
        Decides everything that is random.
    settings
        Numbers; by default those of `StudySettings`, with units of work that suit the environment.
    names
        Feature names: a TOML file or a feature space; by default the environment's, or those that legible ships for it.
    engine
        Where episodes run; by default processes on all cores. Used as a context manager, it keeps its workers.
    progress
        Called as ``progress(stage, done, of)`` whenever more of a stage became known.

    Attributes
    ----------
    folder, environment, policy, settings, seed, engine
        As given.
    policy_name
        The path or zoo name that the policy was given by; "" for an object.
    versions
        The versions of Python and packages that the study was made with.

    Examples
    --------
    >>> study = Study("studies/small", "legible/PacmanSmall-v0", "policy.zip")  # doctest: +SKIP
    >>> study.run().effect.mean  # doctest: +SKIP
    >>> again = Study.open("studies/small")  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: str | Path,
        environment: str | EnvironmentSpec,
        policy: str | Path | Policy,
        *,
        relations: Sequence[str | Path] | Sequence[MetamorphicRelation] | None = None,
        rules: Sequence[str | Rule] = (),
        veto: Sequence[str | Rule] = (),
        seed: int = 0,
        settings: StudySettings | None = None,
        names: str | Path | FeatureSpace | None = None,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.environment = EnvironmentSpec(environment) if isinstance(environment, str) else environment
        self.policy_name = str(policy) if isinstance(policy, (str, Path)) else ""
        self.policy = load_policy(policy) if isinstance(policy, (str, Path)) else policy
        self.seed = seed
        self.engine = engine or LocalProcesses()
        self.progress = progress or (lambda *_: None)
        self._names = _names(names, self.environment)
        self._early_space, self.fingerprint = _look(self.policy, self.environment, self._names)
        self.settings = settings or StudySettings().fitted_to(self.environment)
        self._relations = relations
        self._relation_texts = self._read_relation_texts(relations)
        self._rules, self._veto = self._texts_of(rules), self._texts_of(veto)
        self._locked = False
        self._kept = self._claim_folder()
        self._units = UnitFiles(self.folder / "units")

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        policy: Policy | None = None,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open the study that a folder holds; everything that it was made with is there.

        Parameters
        ----------
        folder
            The folder.
        policy
            The policy, for studies of a policy that is no file and no network; the folder cannot hold it.
        engine, progress
            As for `Study`.
        """
        folder = Path(folder)
        kept = _read_kept(folder)
        lost = kept["about"]["lost arguments"]
        if lost:
            raise LegibleError(
                f"{folder}: the environment's argument {lost[0]!r} is nothing that a file can hold; make the study "
                "again with Study(…) and the same arguments."
            )
        own, path = folder / "policy.safetensors", kept["about"]["policy file"]
        source: Any = policy or (own if own.exists() else path)
        if source is None:
            raise LegibleError(f"{folder}: its policy was an object in memory; give it as Study.open(…, policy=…).")
        names = folder / "names.json"
        study = cls(
            folder,
            EnvironmentSpec(kept["environment"], kept["arguments"], tuple(kept["wrappers"])),
            source,
            relations=sorted((folder / "relations").glob("*.toml")),
            rules=kept["rules"],
            veto=kept["veto"],
            seed=kept["seed"],
            settings=StudySettings.from_dict(kept["settings"], str(folder / "study.json")),
            names=_read_names(names) if names.exists() else None,
            engine=engine,
            progress=progress,
        )
        study.policy_name = kept["about"]["policy"]
        return study

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Whether a folder holds a study."""
        return (Path(folder) / "study.json").is_file()

    @property
    def is_played(self) -> bool:
        """Whether episodes of the evaluation have been played."""
        return any(iter(self._units))

    # --- What the folder holds ---------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What makes this study, as plain data: two studies in which it differs are never mixed."""
        arguments = self.environment.arguments
        return {
            "environment": self.environment.name,
            "arguments": {k: str(v) if k in self._lost_arguments else v for k, v in arguments.items()},
            "wrappers": list(self.environment.wrappers),
            "policy and environment": self.fingerprint,
            "seed": self.seed,
            "settings": asdict(self.settings),
            "names": None if self._names is None else hashlib.sha256(_dump_names(self._names).encode()).hexdigest(),
            "relations": [entry.mark for entry in self._relation_texts],
            "rules": list(self._rules),
            "veto": list(self._veto),
        }

    @property
    def _lost_arguments(self) -> list[str]:
        return [name for name, value in self.environment.arguments.items() if not _survives_json(value)]

    def _claim_folder(self) -> dict[str, Any]:
        """Write what makes this study, or compare it with what the folder says."""
        if self.is_in(self.folder):
            kept = _read_kept(self.folder)
            now = json.loads(json.dumps(self._identity()))
            changed = _differences({key: kept[key] for key in now}, now)
            if changed:
                raise LegibleError(
                    f"{self.folder}: holds a study with other settings ({'; '.join(changed[:4])}). Use another folder, "
                    "or the settings that this one was made with."
                )
            return kept
        try:
            (self.folder / "relations").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LegibleError(f"{self.folder}: cannot be made ({error.strerror}).") from error
        self._copy_sources()
        is_file = bool(self.policy_name) and not self.policy_name.startswith("zoo:")
        about = {
            "policy": self.policy_name,
            "policy file": str(Path(self.policy_name).resolve()) if is_file else self.policy_name or None,
            "lost arguments": self._lost_arguments,
            "versions": _versions(),
        }
        document = {**self._identity(), "about": about}
        write_text(self.folder / "study.json", json.dumps(document, indent=2) + "\n")
        return document

    def _copy_sources(self) -> None:
        """Put policy, relations and names into the folder; ``study.json`` comes last and says that all are there."""
        if isinstance(self.policy, NetworkPolicy):
            save_policy(self.policy, self.folder / "policy.safetensors")
        for i, entry in enumerate(self._relation_texts):
            write_text(self.folder / "relations" / f"{i:02}-{entry.name}.toml", entry.text)
        if self._names is not None:
            write_text(self.folder / "names.json", _dump_names(self._names))

    @property
    def versions(self) -> dict[str, str]:
        """The versions of Python and packages that the study was made with."""
        return dict(self._kept["about"]["versions"])

    def _read_relation_texts(
        self, relations: Sequence[str | Path] | Sequence[MetamorphicRelation] | None
    ) -> list[_RelationsText]:
        if relations is None:
            relations = [path for _, path, default in shipped_relations(self.environment.name) if default]
        objects = [entry for entry in relations if isinstance(entry, MetamorphicRelation)]
        if objects:
            return [_RelationsText("given", dump_relations(objects, self._early_space))]
        return [_relations_text(Path(entry)) for entry in relations if isinstance(entry, (str, Path))]

    def _texts_of(self, rules: Sequence[str | Rule]) -> tuple[str, ...]:
        space = self._early_space
        return tuple((parse_rule(rule, space) if isinstance(rule, str) else rule).text(space) for rule in rules)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep a second process from working in the same folder; a dead one holds nothing."""
        if self._locked:
            yield
            return
        try:
            file = (self.folder / "lock").open("w")
        except OSError as error:
            raise LegibleError(f"{self.folder / 'lock'}: cannot be written ({error.strerror}).") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LegibleError(f"{self.folder}: another process is working on this study.") from None
            self._locked = True
            for part in self.folder.rglob("*.part"):  # what a killed process was just writing
                part.unlink()
            try:
                yield
            finally:
                self._locked = False

    # --- The steps ---------------------------------------------------------------------------------------------------

    def run(self) -> Improvement:
        """Do everything up to the guided policy, which is saved as ``guided.safetensors`` if there is one."""
        with self.engine:
            return self.improvement

    @cached_property
    def experiences(self) -> Experiences:
        """What the policy saw and did."""
        path = self.folder / "experiences.npz"
        if not path.exists():
            count = _Count(self.progress, "experiences", self.settings.episodes)
            with self._lock():
                experiences = collect(
                    self.policy,
                    self.environment,
                    self.settings.episodes,
                    seed=self.seed,
                    names=self._names,
                    epsilon=self.settings.play.epsilon,
                    sample=self.settings.play.sample,
                    step_limit=self.settings.play.step_limit,
                    on_episode=count.add,
                )
                experiences.save(path)
        return Experiences.load(path)

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.experiences.space

    @cached_property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """The metamorphic relations."""
        loaded: list[MetamorphicRelation] = []
        given = self._relations
        if given and isinstance(given[0], MetamorphicRelation):
            return tuple(entry for entry in given if isinstance(entry, MetamorphicRelation))
        for i, entry in enumerate(self._relation_texts):
            loaded += load_relations(self.folder / "relations" / f"{i:02}-{entry.name}.toml", self.space)
        return tuple(loaded)

    @cached_property
    def mining(self) -> Mining:
        """Step 1: the mined rules."""
        path = self.folder / "mining.npz"
        if not path.exists():
            seen = self.experiences
            intervals = share_cuts(deciles(seen.space, seen.observations), seen.space, self.relations)
            mining = mine(
                self.policy,
                seen,
                seed=self.seed,
                settings=self.settings.mining,
                intervals=intervals,
                on_progress=self.progress,
            )
            mining.save(path)
        return Mining.load(path)

    @cached_property
    def generalisations(self) -> tuple[Generalisation, ...]:
        """Step 2: every mined rule and every rule of the user's, with all that it generalises to."""
        rules = [mined.rule for mined in self.mining.rules] + self._read(self._rules)
        return tuple(generalise_all(rules, self.relations))

    def _read(self, rules: Sequence[str]) -> list[Rule]:
        return [parse_rule(rule, self.space) for rule in rules]

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """The rule sets that are tested; rules that no condition is left of are not among them."""
        return tuple(found.rule_set for found in self.generalisations if not found.is_empty)

    def setup(self, treatments: Sequence[Any] = ()) -> Setup:
        """What units of work share: policy, environment, and what they are guided with."""
        return Setup(self.policy, self.environment, tuple(treatments), self.settings.play)

    def runner(self, *stages: str, of: int = 0) -> Runner:
        """Return how units are run for this study: on its engine, and no unit that the folder holds.

        Parameters
        ----------
        stages
            What the successive calls are called in progress; the last name stays.
        of
            Episodes of all calls together, where they are known.
        """
        names = list(stages) or ["episodes"]
        count = _Count(self.progress, names[0], of)

        def run(setup: Setup, units: Sequence[Unit], *, on_episodes: Callable[[int], None] | None = None) -> UnitResult:
            nonlocal count
            if names and names[0] != count.stage:
                count = _Count(self.progress, names[0], 0)
            if len(names) > 1:
                names.pop(0)
            count.expect(sum(len(unit) for unit in units))
            return run_units(
                setup,
                units,
                engine=self.engine,
                store=self._units,
                fingerprint=self.fingerprint,
                time_limit=self.settings.time_limit or None,
                on_episodes=partial(_both, count.add, on_episodes),
            )

        return run

    @cached_property
    def evaluation(self) -> Evaluation:
        """Step 3: the verdicts on all rule sets."""
        with self._lock():
            return evaluate(
                self.setup(self.rule_sets),
                seed=self.seed,
                settings=self.settings.evaluation,
                run=self.runner("screening", "confirmation"),
            )

    @cached_property
    def improvement(self) -> Improvement:
        """Algorithm 2: the composition, and what it is worth on fresh seeds."""
        evaluation, settings = self.evaluation, self.settings.improvement
        found_before = evaluation.weaknesses if settings.candidates == "weaknesses" else evaluation.confirmed
        tried = min(len(found_before), settings.most_candidates or len(found_before))
        with self._lock():
            found = improve(
                self.setup(),
                evaluation,
                seed=self.seed,
                settings=settings,
                veto=self._read(self._veto),
                run=self.runner("improvement", of=(1 + tried) * settings.episodes + 2 * settings.final_episodes),
            )
        if len(found.composition):
            self._save_guided(found)
        return found

    @cached_property
    def explanations(self) -> tuple[WeaknessExplanation, ...]:
        """The most telling weaknesses in words, with what each of their rules adds (see `leaves_rules_out`)."""
        evaluation = self.evaluation
        with self._lock():
            return explain_weaknesses(
                self.setup(),
                evaluation,
                self.mining,
                self.experiences,
                seed=self.seed,
                leave_out=self.leaves_rules_out,
                min_kept=self.settings.mining.min_accuracy,
                run=self.runner("explanation"),
            )

    @property
    def leaves_rules_out(self) -> bool:
        """Whether explanations play the rule sets without each of their rules: unless that takes longer than screening.

        Rule sets of environments with many exchangeable things, such as vehicles, are large.
        """
        evaluation = self.evaluation
        rules = sum(len(verdict.rule_set) for verdict in top_weaknesses(evaluation))
        screened = (1 + len(evaluation.verdicts)) * evaluation.settings.episodes
        return rules * (evaluation.settings.confirmation_episodes or evaluation.settings.episodes) <= screened

    def guided_policy(self, seed: int = 0) -> GuidedPolicy:
        """The policy with the composition that `improvement` found; without any rule where none helped."""
        precedence = self.settings.play.precedence
        return GuidedPolicy(self.policy, self.improvement.composition, self.space, precedence=precedence, seed=seed)

    def _save_guided(self, improvement: Improvement) -> None:
        guided = GuidedPolicy(
            self.policy, improvement.composition, self.space, precedence=self.settings.play.precedence
        )
        path, document = self.folder / "composition.json", json.dumps(improvement.composition.to_dict(), indent=2)
        if path.exists() and path.read_text(encoding="utf-8") == document + "\n":
            return
        try:
            guided.save(self.folder / "guided.safetensors")
        except LegibleError as error:
            if isinstance(self.policy, NetworkPolicy):
                raise
            write_text(self.folder / "guided.txt", f"{error}\n")  # no weights; the rules are in composition.json
        write_text(path, document + "\n")

    # --- Baselines ---------------------------------------------------------------------------------------------------

    def baseline(self, kind: str) -> Evaluation:
        """Evaluate one of the paper's baselines: "block" or "enforce" (random testing), or "rules" (random rules)."""
        if kind not in BASELINES:
            raise LegibleError(f"there is no baseline {kind!r}; they are 'block', 'enforce' and 'rules'.")
        treatments = self._random_rules() if kind == "rules" else self._random_tests(enforce=kind == "enforce")
        with self._lock():
            found = evaluate(
                self.setup(treatments),
                seed=self.seed,
                settings=self.settings.evaluation,
                stage="random rules" if kind == "rules" else "random tests",
                run=self.runner(f"baseline {kind}"),
            )
        done = self._baselines_done()
        if kind not in done:
            write_text(self.folder / "baselines.json", json.dumps([*done, kind]) + "\n")
        return found

    @property
    def baselines(self) -> dict[str, Evaluation]:
        """The baselines that have been evaluated so far."""
        return {kind: self.baseline(kind) for kind in BASELINES if kind in self._baselines_done()}

    def _baselines_done(self) -> list[str]:
        path = self.folder / "baselines.json"
        try:
            return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []
        except ValueError as error:
            raise LegibleError(f"{path}: is damaged ({error}); delete it and run the baselines again.") from error

    def _random_rules(self) -> list[RuleSet]:
        mined, sets = [mined.rule for mined in self.mining.rules], self.rule_sets
        return random_rule_sets(mined, sets, len(self.space.actions), len(sets), seed=self.seed)

    def _random_tests(self, *, enforce: bool) -> list[Any]:
        settings, actions = self.settings.baselines, len(self.space.actions)
        return list(
            random_tests(actions, settings.random_tests, enforce=enforce, seed=self.seed, changes=settings.changes)
        )


class _Count:
    """Counts what became known of a stage, and tells it."""

    def __init__(self, progress: Progress, stage: str, of: int) -> None:
        self.stage = stage
        self._progress, self._done, self._known, self._of = progress, 0, 0, of

    def expect(self, more: int) -> None:
        """Learn that more is to come than was known."""
        self._known += more
        self._of = max(self._of, self._known)

    def add(self, n: int) -> None:
        """Count, and tell."""
        self._done += n
        self._progress(self.stage, self._done, self._of)


def _both(first: Callable[[int], None], second: Callable[[int], None] | None, n: int) -> None:
    first(n)
    if second is not None:
        second(n)


def _versions() -> dict[str, str]:
    found = {"legible": legible.__version__, "python": platform.python_version()}
    for package in ("numpy", "numba", "gymnasium", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _survives_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _read_kept(folder: Path) -> dict[str, Any]:
    """Read ``study.json``."""
    path = folder / "study.json"
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        missing = _KEPT - kept.keys()
    except FileNotFoundError:
        known = "" if folder.is_dir() else " (there is no such folder)"
        raise LegibleError(
            f"{folder}: holds no study{known}; 'legible run ENV POLICY --out {folder}' makes one."
        ) from None
    except OSError as error:
        raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, AttributeError) as error:
        raise LegibleError(f"{path}: is damaged ({error}); use another folder.") from error
    if missing:
        raise LegibleError(f"{path}: is damaged or of an older version (no {min(missing)!r}); use another folder.")
    return kept


_KEPT = frozenset(
    ("environment", "arguments", "wrappers", "policy and environment", "seed", "settings", "names", "relations")
) | {"rules", "veto", "about"}


def _names(names: str | Path | FeatureSpace | None, environment: EnvironmentSpec) -> FeatureSpace | None:
    if isinstance(names, (str, Path)):
        return FeatureSpace.from_toml(names)
    return names or shipped_features(environment.name)


def _dump_names(names: FeatureSpace) -> str:
    return json.dumps(names.to_dict(), indent=1) + "\n"


def _read_names(path: Path) -> FeatureSpace:
    try:
        return FeatureSpace.from_dict(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError) as error:
        raise LegibleError(f"{path}: is damaged ({error}); use another folder.") from error


def _relations_text(path: Path) -> _RelationsText:
    name = path.stem.removeprefix(path.stem[:3]) if path.stem[:2].isdigit() and path.stem[2:3] == "-" else path.stem
    try:
        return _RelationsText(name, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise LegibleError(f"{path}: is not valid TOML: {error}.") from error


def _differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Say what differs between two pieces of plain data, leaf by leaf."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(set(before) | set(now))
        return [d for key in keys for d in _differences(before.get(key), now.get(key), f"{where}.{key}".lstrip("."))]
    if before == now:
        return []
    if where == "policy and environment":
        return ["the policy or the environment acts otherwise than before"]
    if where in {"relations", "names"}:
        return [f"the {where} are others"]
    return [f"{where} was {before!r}, is now {now!r}"]


PROBE_STEPS = 64


def _look(policy: Policy, environment: EnvironmentSpec, names: FeatureSpace | None) -> tuple[FeatureSpace, str]:
    """Make the environment once: check that the policy fits; return features as far as they are known, and the mark."""
    env = environment.make()
    try:
        check_policy(policy, ObservationEncoder.of(env.observation_space).width, count_actions(env.action_space))
        return feature_space_of(env, names), fingerprint_of(policy, env)
    finally:
        env.close()


def fingerprint_of(policy: Policy, environment: EnvironmentSpec | Env) -> str:
    """Return a short text that changes when policy or environment behave differently.

    It hashes what the policy says about the observations of a short random walk.
    """
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    encoder = ObservationEncoder.of(env.observation_space)
    env.action_space.seed(0)
    observation, _ = env.reset(seed=stage_seeds(0, "experiences", 0, 1)[0])
    seen, rewards = [observation], []
    for _ in range(PROBE_STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(observation)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    if isinstance(environment, EnvironmentSpec):
        env.close()
    observations = encoder.encode(seen)
    digest = hashlib.sha256(observations.tobytes())
    digest.update(np.asarray(rewards, np.float64).tobytes())
    digest.update(np.asarray(policy.scores(observations), np.float32).tobytes())
    return digest.hexdigest()[:32]
