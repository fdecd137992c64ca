"""What the report says, gathered from a study: plain values that the template lays out.

- `Findings`: everything, and `gather` that makes it.
- `WeaknessCard`, `RuleRow`, `ImportanceTab`, …: the parts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.evaluation import Evaluation, PlayedBlocks, Sample, Verdict
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.explanation import (
    WeaknessExplanation,
    explain_weakness,
    feature_groups,
    group_shares,
    most_telling,
    pacman_groups,
    verdict_sentence,
)
from legible.features import FeatureSpace
from legible.formatting import capitalise
from legible.improvement import Improvement
from legible.mining import MinedRule
from legible.play import STAGES, Known, stage_seeds
from legible.policies import Policy
from legible.relations import shipped_features, shipped_relations
from legible.report.charts import Histograms, Scale, histograms, interval_scale
from legible.report.replays import Choice, choose_episodes, make_replays
from legible.report.returns import other_returns
from legible.report.scenes import is_drawn_from_state
from legible.rules import Rule, RuleSet, describe_rule, describe_rule_set
from legible.study import Study

MOST_WEAKNESSES = 12
MOST_PICTURE_REPLAYS = 4  # of weaknesses; pictures take long to draw and much room
MOST_IMPORTANT = 8
MOST_LINES = 24  # rules of a set that are listed; generalised over many vehicles there can be hundreds
# The whole file stays below three megabytes; what is not replays takes a third of it at most.
REPLAY_BUDGET = 1_900_000

BASELINE_NAMES = {
    "block": "random testing: actions blocked at random",
    "enforce": "random testing: actions enforced at random",
    "rules": "random rules",
}


@dataclass(frozen=True)
class PolicyReturns:
    """The returns of one policy in the chart of distributions."""

    name: str
    kind: str
    result: UnitResult
    sample: Sample


@dataclass(frozen=True)
class RuleLine:
    """One rule of a rule set, with what leaving it out costs where that was played."""

    words: str
    text: str
    is_mined: bool
    adds: Effect | None
    matters: bool


@dataclass(frozen=True)
class WeaknessCard:
    """One weakness as the report shows it; `replay` is the number of its replay, if there is one."""

    explanation: WeaknessExplanation
    title: str
    origin: str
    mined: str
    sentences: tuple[str, ...]
    rules: tuple[RuleLine, ...]
    effects: tuple[tuple[str, Effect], ...]
    replay: int | None

    @property
    def verdict(self) -> Verdict:
        """What the study says of it."""
        return self.explanation.verdict

    @property
    def is_sure(self) -> bool:
        """Whether fresh seeds confirm it, or were never asked."""
        return self.verdict.is_confirmed or self.verdict.confirmation is None


@dataclass(frozen=True)
class RuleRow:
    """A mined rule (or one of the user's), with what became of it."""

    words: str
    text: str
    action: str
    polarity: str
    mined: MinedRule | None
    verdict: Verdict | None
    kinds: tuple[str, ...]

    @property
    def badge(self) -> str:
        """The strongest thing to say about it."""
        order = ("confirmed", "found", "harmful")
        return next((kind for kind in order if kind in self.kinds), "")


@dataclass(frozen=True)
class StepRow:
    """One turn of the composition: what was tried, and whether it stayed."""

    words: str
    mean: float
    error: float
    accepted: bool


@dataclass(frozen=True)
class Weight:
    """A feature's importance, as a share of all and of the greatest."""

    words: str
    share: float
    length: float


@dataclass(frozen=True)
class ImportanceTab:
    """What speaks for and against an action."""

    action: str
    speaks_for: tuple[Weight, ...]
    speaks_against: tuple[Weight, ...]


@dataclass(frozen=True)
class BaselineRow:
    """How many tests of a kind found a weakness."""

    name: str
    tests: int
    weaknesses: float
    significant: float
    confirmed: float
    best: float | None


@dataclass(frozen=True)
class SeedRow:
    """The seeds of a stage."""

    stage: str
    used_for: str
    first: int
    episodes: int


@dataclass(frozen=True)
class Findings:
    """Everything that the report shows."""

    study: Study
    headline: str
    way_of_playing: str
    evaluation: Evaluation
    improvement: Improvement
    final_seeds: tuple[int, ...]
    returns: tuple[PolicyReturns, ...]
    histograms: Histograms
    seeds_won: tuple[float, float, float] | None
    cards: tuple[WeaknessCard, ...]
    doubtful_cards: tuple[WeaknessCard, ...]
    effect_scale: Scale
    more_weaknesses: int
    rules: tuple[RuleRow, ...]
    steps: tuple[StepRow, ...]
    importances: tuple[ImportanceTab, ...]
    groups: tuple[tuple[str, float], ...]
    baselines: tuple[BaselineRow, ...]
    seeds: tuple[SeedRow, ...]
    command: str
    composition_replays: tuple[int, ...]
    replays: tuple[Any, ...]


def gather(study: Study, others: Mapping[str, Policy] | None = None) -> Findings:
    """Read everything out of a study, which runs what it has not run yet; replays are recorded."""
    evaluation, improvement = study.evaluation, study.improvement
    final = study.improvement.final_blocks
    explanations = _explanations(study)
    replays, of_composition, of_weakness = _replays(study, final, explanations)
    cards = tuple(_card(found, study, replay) for found, replay in zip(explanations, of_weakness, strict=True))
    effects = [effect for card in cards for _, effect in card.effects]
    returns = tuple(_returns(final, other_returns(study, others or {})))
    return Findings(
        study=study,
        headline=verdict_sentence(evaluation, improvement),
        way_of_playing=_way_of_playing(study),
        evaluation=evaluation,
        improvement=improvement,
        final_seeds=final.seeds,
        returns=returns,
        histograms=histograms({entry.name: entry.result.returns for entry in returns}),
        seeds_won=_seeds_won(final),
        cards=tuple(card for card in cards if card.is_sure),
        doubtful_cards=tuple(card for card in cards if not card.is_sure),
        effect_scale=interval_scale(effects or [improvement.effect]),
        more_weaknesses=len(most_telling(evaluation, len(evaluation.verdicts))) - len(cards),
        rules=tuple(_rule_rows(study)),
        steps=tuple(_step_rows(study)),
        importances=tuple(_importances(study)),
        groups=tuple(_groups(study)),
        baselines=tuple(_baseline_rows(study)),
        seeds=tuple(_seed_rows(study)),
        command=_command(study),
        composition_replays=tuple(of_composition),
        replays=tuple(replays),
    )


def _way_of_playing(study: Study) -> str:
    """How actions were chosen in all episodes, and which rules win."""
    play = study.settings.play
    return f"{play.words}; in conflicts, rules that block win" if play.precedence == "negative" else play.words


def _explanations(study: Study) -> list[WeaknessExplanation]:
    """The weaknesses to show: those that the study explains in full, and more with what is at hand."""
    full = {found.rule_set: found for found in study.explanations}
    return [
        full.get(verdict.rule_set)
        or explain_weakness(
            verdict,
            study.space,
            experiences=study.experiences,
            mined=study.mining.rules,
            min_kept=study.settings.mining.min_accuracy,
            alpha=study.settings.evaluation.alpha,
        )
        for verdict in most_telling(study.evaluation, MOST_WEAKNESSES)
    ]


def _returns(final: PlayedBlocks, others: Mapping[str, UnitResult]) -> Iterator[PolicyReturns]:
    yield PolicyReturns("the policy alone", "alone", final.base, Sample.of(final.base))
    if final.setup.treatments:
        yield PolicyReturns("guided", "guided", final.guided(0), Sample.of(final.guided(0)))
    for name, result in others.items():
        yield PolicyReturns(name, "other", result, Sample.of(result))


def _seeds_won(final: PlayedBlocks) -> tuple[float, float, float] | None:
    """Shares of seeds on which guidance gains, changes nothing, and loses."""
    if not final.setup.treatments:
        return None
    difference = final.guided(0).returns - final.base.returns
    return (float((difference > 0).mean()), float((difference == 0).mean()), float((difference < 0).mean()))


# --- Weaknesses and replays ------------------------------------------------------------------------------------------


def _replays(
    study: Study, final: PlayedBlocks, explanations: Sequence[WeaknessExplanation]
) -> tuple[list[Any], list[int], list[int | None]]:
    """Make all replays; returns them, the numbers of the composition's, and for every weakness the number of its."""
    small = is_drawn_from_state(study.environment)
    chosen = choose_episodes(final.base, final.guided(0), 0, extremes=True) if final.setup.treatments else []
    blocks = study.evaluation.confirmation_blocks
    wanted = explanations if small else explanations[:MOST_PICTURE_REPLAYS]
    typical = [None if blocks is None else _typical(blocks, found.rule_set) for found in wanted]
    replayed = [place for place, choice in enumerate(typical) if choice is not None]
    budget = REPLAY_BUDGET // max(1, 2 * (len(chosen) + len(replayed)))
    made: list[tuple[int | None, Any]] = [(None, replay) for replay in make_replays(study, final, chosen, budget)]
    if blocks is not None:
        of_sets = make_replays(study, blocks, [choice for choice in typical if choice is not None], budget)
        made += zip(replayed, of_sets, strict=True)
    return _number_replays(made, len(explanations))


def _number_replays(
    made: Sequence[tuple[int | None, Any]], weaknesses: int
) -> tuple[list[Any], list[int], list[int | None]]:
    """Number the replays that could be made, as far as there is room.

    Each comes with the place of its weakness, or None when it is one of the composition's.
    """
    kept: list[Any] = []
    of_composition: list[int] = []
    of_weakness: list[int | None] = [None] * weaknesses
    room = REPLAY_BUDGET
    for place, replay in made:
        size = _size(replay)
        if replay is None or size > room:
            continue
        room -= size
        if place is None:
            of_composition.append(len(kept))
        else:
            of_weakness[place] = len(kept)
        kept.append(replay)
    return kept, of_composition, of_weakness


def _size(replay: Any) -> int:
    return len(json.dumps(replay, separators=(",", ":")))


def _typical(blocks: PlayedBlocks, rule_set: RuleSet) -> Choice | None:
    """A typical episode of a rule set on the confirmation's seeds, if it was played there."""
    if rule_set not in blocks.setup.treatments:
        return None
    treatment = blocks.setup.treatments.index(rule_set)
    choices = choose_episodes(blocks.base, blocks.guided(treatment), treatment, extremes=False)
    return choices[0] if choices else None


def _card(found: WeaknessExplanation, study: Study, replay: int | None) -> WeaknessCard:
    contributions = {c.rule: c for c in found.contributions}
    is_mined = any(entry.rule == found.rule_set.source for entry in study.mining.rules)
    lines = []
    for rule in found.rule_set.rules:
        added = contributions.get(rule)
        matters = added is not None and added in found.significant_contributions
        effect = None if added is None else added.effect
        words = describe_rule(rule, study.space, "advice")
        lines.append(
            RuleLine(words, rule.text(study.space), is_mined and rule == found.rule_set.source, effect, matters)
        )
    return WeaknessCard(
        explanation=found,
        title=capitalise(found.title),
        origin="Mined" if is_mined else "Given",
        mined="" if found.rule_set.source is None else found.rule_set.source.text(study.space),
        sentences=tuple(found.sentences()),
        rules=tuple(sorted(lines, key=lambda line: not line.matters)[:MOST_LINES]),
        effects=tuple(_effects(found.verdict)),
        replay=replay,
    )


def _effects(verdict: Verdict) -> Iterator[tuple[str, Effect]]:
    if verdict.confirmation is None:
        return
    yield "all rules of the set", verdict.confirmation.effect
    if len(verdict.rule_set) > 1:
        if verdict.confirmation.of_rule is not None:
            yield "the mined rule alone", verdict.confirmation.of_rule
        if verdict.confirmation.of_generalisation is not None:
            yield "what generalising adds", verdict.confirmation.of_generalisation


# --- Rules, steps, importances ---------------------------------------------------------------------------------------


def _rule_rows(study: Study) -> Iterator[RuleRow]:
    mined = {entry.rule: entry for entry in study.mining.rules}
    verdicts = {verdict.rule_set.source: verdict for verdict in study.evaluation.verdicts}
    for found in study.generalisations:
        rule = found.rule_set.source
        if rule is not None:
            yield _rule_row(rule, mined.get(rule), verdicts.get(rule), study)


def _rule_row(rule: Rule, mined: MinedRule | None, verdict: Verdict | None, study: Study) -> RuleRow:
    kinds = []
    if verdict is None:
        kinds.append("untested")
    elif verdict.is_confirmed:
        kinds += ["confirmed", "found"]
    elif verdict.is_weakness:
        kinds.append("found")
    elif verdict.is_harmful:
        kinds.append("harmful")
    if any(step.accepted and step.rule_set.source == rule for step in study.improvement.steps):
        kinds.append("used")
    space = study.space
    return RuleRow(
        words=capitalise(describe_rule(rule, space)),
        text=rule.text(space),
        action=space.actions[rule.action].label,
        polarity=rule.polarity,
        mined=mined,
        verdict=verdict,
        kinds=tuple(kinds),
    )


def _step_rows(study: Study) -> Iterator[StepRow]:
    for step in study.improvement.steps:
        words = capitalise(describe_rule_set(step.rule_set, study.space, "advice"))
        yield StepRow(words, step.mean, step.error, step.accepted)


def _importances(study: Study) -> Iterator[ImportanceTab]:
    importance = study.mining.importance
    if importance is None:
        return
    for action, named in enumerate(study.space.actions):
        speaks = [_weights(importance.of(polarity, action), study) for polarity in ("+", "-")]
        yield ImportanceTab(named.label, speaks[0], speaks[1])


def _weights(values: np.ndarray[Any, np.dtype[np.float64]], study: Study) -> tuple[Weight, ...]:
    total, greatest = float(values.sum()), float(values.max())
    if total == 0.0:
        return ()
    ranked = np.argsort(-values, kind="stable")[:MOST_IMPORTANT]
    return tuple(
        Weight(study.space[int(i)].label, float(values[i]) / total, 100 * float(values[i]) / greatest)
        for i in ranked
        if values[i] > 0.0
    )


def _groups(study: Study) -> Iterator[tuple[str, float]]:
    """Shares of the mined rules that speak of a group of features: the paper's for PAC-Man, else the features' own."""
    space = study.space
    paper = is_pacman_space(space.names)
    if not paper and not any(feature.group for feature in space.features):
        return
    shares = group_shares(study.mining.rules, space, pacman_groups(space) if paper else feature_groups(space))
    yield from sorted(shares.items(), key=lambda entry: -entry[1])


def is_pacman_space(names: Sequence[str]) -> bool:
    """Whether features are those of PAC-Man, for which the paper names groups."""
    return "near.unscared" in names and "ghost0.scared" in names


# --- Baselines, seeds, settings --------------------------------------------------------------------------------------


def _baseline_rows(study: Study) -> Iterator[BaselineRow]:
    baselines = study.baselines
    if not baselines:
        return
    yield _baseline_row("mined and generalised rules", study.evaluation)
    for kind, evaluation in baselines.items():
        yield _baseline_row(BASELINE_NAMES[kind], evaluation)


def _baseline_row(name: str, evaluation: Evaluation) -> BaselineRow:
    confirmed = [v.confirmation.effect.mean for v in evaluation.confirmed if v.confirmation is not None]
    return BaselineRow(
        name,
        len(evaluation.verdicts),
        evaluation.share("weakness"),
        evaluation.share("significant"),
        evaluation.share("confirmed"),
        max(confirmed, default=None),
    )


def _seed_rows(study: Study) -> Iterator[SeedRow]:
    evaluation = study.evaluation
    known = Known(len(evaluation.verdicts), len(evaluation.weaknesses))
    for stage in STAGES.values():
        if stage.step != "baseline":
            first = stage_seeds(study.seed, stage.name, 0, 1)[0]
            yield SeedRow(stage.name, stage.purpose, first, stage.seeds(study.settings, known))


def _command(study: Study) -> str:
    """The command that makes the study again in its folder, given its settings (and names, if any) as files.

    It is empty for a policy that was never a file.
    """
    own = study.folder / "policy.safetensors"
    policy = study.policy_name
    if not policy.startswith("zoo:") and own.exists():
        policy = own.name
    if not policy:
        return ""
    kept = json.loads((study.folder / "study.json").read_text(encoding="utf-8"))
    options = [("--seed", str(study.seed))]
    options += [("--arg", f"{name}={json.dumps(value)}") for name, value in kept["arguments"].items()]
    options += [("--wrap", wrapper) for wrapper in kept["wrappers"]]
    options += [("--relations", name) for name in _relation_files(study)]
    options += [("--names", "names.toml")] * _has_own_names(study)
    options += [("--rule", rule) for rule in kept["rules"]] + [("--veto", rule) for rule in kept["veto"]]
    options += [("--settings", "settings.toml"), ("--out", "again")]
    return shlex.join(["legible", "run", study.environment.name, policy, *(word for pair in options for word in pair)])


def _relation_files(study: Study) -> list[str]:
    """The study's relations for the command line: nothing where they are the package's own, "none" for none."""
    files = sorted((study.folder / "relations").glob("*.toml"))
    shipped = [path for _, path, default in shipped_relations(study.environment.name) if default]
    texts = [[path.read_text(encoding="utf-8") for path in paths] for paths in (files, shipped)]
    if texts[0] == texts[1]:
        return []
    return [f"relations/{path.name}" for path in files] or ["none"]


def _has_own_names(study: Study) -> bool:
    """Whether names were given that are not those of the package."""
    path = study.folder / "names.json"
    if not path.exists():
        return False
    names = FeatureSpace.from_dict(json.loads(path.read_text(encoding="utf-8")), str(path))
    return names != shipped_features(study.environment.name)
