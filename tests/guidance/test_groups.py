"""Algorithm 1 in groups of choices: what rules do to actions of several parts and to continuous ones, by hand."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from legible.errors import LegibleError
from legible.features import Action, ActionGroup, Feature, FeatureSpace, Regions
from legible.guidance import GuidedChooser, GuidedEnv, GuidedPolicy, JointIntervention
from legible.guidance.intervention import intervene
from legible.play import PolicyChooser, adapt_policy
from legible.policies import load_policy
from legible.rules import RuleSet, parse_rule
from legible.streams import policy_keys

NAMES = ("left", "straight", "right")
SPACE = FeatureSpace(
    (Feature("x"), Feature("y")),
    tuple(Action(f"{group}.{name}") for group in ("steer", "lean") for name in NAMES),
    (
        ActionGroup("steer", 0, 3, Regions(-1.0, 1.0, (-0.25, 0.25), (-0.75, 0.0, 0.75))),
        ActionGroup("lean", 3, 3, Regions(-2.0, 2.0, (-1.0, 0.5), (-1.5, 0.0, 1.0))),
    ),
)
# It steers by x and leans by y.
FOLLOWS = load_policy(lambda o: o, output="actions", n_features=2)


def rules(*texts: str) -> RuleSet:
    return RuleSet(tuple(parse_rule(text, SPACE) for text in texts))


def guided(*texts: str, **options: object) -> GuidedPolicy:
    return GuidedPolicy(FOLLOWS, rules(*texts), SPACE, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "options", "state", "action"),
    [
        (["+steer.left <- x > 0.5"], {}, (0.3, -0.7), (0.3, -0.7)),  # no rule triggers
        (["+steer.left <- x > 0"], {}, (0.9, -0.7), (-0.75, -0.7)),  # the typical action of the region
        (["+steer.right <- x > 0"], {}, (0.9, 0.0), (0.9, 0.0)),  # already there
        (["+steer.straight <- x > 0"], {"enforce": "nearest"}, (0.9, 0.0), (0.25, 0.0)),
        # The middle reaches from -1 to 0.5: a blocked action moves to the nearer neighbour, the lower of equals.
        (["-lean.straight <- x > 0"], {}, (0.9, -0.5), (0.9, -1.5)),
        (["-lean.straight <- x > 0"], {}, (0.9, 0.0), (0.9, 1.0)),
        (["-lean.straight <- x > 0"], {}, (0.9, -0.25), (0.9, -1.5)),
        (["-lean.right <- x > 0"], {}, (0.9, 2.0), (0.9, 0.0)),
        # Two positive rules of one group contradict each other; the other group has exactly one.
        (["+steer.left <- x > 0", "+steer.right <- x > 0", "+lean.left <- x > 0"], {}, (0.1, 0.0), (0.1, -1.5)),
        (["+steer.left <- x > 0", "-steer.left <- x > 0"], {"precedence": "negative"}, (0.9, 0.0), (0.9, 0.0)),
    ],
)
def test_guided_actions_by_hand(texts: list[str], options: dict[str, str], state: tuple, action: tuple) -> None:
    found = guided(*texts, **options).predict(np.array(state, np.float32))[0]
    assert found.tolist() == np.float32(action).tolist()


def test_scores_of_a_guided_policy_are_blocked_within_the_group() -> None:
    scores = guided("-steer.right <- x > 0").scores(np.array([[0.5, 0.0]], np.float32))[0]
    assert scores[2] == -np.inf
    assert np.isfinite(scores[[0, 1, 3, 4, 5]]).all()


def test_an_explanation_describes_every_part(snapshot) -> None:
    found = guided("+steer.left <- x > 0").explain([0.9, -0.7])
    assert isinstance(found, JointIntervention)
    assert found.changed
    assert found.wanted.tolist() == [np.float32(0.9), np.float32(-0.7)]
    assert found.action.tolist() == [-0.75, np.float32(-0.7)]
    assert [(part.wanted, part.action, part.changed) for part in found.parts] == [(2, 0, True), (3 + 1, 3 + 1, False)]
    assert str(found) == snapshot


class Slope(gymnasium.Env):
    """Rewards nothing and reports the action in its infos."""

    observation_space = spaces.Box(-2.0, 2.0, (2,))
    action_space: spaces.Space = spaces.Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32))
    shown = np.array([0.9, -0.7], np.float32)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        return self.shown, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.shown, 0.0, False, False, {"did": action}


def test_in_a_guided_environment_rules_have_the_last_word_on_any_action(tmp_path, raises_saved) -> None:
    env = GuidedEnv(Slope(), guided("-steer.left <- x > 0"), log=tmp_path / "log.jsonl")
    env.reset(seed=3)
    # The policy itself would steer right; the user's action is moved to the neighbour that is nearer to it.
    assert env.step(np.array([-0.5, 1.5], np.float32))[4]["did"].tolist() == [0.0, 1.5]
    assert env.step(np.array([0.5, 1.5], np.float32))[4]["did"].tolist() == [0.5, 1.5]
    with raises_saved(LegibleError):
        env.step(np.array([5.0, 0.0], np.float32))
    env.close()
    (line,) = [json.loads(text) for text in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert line["wanted"] == {"steer": -0.5, "lean": 1.5}
    assert line["done"] == {"steer": 0.0, "lean": 1.5}
    assert list(line["parts"]) == ["steer"]
    assert line["parts"]["steer"]["blocked"] == ["steer.left"]


# --- Whole numbers ---------------------------------------------------------------------------------------------------

GEARS = FeatureSpace(
    (Feature("x"),),
    tuple(Action(name) for name in ("gear.1", "gear.2", "gear.3", "light.off", "light.on")),
    (ActionGroup("gear", 0, 3), ActionGroup("light", 3, 2)),
)


class Driver:
    """Log-probabilities of three gears and two lights: 0.2, 0.5, 0.3 and 0.6, 0.4."""

    action_space = spaces.MultiDiscrete([3, 2])
    observation_space = spaces.Box(-1, 1, (1,))
    n_features, n_actions, kind, recurrent, stochastic, has_part_scores = 1, 0, "none", False, True, True

    def part_scores(self, observations):
        return np.tile(np.log([0.2, 0.5, 0.3, 0.6, 0.4]), (len(observations), 1))

    def predict(self, observation, state=None, episode_start=None, deterministic=True):  # noqa: ARG002
        return np.tile([1, 0], (len(observation), 1)), state

    def scores(self, observations):  # noqa: ARG002 (there are none)
        raise AssertionError


def test_parts_of_whole_numbers_are_guided_each_in_their_group() -> None:
    blocked = GuidedPolicy(Driver(), [parse_rule("-gear.2 <- x > 0", GEARS)], GEARS)
    assert blocked.predict(np.array([[0.5], [-0.5]]))[0].tolist() == [[2, 0], [1, 0]]
    enforced = GuidedPolicy(Driver(), [parse_rule("+light.on <- x > 0", GEARS)], GEARS)
    assert enforced.predict(np.array([0.5]))[0].tolist() == [1, 1]
    # Probabilities of the group are renormalised, those of the other stay.
    likely = np.exp(blocked.scores(np.array([[0.5]], np.float32)))[0]
    np.testing.assert_allclose(likely, [0.4, 0.0, 0.6, 0.6, 0.4], atol=1e-12)


def test_parts_are_drawn_each_from_its_own_stream_whatever_the_batch() -> None:
    policy, n = adapt_policy(Driver(), space=GEARS), 4000
    observations, seeds = np.zeros((n, 1), np.float32), list(range(n))
    chooser = PolicyChooser(policy, seeds, sample=True)
    drawn, _ = chooser(observations, np.arange(n), np.zeros(n, np.int64))
    again, _ = chooser(observations[:7], np.arange(7), np.zeros(7, np.int64))
    assert (drawn[:7] == again).all()
    shares = [(drawn[:, 0] == value).mean() for value in range(3)] + [(drawn[:, 1] == 1).mean()]
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3, 0.4], atol=0.03)
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.05


def test_a_rule_of_one_group_does_not_disturb_the_random_choices_of_another() -> None:
    policy, n = adapt_policy(Driver(), space=GEARS), 500
    rule_sets = [RuleSet((parse_rule("+gear.1 <- x > -1", GEARS),))]
    observations, steps = np.zeros((n, 1), np.float32), np.zeros(n, np.int64)
    alone, guided_too = (
        GuidedChooser(policy, rule_sets, [which] * n, range(n), epsilon=0.5, epsilon_when_guided=False)(
            observations, np.arange(n), steps
        )[0]
        for which in (-1, 0)
    )
    assert (alone[:, 1] == guided_too[:, 1]).all()
    assert (guided_too[:, 0] == 0).all()


# --- Chance ----------------------------------------------------------------------------------------------------------


class Noisy:
    """Continuous actions around x and y, drawn with what it is handed."""

    action_space = spaces.Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32))
    observation_space = spaces.Box(-2, 2, (2,))
    n_features, n_actions, kind, recurrent, stochastic = 2, 0, "none", False, True

    def predict(self, observation, state=None, episode_start=None, deterministic=True, *, rng=None):  # noqa: ARG002
        noise = 0.0 if deterministic else rng.standard_normal(observation.shape)
        drawn = observation + np.asarray(noise, np.float32)
        return np.clip(drawn, self.action_space.low, self.action_space.high), state

    def scores(self, observations):  # noqa: ARG002 (there are none)
        raise AssertionError


def test_continuous_actions_are_drawn_before_they_are_guided_from_streams_of_their_episodes() -> None:
    policy, n = adapt_policy(Noisy(), space=SPACE), 2000
    observations, keys, steps = np.zeros((n, 2), np.float32), policy_keys(range(n)), np.arange(n) % 5
    drawn = policy.outputs(observations, keys, steps).actions  # type: ignore[attr-defined]
    assert (policy.outputs(observations[7:9], keys[7:9], steps[7:9]).actions == drawn[7:9]).all()  # type: ignore[attr-defined]
    assert abs(drawn[:, 0].mean()) < 0.05
    assert (np.abs(drawn[:, 0]) == 1.0).mean() == pytest.approx(0.317, abs=0.04)  # beyond one deviation, clipped
    chooser = GuidedChooser(policy, [rules("-steer.left <- x > -1")], [0] * n, range(n), sample=True)
    actions, _ = chooser(observations, np.arange(n), steps)
    left = drawn[:, 0] <= -0.25
    assert (actions[~left] == drawn[~left]).all()
    assert (actions[left, 0] == 0.0).all()  # what is typical of the neighbour
    assert (actions[:, 1] == drawn[:, 1]).all()
    assert chooser.changed.sum() == left.sum()


def test_exploring_takes_the_typical_action_of_a_random_region() -> None:
    policy, n = adapt_policy(FOLLOWS, space=SPACE), 600
    observations = np.tile(np.array([0.3, 0.0], np.float32), (n, 1))
    actions, _ = PolicyChooser(policy, list(range(n)), epsilon=1.0)(observations, np.arange(n), np.zeros(n, np.int64))
    assert set(actions[:, 0].tolist()) == {-0.75, 0.0, float(np.float32(0.3))}


def test_other_actions_and_unknown_regions_are_refused(raises_saved) -> None:
    other = Slope()
    other.action_space = spaces.Box(-1, 1, (3,))
    with raises_saved(LegibleError):
        GuidedEnv(other, guided())
    early = FeatureSpace(SPACE.features, SPACE.actions[:3], (ActionGroup("steer", 0, 3, Regions(-1.0, 1.0)),))
    with raises_saved(LegibleError):
        GuidedPolicy(FOLLOWS, [], early)


def test_what_rules_did_where_they_contradict_each_other() -> None:
    space = FeatureSpace.of(["x"], ["a", "b", "c"])
    rules = {text: parse_rule(f"{text} <- x > 0", space) for text in ("+a", "+b", "-a", "-c")}

    def did(*texts: str, negative_first: bool = False) -> tuple[int | None, tuple[int, ...]]:
        triggered = tuple(rules[text] for text in texts)
        found = intervene(0, 0, triggered, space, negative_first=negative_first, allowed=range(3))
        return found.enforced, found.blocked

    assert did("+a") == (0, ())
    assert did("+a", "+b") == (None, ())
    assert did("-c", "-a") == (None, (0, 2))
    assert did("+a", "-a") == (0, (0,))
    assert did("+a", "-a", negative_first=True) == (None, (0,))
    assert did("+a", "+b", "-a", negative_first=True) == (1, (0,))


def test_parts_may_be_numbered_from_anywhere() -> None:
    class Numbered(Slope):
        action_space = spaces.MultiDiscrete([3, 2], start=[1, 5])
        observation_space = spaces.Box(-1, 1, (1,))
        shown = np.array([0.5], np.float32)

    env = GuidedEnv(Numbered(), GuidedPolicy(Driver(), [parse_rule("-gear.2 <- x > 0", GEARS)], GEARS))
    env.reset(seed=0)
    assert env.step(np.array([2, 6]))[4]["did"].tolist() == [3, 6]
    assert env.step(np.array([1, 5]))[4]["did"].tolist() == [1, 5]
