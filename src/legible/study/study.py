"""A study: one run from policy to guided policy, in a folder, that can be stopped and resumed.

A method of `Study` does a step of the paper and the steps before it (`Study.mine`, `Study.evaluate`, …) and saves the
result in the folder; nothing is done twice. A property only reads a result (`Study.mining`, `Study.evaluation`). The
steps are declared in `legible.study.steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from legible.display import Displayed
from legible.engines import Engine, LocalProcesses
from legible.environments import EnvironmentSpec, find_feature_map
from legible.evaluation import Evaluation, References, Runner
from legible.evaluation.continuation import continue_evaluation
from legible.evaluation.endings import EndingShare
from legible.evaluation.ledger import Ledger
from legible.evaluation.units import Setup, usual_rows
from legible.evaluation.verdicts import Continuation
from legible.explanation import (
    Answer,
    Conclusion,
    Deployment,
    NextSteps,
    WeaknessExplanation,
    WeaknessGroup,
    answer_questions,
    conclude,
    group_weaknesses,
    is_repair,
    suggest_next_steps,
)
from legible.explanation.next_steps import BETTER_BUT_BAD, REPAIRED
from legible.features import FeatureSpace, cut_choices
from legible.files import read_json, write_json
from legible.formatting import number, percent
from legible.hypotheses import source_names
from legible.improvement import Improvement
from legible.mining import Mining
from legible.mistakes import Mistakes, summarise_mistakes
from legible.play import (
    STAGES,
    BranchingMethod,
    Experiences,
    Known,
    adapt_policy,
    can_copy_rows,
    environment_for,
    find_branching_method,
)
from legible.policies import Policy
from legible.relations import (
    DISCOVER,
    DISCOVERED,
    MetamorphicRelation,
    RelationsArgument,
    RelationsText,
    by_name,
    generalise,
)
from legible.relations.discovery import LABEL
from legible.rules import Rule, RuleSet, parse_rule
from legible.settings import StudySettings
from legible.study.choices import read_relations
from legible.study.estimate import expected_episodes, settings_for
from legible.study.folder import BEHAVIOUR, RULES_FROM, StudyFolder
from legible.study.inputs import StudyInputs, check_fallback, inspect_environment, load_policy_for, read_inputs
from legible.study.references import OtherPolicies
from legible.study.rules_from import OtherRules, find_origins
from legible.study.running import Progress, StageRunner, StepMissingError, ignore_progress
from legible.study.steps import MOST_EXPLAINED, STEPS
from legible.study.summary import Summary, summarise

if TYPE_CHECKING:
    from legible.failures import Failures
    from legible.guidance import GuidedPolicy
    from legible.study.first_facts import FirstFacts
    from legible.study.own_rules import OwnRules
    from legible.study.symmetry import SymmetryScore
    from legible.study.time_limit import TimeLimitProbe

_BUDGETS = "budgets.json"
# Attributes that need the policy and the environment; a study that was opened loads them when one is asked for.
_PREPARED = frozenset(
    (
        *("policy", "environment", "names", "given_space", "relation_texts", "relations_left_out", "rule_texts"),
        *("_veto_texts", "others", "other_rules", "observations_outside"),
    )
)


class Study(Displayed):
    """One study of one policy in one environment.

    Parameters
    ----------
    folder
        Where everything is kept. A folder that holds a study with other settings is refused.
    environment
        An id, ``module:factory`` or a spec with arguments.
    policy
        A policy, or the path or address of one, see `legible.load_policy`. A network is copied into the folder. A
        function from one observation, or from a batch of them, to actions is a policy, too, and so is any object with
        such a ``predict``.
    relations
        Relations files, names of relations that legible ships for the environment, relations, or "discover" for those
        that discovery finds on seeds of its own; "none" for none. By
        default the shipped ones that fit.
    rules
        Your own rules, as texts or values, that are tested like the mined ones.
    rules_from
        Other policies, or folders of other studies, whose rules are tested, too (`legible.study.rules_from`).
    veto
        Rules, as texts or values, that must not be in the composition.
    seed
        Random seed of the study.
    settings
        By default those of `StudySettings`, with units of work that suit the environment.
    names
        Feature names and derived features: a TOML file or a feature space; by default the environment's names, or those
        that legible ships for it.
    features
        Features for rules, if not the observation: "entries:NAME,…", "info:NAME,…" or "module:function".
    policy_options
        Further arguments of `legible.load_policy`: ``normalisation`` (a file, or "none"), ``output``, ``activation``,
        and ``fallback``: the action, by name or number, where rules block the one that a function returns.
    allow_code
        Whether the caller named the policy, rather than a file. Only then it may be code: ``module:function``.
    trust
        Whether policies may be TorchScript files, which are programs.
    engine
        Where episodes run; by default processes on all cores. Used as a context manager, it keeps its workers.
    progress
        Called as ``progress(stage, done, of)`` during a stage.

    Attributes
    ----------
    folder, environment, policy, seed, engine, progress
        As given.
    remark
        Called with findings as soon as they are known, as sentences; does nothing by default.
    nominal_settings, settings
        The settings as given, and with budgets that were fitted to the speed of the environment (`change_budgets`).
    named_environment
        The environment by its name, arguments and wrappers; `environment` may also compute features for rules.
    given_space
        Names of features and actions, before continuous actions are cut into regions.
    relation_texts, rule_texts
        The relations and the user's rules as texts.
    others, other_rules
        Other policies that it is compared with, and rules that come from other policies and studies.
    policy_name
        The path or zoo name that the policy was given by; "" for an object.
    relations_left_out, observations_outside
        Shipped relations that do not fit the names; observations that leave their space (None: none was seen).

    Examples
    --------
    >>> study = Study("studies/small", "legible/PacmanSmall-v0", "policy.zip")  # doctest: +SKIP
    >>> study.run().effect.mean  # doctest: +SKIP
    >>> again = Study.open("studies/small")  # doctest: +SKIP
    """

    policy: Policy
    environment: EnvironmentSpec
    names: FeatureSpace | None
    given_space: FeatureSpace
    relation_texts: tuple[RelationsText, ...]
    relations_left_out: tuple[str, ...]
    observations_outside: str | None
    others: OtherPolicies
    other_rules: OtherRules
    rule_texts: tuple[str, ...]
    _veto_texts: tuple[str, ...]

    def __init__(
        self,
        folder: str | Path,
        environment: str | EnvironmentSpec,
        policy: str | Path | Policy | Callable[..., Any],
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
        allow_code: bool = True,
        trust: bool = False,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Load the inputs of a study and make its folder, or open the folder if it holds this study; no step is done.

        The class describes the parameters.
        """
        self.policy_name = str(policy) if isinstance(policy, (str, Path)) else ""
        spec = EnvironmentSpec(environment) if isinstance(environment, str) else environment
        loaded = load_policy_for(
            spec, policy, allow_code=allow_code, trust=trust, options=policy_options, features=features
        )
        # Default settings depend on the environment with the wrappers that the policy was trained with.
        settings = settings or settings_for(environment_for(loaded, spec))
        self._begin(folder, seed, settings, engine, progress)
        self._prepare(
            spec,
            loaded,
            relations=relations,
            rules=rules,
            rules_from=rules_from,
            veto=veto,
            names=names,
            features=features,
            policy_options=policy_options,
            allow_code=allow_code,
            trust=trust,
        )
        self.named_environment = self.environment

    def _begin(
        self, folder: str | Path, seed: int, settings: StudySettings, engine: Engine | None, progress: Progress | None
    ) -> None:
        """Set the attributes that a study has before its policy and environment are loaded."""
        self._folder, self.seed, self.settings = StudyFolder(folder), seed, settings
        self.nominal_settings = settings
        self.engine, self.progress = engine or LocalProcesses(), progress or ignore_progress
        self._results: dict[str, Any] = {}
        self.remark: Callable[[str], None] = lambda _: None

    def _prepare(
        self,
        environment: EnvironmentSpec,
        policy: str | Path | Policy,
        *,
        relations: RelationsArgument,
        rules: Sequence[str | Rule],
        rules_from: Sequence[str | Path | Policy | Mapping[str, Any]],
        veto: Sequence[str | Rule],
        names: str | Path | FeatureSpace | None,
        features: str | None,
        policy_options: Mapping[str, str] | None,
        allow_code: bool,
        trust: bool,
    ) -> None:
        """Load the policy, inspect the environment, and write the inputs of the study into its folder.

        The folder must hold this study or none. A study that was opened from its folder runs this only when something
        needs the policy or the environment. The class describes the parameters.
        """
        load = partial(load_policy_for, allow_code=allow_code, trust=trust)
        self.policy = load(environment, policy, options=policy_options, features=features)
        info = inspect_environment(
            environment_for(self.policy, environment),  # with the wrappers that the policy was trained with
            self.policy,
            names,
            features,
            self._with_kept_discovery(relations),
            engine=self.engine,
            time_limit=self.settings.time_limit or None,
            masks=self.settings.play.masks,
            seed=self.seed,
        )
        self.environment, self.given_space, self.names = info.environment, info.space, info.names
        self.relation_texts, self.relations_left_out = info.relations.texts, info.relations.left_out
        self.observations_outside = info.outside
        self.rule_texts, self._veto_texts = self._texts_of(rules), self._texts_of(veto)
        check_fallback(self.policy, self.rule_texts)
        others = find_origins(self, rules_from, load)
        # Claim the folder: write the inputs, or check that they are those of the study in it. The nominal settings are
        # those before budgets were fitted to the time that is left.
        inputs = StudyInputs(
            environment=self.environment,
            policy=self.policy,
            policy_name=self.policy_name,
            policy_options=policy_options or {},
            fingerprint=info.fingerprint,
            seed=self.seed,
            settings=self.nominal_settings,
            names=self.names,
            relations=self.relation_texts,
            rules=self.rule_texts,
            veto=self._veto_texts,
            rules_from=[origin.to_dict() for origin in others.origins],
            features=features,
        )
        self._kept = self._folder.claim(inputs.identity(), inputs.about(), inputs.write)
        self._read_budgets()
        self.others = OtherPolicies(self, load)
        self.other_rules = OtherRules(self, others, load)

    def __getattr__(self, name: str) -> Any:
        if name not in _PREPARED or "_waiting" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._prepare(**self.__dict__.pop("_waiting"))
        return getattr(self, name)

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
        """Return the study in a folder. Policy and environment are loaded when something needs them.

        Parameters
        ----------
        policy
            The policy, for studies of a policy that is neither a file nor a network; the folder cannot hold it.
        trust
            Whether to run code that the folder names: environment factories, wrappers, policies that are code. A
            folder from somebody else can name any code.
        most_failed
            Largest share of failed episodes from now on; None leaves it as it is.
        folder, engine, progress
            As for `legible.Study`.
        """
        name, arguments = read_inputs(StudyFolder(folder), policy=policy, trust=trust, most_failed=most_failed)
        # Not through `__init__`, which would load the policy: results can be read without it.
        study = cls.__new__(cls)
        study._begin(folder, arguments.pop("seed"), arguments.pop("settings"), engine, progress)
        study.policy_name, study.named_environment = name, arguments["environment"]
        study._kept = study._folder.read()
        study._read_budgets()
        # Arguments of `_prepare`, which `__getattr__` runs when something first needs the policy or the environment.
        study.__dict__["_waiting"] = arguments
        if most_failed is not None:
            study.policy  # noqa: B018 (this runs `_prepare`, which writes the new share into the folder)
        return study

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Return whether a folder holds a study."""
        return StudyFolder(folder).holds_study

    @property
    def folder(self) -> Path:
        """Where everything is kept."""
        return self._folder.path

    def change_budgets(self, settings: StudySettings) -> None:
        """Use other budgets for the steps to come; the folder keeps them."""
        self.settings = settings
        write_json(self.folder / _BUDGETS, settings.to_dict(), self.key)

    def _read_budgets(self) -> None:
        file = self.folder / _BUDGETS
        if file.exists():
            data = read_json(file, self.key, "delete it to use the budgets of the settings again")
            self.settings = StudySettings.from_dict(data, str(file))

    @property
    def is_played(self) -> bool:
        """True if episodes of the evaluation have been played."""
        return any(iter(self._folder.units))

    @property
    def versions(self) -> dict[str, str]:
        """The versions of Python and packages that the study was made with."""
        return dict(self._kept["about"]["versions"])

    @property
    def fingerprint(self) -> str:
        """A text that changes when policy or environment behave differently."""
        return str(self._kept[BEHAVIOUR])

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        done = [name for name in STEPS if self.has(name)]
        is_finished = {"evaluation", "improvement", "references"} <= set(done)
        return {
            **({"verdict": self.conclusion.headline} if is_finished else {}),
            "environment": self.named_environment.name,
            "policy": self.policy_name or "an object",
            "folder": self.folder,
            "done": ", ".join(done) or "nothing yet",
        }

    def __repr__(self) -> str:
        done = sum(self.has(name) for name in STEPS)
        policy = self.policy_name or "an object"
        return f"<Study: {policy} in {self.named_environment.name}, folder {self.folder}, {done} steps done>"

    # --- What makes the study ----------------------------------------------------------------------------------------

    def _texts_of(self, rules: Sequence[str | Rule]) -> tuple[str, ...]:
        space = self.given_space
        return tuple((parse_rule(rule, space) if isinstance(rule, str) else rule).text(space) for rule in rules)

    @property
    def key(self) -> str:
        """The id of the study, which its files carry."""
        return str(self._kept["about"]["id"])

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.experiences.space

    def _with_kept_discovery(self, relations: RelationsArgument) -> RelationsArgument:
        """Return the relations; the file of relations that this study discovered before replaces "discover"."""
        entries = [relations] if isinstance(relations, (str, Path)) else relations
        discovered = sorted((self.folder / "relations").glob(f"??-{DISCOVERED}.toml"))
        if entries is None or DISCOVER not in entries or not discovered:
            return relations
        return [discovered[0] if entry == DISCOVER else entry for entry in entries]

    def discovered_behind(self, rule_set: RuleSet) -> tuple[str, ...]:
        """Return the names of discovered relations that map a rule of the set to another one."""
        rules = set(rule_set.rules)
        discovered = [relation for relation in self.relations if relation.name.endswith(LABEL)]
        return tuple(
            name
            for name, group in by_name(discovered).items()
            if any((set(generalise(rule, group).rules) - {rule}) & rules for rule in rules)
        )

    @cached_property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """The metamorphic relations."""
        if self.space.is_discrete:  # no choice was cut, so that neither policy nor environment are needed
            paths = sorted((self.folder / "relations").glob("*.toml"))
            texts = [RelationsText(path.stem, path.read_text("utf-8"), str(path)) for path in paths]
            return read_relations(texts, self.space, self.space)
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
    def uses_mistakes(self) -> bool:
        """True if rule sets that are tested come from single decisions, too."""
        return "mistakes" in source_names(self.settings.sources)

    @property
    def uses_other_rules(self) -> bool:
        """True if rules of other policies or studies are tested, too."""
        return bool(self._kept[RULES_FROM])

    def looks_for_mistakes(self) -> bool:
        """Return whether a whole run looks for mistakes: the settings say always, or it is fast."""
        when = self.settings.mistakes.when
        if self.settings.evaluation.method == "unpaired":
            return False  # a decision cannot be visited again
        return when == "always" or (when == "fast" and can_copy_rows(self.environment))

    def branching_method(self) -> BranchingMethod:
        """Return how the environment is brought to a decision."""
        return find_branching_method(self.environment, time_limit=self.settings.time_limit or None)

    def add_rules(self, rules: Sequence[str | Rule]) -> tuple[str, ...]:
        """Add the user's own rules; return the ones that are new.

        Steps that depend on them are done again by the next run, which plays only what has not been played yet.
        """
        self.rule_texts, new = self._add("rules", rules, self.rule_texts, stale="generalisations")
        return new

    def add_veto(self, rules: Sequence[str | Rule]) -> tuple[str, ...]:
        """Forbid rules in the composition; return those that are new. The next run composes without them."""
        self._veto_texts, new = self._add("veto", rules, self._veto_texts, stale="improvement")
        return new

    def _add(
        self, entry: Literal["rules", "veto"], rules: Sequence[str | Rule], known: tuple[str, ...], *, stale: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Add rules to an entry of ``study.json``, and forget the step `stale`; return all texts, and the new ones."""
        with self._folder.lock():
            new = tuple(text for text in self._texts_of(rules) if text not in known)
            if new:
                self._kept = self._folder.with_rules(new, entry)
                self._forget({stale})
        return (*known, *new), new

    def _forget(self, stale: set[str]) -> None:
        """Delete the results of steps, and of all steps that need them."""
        for name, step in STEPS.items():
            if name in stale or stale & set(step.needed_by(self)):
                stale = stale | {name}
                (self.folder / step.file).unlink(missing_ok=True)
                self._results.pop(name, None)
        self.__dict__.pop("weaknesses", None)

    def continue_testing(self, episodes: int) -> Continuation | None:
        """Test rule sets that are not confirmed yet on new seeds, with about as many episodes; save what they show.

        Returns None where no undecided rule set changes enough episodes for a test. If some are confirmed, the steps
        after the evaluation are done again by the next run, on seeds of their own.
        """
        step = STEPS["evaluation"]
        with self._folder.lock():
            run = self.runner("confirmation")
            evaluation = continue_evaluation(self.setup(), self.evaluation, seed=self.seed, episodes=episodes, run=run)
            if evaluation is self.evaluation:
                return None
            latest = evaluation.continuations[-1]
            self._forget({"improvement", "explanations"} if latest.confirmed else {"summary"})
            step.save(self, self.folder / step.file, evaluation)
            self._results["evaluation"] = evaluation
        return latest

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
        return adapt_policy(self.policy, self.environment, space)

    def setup(self, treatments: Sequence[Any] = ()) -> Setup:
        """Return what units of work share: policy, environment, and what they are guided with."""
        play = self.settings.play
        rows = usual_rows(play) if self.settings.evaluation.method == "racing" else 0
        return Setup(self.player(), self.environment, tuple(treatments), play, rows)

    def runner(self, *stages: str, of: int = 0, known: Known | None = None, keep: bool = True) -> Runner:
        """Return a function that plays units, which are fixed lists of episodes, on the study's engine.

        Units that the folder holds already are read from it.

        Parameters
        ----------
        stages
            Names, in progress messages, of the first, second, … call of the function; further calls keep the last name.
        of
            Total number of episodes of all calls, for progress messages, if it is known.
        known
            Numbers of rule sets and of suspected weaknesses, if known: they decide how many episodes to expect.
        keep
            Whether the folder keeps the played episodes.
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

    def guided_policy(self, seed: int = 0) -> GuidedPolicy:
        """Return the policy with the composition that `improve` found; without any rule where none helped."""
        from legible.guidance import GuidedPolicy  # noqa: PLC0415 (it needs PyTorch)

        return GuidedPolicy(
            self.policy,
            self.improvement.composition,
            self.space,
            precedence=self.settings.play.precedence,
            enforce=self.settings.play.enforce,
            seed=seed,
            features=find_feature_map(self.environment),
        )

    # --- Steps -------------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether a step of `legible.study.STEPS` has been done."""
        return name in self._results or (self.folder / STEPS[name].file).exists()

    def read(self, name: str) -> Any:
        """Return the result of a step that has been done; nothing is played or written."""
        if name not in self._results:
            step, path = STEPS[name], self.folder / STEPS[name].file
            if not path.exists():
                raise StepMissingError(
                    f"{self.folder}: {step.missing} yet; 'legible run {self.folder}{step.command}' does that."
                )
            self._results[name] = step.load(self, path)
        return self._results[name]

    def do(self, name: str) -> Any:
        """Do a step, after the steps that it needs; return its result. Finished steps are only read from the folder."""
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

    def run(self, others: Mapping[str, str | Path | Policy] | None = None) -> Improvement:
        """Do all steps of the study, and return the composition of rules with its gain on held-out seeds.

        The policy guided by these rules is saved as ``guided.safetensors`` if there are any. Steps that are done
        already are read from the folder. `legible.write_report` writes the report.

        Parameters
        ----------
        others
            Other policies (or their paths) by name that the policy is compared with.
        """
        with self.engine:  # workers stay alive from step to step
            self.do("own rules")
            improvement = self.improve()
            self.play_references(others)
            self.do("time limit")
            self.do("symmetry")
            self.explain()
            self.do("summary")
            if self.looks_for_mistakes():
                self.find_mistakes()
            self.split_gains()
            self.do("failures")
        return improvement

    def collect(self) -> Experiences:
        """Play episodes of the policy, and keep its observations and actions."""
        return self.do("experiences")

    @property
    def experiences(self) -> Experiences:
        """The recorded episodes of the policy."""
        return self.read("experiences")

    @property
    def first_facts(self) -> FirstFacts:
        """Facts from the first episodes: scores, how episodes end, baselines, the smallest effect of interest."""
        return self.read("first facts")

    @property
    def own_rules(self) -> OwnRules:
        """The verdicts on the user's own rules."""
        return self.read("own rules")

    def mine(self) -> Mining:
        """Step 1: mine rules from what the policy does; collects experiences first."""
        return self.do("mining")

    @property
    def mining(self) -> Mining:
        """Step 1: the mined rules."""
        return self.read("mining")

    def generalise(self) -> tuple[RuleSet, ...]:
        """Step 2: generalise every mined rule and every rule of the user's; mines rules first."""
        return self.do("generalisations")

    @property
    def generalisations(self) -> tuple[RuleSet, ...]:
        """Step 2: every mined rule and every rule of the user's with its related forms; some without any rule."""
        return self.read("generalisations")

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """The generalised rule sets; rules that no condition is left of are not among them."""
        return tuple(rule_set for rule_set in self.generalisations if rule_set.rules)

    def evaluate(self) -> Evaluation:
        """Step 3: guide the policy with every rule set and compare returns; generalises first."""
        return self.do("evaluation")

    @property
    def evaluation(self) -> Evaluation:
        """Step 3: the verdicts on all rule sets."""
        return self.read("evaluation")

    def improve(self) -> Improvement:
        """Algorithm 2: compose the rule sets that help, and measure the guided policy on fresh seeds."""
        return self.do("improvement")

    @property
    def improvement(self) -> Improvement:
        """Compose rules with the paper's Algorithm 2, and measure the composition on fresh seeds."""
        return self.read("improvement")

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
                self._forget({"references"})
        return self.do("references")

    @property
    def references(self) -> References:
        """Random play, constant choices and other policies, compared with the policy and the guided policy."""
        return self.read("references")

    @property
    def time_limit_probe(self) -> TimeLimitProbe:
        """Endings of episodes that reach the time limit, if they are played on."""
        return self.read("time limit")

    @property
    def symmetry_scores(self) -> tuple[SymmetryScore, ...]:
        """Agreement of the policy with each relation, and the cost of its asymmetry."""
        return self.read("symmetry")

    @property
    def other_policies(self) -> dict[str, str]:
        """The paths or addresses of other policies that it is compared with, by name."""
        return self.others.sources

    def explain(self) -> tuple[WeaknessExplanation, ...]:
        """Explain the strongest weaknesses, with the contribution of each rule (see `can_leave_rules_out`)."""
        return self.do("explanations")

    @property
    def explanations(self) -> tuple[WeaknessExplanation, ...]:
        """The most telling weaknesses in words."""
        return self.read("explanations")

    def find_mistakes(self) -> Mistakes:
        """Look for single decisions in which another choice is significantly better; independent of all other steps."""
        return self.do("mistakes")

    @property
    def mistakes(self) -> Mistakes:
        """Single decisions in which another choice is significantly better."""
        return self.read("mistakes")

    @property
    def failures(self) -> Failures:
        """Conditions that predict failure, until when it can be avoided, and the causes of mistakes in the policy."""
        return self.read("failures")

    @property
    def decisions(self) -> Experiences:
        """The recorded episodes whose decisions were looked at."""
        return self.read("decisions")

    # --- What follows from them --------------------------------------------------------------------------------------

    @cached_property
    def weaknesses(self) -> tuple[WeaknessGroup, ...]:
        """Suspected and confirmed weaknesses, the strongest first; rule sets that change the same states are merged."""
        if self.has("summary"):
            return self.summary.weaknesses
        return group_weaknesses(self.evaluation, self.experiences)

    @property
    def summary(self) -> Summary:
        """Weaknesses, facts about deployment and figures; composition and references must be known."""
        return self.read("summary") if self.has("summary") else summarise(self)

    @property
    def can_leave_rules_out(self) -> bool:
        """True if explanations play rule sets without each of their rules: unless that takes longer than evaluating.

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
        probe = self.time_limit_probe if self.has("time limit") else None
        remarks = [] if probe is None else [probe.sentence()]
        remarks += [continuation.sentence() for continuation in self.evaluation.continuations]
        scores = self.symmetry_scores if self.has("symmetry") else ()
        remarks += [score.text for score in scores if score.is_costly]
        failures = self.failures.summary(self.space) if self.has("failures") else []
        return conclude(
            self.evaluation,
            self.improvement,
            self.references,
            self.weaknesses,
            self.named_environment.solved_from,
            self.deployment,
            self.endings,
            [*filter(None, remarks), *failures],
            hidden="" if probe is None or not probe.hides_endings else probe.sentence(),
        )

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Answers in a few sentences: how good and where weak the policy is, why, what rules change, and what to do."""
        # `next_steps` is None where the rules help. If the policy stays bad with them, training comes first.
        steps = REPAIRED if self.next_steps is None else self.next_steps.steps
        if self.next_steps is None and self.conclusion.is_bad:
            steps = BETTER_BUT_BAD
        return answer_questions(
            self.evaluation,
            self.improvement,
            self.references,
            self.deployment,
            explanations=self.explanations,
            confirmed=sum(group.is_confirmed for group in self.weaknesses),
            endings=self.endings,
            experiences=self.experiences,
            places=self.failures.places() if self.has("failures") else (),
            reasons=[*self._missed_action(), *(self.failures.reasons(self.space) if self.has("failures") else ())],
            ledger=self.ledger,
            costly=summarise_mistakes(self.mistakes) if self.has("mistakes") and self.mistakes.decisions else "",
            next_steps=steps,
            solved=self.named_environment.solved_from,
        )

    def _missed_action(self) -> list[str]:
        """Say how rarely the policy takes the action that is better than the policy if it is always taken."""
        best = self.references.best_plain
        if best is None or not best.beats_policy or not best.reference.choices or not self.space.is_discrete:
            return []
        (choice,) = best.reference.choices
        share = percent(float(self.experiences.taken(choice).mean()))
        often = "hardly ever" if share == percent(0.0) else f"in only {share} of the steps"
        action = self.space.actions[choice].label
        return [f"It chooses to {action} {often}, although {best.words} scores {number(best.sample.mean)}."]

    @property
    def ledger(self) -> Ledger | None:
        """Where the gain of the guided policy comes from; None without a guided policy."""
        return self.summary.ledger

    def split_gains(self) -> None:
        """Split the gains of the weaknesses, and those of mistakes if the study has looked for them."""
        self.do("weakness ledgers")
        if self.has("mistakes"):
            self.do("mistake ledgers")

    @property
    def weakness_ledgers(self) -> tuple[Ledger | None, ...]:
        """Where the gains of the weaknesses come from, in their order; empty where they have not been split."""
        return self.read("weakness ledgers") if self.has("weakness ledgers") else ()

    @property
    def mistake_ledgers(self) -> tuple[Ledger | None, ...]:
        """Where the gains of the largest mistakes come from, in their order; empty where they have not been split."""
        return self.read("mistake ledgers") if self.has("mistake ledgers") else ()

    @property
    def endings(self) -> tuple[EndingShare, ...]:
        """The endings of episodes on held-out seeds, unguided and guided; empty in folders of older versions."""
        return self.summary.endings

    @property
    def deployment(self) -> Deployment:
        """Facts to know before the guided policy is used."""
        return self.summary.deployment

    @property
    def next_steps(self) -> NextSteps | None:
        """Detectable effects and suggestions where guidance does not help; None where it helps."""
        if is_repair(self.improvement, self.references):
            return None
        best = self.references.best_plain
        return suggest_next_steps(
            self.evaluation,
            self.settings,
            has_relations=bool(self._kept["relations"]),
            has_mistakes=self.has("mistakes"),
            folder=str(self.folder),
            is_bad=self.conclusion.is_bad,
            better=best.words if best is not None and best.beats_policy else "",
        )
