"""A study: one run from policy to guided policy, in a folder, that can be stopped and goes on where it stopped.

- `Study`: the steps of the paper. A verb does a step (`Study.mine`, `Study.evaluate`, …): it makes what it needs, keeps
  it in the folder, and does nothing twice. An attribute only reads what is there (`Study.mining`, `Study.evaluation`).

Everything that a study takes is in its folder, so `Study.open` needs nothing else. All numbers are in
`legible.settings.StudySettings`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from legible.engines import Engine, LocalProcesses
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import Evaluation, PlayedBlocks, References, Runner, evaluate, play_on_same_seeds
from legible.evaluation.units import Setup, usual_rows
from legible.features import FeatureSpace, deciles, round_cuts
from legible.guidance import GuidedPolicy
from legible.improvement import Improvement, find_candidates, improve
from legible.mining import Mining, mine
from legible.play import STAGES, Experiences, Known, environment_for, on_rows, stage_seeds
from legible.play.experiences import ExperienceSetup
from legible.policies import Policy
from legible.relations import (
    Generalisation,
    MetamorphicRelation,
    RelationsArgument,
    generalise_all,
    share_cuts,
)
from legible.rules import Rule, RuleSet, parse_rule
from legible.settings import StudySettings
from legible.study.baselines import (
    BASELINES,
    check_baseline,
    evaluate_baseline,
    read_played_baselines,
    write_played_baselines,
)
from legible.study.choices import cut_experiences, player_of, read_relations
from legible.study.collecting import collect_in_units
from legible.study.estimate import expected_episodes, settings_for
from legible.study.explaining import ExplainsWeaknesses
from legible.study.folder import BEHAVIOUR, StudyFolder
from legible.study.guided_file import guided_policy_of, is_guided_policy_saved, save_guided_policy
from legible.study.inputs import StudyInputs, load_policy_for, read_inputs
from legible.study.looking import look_at_environment
from legible.study.mistakes import LooksForMistakes
from legible.study.references import OtherPolicies, compare_with_references
from legible.study.rules_from import OtherRules, are_confirmed_kept, find_origins, keep_confirmed
from legible.study.running import NoEngine, NotDoneError, Progress, StageRunner, ignore_progress
from legible.study.sources import known_before_testing, sources_of

_REPORT = "legible.report:write_report"  # the report knows the study, so the study knows it by its name only
T = TypeVar("T")


class Study(LooksForMistakes, ExplainsWeaknesses):
    """One study of one policy in one environment.

    Parameters
    ----------
    folder
        Where everything is kept. A folder that holds a study with other settings is refused, not mixed.
    environment
        An id, ``module:factory`` or a spec with arguments.
    policy
        A policy, or the path or address of one, see `legible.load_policy`. A network is copied into the folder.
    relations
        Relations files, names of those that legible ships for the environment, or relations; "none" for none. By
        default the shipped ones that fit.
    rules
        Rules of your own, as texts or values, that are tested like the mined ones.
    rules_from
        Other policies, or folders of other studies, whose rules are tested, too (`legible.study.rules_from`).
    veto
        Rules, as texts or values, that must not be in the composition.
    seed
        Decides everything that is random.
    settings
        Numbers; by default those of `StudySettings`, with units of work that suit the environment.
    names
        Feature names and derived features: a TOML file or a feature space; by default the environment's names, or those
        that legible ships for it.
    features
        What rules see, if that is not the observation: "entries:NAME,…", "info:NAME,…" or "module:function".
    policy_options
        What `legible.load_policy` is told beside the path: ``normalisation`` (a file, or "none"), ``output``.
    typed
        Whether a person named the policy, and no file did. Only then it may be code itself: ``module:function``.
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
    relations_left_out
        Shipped relations that were not taken because they do not fit the names, in words.
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
        relations: RelationsArgument = None,
        rules: Sequence[str | Rule] = (),
        rules_from: Sequence[str | Path | Policy | Mapping[str, Any]] = (),
        veto: Sequence[str | Rule] = (),
        seed: int = 0,
        settings: StudySettings | None = None,
        names: str | Path | FeatureSpace | None = None,
        features: str | None = None,
        policy_options: Mapping[str, str] | None = None,
        typed: bool = True,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.environment = EnvironmentSpec(environment) if isinstance(environment, str) else environment
        self.policy_name = str(policy) if isinstance(policy, (str, Path)) else ""
        self.policy = load_policy_for(self.environment, policy, typed=typed, options=policy_options, features=features)
        self.environment = environment_for(self.policy, self.environment)
        self.seed = seed
        self.engine = engine or LocalProcesses()
        self.progress = progress or ignore_progress
        self.settings = settings or settings_for(self.environment)
        self._look_at_environment(names, features, relations)
        self._rules, self._veto = self._texts_of(rules), self._texts_of(veto)
        others = find_origins(self, rules_from, typed=typed)
        self._folder = StudyFolder(folder)
        inputs = StudyInputs(
            self.environment,
            self.policy,
            self.policy_name,
            policy_options or {},
            self.fingerprint,
            self.seed,
            self.settings,
            self._names,
            self._relation_texts,
            self._rules,
            self._veto,
            [origin.to_dict() for origin in others.origins],
            features,
        )
        self._kept = self._folder.claim(inputs.identity(), inputs.about(), inputs.write)
        self.fingerprint = self._kept[BEHAVIOUR]  # on another machine it differs in the last digits
        self._others = OtherPolicies(self, self._key, typed=typed)
        self.other_rules = OtherRules(self, others, typed=typed)
        self._done: dict[str, Any] = {}
        self._reading = False

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        policy: Policy | None = None,
        trust: bool = False,
        most_failed: float | None = None,
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
            Whether to import what the folder names: factories of environments, wrappers, policies that are code. A
            folder from somebody else can name any code.
        most_failed
            The share of episodes that may fail from now on; None leaves it as it is.
        engine, progress
            As for `Study`.
        """
        name, arguments = read_inputs(StudyFolder(folder), policy=policy, trust=trust, most_failed=most_failed)
        study = cls(folder, engine=engine, progress=progress, **arguments)
        study.policy_name = name
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

    def _look_at_environment(
        self, names: str | Path | FeatureSpace | None, features: str | None, relations: RelationsArgument
    ) -> None:
        limit = self.settings.time_limit or None
        look = look_at_environment(
            self.environment, self.policy, names, features, relations, engine=self.engine, time_limit=limit
        )
        self.environment, self.fingerprint = look.environment, look.fingerprint
        self._early_space, self._names = look.space, look.names
        self._relation_texts, self.relations_left_out = look.relations.texts, look.relations.left_out

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
        try:
            return self._read(step, work)
        except NotDoneError:
            if self._reading:
                raise
        with self._folder.lock():
            self._done[step] = found = work()
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

    def _refuse_if_reading(self, what: str) -> None:
        if self._reading:
            raise NotDoneError(f"{self.folder}: {what} yet; 'legible run {self.folder}' does that.")

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
            Other policies (or their paths) by name that are references, too.
        """
        with self.engine:
            improvement = self.improve()
            self.play_references(others)
            self.explain()
            if self.looks_for_mistakes():
                self.find_mistakes()
            for kind in BASELINES if baselines else ():
                self.play_baseline(kind)
            if report:
                self.write_report()
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
            self._refuse_if_reading("no experiences have been collected")
            play = self.settings.play
            found = collect_in_units(
                ExperienceSetup.of(self._player(), self.environment, play),
                stage_seeds(self.seed, "experiences", 0, self.settings.episodes),
                self._names,
                unit_episodes=play.unit_episodes,
                engine=self.engine,
                time_limit=self.settings.time_limit or None,
                most_failed=self.settings.most_failed,
                folder=self.folder / "experiences",
                key=self._key,
                progress=self.progress,
            )
            cut_experiences(found, self._relation_texts).save(path, self._key)
        return Experiences.load(path, self._key)

    def _player(self) -> Policy:
        """The policy as one that scores all choices."""
        policy = on_rows(self.policy, self.environment)
        return player_of(policy, self._early_space, self.folder / "experiences.npz", lambda: self.space)

    @property
    def _key(self) -> str:
        """Says which study a file belongs to; studies of older versions have none."""
        return str(self._kept["about"].get("id", ""))

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.experiences.space

    @property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """The metamorphic relations."""
        if "relations" not in self._done:
            self._done["relations"] = read_relations(self._relation_texts, self._early_space, self.space)
        found: tuple[MetamorphicRelation, ...] = self._done["relations"]
        return found

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
            self._refuse_if_reading("no rules have been mined")
            seen = self.experiences
            intervals = deciles(seen.space, seen.observations)
            if self.settings.mining.plain_intervals:
                intervals = round_cuts(intervals, seen.space, seen.observations)
            intervals = share_cuts(intervals, seen.space, self.relations)
            mining = mine(
                self._player(),
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
        self._do("rules from", self.other_rules.mine)
        if self.learns_from_mistakes:
            self.find_mistakes()
        found = self._do("evaluation", self._evaluate)
        with suppress(LegibleError):  # where nothing can be written, or another process does
            if not are_confirmed_kept(self, found):
                with self._folder.lock():
                    keep_confirmed(self, found)
        return found

    @property
    def evaluation(self) -> Evaluation:
        """Step 3: the verdicts on all rule sets."""
        return self._read("evaluation", self._evaluate)

    def _evaluate(self) -> Evaluation:
        return evaluate(
            self.setup(),
            seed=self.seed,
            settings=self.settings.evaluation,
            sources=sources_of(self, self._rules_of(self._rules)),
            run=self.runner("screening", "confirmation", known=known_before_testing(self)),
        )

    def setup(self, treatments: Sequence[Any] = ()) -> Setup:
        """What units of work share: policy, environment, and what they are guided with."""
        play = self.settings.play
        rows = usual_rows(play) if self.settings.evaluation.method == "racing" else 0
        return Setup(self._player(), self.environment, tuple(treatments), play, rows)

    def runner(self, *stages: str, of: int = 0, known: Known | None = None, keep: bool = True) -> Runner:
        """Return how units are run for this study: on its engine, and no unit that the folder holds.

        Parameters
        ----------
        stages
            What the successive calls are called in progress; the last name stays.
        of
            Episodes of all calls together, where they are known.
        known
            How many rule sets there are, and how many look like weaknesses, where that is known.
        keep
            Whether the folder keeps what is played.
        """
        return StageRunner(
            stages or ("episodes",),
            of,
            expected=expected_episodes(self.settings, known or Known(0, 0)),
            engine=NoEngine(self.folder) if self._reading else self.engine,
            store_of=self._folder.results if keep else lambda _: {},
            fingerprint=self.fingerprint,
            time_limit=self.settings.time_limit or None,
            most_failed=self.settings.most_failed,
            progress=None if self._reading else self.progress,
        )

    # Algorithm 2: the composition.

    def improve(self) -> Improvement:
        """Algorithm 2: compose the rule sets that help, and measure the guided policy on fresh seeds."""
        self.evaluate()
        improvement = self._do("improvement", self._improve)
        if len(improvement.composition) and not is_guided_policy_saved(self.folder, improvement, self._key):
            with self._folder.lock():
                save_guided_policy(self.folder, self.guided_policy(), improvement, self._key)
        return improvement

    @property
    def improvement(self) -> Improvement:
        """Algorithm 2: the composition, and what it is worth on fresh seeds."""
        return self._read("improvement", self._improve)

    def _improve(self) -> Improvement:
        evaluation, settings, veto = self.evaluation, self.settings.improvement, self._rules_of(self._veto)
        known = Known(len(evaluation.verdicts), len(find_candidates(evaluation, settings, veto)))
        is_raced = evaluation.settings.method == "racing"
        of = sum(STAGES[name].episodes(self.settings, known) for name in ("composition", "final"))
        run = self.runner("final" if is_raced else "improvement", of=0 if is_raced else of, known=known)
        return improve(self.setup(), evaluation, seed=self.seed, settings=settings, veto=veto, run=run)

    def guided_policy(self, seed: int = 0) -> GuidedPolicy:
        """The policy with the composition that `improve` found; without any rule where none helped."""
        return guided_policy_of(self, self.improvement.composition, seed)

    def play_rule_sets(self, rule_sets: Sequence[RuleSet], seeds: Sequence[int]) -> PlayedBlocks:
        """Play the policy alone and guided by each of some rule sets on the same seeds; the folder is not touched."""
        of = (1 + len(rule_sets)) * len(seeds)
        return play_on_same_seeds(self.setup(rule_sets), seeds, self.runner("comparison", of=of, keep=False))

    # References.

    def play_references(self, others: Mapping[str, str | Path | Policy] | None = None) -> References:
        """Compare the policy and the guided policy with random play, constant choices and other policies.

        Parameters
        ----------
        others
            Other policies (or their paths) by name; the folder remembers them.
        """
        self.improve()
        if others:
            with self._folder.lock():
                self._others.add(others)
            self._done.pop("references", None)
        return self._do("references", self._compare_references)

    @property
    def references(self) -> References:
        """How random play, constant choices and other policies do beside the policy and the guided policy."""
        return self._read("references", self._compare_references)

    @property
    def other_policies(self) -> dict[str, str]:
        """The paths or addresses of other policies that it is compared with, by name."""
        return self._others.sources

    def _compare_references(self) -> References:
        return compare_with_references(self, self._others.references(load=not self._reading))

    # The report.

    def write_report(
        self,
        path: str | Path | None = None,
        *,
        others: Mapping[str, str | Path | Policy] | None = None,
        watch: Sequence[int] = (),
    ) -> Path:
        """Write the report: see `legible.write_report`."""
        module, _, name = _REPORT.partition(":")
        written: Path = getattr(importlib.import_module(module), name)(self, path, others=others, watch=watch)
        return written

    # --- Baselines ---------------------------------------------------------------------------------------------------

    def play_baseline(self, kind: str) -> Evaluation:
        """Evaluate one of the paper's baselines: "block" or "enforce" (random testing), or "rules" (random rules)."""
        check_baseline(kind)
        self.evaluate()
        found = self._do(f"baseline {kind}", partial(evaluate_baseline, self, kind))
        played = read_played_baselines(self.folder, self._key)
        if kind not in played:
            with self._folder.lock():
                write_played_baselines(self.folder, [*played, kind], self._key)
        return found

    @property
    def baselines(self) -> dict[str, Evaluation]:
        """The baselines that have been evaluated so far."""
        played = read_played_baselines(self.folder, self._key)
        return {
            kind: self._read(f"baseline {kind}", partial(evaluate_baseline, self, kind))
            for kind in BASELINES
            if kind in played
        }
