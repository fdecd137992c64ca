"""A study: one run from policy to guided policy, in a folder, that can be stopped and goes on where it stopped.

- `Study`: the steps of the paper. A verb does a step (`Study.mine`, `Study.evaluate`, …): it makes what it needs, keeps
  it in the folder, and does nothing twice. An attribute only reads what is there (`Study.mining`, `Study.evaluation`).
- `NotDoneError`: a step that was only to be read and has not been done.

Everything that a study takes is in its folder, so `Study.open` needs nothing else. All numbers are in
`legible.settings.StudySettings`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self, TypeVar

import legible
from legible.engines import Engine, Failed, LocalProcesses, UnitFailedError
from legible.environments import EnvironmentSpec, ObservationEncoder, count_actions, feature_space_of
from legible.errors import LegibleError
from legible.evaluation import Evaluation, Runner, evaluate
from legible.evaluation.baselines import random_rule_sets, random_tests
from legible.evaluation.units import Setup, Unit, UnitResult, run_units
from legible.explanation import WeaknessExplanation, explain_weaknesses, most_telling
from legible.features import FeatureSpace, deciles
from legible.files import read_json, sha256_of, write_json, write_text
from legible.guidance import GuidedPolicy
from legible.hypotheses import SourceInput, open_sources
from legible.improvement import Improvement, improve
from legible.mining import Mining, mine
from legible.play import STAGES, Experiences, Known, check_policy, stage_seeds
from legible.play.experiences import ExperienceSetup, collect_unit, describe_features, join_experiences
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
from legible.settings import StudySettings
from legible.study.fingerprint import fingerprint_of
from legible.study.folder import RelationsText, StudyFolder, environment_of, names_text, read_names, survives_json

Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, of)`` whenever more of a stage became known."""

BASELINES = ("block", "enforce", "rules")
_REPORT = "legible.report:write_report"  # the report knows the study, so the study knows it by its name only
T = TypeVar("T")


class NotDoneError(LegibleError):
    """A step that has not been done, where it was only to be read."""


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
        self.environment = EnvironmentSpec(environment) if isinstance(environment, str) else environment
        self.policy_name = str(policy) if isinstance(policy, (str, Path)) else ""
        self.policy = load_policy(policy) if isinstance(policy, (str, Path)) else policy
        self.seed = seed
        self.engine = engine or LocalProcesses()
        self.progress = progress or _ignore
        self._names = _names(names, self.environment)
        self._early_space, self.fingerprint = _look(self.policy, self.environment, self._names)
        self.settings = settings or settings_for(self.environment)
        self._relations = relations
        self._relation_texts = self._read_relation_texts(relations)
        self._rules, self._veto = self._texts_of(rules), self._texts_of(veto)
        self._folder = StudyFolder(folder)
        self._kept = self._folder.claim(self._identity(), self._about(), self._write_sources)
        self._done: dict[str, Any] = {}
        self._reading = False

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        policy: Policy | None = None,
        trust: bool = False,
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
        trust
            Whether to import what the folder names: factories of environments and wrappers. A folder from somebody
            else can name any code.
        engine, progress
            As for `Study`.
        """
        place = StudyFolder(folder)
        kept = place.read()
        about = kept["about"]
        if about["lost arguments"]:
            raise LegibleError(
                f"{place.path}: the environment's argument {about['lost arguments'][0]!r} is nothing that a file can "
                "hold; make the study again with Study(…) and the same arguments."
            )
        environment = environment_of(kept, place.path, trust=trust)
        place.check_files(kept)
        own, names = place / "policy.safetensors", place / "names.json"
        source: Any = policy or (own if own.exists() else about["policy file"])
        if source is None:
            raise LegibleError(f"{place.path}: its policy was an object in memory; give it as Study.open(…, policy=…).")
        study = cls(
            folder,
            environment,
            source,
            relations=sorted((place / "relations").glob("*.toml")),
            rules=kept["rules"],
            veto=kept["veto"],
            seed=kept["seed"],
            settings=StudySettings.from_dict(kept["settings"], str(place / "study.json")),
            names=read_names(names) if names.exists() else None,
            engine=engine,
            progress=progress,
        )
        study.policy_name = about["policy"]
        return study

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Whether a folder holds a study."""
        return StudyFolder(folder).holds_study

    @property
    def folder(self) -> Path:
        """Where everything is kept."""
        return self._folder.path

    @property
    def is_played(self) -> bool:
        """Whether episodes of the evaluation have been played."""
        return any(iter(self._folder.units))

    @property
    def versions(self) -> dict[str, str]:
        """The versions of Python and packages that the study was made with."""
        return dict(self._kept["about"]["versions"])

    # --- What makes the study ----------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What makes this study, as plain data: two studies in which it differs are never mixed."""
        arguments, lost = self.environment.arguments, self._lost_arguments
        return {
            "environment": self.environment.name,
            "arguments": {k: str(v) if k in lost else v for k, v in arguments.items()},
            "wrappers": list(self.environment.wrappers),
            "policy and environment": self.fingerprint,
            "seed": self.seed,
            "settings": self.settings.to_dict(),
            "names": None if self._names is None else hashlib.sha256(names_text(self._names).encode()).hexdigest(),
            "relations": [entry.checksum for entry in self._relation_texts],
            "rules": list(self._rules),
            "veto": list(self._veto),
        }

    @property
    def _lost_arguments(self) -> list[str]:
        return [name for name, value in self.environment.arguments.items() if not survives_json(value)]

    def _about(self) -> dict[str, Any]:
        is_file = bool(self.policy_name) and not self.policy_name.startswith("zoo:")
        return {
            "policy": self.policy_name,
            "policy file": str(Path(self.policy_name).resolve()) if is_file else self.policy_name or None,
            "lost arguments": self._lost_arguments,
            "versions": _versions(),
        }

    def _write_sources(self, folder: Path) -> list[Path]:
        """Put policy, relations and names into the folder."""
        written = []
        if isinstance(self.policy, NetworkPolicy):
            written.append(save_policy(self.policy, folder / "policy.safetensors"))
        if self._relation_texts:
            (folder / "relations").mkdir(exist_ok=True)
        for i, entry in enumerate(self._relation_texts):
            written.append(folder / "relations" / f"{i:02}-{entry.name}.toml")
            write_text(written[-1], entry.text)
        if self._names is not None:
            written.append(folder / "names.json")
            write_text(written[-1], names_text(self._names))
        return written

    def _read_relation_texts(
        self, relations: Sequence[str | Path] | Sequence[MetamorphicRelation] | None
    ) -> list[RelationsText]:
        if relations is None:
            relations = [path for _, path, default in shipped_relations(self.environment.name) if default]
        objects = [entry for entry in relations if isinstance(entry, MetamorphicRelation)]
        if objects:
            return [RelationsText("given", dump_relations(objects, self._early_space))]
        return [RelationsText.read(Path(entry)) for entry in relations if isinstance(entry, (str, Path))]

    def _texts_of(self, rules: Sequence[str | Rule]) -> tuple[str, ...]:
        space = self._early_space
        return tuple((parse_rule(rule, space) if isinstance(rule, str) else rule).text(space) for rule in rules)

    def _rules_of(self, texts: Sequence[str]) -> tuple[Rule, ...]:
        return tuple(parse_rule(text, self.space) for text in texts)

    # --- Doing steps, and reading what was done ----------------------------------------------------------------------

    def _do(self, step: str, work: Callable[[], T]) -> T:
        """Return the result of a step: as it is remembered, read from the folder, or done now.

        The same work is first tried without playing or writing anything, so that a finished study can be read where
        nothing can be written, and while another process works on it.
        """
        if step in self._done:
            found: T = self._done[step]
            return found
        try:
            found = self._read(step, work)
        except NotDoneError:
            if self._reading:
                raise
            with self._folder.lock():
                found = work()
        self._done[step] = found
        return found

    def _read(self, step: str, work: Callable[[], T]) -> T:
        """Do the work of a step without playing or writing anything; `NotDoneError` where that is not enough."""
        if step in self._done:
            found: T = self._done[step]
            return found
        before, self._reading = self._reading, True
        try:
            self._done[step] = found = work()
        finally:
            self._reading = before
        return found

    def _refuse_if_reading(self, what: str, verb: str) -> None:
        if self._reading:
            raise NotDoneError(f"{self.folder}: {what} yet; Study.{verb}() does that, or 'legible run {self.folder}'.")

    def run(
        self,
        *,
        report: bool = True,
        baselines: bool = False,
        others: Mapping[str, str | Path | Policy] | None = None,
    ) -> Improvement:
        """Do everything up to the guided policy, its explanation and the report.

        The guided policy is saved as ``guided.safetensors`` if there is one, the report as ``report.html``.

        Parameters
        ----------
        report
            Whether the report is written.
        baselines
            Whether the paper's baselines are played, too.
        others
            Other policies (or their paths) by name that the report shows with this one.
        """
        with self.engine:
            improvement = self.improve()
            self.explain()
            if baselines:
                for kind in BASELINES:
                    self.play_baseline(kind)
            if report:
                self.write_report(others=others)
        return improvement

    # Experiences.

    def collect(self) -> Experiences:
        """Let the policy play, and keep what it saw and did."""
        return self._do("experiences", self._collect)

    @property
    def experiences(self) -> Experiences:
        """What the policy saw and did."""
        return self._read("experiences", self._collect)

    def _collect(self) -> Experiences:
        path = self.folder / "experiences.npz"
        if not path.exists():
            self._refuse_if_reading("no experiences have been collected", "collect")
            self._play_experiences().save(path, self._key)
        return Experiences.load(path, self._key)

    @property
    def _key(self) -> str:
        """Says which study a file belongs to; studies of older versions have none."""
        return str(self._kept["about"].get("id", ""))

    def _play_experiences(self) -> Experiences:
        play, total = self.settings.play, self.settings.episodes
        setup = ExperienceSetup(self.policy, self.environment, play.epsilon, play.sample, play.batch, play.step_limit)
        seeds = stage_seeds(self.seed, "experiences", 0, total)
        lots = [seeds[i : i + play.unit_episodes] for i in range(0, total, play.unit_episodes)]
        parts = [self.folder / "experiences" / f"{i:04}.npz" for i in range(len(lots))]
        space, guess = describe_features(self.environment, self._names)
        (self.folder / "experiences").mkdir(exist_ok=True)
        count = _Count(self.progress, "experiences", total)
        missing = [i for i, part in enumerate(parts) if not part.exists()]
        count.add(total - sum(len(lots[i]) for i in missing))
        failures: list[Failed] = []
        limit = self.settings.time_limit or None
        for outcome in self.engine.run(collect_unit, setup, [lots[i] for i in missing], time_limit=limit):
            i = missing[outcome.index]
            if isinstance(outcome, Failed):
                failures.append(outcome)
            else:
                join_experiences([outcome.result], space).save(parts[i], self._key)
                count.add(len(lots[i]))
        if failures:
            raise UnitFailedError(f"collecting experiences failed: {failures[0].error}")
        found = join_experiences([Experiences.load(part, self._key) for part in parts], space)
        for part in parts:
            part.unlink()
        (self.folder / "experiences").rmdir()
        return found.with_guessed_kinds() if guess else found

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.experiences.space

    @property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """The metamorphic relations."""
        if "relations" not in self._done:
            self._done["relations"] = self._load_relations()
        found: tuple[MetamorphicRelation, ...] = self._done["relations"]
        return found

    def _load_relations(self) -> tuple[MetamorphicRelation, ...]:
        objects = tuple(entry for entry in self._relations or () if isinstance(entry, MetamorphicRelation))
        if objects:
            return objects
        files = [
            self.folder / "relations" / f"{i:02}-{entry.name}.toml" for i, entry in enumerate(self._relation_texts)
        ]
        return tuple(relation for path in files for relation in load_relations(path, self.space))

    # Step 1: rules.

    def mine(self) -> Mining:
        """Step 1: mine rules from what the policy does; collects experiences first."""
        self.collect()
        return self._do("mining", self._mine)

    @property
    def mining(self) -> Mining:
        """Step 1: the mined rules."""
        return self._read("mining", self._mine)

    def _mine(self) -> Mining:
        path = self.folder / "mining.npz"
        if not path.exists():
            self._refuse_if_reading("no rules have been mined", "mine")
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
            mining.save(path, self._key)
        return Mining.load(path, self._key)

    # Step 2: rule sets.

    def generalise(self) -> tuple[Generalisation, ...]:
        """Step 2: generalise every mined rule and every rule of the user's; mines rules first."""
        self.mine()
        return self._do("generalisations", self._generalise)

    @property
    def generalisations(self) -> tuple[Generalisation, ...]:
        """Step 2: every mined rule and every rule of the user's, with all that it generalises to."""
        return self._read("generalisations", self._generalise)

    def _generalise(self) -> tuple[Generalisation, ...]:
        rules = [mined.rule for mined in self.mining.rules] + list(self._rules_of(self._rules))
        return tuple(generalise_all(rules, self.relations))

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """The generalised rule sets; rules that no condition is left of are not among them."""
        return tuple(found.rule_set for found in self.generalisations if not found.is_empty)

    # Step 3: verdicts.

    def evaluate(self) -> Evaluation:
        """Step 3: guide the policy with every rule set and compare returns; generalises first."""
        self.generalise()
        return self._do("evaluation", self._evaluate)

    @property
    def evaluation(self) -> Evaluation:
        """Step 3: the verdicts on all rule sets."""
        return self._read("evaluation", self._evaluate)

    def _evaluate(self) -> Evaluation:
        known = SourceInput(
            self.policy, self.experiences, self.mining, self.relations, self._rules_of(self._rules), self.seed
        )
        names = [name.strip() for name in self.settings.sources.split(",") if name.strip()]
        return evaluate(
            self.setup(),
            seed=self.seed,
            settings=self.settings.evaluation,
            sources=open_sources(names, known),
            run=self.runner("screening", "confirmation"),
        )

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
                engine=_NoEngine(self.folder) if self._reading else self.engine,
                store=self._folder.units,
                fingerprint=self.fingerprint,
                time_limit=self.settings.time_limit or None,
                on_episodes=None if self._reading else partial(_both, count.add, on_episodes),
            )

        return run

    # Algorithm 2: the composition.

    def improve(self) -> Improvement:
        """Algorithm 2: compose the rule sets that help, and measure the guided policy on fresh seeds."""
        self.evaluate()
        improvement = self._do("improvement", self._improve)
        if len(improvement.composition) and not self._is_guided_saved(improvement):
            with self._folder.lock():
                self._save_guided(improvement)
        return improvement

    @property
    def improvement(self) -> Improvement:
        """Algorithm 2: the composition, and what it is worth on fresh seeds."""
        return self._read("improvement", self._improve)

    def _improve(self) -> Improvement:
        evaluation, settings = self.evaluation, self.settings.improvement
        found = evaluation.weaknesses if settings.candidates == "weaknesses" else evaluation.confirmed
        known = Known(len(evaluation.verdicts), len(found))
        of = sum(STAGES[name].episodes(self.settings, known) for name in ("composition", "final"))
        return improve(
            self.setup(),
            evaluation,
            seed=self.seed,
            settings=settings,
            veto=self._rules_of(self._veto),
            run=self.runner("improvement", of=of),
        )

    def guided_policy(self, seed: int = 0) -> GuidedPolicy:
        """The policy with the composition that `improve` found; without any rule where none helped."""
        precedence = self.settings.play.precedence
        return GuidedPolicy(self.policy, self.improvement.composition, self.space, precedence=precedence, seed=seed)

    def _is_guided_saved(self, improvement: Improvement) -> bool:
        """Whether the files of the guided policy are there and hold this composition."""
        path, guided = self.folder / "composition.json", self.folder / "guided.safetensors"
        try:
            kept = read_json(path, self._key)
            checksum = kept.pop("guided", None)
            same = kept == json.loads(json.dumps(improvement.composition.to_dict()))
            return same and (checksum is None or sha256_of(guided) == checksum)
        except (LegibleError, OSError):
            return False  # deleted or damaged: it is written again

    def _save_guided(self, improvement: Improvement) -> None:
        path, checksum = self.folder / "guided.safetensors", None
        if isinstance(self.policy, NetworkPolicy):
            self.guided_policy().save(path)
            checksum = sha256_of(path)
        document = {**improvement.composition.to_dict(), "guided": checksum}
        write_json(self.folder / "composition.json", document, self._key)

    # Explanations, and the report.

    def explain(self) -> tuple[WeaknessExplanation, ...]:
        """Put the most telling weaknesses into words, with what each of their rules adds (see `leaves_rules_out`)."""
        self.evaluate()
        return self._do("explanations", self._explain)

    @property
    def explanations(self) -> tuple[WeaknessExplanation, ...]:
        """The most telling weaknesses in words."""
        return self._read("explanations", self._explain)

    def _explain(self) -> tuple[WeaknessExplanation, ...]:
        return explain_weaknesses(
            self.setup(),
            self.evaluation,
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
        rules = sum(len(verdict.rule_set) for verdict in most_telling(evaluation))
        screened = (1 + len(evaluation.verdicts)) * evaluation.settings.episodes
        return rules * (evaluation.settings.confirmation_episodes or evaluation.settings.episodes) <= screened

    def write_report(
        self, path: str | Path | None = None, *, others: Mapping[str, str | Path | Policy] | None = None
    ) -> Path:
        """Write the report: see `legible.write_report`."""
        module, _, name = _REPORT.partition(":")
        written: Path = getattr(importlib.import_module(module), name)(self, path, others=others)
        return written

    # --- Baselines ---------------------------------------------------------------------------------------------------

    def play_baseline(self, kind: str) -> Evaluation:
        """Evaluate one of the paper's baselines: "block" or "enforce" (random testing), or "rules" (random rules)."""
        if kind not in BASELINES:
            raise LegibleError(f"there is no baseline {kind!r}; they are 'block', 'enforce' and 'rules'.")
        self.evaluate()
        found = self._do(f"baseline {kind}", partial(self._play_baseline, kind))
        done = self._baselines_done()
        if kind not in done:
            with self._folder.lock():
                write_json(self.folder / "baselines.json", {"done": [*done, kind]}, self._key)
        return found

    def _play_baseline(self, kind: str) -> Evaluation:
        treatments = self._random_rules() if kind == "rules" else self._random_tests(enforce=kind == "enforce")
        return evaluate(
            self.setup(treatments),
            seed=self.seed,
            settings=self.settings.evaluation,
            stage="random rules" if kind == "rules" else "random tests",
            run=self.runner(f"baseline {kind}"),
        )

    @property
    def baselines(self) -> dict[str, Evaluation]:
        """The baselines that have been evaluated so far."""
        done = self._baselines_done()
        return {
            kind: self._read(f"baseline {kind}", partial(self._play_baseline, kind))
            for kind in BASELINES
            if kind in done
        }

    def _baselines_done(self) -> list[str]:
        path = self.folder / "baselines.json"
        try:
            return [str(kind) for kind in read_json(path, self._key, "delete it and run the baselines again")["done"]]
        except FileNotFoundError:
            return []
        except (KeyError, TypeError) as error:
            raise LegibleError(f"{path}: is damaged; delete it and run the baselines again.") from error

    def _random_rules(self) -> list[RuleSet]:
        mined, sets = [mined.rule for mined in self.mining.rules], self.rule_sets
        return random_rule_sets(mined, sets, len(self.space.actions), len(sets), seed=self.seed)

    def _random_tests(self, *, enforce: bool) -> list[Any]:
        settings, actions = self.settings.baselines, len(self.space.actions)
        return list(
            random_tests(actions, settings.random_tests, enforce=enforce, seed=self.seed, changes=settings.changes)
        )


class _NoEngine:
    """Stands for an engine where nothing may be played."""

    workers = 1

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, function: Any, shared: Any, units: Sequence[Any], **_: Any) -> Iterator[Any]:  # noqa: ARG002
        """Refuse, unless there is nothing to run."""
        if units:
            raise NotDoneError(
                f"{self._folder}: episodes of this step have not been played yet; 'legible run {self._folder}' does."
            )
        return iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""


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


def _ignore(_stage: str, _done: int, _of: int) -> None:
    """Progress that nobody asked for."""


def _versions() -> dict[str, str]:
    found = {"legible": legible.__version__, "python": platform.python_version()}
    for package in ("numpy", "numba", "gymnasium", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def settings_for(environment: EnvironmentSpec, settings: StudySettings | None = None) -> StudySettings:
    """Return settings, by default the default ones, with units of work of a size that suits an environment."""
    settings = settings or StudySettings()
    envs = environment.make_batch(1)
    if envs is None:
        return settings.for_single_environments()
    envs.close()
    return settings


def _names(names: str | Path | FeatureSpace | None, environment: EnvironmentSpec) -> FeatureSpace | None:
    if isinstance(names, (str, Path)):
        return FeatureSpace.from_toml(names)
    return names or shipped_features(environment.name)


def _look(policy: Policy, environment: EnvironmentSpec, names: FeatureSpace | None) -> tuple[FeatureSpace, str]:
    """Make the environment once: check that the policy fits; return features as far as they are known, and the mark."""
    env = environment.make()
    try:
        check_policy(policy, ObservationEncoder.of(env.observation_space).width, count_actions(env.action_space))
        return feature_space_of(env, names), fingerprint_of(policy, env)
    finally:
        env.close()
