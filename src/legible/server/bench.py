"""The rule bench: what a rule means, where it fires, whether it helps, and what to do with it.

- `read_rule`: the rule in words, and what it would change in recorded episodes; fast enough for every key press.
- `try_on_bench`, `confirm_on_bench`: the verdict of ``legible try``, streamed; a confirmation on fresh seeds.
- `keep_rule`: adds a rule to the study, forbids it, or returns it as a check.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine
from legible.errors import LegibleError
from legible.evaluation.recorded import EpisodeRecord
from legible.evaluation.relevance import relevant_effect
from legible.features import FeatureSpace
from legible.formatting import capitalise, counted, join_words, number, percent
from legible.play import Experiences
from legible.relations import generalise
from legible.rules import Rule, RuleSet, describe_rule, find_thresholds
from legible.server.desk import Desk, RequestError, text_of
from legible.server.jobs import Emit
from legible.server.overview import keep_findings
from legible.workbench.arena import Arena, check_pairing
from legible.workbench.checks import check_lines
from legible.workbench.confirming import Direction, confirm_rule
from legible.workbench.looks import PlausibleExtremes, interval_of_changed
from legible.workbench.trying import (
    MOST_SEEDS,
    Candidate,
    Form,
    RuleResult,
    Trial,
    TryResult,
    exploring_stage,
    try_rule,
)

MOST_REPLACED = 3
MOST_NAMED = 3
"""Related forms of a rule that are written out."""
WARM_SEEDS, WARM_SECONDS = 2048, 60.0
"""Unguided episodes that are played while nothing is asked, at most for so long: enough for most first looks."""
_PROGRESS_EVERY = 0.25  # seconds


def read_rule(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule in words, its thresholds, and what it would change in recorded episodes."""
    started = time.perf_counter()
    try:
        rules = desk.rules_of(body)
    except LegibleError as error:  # half a rule is no error of the page
        return {"problem": str(error)}
    return {
        "words": [capitalise(describe_rule(rule, desk.space, "advice")) for rule in rules.rules],
        "thresholds": [] if "chosen" in body else _thresholds(desk, text_of(body, "rule")),
        "work": _work(desk, rules),
        "related": _related_forms(desk, rules),
        "milliseconds": round(1000.0 * (time.perf_counter() - started), 1),
    }


def _related_forms(desk: Desk, rules: RuleSet) -> dict[str, Any]:
    """Return whether typed rules have related forms (by the symmetries of the task), and which, or why not, in words.

    Forms are named by their actions if these tell them apart ("North → East, South, West"), otherwise by their texts.
    """
    if len(rules) > 1:
        return {"any": False, "words": "not with several rules: they are tried together, as they are typed"}
    (rule,) = rules.rules
    try:
        related = generalise(rule, desk.arena.relations).rules
    except LegibleError as error:  # too many forms
        return {"any": False, "words": str(error)}
    added = [form for form in related if form != rule]
    if not added:
        return {"any": False, "words": "no known symmetry of the task makes another rule from this one"}
    actions = desk.space.action_names
    if len({rule.action, *(form.action for form in added)}) == 1 + len(added):
        return {"any": True, "words": f"{actions[rule.action]} → {', '.join(actions[form.action] for form in added)}"}
    words = "; ".join(form.text(desk.space) for form in added[:MOST_NAMED])
    more = len(added) - MOST_NAMED
    return {"any": True, "words": f"{words}; and {more} more" if more > 0 else words}


def _thresholds(desk: Desk, text: str) -> list[dict[str, Any]]:
    """Return the numbers of a text of rules that sliders can move, each with the distribution of its feature."""
    sliders, offset = [], 0  # `offset` is the place in the text at which a line begins
    for line in text.split("\n"):
        for threshold in find_thresholds(line, desk.space):
            feature = desk.space[threshold.feature]
            low, high, counts = desk.distribution(threshold.feature)
            sliders.append(
                {
                    "name": feature.name,
                    "words": feature.label,
                    "value": threshold.value,
                    "start": offset + threshold.start,
                    "end": offset + threshold.end,
                    "low": low,
                    "high": high,
                    "whole": desk.is_whole(threshold.feature),
                    "counts": counts,
                }
            )
        offset += len(line) + 1  # with the line break
    return sliders


def _work(desk: Desk, rules: RuleSet) -> dict[str, Any]:
    """Return how often rules fire in recorded episodes, and what they change."""
    experiences, space = desk.recorded, desk.space
    is_fired, is_changed, guided_actions = desk.effects(rules)  # one entry per recorded step
    replaced = ""
    if space.is_discrete and is_changed.any():
        instead = _actions_in_words(space, guided_actions[is_changed].ravel())
        replaced = f"It takes {instead} instead of {_actions_in_words(space, experiences.actions[is_changed].ravel())}."
    return {
        "fired": int(is_fired.sum()),
        "changed": int(is_changed.sum()),
        "sentence": _work_sentence(experiences, is_fired, is_changed),
        "replaced": replaced,
        "first": desk.places(np.flatnonzero(is_changed)[:200]),
    }


def _actions_in_words(space: FeatureSpace, actions: NDArray[np.int64]) -> str:
    """Return the most frequent actions, with their shares unless there is only one."""
    common = Counter(actions.tolist()).most_common(MOST_REPLACED)
    if len(common) == 1:
        return space.action_names[common[0][0]]
    shares = [f"{space.action_names[action]} ({percent(times / len(actions))})" for action, times in common]
    return join_words(shares, "or")


def _work_sentence(experiences: Experiences, is_fired: NDArray[np.bool_], is_changed: NDArray[np.bool_]) -> str:
    """Return in a sentence in which shares of the recorded steps and episodes rules fire and change the action."""
    if not is_fired.any():
        return f"It never fires in {counted(experiences.n_episodes, 'recorded episode')}."
    often = f"It fires in {percent(is_fired.mean())} of {number(len(experiences))} recorded steps"
    if not is_changed.any():
        return f"{often}, and the policy already does this every time."
    share = len(np.unique(experiences.episode_ids[is_changed])) / experiences.n_episodes
    return f"{often} and changes the action in {percent(is_changed.mean())}, in {percent(share)} of the episodes."


def load_what_plays(_: None, __: int) -> None:
    """Import in a worker what it plays with; its module has imported most of that already."""
    with suppress(ImportError):  # policies that are no networks need no PyTorch
        import_module("torch")


def start_workers(engine: Engine, count: int, emit: Emit) -> None:
    """Start some workers of an engine before anything has to be played; they stay."""
    emit({"kind": "warming up"})  # ends here if something else has to be played
    for _report in engine.run(load_what_plays, None, range(count)):
        pass


def warm_up(desk: Desk, emit: Emit) -> None:
    """Play what every rule needs, and load what it is judged with, so that the verdicts on the first rules are quick.

    It is called while the user is still typing. Played episodes are stored, and a rule finds them there.
    """
    arena, stage = desk.arena, exploring_stage(desk.arena)
    workers = arena.engine.workers or 1
    start_workers(arena.engine, workers, emit)
    if desk.is_warm:
        return
    # The first figures of any rule, here of one that always holds: this loads what matches rules.
    always = Candidate(RuleSet((Rule("+", 0, ()),)), "alone")
    desk.effects(always.rule_set)
    Trial(
        arena, [always], stage, first_seed=0, most_seeds=MOST_SEEDS, on_figures=lambda *_: emit({"kind": "warming up"})
    )
    # An interval of any numbers: this loads the tests.
    gains = np.array([1.0, 2.0])
    interval_of_changed(gains, -gains, seeds=3, tail=0.01, rng_seed=0, invented=PlausibleExtremes(1.0, 1.0))
    # Unguided episodes, a few units for every worker at a time: a question that comes meanwhile waits for no more.
    setup = replace(arena.setup, rows=check_pairing(arena, stage).rows)
    record = EpisodeRecord(setup, arena.seed, stage, MOST_SEEDS, arena.runner(stage))
    arena.random_mean(stage)
    block, deadline = arena.settings.play.batch * workers, time.monotonic() + WARM_SECONDS
    while record.known < WARM_SEEDS and time.monotonic() < deadline:
        emit({"kind": "warming up"})
        record.extend(record.known + block)
    desk.is_warm = True


def _with_progress(arena: Arena, emit: Emit) -> Arena:
    """Return an arena whose progress goes to the page, now and then."""
    last_time = 0.0

    def progress(stage: str, done: int, of: int) -> None:
        nonlocal last_time
        if time.monotonic() - last_time > _PROGRESS_EVERY:
            last_time = time.monotonic()
            emit({"kind": "progress", "stage": stage, "done": done, "of": of})

    return replace(arena, progress=progress)


def try_on_bench(desk: Desk, body: Mapping[str, Any], emit: Emit) -> None:
    """Play rules in pairs until the verdict is clear, as ``legible try`` does; send figures as they come."""
    rules = desk.rules_of(body)

    def show(results: Sequence[RuleResult], space: FeatureSpace) -> None:
        emit({"kind": "figures", "rules": [_result(result, space) for result in results]})

    # Several rules of a text guide together, and so do those of a composition.
    is_single = len(rules) == 1 and "chosen" not in body
    asked = rules.rules if is_single else (rules,)
    arena = _with_progress(desk.arena, emit)
    tried = try_rule(arena, None, *asked, related=body.get("related", True) is True, on_figures=show)
    with desk.lock:
        desk.explored |= {(rules.rules, result.form): result for result in tried.rules}
    emit({"kind": "verdict", **_verdict(desk, tried)})


def _verdict(desk: Desk, tried: TryResult) -> dict[str, Any]:
    """Return the results of all rules, and notes on how they were tested."""
    return {
        **tried.to_dict(),
        "rules": [
            {**_result(result, tried.space), "claim": _earlier_claim(desk, result.rule_set)} for result in tried.rules
        ],
        "notes": [
            f"Smallest effect of interest: ±{number(tried.relevant)}. {tried.level_sentence()}",
            "Exploration: all rules are tried on the same seeds. Confirm this rule on fresh seeds before you use it.",
        ],
    }


def _earlier_claim(desk: Desk, rule_set: RuleSet) -> dict[str, Any] | None:
    """Return the result of the confirmation of these rules for the page; None if they have not been confirmed yet."""
    claim = desk.ledger.result_of([rule.text(desk.space) for rule in rule_set.rules])
    return None if claim is None else claim.to_dict()


def _result(result: RuleResult, space: FeatureSpace) -> dict[str, Any]:
    """Return the result of one rule for the page."""
    interval = None if result.interval is None else [result.interval.low, result.interval.high]
    return {
        "form": result.form,
        "count": len(result.rule_set),
        "verdict": result.verdict,
        "sentence": result.sentence(),
        "effect": result.effect,
        "error": result.error if np.isfinite(result.error) else None,
        "relevant": result.relevant if np.isfinite(result.relevant) else None,
        "interval": interval,
        "changed": result.changed,
        "seeds": result.seeds,
        "base": result.base_mean,
        "overrides": percent(result.override_rate),
        "examples": [example.text() for example in result.examples],
        "rule": result.rule_set.short_text(space),
    }


def claims_of(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the confirmations of the policy so far, and the level of the next one."""
    del body
    return {
        "claims": [claim.to_dict() for claim in desk.ledger.claims()],
        "level": number(desk.ledger.level(), 2),
        "kept": desk.ledger.is_kept,
    }


def confirm_on_bench(desk: Desk, body: Mapping[str, Any], emit: Emit) -> None:
    """Play a confirmation of rules that were explored, on seeds that nothing else uses.

    Rules are confirmed once: a repetition would be a second chance, and a second success would raise the level of the
    next confirmations. If they were confirmed before, that result is sent and nothing is played.
    """
    rules = desk.rules_of(body)
    form: Form = "with related forms" if body.get("form") == "with related forms" else "alone"
    explored = desk.explored.get((rules.rules, form))
    if explored is None:
        raise RequestError("try this rule first: exploring says what to confirm, and how many episodes that takes.")
    direction: Direction = "helps" if explored.effect > 0 else "harms"
    played = explored.rule_set
    earlier = _earlier_claim(desk, played)
    if earlier is not None:
        emit({"kind": "claim", **earlier, "is_earlier": True})
        return
    claim = desk.ledger.open([rule.text(desk.space) for rule in played.rules], direction, explored)
    planned, level = number(claim.planned), number(claim.level, 2)
    words = f"Confirming on fresh seeds until the rule has changed {planned} episodes (significance level {level})."
    emit({"kind": "note", "words": words})
    tested = confirm_rule(_with_progress(desk.arena, emit), played, claim)
    desk.ledger.close(tested)
    emit({"kind": "claim", **tested.to_dict()})


def keep_rule(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Add rules to the study, forbid them in its composition, or return them as a check for ``legible verify``.

    With the form "with related forms" all forms are forbidden or returned. A study makes them of an added rule itself.
    """
    rules, what = desk.rules_of(body), text_of(body, "what")
    if body.get("form") == "with related forms" and what != "rule" and len(rules) == 1:
        rules = generalise(rules.rules[0], desk.arena.relations)
    texts = [rule.text(desk.space) for rule in rules.rules]
    if what == "check":
        margin = relevant_effect(desk.recorded.returns, float("nan"))
        lines = check_lines(rules, desk.space, margin)
        return {"words": "Add these lines to weaknesses.toml; 'legible verify' reads it.", "text": "\n".join(lines)}
    if desk.study is None:
        raise LegibleError("there is no study to save to; make one with 'legible run ENV POLICY' and open that.")
    if what not in ("rule", "veto"):
        raise RequestError("a rule can be saved as 'rule', 'veto' or 'check'.")
    with desk.lock:
        keep_findings(desk.study)
        new = desk.study.add_rules(texts) if what == "rule" else desk.study.add_veto(texts)
    if not new:
        return {"words": "The study has this already; nothing was changed."}
    done = "Saved to the study" if what == "rule" else "Vetoed: the composition will not use it"
    return {
        "words": f"{done}. The results in the overview are from before this change; "
        f"'legible run {desk.study.folder}' brings them up to date."
    }
