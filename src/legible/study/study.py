"""A study: one run from policy to guided policy, in a folder, that can be stopped and goes on where it stopped.

- `Study`: the steps of the paper. A verb does a step (`Study.mine`, `Study.evaluate`, …): it makes what it needs, keeps
  it in the folder, and does nothing twice. An attribute only reads what is there (`Study.mining`, `Study.evaluation`).

The steps are declared in `legible.study.steps`. Everything that a study takes is in its folder, so `Study.open` needs
nothing else. All numbers are in `legible.settings.StudySettings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

from legible.engines import Engine, LocalProcesses
from legible.environments import EnvironmentSpec, feature_map_of
from legible.environments.domains import success_words
from legible.evaluation import Evaluation, PlayedBlocks, References, Runner, play_on_same_seeds
from legible.evaluation.units import Setup, usual_rows
from legible.explanation import (
    Conclusion,
    Deployment,
    Outlook,
    WeaknessExplanation,
    WeaknessGroup,
    conclude,
    group_weaknesses,
    is_repair,
    look_ahead,
    weigh_deployment,
)
from legible.features import FeatureSpace, cut_choices
from legible.guidance import GuidedPolicy
from legible.hypotheses import source_names
from legible.improvement import Improvement
from legible.mining import Mining
from legible.mistakes import Mistakes
from legible.play import STAGES, Experiences, FoundWay, Known, copies_rows, environment_for, find_way, on_rows
from legible.policies import Policy, with_choices
from legible.relations import Generalisation, MetamorphicRelation, RelationsArgument, RelationsText
from legible.rules import Rule, RuleSet, parse_rule
from legible.settings import StudySettings
from legible.study.baselines import BASELINES, check_baseline
from legible.study.choices import read_relations
from legible.study.estimate import expected_episodes, settings_for
from legible.study.folder import BEHAVIOUR, StudyFolder
from legible.study.inputs import StudyInputs, load_policy_for, read_inputs
from legible.study.looking import look_at_environment
from legible.study.references import OtherPolicies
from legible.study.rules_from import OtherRules, find_origins
from legible.study.running import NotDoneError, Progress, StageRunner, ignore_progress
from legible.study.steps import MOST_EXPLAINED, STEPS


class Study:
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
    folder, environment, policy, settings, seed, engine, progress
        As given.
    names, given_space
        Names that the folder has to keep, if any; names of features and actions before continuous ones are cut.
    relation_texts, rule_texts
        The relations and the user's rules as they were given.
    others, other_rules
        Other policies that it is compared with, and rules that come from other policies and studies.
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

    fingerprint: str
    names: FeatureSpace | None
    given_space: FeatureSpace
    relation_texts: tuple[RelationsText, ...]
    relations_left_out: tuple[str, ...]
    others: OtherPolicies
    other_rules: OtherRules

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
        limit = self.settings.time_limit or None
        look = look_at_environment(
            self.environment, self.policy, names, features, relations, engine=self.engine, time_limit=limit
        )
        self.environment, self.fingerprint = look.environment, look.fingerprint
        self.given_space, self.names = look.space, look.names
        self.relation_texts, self.relations_left_out = look.relations.texts, look.relations.left_out
        self.rule_texts, self._veto_texts = self._texts_of(rules), self._texts_of(veto)
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
            self.names,
            self.relation_texts,
            self.rule_texts,
            self._veto_texts,
            [origin.to_dict() for origin in others.origins],
            features,
        )
        self._kept = self._folder.claim(inputs.identity(), inputs.about(), inputs.write)
        self.fingerprint = self._kept[BEHAVIOUR]  # on another machine it differs in the last digits
        self.others = OtherPolicies(self, typed=typed)
        self.other_rules = OtherRules(self, others, typed=typed)
        self._results: dict[str, Any] = {}

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

    def _texts_of(self, rules: Sequence[str | Rule]) -> tuple[str, ...]:
        space = self.given_space
        return tuple((parse_rule(rule, space) if isinstance(rule, str) else rule).text(space) for rule in rules)

    @property
    def key(self) -> str:
        """Says which study a file belongs to."""
        return str(self._kept["about"]["id"])

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.experiences.space

    @cached_property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """The metamorphic relations."""
        return read_relations(self.relation_texts, self.given_space, self.space)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Rules of the user's own."""
        return tuple(parse_rule(text, self.space) for text in self.rule_texts)

    @property
    def veto(self) -> tuple[Rule, ...]:
        """Rules that must not be in the composition."""
        return tuple(parse_rule(text, self.space) for text in self._veto_texts)

    @property
    def learns_from_mistakes(self) -> bool:
        """Whether rule sets that are tested come from single decisions, too."""
        return "mistakes" in source_names(self.settings.sources)

    def looks_for_mistakes(self) -> bool:
        """Whether a whole run looks for mistakes: the settings say always, or it is fast."""
        when = self.settings.mistakes.when
        return when == "always" or (when == "fast" and copies_rows(self.environment))

    def way_of_branching(self) -> FoundWay:
        """Return how the environment is brought to a decision."""
        return find_way(self.environment, time_limit=self.settings.time_limit or None)

    # --- Playing -----------------------------------------------------------------------------------------------------

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from working in the folder."""
        return self._folder.lock()

    def player(self) -> Policy:
        """Return the policy as one that scores all choices.

        Until its experiences are there, continuous actions are cut into equal pieces: it plays the same, whatever the
        cuts.
        """
        space = self.space if (self.folder / "experiences.npz").exists() else cut_choices(self.given_space)
        return with_choices(on_rows(self.policy, self.environment), space)

    def setup(self, treatments: Sequence[Any] = ()) -> Setup:
        """Return what units of work share: policy, environment, and what they are guided with."""
        play = self.settings.play
        rows = usual_rows(play) if self.settings.evaluation.method == "racing" else 0
        return Setup(self.player(), self.environment, tuple(treatments), play, rows)

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
            engine=self.engine,
            store_of=self._folder.results if keep else lambda _: {},
            fingerprint=self.fingerprint,
            time_limit=self.settings.time_limit or None,
            most_failed=self.settings.most_failed,
            progress=self.progress,
        )

    def play_rule_sets(self, rule_sets: Sequence[RuleSet], seeds: Sequence[int]) -> PlayedBlocks:
        """Play the policy alone and guided by each of some rule sets on the same seeds; the folder is not touched."""
        of = (1 + len(rule_sets)) * len(seeds)
        return play_on_same_seeds(self.setup(rule_sets), seeds, self.runner("comparison", of=of, keep=False))

    def guided_policy(self, seed: int = 0) -> GuidedPolicy:
        """Return the policy with the composition that `improve` found; without any rule where none helped."""
        return GuidedPolicy(
            self.policy,
            self.improvement.composition,
            self.space,
            precedence=self.settings.play.precedence,
            enforce=self.settings.play.enforce,
            seed=seed,
            features=feature_map_of(self.environment),
        )

    # --- Steps -------------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether a step of `legible.study.STEPS` has been done."""
        return name in self._results or (self.folder / STEPS[name].file).exists()

    def read(self, name: str) -> Any:
        """Return the result of a step that has been done; nothing is played or written."""
        if name not in self._results:
            step, path = STEPS[name], self.folder / STEPS[name].file
            if not path.exists():
                raise NotDoneError(f"{self.folder}: {step.missing} yet; 'legible run {self.folder}' does that.")
            self._results[name] = step.load(self, path)
        return self._results[name]

    def do(self, name: str) -> Any:
        """Do a step, and before it those that it needs; return its result. What has been done is only read."""
        step = STEPS[name]
        if not self.has(name):
            for needed in step.needed_by(self):
                self.do(needed)
            with self._folder.lock():
                if not self.has(name):  # another process may have been faster
                    result = step.run(self)
                    step.save(self, self.folder / step.file, result)
        result = self.read(name)
        if step.export is not None:
            step.export(self, result)
        return result

    def run(self, *, baselines: bool = False, others: Mapping[str, str | Path | Policy] | None = None) -> Improvement:
        """Do everything up to the guided policy and its explanation.

        The guided policy is saved as ``guided.safetensors`` if there is one. `legible.write_report` writes the report.

        Parameters
        ----------
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
        return improvement

    def collect(self) -> Experiences:
        """Let the policy play, and keep what it saw and did."""
        return cast("Experiences", self.do("experiences"))

    @property
    def experiences(self) -> Experiences:
        """What the policy saw and did."""
        return cast("Experiences", self.read("experiences"))

    def mine(self) -> Mining:
        """Step 1: mine rules from what the policy does; collects experiences first."""
        return cast("Mining", self.do("mining"))

    @property
    def mining(self) -> Mining:
        """Step 1: the mined rules."""
        return cast("Mining", self.read("mining"))

    def generalise(self) -> tuple[Generalisation, ...]:
        """Step 2: generalise every mined rule and every rule of the user's; mines rules first."""
        return cast("tuple[Generalisation, ...]", self.do("generalisations"))

    @property
    def generalisations(self) -> tuple[Generalisation, ...]:
        """Step 2: every mined rule and every rule of the user's, with all that it generalises to."""
        return cast("tuple[Generalisation, ...]", self.read("generalisations"))

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """The generalised rule sets; rules that no condition is left of are not among them."""
        return tuple(found.rule_set for found in self.generalisations if not found.is_empty)

    def evaluate(self) -> Evaluation:
        """Step 3: guide the policy with every rule set and compare returns; generalises first."""
        return cast("Evaluation", self.do("evaluation"))

    @property
    def evaluation(self) -> Evaluation:
        """Step 3: the verdicts on all rule sets."""
        return cast("Evaluation", self.read("evaluation"))

    def improve(self) -> Improvement:
        """Algorithm 2: compose the rule sets that help, and measure the guided policy on fresh seeds."""
        return cast("Improvement", self.do("improvement"))

    @property
    def improvement(self) -> Improvement:
        """Algorithm 2: the composition, and what it is worth on fresh seeds."""
        return cast("Improvement", self.read("improvement"))

    def play_references(self, others: Mapping[str, str | Path | Policy] | None = None) -> References:
        """Compare the policy and the guided policy with random play, constant choices and other policies.

        Parameters
        ----------
        others
            Other policies (or their paths) by name; the folder remembers them.
        """
        if others:
            self.improve()
            with self._folder.lock():
                self.others.add(others)
                (self.folder / STEPS["references"].file).unlink(missing_ok=True)
            self._results.pop("references", None)
        return cast("References", self.do("references"))

    @property
    def references(self) -> References:
        """How random play, constant choices and other policies do, compared with the policy and the guided policy."""
        return cast("References", self.read("references"))

    @property
    def other_policies(self) -> dict[str, str]:
        """The paths or addresses of other policies that it is compared with, by name."""
        return self.others.sources

    def explain(self) -> tuple[WeaknessExplanation, ...]:
        """Put the most telling weaknesses into words, with what each of their rules adds (see `leaves_rules_out`)."""
        return cast("tuple[WeaknessExplanation, ...]", self.do("explanations"))

    @property
    def explanations(self) -> tuple[WeaknessExplanation, ...]:
        """The most telling weaknesses in words."""
        return cast("tuple[WeaknessExplanation, ...]", self.read("explanations"))

    def find_mistakes(self) -> Mistakes:
        """Look for single decisions in which another choice is better beyond doubt; independent of all other steps."""
        return cast("Mistakes", self.do("mistakes"))

    @property
    def mistakes(self) -> Mistakes:
        """Single decisions in which another choice is better beyond doubt."""
        return cast("Mistakes", self.read("mistakes"))

    @property
    def decisions(self) -> Experiences:
        """The recorded episodes whose decisions were looked at."""
        return cast("Experiences", self.read("decisions"))

    def play_baseline(self, kind: str) -> Evaluation:
        """Evaluate one of the paper's baselines: "block" or "enforce" (random testing), or "rules" (random rules)."""
        check_baseline(kind)
        return cast("Evaluation", self.do(f"baseline {kind}"))

    @property
    def baselines(self) -> dict[str, Evaluation]:
        """The baselines that have been evaluated so far."""
        return {kind: self.read(f"baseline {kind}") for kind in BASELINES if self.has(f"baseline {kind}")}

    # --- What follows from them --------------------------------------------------------------------------------------

    @cached_property
    def weaknesses(self) -> tuple[WeaknessGroup, ...]:
        """What looks like a weakness, the strongest first; rule sets that change the same states are one."""
        return group_weaknesses(self.evaluation, self.experiences)

    @property
    def leaves_rules_out(self) -> bool:
        """Whether explanations play rule sets without each of their rules: unless that takes longer than evaluating.

        Rule sets of environments with many exchangeable things, such as vehicles, are large.
        """
        evaluation = self.evaluation
        rules = sum(len(group.front.rule_set) for group in self.weaknesses[:MOST_EXPLAINED])
        known = Known(len(evaluation.verdicts), len(evaluation.weaknesses))
        most = sum(STAGES[name].episodes(self.settings, known) for name in ("screening", "racing"))
        return rules * (evaluation.settings.confirmation_episodes or evaluation.settings.episodes) <= most

    @property
    def conclusion(self) -> Conclusion:
        """The whole study in a few sentences; composition and references must be known."""
        solved = self.environment.solved_from
        return conclude(self.evaluation, self.improvement, self.references, self.weaknesses, solved)

    @property
    def deployment(self) -> Deployment:
        """What a person wants to know before the guided policy is used."""
        return weigh_deployment(
            self.improvement,
            environment=self.environment.name,
            play=self.settings.play,
            success=success_words(self.environment),
            solved=self.environment.solved_from,
        )

    @property
    def outlook(self) -> Outlook | None:
        """What could have been seen where nothing is confirmed, and what to try next; None where guidance helps."""
        if is_repair(self.improvement, self.references):
            return None
        best = self.references.best_plain
        return look_ahead(
            self.evaluation,
            self.settings,
            has_relations=bool(self.relations),
            has_mistakes=self.has("mistakes"),
            folder=str(self.folder),
            is_bad=self.conclusion.is_bad,
            better=best.words if best is not None and best.beats_policy else "",
        )
