"""A study: one run from policy to guided policy, in a folder, that can be stopped and goes on where it stopped.

- `StudySettings`: every number of a study; the single source of options, settings files and help.
- `Study`: the steps of the paper as methods. Each makes what it needs, keeps it in the folder, and does nothing twice.
- `UnitFiles`: played units on disk, each a file that is there whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from legible.baselines import random_rule_sets, random_tests
from legible.engines import Engine, LocalProcesses
from legible.environments import Env, EnvironmentSpec, ObservationEncoder
from legible.errors import LegibleError, did_you_mean
from legible.evaluation import Evaluation, EvaluationSettings, evaluate, stage_seeds
from legible.experiences import Experiences, collect
from legible.features import FeatureSpace, deciles
from legible.files import write_text, write_whole
from legible.guidance import GuidedPolicy
from legible.improvement import Improvement, ImprovementSettings, improve
from legible.mining import Mining, MiningSettings, mine
from legible.policies import Policy, load_policy
from legible.relations import Generalisation, MetamorphicRelation, generalise_all, share_cuts
from legible.relations_file import load_relations, shipped_features, shipped_relations
from legible.rules import Rule, RuleSet, parse_rule
from legible.units import PlaySettings, Setup, UnitResult, run_units

Progress = Callable[[str, int], None]
"""Called as ``progress(stage, episodes)`` whenever episodes of a stage became known."""


@dataclass(frozen=True)
class BaselineSettings:
    """The paper's baselines.

    Parameters
    ----------
    random_tests
        Random tests that block, and as many that enforce.
    changes
        Changes of the policy in each, one percent of the states apiece.
    """

    random_tests: int = 100
    changes: int = 3


@dataclass(frozen=True)
class StudySettings:
    """Every number of a study.

    Parameters
    ----------
    episodes
        Episodes from which rules are mined.
    time_limit
        Seconds after which a unit of episodes is given up (0: never), for environments that hang.
    mining, play, evaluation, improvement, baselines
        The steps' own settings.
    """

    episodes: int = 600
    time_limit: float = 0.0
    mining: MiningSettings = field(default_factory=MiningSettings)
    play: PlaySettings = field(default_factory=PlaySettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    improvement: ImprovementSettings = field(default_factory=ImprovementSettings)
    baselines: BaselineSettings = field(default_factory=BaselineSettings)

    @classmethod
    def paper(cls) -> StudySettings:
        """The paper's settings, and the authors' own where it is silent."""
        return cls(
            mining=MiningSettings.paper(),
            improvement=ImprovementSettings(episodes=1000, order="negative-first"),
        )

    @classmethod
    def quick(cls) -> StudySettings:
        """A first look: fewer episodes everywhere."""
        return cls(
            episodes=200,
            evaluation=EvaluationSettings(episodes=100, confirmation_episodes=200),
            improvement=ImprovementSettings(episodes=200, final_episodes=400, most_candidates=8),
            baselines=BaselineSettings(random_tests=20),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "settings") -> StudySettings:
        """Read settings from plain data; what is not said stays at its default."""
        made: StudySettings = _from_dict(cls, data, where)
        return made

    @classmethod
    def from_toml(cls, path: str | Path) -> StudySettings:
        """Read settings from a TOML file."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise LegibleError(f"{path}: is not valid TOML: {error}.") from error
        return cls.from_dict(data, str(path))


def _from_dict(kind: type[Any], data: Mapping[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    values = {}
    for key, value in data.items():
        if key not in known:
            raise LegibleError(f"{where}: there is no setting {key!r}.{did_you_mean(key, known)}")
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise LegibleError(f"{where}: {key!r} must be a table of settings, got {value!r}.")
            values[key] = _from_dict(hints[key], value, f"{where}: {key}")
        else:
            values[key] = _plain(hints[key], value, f"{where}: {key}")
    try:
        return kind(**values)
    except LegibleError as error:
        raise LegibleError(f"{where}: {error}") from error


def _plain(kind: Any, value: Any, where: str) -> Any:
    """Check a number, flag or word against the type of its setting."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = kind if kind in {int, float, bool, str} else str
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise LegibleError(f"{where} must be {_KINDS[wanted]}, got {value!r}.")
    return value


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


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


class Study:
    """One study of one policy in one environment.

    Parameters
    ----------
    folder
        Where everything is kept. A folder that holds a study with other settings is refused, not mixed.
    environment
        An id, ``module:factory`` or a spec with arguments.
    policy
        A policy, or the path of one.
    relations
        Relations files, or relations; by default those that legible ships for the environment, if any.
    rules
        Rules of your own, as texts or values, that are tested like the mined ones.
    veto
        Rules, as texts or values, that must not be in the composition.
    seed
        Decides everything that is random.
    settings
        Numbers.
    names
        Feature names: a TOML file or a feature space; by default the environment's, or those that legible ships for it.
    engine
        Where episodes run; by default processes on all cores. Used as a context manager, it keeps its workers.
    progress
        Called with a stage and a number of episodes whenever they became known.

    Examples
    --------
    >>> study = Study("studies/small", "legible/PacmanSmall-v0", "policy.zip")  # doctest: +SKIP
    >>> study.run().effect.mean  # doctest: +SKIP
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
        self.policy = load_policy(policy) if isinstance(policy, (str, Path)) else policy
        self.settings = settings or StudySettings()
        self.seed = seed
        self.engine = engine or LocalProcesses()
        self._relations, self._rules, self._veto = relations, rules, veto
        self._names = names or shipped_features(self.environment.name)
        self._progress = progress or _say_nothing
        self.fingerprint = fingerprint_of(self.policy, self.environment)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LegibleError(f"{self.folder}: cannot be made ({error.strerror}).") from error
        self._locked = False
        self._units = UnitFiles(self.folder / "units")
        self._check_identity()

    def _check_identity(self) -> None:
        """Write what makes this study, or compare it with what the folder says."""
        identity = {
            "environment": self.environment.name,
            "arguments": {key: str(value) for key, value in self.environment.arguments.items()},
            "policy and environment": self.fingerprint,
            "seed": self.seed,
            "settings": asdict(self.settings),
            "relations": self._relations_identity(),
            "rules": [str(rule) for rule in self._rules],
            "veto": [str(rule) for rule in self._veto],
        }
        path = self.folder / "study.json"
        if not path.exists():
            write_text(path, json.dumps(identity, indent=2) + "\n")
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise LegibleError(f"{path}: is damaged ({error}); use another folder.") from error
        changed = _differences(before, json.loads(json.dumps(identity)))
        if changed:
            raise LegibleError(
                f"{self.folder}: holds a study with other settings ({'; '.join(changed[:4])}). Use another folder, or "
                "the settings that this one was made with."
            )

    def _relations_identity(self) -> list[str]:
        if self._relations is None:
            return ["shipped"]
        return [_file_mark(entry) if isinstance(entry, (str, Path)) else repr(entry) for entry in self._relations]

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep a second process from working in the same folder; a dead one holds nothing."""
        if self._locked:
            yield
            return
        with (self.folder / "lock").open("w") as file:
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

    def run(self) -> Improvement:
        """Do everything up to the guided policy, which is saved as ``guided.safetensors`` if there is one."""
        with self.engine:
            return self.improvement

    @cached_property
    def experiences(self) -> Experiences:
        """What the policy saw and did."""
        path = self.folder / "experiences.npz"
        if not path.exists():
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
                    on_episode=partial(self._progress, "experiences"),
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
        entries = self._relations
        if entries is None:
            entries = [path for _, path, default in shipped_relations(self.environment.name) if default]
        loaded: list[MetamorphicRelation] = []
        for entry in entries:
            loaded += [entry] if isinstance(entry, MetamorphicRelation) else load_relations(entry, self.space)
        return tuple(loaded)

    @cached_property
    def mining(self) -> Mining:
        """Step 1: the mined rules."""
        path = self.folder / "mining.npz"
        if not path.exists():
            seen = self.experiences
            intervals = share_cuts(deciles(seen.space, seen.observations), seen.space, self.relations)
            mining = mine(self.policy, seen, seed=self.seed, settings=self.settings.mining, intervals=intervals)
            mining.save(path)
        return Mining.load(path)

    @cached_property
    def generalisations(self) -> tuple[Generalisation, ...]:
        """Step 2: every mined rule and every rule of the user's, with all that it generalises to."""
        rules = [mined.rule for mined in self.mining.rules] + self._read(self._rules)
        return tuple(generalise_all(rules, self.relations))

    def _read(self, rules: Sequence[str | Rule]) -> list[Rule]:
        return [parse_rule(rule, self.space) if isinstance(rule, str) else rule for rule in rules]

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """The rule sets that are tested; rules that no condition is left of are not among them."""
        return tuple(found.rule_set for found in self.generalisations if not found.is_empty)

    def _setup(self, treatments: Sequence[Any] = ()) -> Setup:
        return Setup(self.policy, self.environment, tuple(treatments), self.settings.play)

    def _runner(self) -> Callable[..., UnitResult]:
        return partial(
            run_units,
            engine=self.engine,
            store=self._units,
            fingerprint=self.fingerprint,
            time_limit=self.settings.time_limit or None,
        )

    @cached_property
    def evaluation(self) -> Evaluation:
        """Step 3: the verdicts on all rule sets."""
        with self._lock():
            return evaluate(
                self._setup(self.rule_sets),
                seed=self.seed,
                settings=self.settings.evaluation,
                run=self._runner(),
                on_episodes=partial(self._progress, "evaluation"),
            )

    @cached_property
    def improvement(self) -> Improvement:
        """Algorithm 2: the composition, and what it is worth on fresh seeds."""
        evaluation = self.evaluation
        with self._lock():
            found = improve(
                self._setup(),
                evaluation,
                seed=self.seed,
                settings=self.settings.improvement,
                veto=self._read(self._veto),
                run=self._runner(),
                on_episodes=partial(self._progress, "improvement"),
            )
        if len(found.composition):
            self._save_guided(found)
        return found

    def _save_guided(self, improvement: Improvement) -> None:
        guided = GuidedPolicy(
            self.policy, improvement.composition, self.space, precedence=self.settings.play.precedence
        )
        document = json.dumps(improvement.composition.to_dict(), indent=2)
        write_text(self.folder / "composition.json", document + "\n")
        try:
            guided.save(self.folder / "guided.safetensors")
        except LegibleError as error:  # a policy without weights; its rules are in composition.json
            write_text(self.folder / "guided.txt", f"{error}\n")

    def baseline(self, kind: str) -> Evaluation:
        """Evaluate one of the paper's baselines: "block" or "enforce" (random testing), or "rules" (random rules)."""
        settings = self.settings.baselines
        actions = len(self.space.actions)
        if kind == "rules":
            mined = [mined.rule for mined in self.mining.rules]
            sets = self.rule_sets
            treatments: list[Any] = list(random_rule_sets(mined, sets, actions, len(sets), seed=self.seed))
        elif kind in {"block", "enforce"}:
            treatments = list(
                random_tests(
                    actions,
                    settings.random_tests,
                    enforce=kind == "enforce",
                    seed=self.seed,
                    changes=settings.changes,
                )
            )
        else:
            raise LegibleError(f"there is no baseline {kind!r}; they are 'block', 'enforce' and 'rules'.")
        with self._lock():
            return evaluate(
                self._setup(treatments),
                seed=self.seed,
                settings=self.settings.evaluation,
                stage="random rules" if kind == "rules" else "random tests",
                confirm=False,
                run=self._runner(),
                on_episodes=partial(self._progress, f"baseline {kind}"),
            )


def _file_mark(path: str | Path) -> str:
    """Return a text that changes when the file does."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error


def _say_nothing(_stage: str, _episodes: int) -> None:
    """Progress that nobody asked for."""


def _differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Say what differs between two pieces of plain data, leaf by leaf."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(set(before) | set(now))
        return [d for key in keys for d in _differences(before.get(key), now.get(key), f"{where}.{key}".lstrip("."))]
    return [] if before == now else [f"{where} was {before!r}, is now {now!r}"]


PROBE_STEPS = 64


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
