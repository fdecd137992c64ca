"""Explanations: the paper's examples, a planted weakness, and sentences that claim no more than is known."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import mirror_world
from legible.environments import domain_groups
from legible.errors import LegibleError
from legible.evaluation import Confirmation, Evaluation, Sample, Verdict, evaluate
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import Setup, Unit, UnitResult, play_unit, run_units
from legible.explanation import (
    Conclusion,
    Contribution,
    Knowledge,
    WeaknessGroup,
    conclude,
    explain_weakness,
    explain_weaknesses,
    feature_groups,
    group_shares,
    group_weaknesses,
    knowledge_of,
    leave_one_out,
    stronger_rules,
)
from legible.explanation.grouping import changed_states
from legible.explanation.knowledge import summarise_knowledge
from legible.features import deciles
from legible.improvement import Improvement
from legible.mining import MinedRule, Mining
from legible.play import Experiences, collect, stage_seeds
from legible.relations import generalise, load_relations, shipped_relations
from legible.rules import Condition, Rule, RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings
from legible_envs.pacman.features import pacman_features
from mirror_world import GOOD, SPACE, USELESS, WORLD
from played_blocks import with_returns
from seen_states import seen_states

PLAY = PlaySettings(batch=16, unit_episodes=100)
SETUP = Setup(mirror_world.policy(), WORLD, (GOOD, USELESS), PLAY)
SETTINGS = EvaluationSettings(method="paper", episodes=60, confirmation_episodes=80)
RIGHT, LEFT = GOOD.rules


@pytest.fixture(scope="module")
def experiences() -> Experiences:
    return collect(mirror_world.policy(), WORLD, 60, seed=0)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(SETUP, seed=0, settings=SETTINGS)


# --- Groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ghosts", "scared"), [(2, (34, 35, 58, 59)), (4, (34, 35, 58, 59, 82, 83, 106, 107))])
def test_the_groups_of_the_papers_table(ghosts: int, scared: tuple[int, ...]) -> None:
    space = pacman_features(ghosts)
    groups = domain_groups("legible/PacmanSmall-v0", space)
    found = {group: tuple(map(space.feature_index, names)) for group, names in groups.items()}
    assert found == {"Ghosts": (0, 1, *range(14, 14 + 24 * ghosts)), "Scared": (0, 1, *scared)}


def test_shares_by_hand() -> None:
    space = pacman_features(2)
    texts = (
        "-North <- not open.north",
        "+East <- ghost1.scared & food.east",
        "+West <- ghost0.bearing.w",
        "-Stop <- true",
    )
    rules = [parse_rule(text, space) for text in texts]
    groups = domain_groups("legible/PacmanSmall-v0", space)
    assert group_shares(rules, space, groups) == {"Ghosts": 0.5, "Scared": 0.25}
    mined = [MinedRule(rule, 1.0, 0.5, 1.0, 10) for rule in rules]
    assert group_shares(mined, space, {"walls or food": ["open.*", "food.east"], "none": []}) == {
        "walls or food": 0.5,
        "none": 0.0,
    }
    assert math.isnan(group_shares([], space, {"food": ["food.*"]})["food"])


def test_groups_that_make_no_sense_are_refused(raises_saved) -> None:
    space = pacman_features(2)
    with raises_saved(LegibleError):
        group_shares([], space, {"food": ["fod.north"]})
    with raises_saved(LegibleError):
        group_shares([], space, {"food": "food.*"})
    assert domain_groups("legible/PacmanSmall-v0", SPACE) is None


def test_groups_that_features_name_themselves() -> None:
    groups = feature_groups(pacman_features(2))
    assert groups["walls"] == ("open.north", "open.south", "open.east", "open.west", "open.stop")
    assert "ghost0.bearing.n" in groups["ghost 0 bearing"]
    assert "ghost0.path.north" in groups["ghost 0 path"]
    assert feature_groups(SPACE)["luck"] == ("luck",)


# --- The parts of an explanation -------------------------------------------------------------------------------------


def paper_rule(action: int, **values: int) -> Rule:
    """Make a rule of equalities from the paper's numbers: ``paper_rule(0, f9=0)``."""
    return Rule("-", action, tuple(Condition.equals(int(name[1:]), value) for name, value in values.items()))


def test_the_papers_stronger_rules_are_found() -> None:
    """The discussion of the level "original": related rules with additional constraints."""
    space = pacman_features(4)
    turn = next(file.path for file in shipped_relations("legible/PacmanOriginal-v0") if file.name == "turn")
    weakness = generalise(paper_rule(0, f9=0, f110=0), load_relations(turn, space))
    south = paper_rule(1, f2=0, f9=0, f10=0, f11=1, f88=0, f111=0)
    west = paper_rule(3, f5=0, f10=1, f12=0, f113=0)
    unrelated = paper_rule(2, f12=0, f113=0)
    found = stronger_rules(weakness, [south, unrelated, west, *weakness.rules])
    assert {(s.mined, s.general) for s in found} == {
        (south, paper_rule(1, f10=0, f111=0)),
        (west, paper_rule(3, f12=0, f113=0)),
    }


def test_the_mined_rule_is_no_stronger_version_of_itself() -> None:
    space = pacman_features(2)
    source = parse_rule("-North <- not open.north & pacman.x <= 3", space)
    wider = parse_rule("-North <- not open.north", space)
    assert stronger_rules(RuleSet((wider,), source), [source]) == ()


def test_knowledge_by_hand(experiences: Experiences) -> None:
    right, left = knowledge_of(GOOD, experiences)
    on_left = experiences.observations[:, 0] == 1
    assert (right.status, right.kept, right.broken) == ("known", 1.0, 0.0)
    assert left.status == "unknown"
    assert left.triggered == on_left.sum()
    assert left.kept == pytest.approx((experiences.actions[on_left] == mirror_world.LEFT).mean())
    assert knowledge_of(GOOD, experiences, min_kept=0.01)[1].status == "known"
    (never,) = knowledge_of([parse_rule("+Left <- left & right", SPACE)], experiences)
    assert (never.status, never.triggered) == ("unseen", 0)


def test_leaving_out_shows_which_rule_is_missed() -> None:
    seeds = stage_seeds(3, "confirmation", 0, 60)
    right, left = leave_one_out(SETUP, GOOD, seeds)
    assert (right.rule, left.rule) == (RIGHT, LEFT)
    assert right.effect.mean == 0.0
    assert right.q == 1.0
    assert left.effect.mean > 5.0
    assert left.q < 0.001
    # The policy keeps to its own rule, so the set without the other one is as good as no guidance.
    guided, base = (play_unit(SETUP, Unit((treatment,) * 60, tuple(seeds))) for treatment in (0, -1))
    assert left.effect.mean == pytest.approx(paired(guided.returns, base.returns).mean)


# --- Weaknesses in words ---------------------------------------------------------------------------------------------


def test_the_planted_weakness_is_explained(evaluation: Evaluation, experiences: Experiences, snapshot) -> None:
    narrow = MinedRule(parse_rule("+Left <- left & wall.right", SPACE), 1.0, 0.1, 1.0, 20)
    mining = Mining((narrow,), SPACE, deciles(SPACE, experiences.observations), None, 1, {})
    played: list[int] = []
    (weakness,) = explain_weaknesses(
        SETUP, evaluation, mining, experiences, seed=0, run=partial(run_units, on_episodes=played.append)
    )
    assert sum(played) == 3 * SETTINGS.confirmation_episodes
    assert weakness.cause == "generalisation"
    assert [c.rule for c in weakness.significant_contributions] == [LEFT]
    assert weakness.advice == snapshot
    # Figures that the noise of the rewards has a part in are left out.
    figure = r"\d+(?:[.·]\d+)?[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*"
    text = re.sub(figure, lambda found: found[0] if found[0] in {"0", "95", "100"} else "#", weakness.text())
    assert text == snapshot
    assert json.loads(json.dumps(weakness.to_dict()))["stronger"][0]["mined"] == "+Left <- left & wall.right"


def test_contributions_are_played_on_held_out_seeds(evaluation: Evaluation, experiences: Experiences) -> None:
    mining = Mining((), SPACE, deciles(SPACE, experiences.observations), None, 0, {})
    seeds: set[int] = set()

    def run(setup: Setup, units: list[Unit], **options: Any) -> UnitResult:
        seeds.update(seed for unit in units for seed in unit.seeds)
        return run_units(setup, units, **options)

    explain_weaknesses(SETUP, evaluation, mining, experiences, seed=0, run=run)
    assert seeds == set(stage_seeds(0, "explanation", 0, SETTINGS.confirmation_episodes))
    assert evaluation.confirmation_blocks is not None
    assert seeds.isdisjoint(evaluation.confirmation_blocks.seeds)


def test_a_rule_that_the_policy_does_not_follow(experiences: Experiences, snapshot) -> None:
    own = verdict((LEFT,), 5.0)
    headline = explain_weakness(own, SPACE, experiences=experiences).headline
    kept = knowledge_of([LEFT], experiences)[0].kept
    assert headline == snapshot
    assert f"follows it in {100 * kept:.0f} % of " in explain_weakness(own, SPACE, experiences=experiences).text()
    assert explain_weakness(verdict((RIGHT,), 5.0), SPACE, experiences=experiences).headline == snapshot
    # A given rule without any matching state is not called a habit.
    given = replace(verdict((RIGHT,), 5.0), found_by="yours")
    assert explain_weakness(given, SPACE).headline == snapshot


def test_nothing_need_be_played(evaluation: Evaluation, experiences: Experiences) -> None:
    mining = Mining((), SPACE, deciles(SPACE, experiences.observations), None, 0, {})

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    (weakness,) = explain_weaknesses(SETUP, evaluation, mining, experiences, seed=0, leave_out=False, run=refuse)
    assert weakness.contributions == ()
    assert "gain comes from" not in weakness.text()


SAMPLE = Sample(10, 5.0, 1.0, 20.0, math.nan, math.nan, 0.25, 0.0004)
PACMAN = pacman_features(2)
WALLS = tuple(parse_rule(f"-{d} <- not open.{d.lower()}", PACMAN) for d in ("North", "East", "South", "West"))


def effect(mean: float, reach: float = 1.0, p: float = 0.001) -> Effect:
    return Effect(mean, reach / 2, mean - reach, mean + reach, p)


def verdict(rules: tuple[Rule, ...], mean: float, *, p: float = 0.01, confirmed: bool | None = True) -> Verdict:
    """Make a weakness; `confirmed` None means that held-out seeds were not played."""
    confirmation = None if confirmed is None else Confirmation(effect(mean), 0.01, None, None)
    rule_set = RuleSet(rules, rules[0])
    return Verdict(rule_set, SAMPLE, mean, p, p, 1.0, 1.0, p < 0.05, False, confirmation, bool(confirmed))


def study(*verdicts: Verdict, asked: bool = True) -> Evaluation:
    return Evaluation(SAMPLE, verdicts, EvaluationSettings(), with_returns([5.0]) if asked else None)


@pytest.mark.parametrize(
    ("cause", "p_rule", "p_generalisation"),
    [("generalisation", 0.4, 0.001), ("rule", 0.001, 0.4), ("both", 0.001, 0.001), ("unclear", 0.4, 0.4)],
)
def test_the_cause_follows_from_the_confirmation(cause: str, p_rule: float, p_generalisation: float) -> None:
    confirmation = Confirmation(effect(10.0), 0.01, effect(5.0, p=p_rule), effect(5.0, p=p_generalisation))
    assert explain_weakness(replace(verdict(WALLS, 10.0), confirmation=confirmation), PACMAN).cause == cause
    assert explain_weakness(verdict(WALLS, 10.0, confirmed=None), PACMAN).cause == "unclear"


def test_sentences_claim_no_more_than_is_known(snapshot) -> None:
    suspected = explain_weakness(verdict(WALLS, 10.0, confirmed=None, p=0.03), PACMAN)
    assert "\n".join(suspected.sentences()) == snapshot
    assert suspected.headline == snapshot
    refuted = explain_weakness(verdict(WALLS, 10.0, confirmed=False), PACMAN)
    assert refuted.sentences()[0] == snapshot


def test_an_unconfirmed_weakness_claims_no_gain() -> None:
    helps = Confirmation(effect(10.0), 0.2, effect(5.0, p=0.001), effect(5.0, p=0.001))
    doubted = replace(verdict(WALLS, 10.0, confirmed=False), confirmation=helps)
    text = explain_weakness(doubted, PACMAN).text()
    assert "not confirmed" in text
    assert "gain" not in text
    assert "alone gains" in explain_weakness(replace(doubted, is_confirmed=True), PACMAN).text()


def test_a_searched_rule_without_related_forms() -> None:
    helps = Confirmation(effect(10.0), 0.01, effect(10.0), effect(0.0, p=1.0))
    searched = replace(verdict(WALLS, 10.0), confirmation=helps, found_by="searched")
    alone = replace(searched, treatment=RuleSet(WALLS[:1], WALLS[0]))
    assert "related forms add nothing significant" in explain_weakness(searched, PACMAN).text()
    assert "related forms" not in explain_weakness(alone, PACMAN).text()
    assert "its own rule" in explain_weakness(replace(alone, found_by="mined"), PACMAN).text()


def test_effects_use_the_words_of_the_objective(snapshot) -> None:
    found = verdict(WALLS, 0.25)
    found = replace(found, confirmation=Confirmation(Effect(0.25, 0.05, 0.15, 0.35, 0.001), 0.01, None, None))
    assert explain_weakness(found, PACMAN, objective="success").sentences()[0] == snapshot
    assert explain_weakness(found, PACMAN, objective="cost").sentences()[0] == snapshot
    assert "mean return" not in explain_weakness(found, PACMAN, objective="success").text()


def test_titles_hold_the_whole_rule(snapshot) -> None:
    conditions = "food.north & not ghost0.path.north & not ghost1.path.north & not ghost0.scared & open.north"
    assert explain_weakness(verdict((parse_rule(f"+North <- {conditions}", PACMAN),), 3.0), PACMAN).title == snapshot


def test_conditions_that_nearly_always_hold_hardly_matter(snapshot) -> None:
    found = verdict((parse_rule("+East <- pacman.x <= 90", PACMAN),), 3.0)
    always = explain_weakness(replace(found, sample=replace(found.sample, fired=0.97)), PACMAN)
    assert always.amounts_to == "always going east"
    assert always.title == "does not always go east, whatever the situation"
    assert always.in_short == snapshot
    assert explain_weakness(found, PACMAN).amounts_to == ""  # they hold in a quarter of the steps
    walls = verdict(WALLS, 3.0)
    assert explain_weakness(replace(walls, sample=replace(walls.sample, fired=1.0)), PACMAN).amounts_to == ""


def test_rules_that_can_stand_in_for_each_other(snapshot) -> None:
    spare = [Contribution(rule, effect(0.2, p=0.4), 0.6) for rule in WALLS]
    assert explain_weakness(verdict(WALLS, 10.0), PACMAN, contributions=spare).text() == snapshot
    missed = [replace(c, effect=effect(i + 1.0), q=0.01) for i, c in enumerate(spare)]
    assert explain_weakness(verdict(WALLS, 10.0), PACMAN, contributions=missed).text() == snapshot


def test_the_order_of_weaknesses() -> None:
    small, large = verdict(WALLS[:1], 3.0), verdict(WALLS[1:2], 30.0)
    narrower = verdict((parse_rule("-East <- not open.east & food.east", PACMAN),), 20.0)
    likely = verdict(WALLS[2:3], 50.0, confirmed=False, p=0.001)
    doubtful = verdict(WALLS[3:4], -4.0, confirmed=False, p=0.001)
    nothing = verdict((parse_rule("+Stop <- true", PACMAN),), 1.0, confirmed=None, p=0.4)
    found = study(small, doubtful, narrower, likely, large, nothing)
    groups = group_weaknesses(found)
    assert [group.front for group in groups] == [large, small, likely]
    assert [group.others for group in groups] == [(narrower,), (), ()]
    assert [group.is_confirmed for group in groups] == [True, True, False]
    assert group_weaknesses(study(nothing)) == ()


def states(*rows: tuple[str, str], count: int = 20) -> Experiences:
    """Experiences of which every kind of state, what is open there and what was done, occurs `count` times."""
    observations = np.zeros((count * len(rows), len(PACMAN)), np.float32)
    actions = np.repeat([PACMAN.action_index(action) for _, action in rows], count)
    for place, (opened, _) in enumerate(rows):
        observations[place * count : (place + 1) * count, PACMAN.feature_index(f"open.{opened}")] = 1.0
    scores = np.zeros((len(observations), len(PACMAN.actions)))
    return seen_states(observations, actions, scores, np.arange(len(observations)), space=PACMAN)  # one an episode


def test_rule_sets_that_change_the_same_states_are_one_weakness(snapshot) -> None:
    """In states where only north is open it goes east, where only south is open it stops."""
    seen = states(("north", "East"), ("south", "Stop"), ("west", "West"), ("west", "West"))
    wall = verdict((parse_rule("-East <- not open.east", PACMAN),), 20.0)
    way = verdict((parse_rule("+North <- open.north", PACMAN),), 30.0)
    stop = verdict((parse_rule("-Stop <- open.south", PACMAN),), 10.0)
    assert changed_states(wall.rule_set, seen).sum() == 20
    assert (changed_states(wall.rule_set, seen) == changed_states(way.rule_set, seen)).all()
    found = study(wall, way, stop)
    assert [group.verdicts for group in group_weaknesses(found, seen)] == [(way, wall), (stop,)]
    assert len(group_weaknesses(found)) == 3  # what they change is not known
    assert conclude(found, weaknesses=group_weaknesses(found, seen)).text == snapshot
    card = explain_weakness(group_weaknesses(found, seen)[0], PACMAN)
    assert card.sentences()[-1] == snapshot
    assert card.to_dict()["same_weakness"] == [["-East <- not open.east"]]


def test_an_unconfirmed_rule_set_does_not_join_a_confirmed_weakness() -> None:
    sure, doubted = verdict(WALLS[:1], 5.0), verdict(WALLS[:1], 4.0, confirmed=False)
    assert group_weaknesses(study(sure, doubted)) == (WeaknessGroup(sure),)


@pytest.mark.parametrize(
    ("kept", "is_named"),
    [
        ((93.7, 91.4, 92.2, 89.5), False),  # on both sides of 90 %, but no story
        ((99.2, 98.7, 90.0, 88.0), False),  # no step between the last two
        ((98.6, 98.0, 97.0, 40.0), True),
        ((98.0, 70.0, 97.0, 97.0), True),
    ],
)
def test_only_large_and_significant_differences_are_named(kept: tuple[float, ...], is_named: bool, snapshot) -> None:
    rule_set = RuleSet(WALLS, WALLS[0])
    found = [
        Knowledge(rule, 1000, share / 100, "known", math.sqrt(share * (100 - share) / 1e4 / 1000))
        for rule, share in zip(WALLS, kept, strict=True)
    ]
    assert summarise_knowledge(found, rule_set, PACMAN) == (snapshot if is_named else "")
    few = [replace(k, triggered=6, error=0.3) for k in found]
    assert summarise_knowledge(few, rule_set, PACMAN) == ""


def test_states_of_one_episode_do_not_count_as_many() -> None:
    wall = parse_rule("-East <- not open.east", PACMAN)
    seen = states(("north", "East"), ("south", "Stop"), count=50)
    by_state = knowledge_of([wall], seen)[0]
    assert (by_state.kept, round(by_state.error, 3)) == (0.5, 0.05)
    as_two = replace(seen, episode_ids=np.repeat([0, 1], 50))
    assert round(knowledge_of([wall], as_two)[0].error, 3) == round(math.sqrt(2 * 25**2) / 100, 3)


# --- A study in a sentence -------------------------------------------------------------------------------------------


def improvement(change: Effect, rules: tuple[Rule, ...] = WALLS) -> Improvement:
    rule_set, final = RuleSet(rules), with_returns([5.0] * 2, [5.0 + change.mean] * 2)
    return Improvement((rule_set,), rule_set, (), SAMPLE, change, final, ImprovementSettings())


@pytest.mark.parametrize(
    "found",
    [
        study(),
        study(verdict(WALLS, 1.0, confirmed=None, p=0.3), verdict(WALLS[:1], 1.0, confirmed=None, p=0.3)),
        study(verdict(WALLS, 1.0, confirmed=False)),
        study(verdict(WALLS, 1.0, confirmed=None), verdict(WALLS, 1.0, confirmed=None, p=0.5), asked=False),
        study(verdict(WALLS, 1.0), verdict(WALLS, 1.0, confirmed=None, p=0.5)),
    ],
    ids=["nothing mined", "nothing found", "not confirmed", "not asked", "weak"],
)
def test_what_was_found_in_a_sentence(found: Evaluation, snapshot) -> None:
    assert conclude(found).text == snapshot


def test_what_was_gained_in_a_sentence(snapshot) -> None:
    found = study(verdict(WALLS, 1.0), verdict(WALLS, 1.0))

    def gained(*arguments: object) -> Conclusion:
        return conclude(found, improvement(*arguments))

    four = gained(effect(4.0))
    assert "\n".join((four.headline, *four.sentences)) == snapshot
    assert not four.is_bad
    assert gained(effect(4.0), WALLS[:1]).headline == snapshot
    assert gained(effect(0.5)).text == snapshot
    assert gained(effect(-4.0)).text == snapshot
    assert gained(effect(0.0), ()).text == snapshot
