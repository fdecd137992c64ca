"""What a user wants to know first: the way of playing, reproducible seeds, hidden failures, own rules, budgets."""

from dataclasses import replace

import numpy as np
import pytest

import hidden_worlds
import mirror_world
import unseeded_world
from legible.environments import UnfitEnvironmentError
from legible.explanation import conclude
from legible.policies import load_policy
from legible.settings import StudySettings
from legible.study.budget import fit_to_ladder, fit_to_minutes, scaled
from legible.study.estimate import Rate, estimate
from study.studies import make_study, open_study, settings_of

TINY = settings_of(
    episodes=40,
    mining={"importance": "none"},
    play={"batch": 8, "unit_episodes": 40},
    evaluation={"race_seeds": 64, "confirmation_seeds": 300, "confirmation_changes": 200},
    search={"budget": 2000},
    improvement={"episodes": 40, "final_episodes": 100, "beginnings": 1},
    references={"episodes": 60, "quoted": 1},
    mistakes={"when": "never"},
)


def values_of(rows: np.ndarray) -> np.ndarray:
    return np.stack([rows[:, 1], -rows[:, 1]], axis=1)


def test_a_policy_that_is_better_sampled_is_told_with_the_option(tmp_path, snapshot) -> None:
    study = make_study(tmp_path, hidden_worlds.WALK, hidden_worlds.hesitant(), settings=TINY)
    study.run()
    way = study.references.other_way
    assert way is not None
    assert (way.reference.way, way.beats_policy) == ("sampled", True)
    assert study.conclusion.headline.startswith("Sampled actions suit this policy")
    assert "add --stochastic" in study.conclusion.headline
    facts = study.first_facts
    assert [one.kind for one in facts.baselines] == ["random", "constant", "constant", "way"]
    assert facts.truncated == 1.0
    # Sampled, it has nothing to gain from greedy play.
    sampled = replace(TINY, play=replace(TINY.play, sample=True))
    other = make_study(tmp_path / "sampled", hidden_worlds.WALK, hidden_worlds.hesitant(), settings=sampled)
    other.run()
    assert other.references.other_way.reference.way == "greedy"
    assert not other.conclusion.headline.startswith("Greedy actions")


def test_seeds_that_are_not_reproducible_are_refused(tmp_path, snapshot, monkeypatch) -> None:
    # One study in a hundred confirms something here by chance (2 of 200 were counted; the level is 5 %).
    monkeypatch.setattr(unseeded_world, "GENERATOR", np.random.default_rng(1))
    policy = load_policy(values_of, output="values", n_features=2, n_actions=2)
    study = make_study(tmp_path / "s", "unseeded_world:UnseededWorld", policy, settings=TINY)
    with pytest.raises(UnfitEnvironmentError) as refused:
        study.run()
    assert str(refused.value) == snapshot
    unpaired = TINY.updated({"evaluation": {"method": "unpaired", "episodes": 60, "confirmation_episodes": 60}})
    study = make_study(tmp_path / "u", "unseeded_world:UnseededWorld", policy, settings=unpaired)
    study.run()
    assert not study.evaluation.confirmed
    assert any("independent samples" in note for note in study.evaluation.notes)


def test_a_time_limit_that_hides_failures(tmp_path, snapshot) -> None:
    policy = load_policy(values_of, output="values", n_features=2, n_actions=2)
    study = make_study(tmp_path, hidden_worlds.DRIFT, policy, settings=TINY)
    study.run()
    probe = study.time_limit_probe
    assert (probe.limit, probe.longer, probe.truncated) == (20, 80, 1.0)
    assert (probe.episodes, probe.ended, probe.length) == (60, 60, 41.0)
    assert probe.sentence() == snapshot
    assert probe.sentence() in study.conclusion.text
    assert open_study(tmp_path, policy=policy).time_limit_probe == probe


def test_own_rules_are_judged_whatever_the_race_says(tmp_path) -> None:
    rules = ["+Left <- left", "-Right <- right", "+Stay <- luck > 20"]
    study = make_study(
        tmp_path,
        mirror_world.WORLD,
        mirror_world.policy(),
        rules=rules,
        relations=mirror_world.mirror(),
        settings=TINY.updated({"evaluation": {"confirmation_seeds": 1000}}),
    )
    found = {(one.rule, one.form): one for one in study.do("own rules").rules}
    assert found["+Left <- left", "alone"].verdict == "helps"
    assert found["-Right <- right", "alone"].verdict == "harms"
    assert found["-Right <- right", "alone"].effect.high < 0
    rare = found["+Stay <- luck > 20", "alone"]
    assert (rare.verdict, rare.effect.changed) == ("too few changed episodes", 0)
    assert {form for _, form in found} == {"alone", "with related forms"}
    assert all(one.rule in text for one, text in zip(found.values(), study.own_rules.sentences(), strict=True))


def test_negligible_effects_are_no_weaknesses(tmp_path) -> None:
    whole = TINY.updated({"evaluation": {"relevant": "0", "race_seeds": 200, "confirmation_seeds": 1000}})
    arguments = {"relations": mirror_world.mirror(), "rules": ["+Left <- left"]}
    every = make_study(tmp_path / "a", mirror_world.WORLD, mirror_world.policy(), settings=whole, **arguments)
    assert every.evaluate().confirmed
    assert every.evaluation.settings.smallest_effect == 0.0
    big = whole.updated({"evaluation": {"relevant": "1000"}})
    none = make_study(tmp_path / "b", mirror_world.WORLD, mirror_world.policy(), settings=big, **arguments)
    assert none.evaluate().settings.smallest_effect == 1000.0
    assert not none.evaluation.confirmed
    assert "smallest effect of interest" in conclude(none.evaluation).text
    # Rules that cannot reach the size are dropped on the first rungs.
    assert none.evaluation.steps < every.evaluation.steps


def test_budgets_are_scaled_and_kept(tmp_path) -> None:
    settings = StudySettings()
    quarter = scaled(settings, 0.25, 1_000_000)
    assert (quarter.episodes, quarter.search.budget, quarter.improvement.final_episodes) == (150, 250_000, 250)
    assert quarter.evaluation.confirmation_changes >= 200
    assert (quarter.evaluation.most_raced, quarter.sources) == (0, settings.sources)
    tiny = scaled(settings, 0.01, 1_000_000)
    assert (tiny.evaluation.most_raced, tiny.evaluation.rung_changes) == (6, 8)
    assert "searched" not in tiny.sources
    assert scaled(settings, 1e-6, 1000).references.episodes == 10
    study = make_study(tmp_path, hidden_worlds.WALK, hidden_worlds.hesitant(), settings=settings)
    slow, fast = Rate(1.0, 10.0), Rate(1e6, 1e7)
    assert fit_to_ladder(study, fast, 600.0) == 0
    assert study.settings == settings
    assert fit_to_ladder(study, slow, 600.0) == 3
    lowered = study.settings
    assert lowered.episodes < settings.episodes
    assert open_study(tmp_path, policy=hidden_worlds.hesitant()).settings == lowered
    factor = fit_to_minutes(study, Rate(100.0, 1000.0), 300.0)
    assert 1e-3 < factor < 50.0
    planned = estimate(study.setup(), study.settings, study.engine, rate=Rate(100.0, 1000.0)).seconds
    assert planned == pytest.approx(300.0, rel=0.1)
    assert study.nominal_settings == settings
