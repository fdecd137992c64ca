"""The content of the report, for the template: `gather` collects it from a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from legible.agents import describe_seats
from legible.evaluation.figures import figure_table
from legible.evaluation.statistics import Effect
from legible.explanation import Conclusion, NextSteps, is_repair
from legible.explanation.objective_words import ObjectiveWords
from legible.report.charts import Scale, interval_scale
from legible.report.command import rerun_command
from legible.report.failure_cards import FailureCard, gather_failures
from legible.report.importances import ImportanceTab, group_rows, importance_tabs
from legible.report.mistakes import MistakeSection, gather_mistakes
from legible.report.pictures import Chart, effect_chart, ledger_chart, return_chart, seed_chart, state_chart
from legible.report.replays import gather_replays, json_size
from legible.report.returns import PolicyReturns, policy_returns, seeds_won
from legible.report.symmetries import Symmetry, gather_symmetries
from legible.report.tables import RuleRow, SeedRow, StepRow, front_rows, rule_rows, seed_rows, step_rows
from legible.report.weakness_cards import WeaknessCard, explain_shown, weakness_card
from legible.rules import RuleSet, describe_rule_set
from legible.study import Study
from legible.study.sources import SourceRow, source_rows


@dataclass(frozen=True)
class Findings:
    """The content of the report."""

    study: Study
    conclusion: Conclusion
    objective: ObjectiveWords
    next_steps: NextSteps | None
    way_of_playing: str
    seats: str
    is_repair: bool
    no_repair: str
    returns: tuple[PolicyReturns, ...]
    seeds_won: tuple[float, float, float] | None
    figures: tuple[tuple[str, ...], list[tuple[str, ...]]]
    cards: tuple[WeaknessCard, ...]
    doubtful_cards: tuple[WeaknessCard, ...]
    effect_scale: Scale
    more_weaknesses: int
    rules: tuple[RuleRow, ...]
    steps: tuple[StepRow, ...]
    sources: tuple[SourceRow, ...]
    front: tuple[tuple[str, Effect], ...]
    front_scale: Scale
    importances: tuple[ImportanceTab, ...]
    groups: tuple[tuple[str, float], ...]
    seeds: tuple[SeedRow, ...]
    command: str
    composition_replays: tuple[int, ...]
    replays: tuple[Any, ...]
    failures: tuple[FailureCard, ...]
    mistakes: MistakeSection | None
    charts: dict[str, Chart]
    symmetries: tuple[Symmetry, ...]


def gather(study: Study, watch: Sequence[int] = ()) -> Findings:
    """Collect the content from a finished study, and record replays, also of the seeds to `watch`."""
    improvement, references = study.improvement, study.references
    objective = ObjectiveWords(study.settings.evaluation.objective)
    # Replays share a number of bytes (`room` is what is left): first those of the composition and of rule sets, then
    # failures, which may take half of the rest, then mistakes.
    explanations = explain_shown(study)
    replays = gather_replays(study, [explanation.rule_set for explanation in explanations], watch)
    failures, failure_replays = gather_failures(study, len(replays.data), replays.room // 2)
    room = replays.room - sum(map(json_size, failure_replays))
    mistakes = gather_mistakes(study, len(replays.data) + len(failure_replays), room)
    # Cards of weaknesses, the confirmed ones first.
    pairs = zip(explanations, replays.of_rule_sets, strict=True)
    unordered = [weakness_card(explanation, study, replay) for explanation, replay in pairs]
    cards = sorted(unordered, key=lambda card: not card.is_sure)
    effects = [effect for card in cards for _, effect in card.effects]
    returns, front = tuple(policy_returns(study)), tuple(front_rows(study))
    play, negative_rules_win = study.settings.play, study.settings.play.precedence == "negative"
    # Why the composition is no repair, if it is none: chance, or a baseline.
    no_repair = f"{references.best.words} is as good or better" if references.best is not None else ""
    if improvement.effect.low <= 0.0:
        no_repair = "the gain is not significant"
    replay_of_seed = {replays.data[number]["seed"]: number for number in replays.of_composition}
    charts = {
        "effects": effect_chart(_effect_rows(study, cards), objective.words),
        "seeds": seed_chart(improvement.final_blocks, replay_of_seed),
        "states": state_chart(study, cards[0].rule_sets[0] if cards and cards[0].is_sure else None),
        "returns": return_chart(returns),
        "gain": ledger_chart(study.ledger),
        **{f"weakness-{place}-gain": ledger_chart(card.ledger) for place, card in enumerate(cards, start=1)},
        **{
            f"mistake-{place}-gain": ledger_chart(card.ledger)
            for place, card in enumerate(() if mistakes is None else mistakes.cards, start=1)
        },
    }
    # Turn the table of figures, so that it has a line per policy: objectives are few, baselines may be many.
    columns, lines = figure_table(study.summary.figure_rows([baseline.words for baseline in references.quoted]))
    header, *policies = zip(columns, *lines, strict=True)
    # Number of the weakness card of each rule, for links from replays, where 0 stands for none.
    card_of_rule: dict[str, int] = {}
    for number, card in enumerate(cards, start=1):
        for rule in (rule for rule_set in card.rule_sets for rule in rule_set.rules):
            card_of_rule.setdefault(rule.text(study.space), number)
    linked = [
        {**replay, "weaknesses": [card_of_rule.get(text, 0) for text in replay.get("texts", ())]}
        for replay in replays.data
    ]
    return Findings(
        study=study,
        conclusion=study.conclusion,
        next_steps=study.next_steps,
        objective=objective,
        way_of_playing=f"{play.words}; in conflicts, negative rules win" if negative_rules_win else play.words,
        seats=describe_seats(study.environment),
        is_repair=is_repair(improvement, references),
        no_repair=no_repair,
        returns=returns,
        seeds_won=seeds_won(improvement.final_blocks),
        figures=(header, policies),
        cards=tuple(card for card in cards if card.is_sure),
        doubtful_cards=tuple(card for card in cards if not card.is_sure),
        effect_scale=interval_scale(effects or [improvement.effect]),
        more_weaknesses=len(study.weaknesses) - len(cards),
        rules=tuple(rule_rows(study, cards)),
        steps=tuple(step_rows(study, cards)),
        sources=source_rows(study),
        front=front,
        front_scale=interval_scale([effect for _, effect in front] or [improvement.effect]),
        importances=tuple(importance_tabs(study)),
        groups=tuple(group_rows(study)),
        seeds=tuple(seed_rows(study)),
        command=rerun_command(study),
        composition_replays=replays.of_composition,
        replays=(*linked, *failure_replays, *(mistakes.replays if mistakes is not None else ())),
        failures=tuple(failures),
        mistakes=mistakes,
        charts={name: chart for name, chart in charts.items() if chart is not None},
        symmetries=gather_symmetries(study),
    )


def _effect_rows(study: Study, cards: Sequence[WeaknessCard]) -> list[tuple[str, str, Effect, str, bool]]:
    """Return the effects of all rule sets that were played on held-out seeds: those of a card by its number."""
    card_numbers = {card.rule_sets[0]: number for number, card in enumerate(cards, start=1)}
    rows = []
    for number, verdict in enumerate(study.evaluation.verdicts, start=1):
        treatment, confirmation = verdict.treatment, verdict.confirmation
        if confirmation is None or not isinstance(treatment, RuleSet):
            continue
        card = card_numbers.get(treatment)
        name = f"weakness {card}" if card is not None else f"rule set {number}"
        address = f"#weakness-{card}" if card is not None else "#rules"
        words = describe_rule_set(treatment, study.space, "advice")
        rows.append((name, words, confirmation.effect, address, verdict.is_confirmed))
    return rows
