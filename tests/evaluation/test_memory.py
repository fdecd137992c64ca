"""Guided episodes of rules with a memory are the same from their start and from the first step that is changed."""

import numpy as np

from legible.environments import EnvironmentSpec, map_features, with_features
from legible.evaluation.recorded import EpisodeRecord
from legible.evaluation.units import Setup, Unit, play_unit, run_units
from legible.features import FeatureSpace
from legible.play import adapt_policy
from legible.policies import load_policy
from legible.rules import CompiledRules, RuleSet, parse_rule
from legible.settings import PlaySettings

NAMES = FeatureSpace.from_dict({"derived": {"before": "last_action", "since_north": "since(last_action == North)"}})


def test_episodes_go_on_from_recorded_states_with_their_memory() -> None:
    plain = EnvironmentSpec("legible/PacmanSmall-v0")
    env = plain.make()
    mapped = map_features(env, NAMES)
    env.close()
    spec, space = with_features(plain, mapped), mapped.space
    weights = np.random.default_rng(0).normal(size=(space.n_own, 5))
    policy = adapt_policy(load_policy(lambda o: o @ weights, output="values", n_features=None, n_actions=5), spec)
    rules = RuleSet((parse_rule("+East <- since_north > 4", space),))
    setup = Setup(policy, spec, (rules,), PlaySettings(epsilon=0.5, batch=8, unit_episodes=8, step_limit=60), rows=8)
    record = EpisodeRecord(setup, 0, "racing", 8, run_units)
    assert record.extend(8) == 8
    ((_, part),) = record.parts(0, 8)
    matched = CompiledRules.compile([rules]).matches(part.observations)[:, 0]
    first = [
        int(np.argmax(matched[a:b])) if matched[a:b].any() else 0
        for a, b in zip(part.starts, part.starts[1:], strict=False)
    ]
    assert max(first) > 0
    nothing = np.zeros(8, np.int64)
    starts = record.starts_at(np.arange(8), np.array(first, np.int64), nothing, nothing)
    assert starts is not None
    seeds = tuple(record.seeds.tolist())
    whole, later = play_unit(setup, Unit((0,) * 8, seeds)), play_unit(setup, Unit((0,) * 8, seeds, starts))
    assert np.array_equal(whole.returns, later.returns)
    assert np.array_equal(whole.lengths, later.lengths)
    assert whole.fired.sum() > 0
