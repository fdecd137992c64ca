from dataclasses import replace

import numpy as np

import legible
import mirror_world
import seen_worlds
import steering_world
import toy_environments
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.policies import load_policy
from legible.rules import parse_rule
from legible.study import Study
from legible.workbench.arena import WarmEngine
from small_studies import WORLD, small_study

GOOD, BAD, LUCK = "+Left <- left", "+Right <- left", "+Stay <- luck > 2.5"


def try_here(policy, *rules, world=WORLD, **options):
    return legible.try_rule(world, policy, *rules, **{"engine": InProcess(), "relations": "none", **options})


def test_a_rule_that_helps_and_its_mirror_image(policy_file) -> None:
    found = try_here(policy_file, GOOD, relations=mirror_world.mirror())
    alone, related = found.rules
    assert (alone.verdict, related.verdict) == ("helps", "helps")
    assert (alone.form, related.form, len(related.rule_set)) == ("alone", "with related forms", 2)
    assert found.verdict == "helps"
    assert found.effect == alone.effect
    low, high = found.interval
    assert 0 < low < found.effect < high
    assert alone.changed == 200, "the first look is enough"
    assert 0 < alone.override_rate < alone.fired < 1


def test_a_rule_that_harms_says_where_it_fires(policy_file) -> None:
    found = try_here(policy_file, "-Right <- right", relations="none")
    assert found.verdict == "harms"
    assert found.first.interval.high < 0
    assert [example.values for example in found.first.examples] == [{"right": 1.0}] * 3
    assert {example.action for example in found.first.examples} == {"Right"}


def test_a_rule_that_changes_nothing(policy_file) -> None:
    never = try_here(policy_file, "+Stay <- luck > 9")
    already = try_here(policy_file, "+Right <- right & not wall.left")
    assert never.verdict == already.verdict == "too few changed episodes"
    assert "never held" in never.first.sentence()
    assert "already does" in already.first.sentence()
    assert never.first.seeds <= 1100, "it is given up early"


def test_a_rare_rule_has_too_few_changed_episodes(policy_file) -> None:
    found = try_here(policy_file, LUCK, most_seeds=800)
    assert found.verdict == "too few changed episodes"
    assert found.interval is None
    assert 0 < found.first.changed < 200
    assert found.first.seeds == 800


def test_no_effect_means_within_the_smallest_effect_of_interest(policy_file) -> None:
    found = try_here(policy_file, LUCK, relevant=5.0, most_seeds=9000)
    assert found.verdict == "no effect"
    assert found.first.interval.lies_within(5.0)


def test_looks_that_end_without_a_clear_effect_are_undecided(policy_file) -> None:
    found = try_here(policy_file, LUCK, relevant=1e-6, most_changed=200, most_seeds=9000)
    assert found.verdict in ("undecided", "harms")
    assert len(found.plan.looks) == 1


def test_without_time_there_is_no_verdict(policy_file) -> None:
    found = try_here(policy_file, LUCK, minutes=1e-9)
    assert found.verdict == "too few changed episodes"
    assert found.first.seeds <= 300, "one piece of work is finished"


def test_several_rules_are_corrected_for_their_number(policy_file) -> None:
    one, two = try_here(policy_file, GOOD), try_here(policy_file, GOOD, "-Right <- right")
    assert two.plan.tail == one.plan.tail / 2
    assert two.rules[0].interval.low < one.first.interval.low


def test_confirmation_uses_seeds_that_no_other_rule_sees(policy_file) -> None:
    first = try_here(policy_file, GOOD, confirm=True)
    again = try_here(policy_file, GOOD, confirm=True)
    explored = try_here(policy_file, GOOD)
    assert first.is_fresh
    assert first.effect == again.effect != explored.effect
    examples = [{example.seed for example in found.first.examples} for found in (first, explored)]
    assert not examples[0] & examples[1]


def test_another_rule_uses_the_unguided_episodes_again(policy_file, cache) -> None:
    first = try_here(policy_file, GOOD)
    files = set(cache.rglob("unguided/*.npz"))
    second = try_here(policy_file, "-Right <- right")
    assert not first.reused
    assert second.reused
    assert files
    assert files <= set(cache.rglob("unguided/*.npz"))
    uncached = try_here(policy_file, "-Right <- right", cache=False)
    assert uncached.rules == second.rules, "to the bit"


def test_another_policy_never_gets_cached_episodes(policy_file) -> None:
    """It acts differently only in states that the first steps of the fingerprint may not meet."""
    network = load_policy(policy_file)
    last = network.layers[-1]
    other = replace(network, layers=(*network.layers[:-1], replace(last, bias=last.bias + np.float32([0, -30, 0]))))
    try_here(network, GOOD)
    assert not try_here(other, GOOD).reused


def test_figures_are_preliminary_before_the_first_look(policy_file) -> None:
    shown = []
    try_here(policy_file, GOOD, on_figures=lambda results, _: shown.append(results[0]))
    assert [result.verdict for result in shown] == ["preliminary"] * 3 + ["helps"]
    assert shown[0].seeds == 24
    assert shown[0].interval is None


def test_the_engine_decides_nothing(policy_file) -> None:
    inline, warm = try_here(policy_file, GOOD), try_here(policy_file, GOOD, engine=WarmEngine(1, 0.05), cache=False)
    assert inline.rules == warm.rules


def test_continuous_actions() -> None:
    policy = steering_world.policy(steering_world.Steering)
    spec = steering_world.spec(steering_world.Steering)
    probe = legible.workbench.open_arena(spec, policy, engine=InProcess())
    rules = [f"+{name} <- {probe.space.names[0]} > 0" for name in probe.space.action_names]
    found = try_here(policy, *rules, world=spec)
    assert {result.verdict for result in found.rules} & {"helps", "harms"}


def test_pictures_and_dictionaries() -> None:
    pictures = EnvironmentSpec("seen_worlds:PictureWorld")
    seen = try_here(
        seen_worlds.PictureNetwork(), "+action1 <- column > 5.5", world=pictures, features="info:row,column"
    )
    assert seen.verdict == "helps"
    goals = EnvironmentSpec("seen_worlds:GoalWorld")
    probe = legible.workbench.open_arena(goals, seen_worlds.GoalPolicy(), engine=InProcess())
    column = next(name for name in probe.space.names if name.startswith("desired_goal"))
    found = try_here(seen_worlds.GoalPolicy(), f"+{probe.space.action_names[1]} <- {column} > 0.5", world=goals)
    assert found.verdict == "helps"


def test_irreproducible_seeds_are_refused(raises_saved) -> None:
    policy = toy_environments.Constant(1.0, 0.0, n_features=2)
    with raises_saved(LegibleError):
        try_here(policy, "+action0 <- f0 > 0", world=EnvironmentSpec("unseeded_world:UnseededWorld"))


def test_wrong_rules_are_refused(policy_file, raises_saved) -> None:
    with raises_saved(LegibleError):
        try_here(policy_file, "+Up <- left")
    with raises_saved(LegibleError):
        try_here(policy_file)


def test_a_rule_is_added_to_a_study(study_copy, policy_file, raises_saved) -> None:
    study = Study.open(study_copy, engine=InProcess(), trust=True)
    before = study.evaluation
    found = legible.try_rule(study, None, "-Right <- left", save=study_copy, trust=True, engine=InProcess())
    assert found.reused, "seeds of the study's race"
    changed = Study.open(study_copy, engine=InProcess(), trust=True)
    assert changed.rule_texts == ("-Right <- left",)
    assert not changed.has("evaluation")
    assert changed.has("mining")
    tested = {rule for verdict in changed.evaluate().verdicts for rule in verdict.rule_set.rules}
    assert parse_rule("-Right <- left", mirror_world.SPACE) in tested
    assert len(changed.evaluation.verdicts) >= len(before.verdicts)
    with raises_saved(LegibleError):
        try_here(mirror_world.best_policy(), "-Right <- left", save=study_copy, trust=True)


def test_texts(policy_file, snapshot) -> None:
    found = try_here(policy_file, GOOD)
    assert "It helps" in repr(found)
    assert "<table>" in found._repr_html_()
    assert sorted(found.to_dict()) == snapshot
    assert sorted(found.to_dict()["rules"][0]) == snapshot


def test_a_study_is_made_with_small_study(tmp_path, policy_file) -> None:
    study = small_study(tmp_path / "s", policy_file)
    assert study.add_rules([GOOD]) == (GOOD,)
    assert study.add_rules([GOOD]) == ()
