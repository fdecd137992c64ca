"""Algorithm 1: against its pseudocode, line by line, and by hand; the guided policy as people use it."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legible.errors import LegibleError
from legible.features import Action, Feature, FeatureSpace
from legible.guidance import GuidedChooser, GuidedPolicy
from legible.policies import Policy, load_policy, save_policy
from legible.rules import Condition, Rule, RuleSet, parse_rule

ACTIONS = 4
SPACE = FeatureSpace(
    tuple(Feature(name, "categorical", values={0: f"no {name}", 1: name}) for name in ("a", "b", "c")),
    tuple(Action(name) for name in ("North", "South", "East", "West")),
)


def rule(text: str) -> Rule:
    return parse_rule(text, SPACE)


def constant(scores: Any, output: str = "values") -> Policy:
    return load_policy(lambda o: np.tile(scores, (len(o), 1)), output=output, n_features=3, n_actions=ACTIONS)


def algorithm_1(q: list[float], rules: list[Rule], state: list[float]) -> int | None:
    """Lines 5 to 12 of the paper's Algorithm 1; None stands for "a random action"."""
    triggered = {(r.action, r.polarity) for r in rules if all(c.low < state[c.feature] <= c.high for c in r.conditions)}
    positive = {action for action, polarity in triggered if polarity == "+"}
    if len(positive) == 1:
        return positive.pop()
    q = list(q)
    for action, polarity in triggered:
        if polarity == "-":
            q[action] = -math.inf
    if all(value == -math.inf for value in q):
        return None
    return q.index(max(q))


def chosen(q: np.ndarray, rules: list[Rule], states: np.ndarray, **options: object) -> tuple[np.ndarray, GuidedChooser]:
    policy = load_policy(lambda o: q, output="values", n_features=3, n_actions=ACTIONS)
    n = len(states)
    chooser = GuidedChooser(policy, [RuleSet(tuple(rules))], [0] * n, range(n), **options)
    actions, _ = chooser(np.asarray(states, np.float32), np.arange(n), np.zeros(n, np.int64))
    return actions, chooser


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Condition, ...]:
    features = draw(st.sets(st.integers(0, 2), max_size=3))
    return tuple(Condition.equals(f, draw(st.sampled_from([0.0, 1.0]))) for f in sorted(features))


RULES = st.lists(st.builds(Rule, st.sampled_from("+-"), st.integers(0, ACTIONS - 1), bodies()), max_size=7)
STATES = [[float(a), float(b), float(c)] for a in (0, 1) for b in (0, 1) for c in (0, 1)]


@given(RULES, st.lists(st.integers(-3, 3), min_size=8 * ACTIONS, max_size=8 * ACTIONS))
@settings(max_examples=300)
def test_whole_batches_follow_the_pseudocode(rules: list[Rule], values: list[int]) -> None:
    q = np.array(values, np.float32).reshape(8, ACTIONS)
    actions, chooser = chosen(q, rules, np.array(STATES))
    for i, state in enumerate(STATES):
        expected = algorithm_1(q[i].tolist(), rules, state)
        if expected is not None:
            assert actions[i] == expected
        assert 0 <= actions[i] < ACTIONS
        triggered = any(r.matches(np.array([state]))[0] for r in rules)
        assert chooser.fired[i] == triggered
        assert chooser.changed[i] == (actions[i] != int(q[i].argmax()))


Q = np.array([[4.0, 3.0, 2.0, 1.0]], np.float32)
ALL = np.array([[1.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([], 0),
        (["+East <- a"], 2),
        (["+East <- a", "+East <- b"], 2),  # two rules, one action: it is a set of actions
        (["+East <- a", "+West <- b"], 0),  # a conflict: the policy decides
        (["+East <- a", "+West <- b", "-North <- c"], 1),  # and negative rules hold in it
        (["-North <- a"], 1),
        (["-North <- a", "-South <- b"], 2),
        (["+North <- a", "-North <- b"], 0),  # exactly one positive action is enforced, negative or not
        (["-North <- not a"], 0),  # does not trigger
        (["-North <- a", "-South <- a", "-East <- a"], 3),
    ],
)
def test_by_hand(rules: list[str], action: int) -> None:
    assert chosen(Q, [rule(text) for text in rules], ALL)[0][0] == action


def test_negative_rules_first_is_an_option() -> None:
    both = [rule("+North <- a"), rule("-North <- b")]
    assert chosen(Q, both, ALL, precedence="negative")[0][0] == 1
    assert chosen(Q, [*both, rule("+West <- c")], ALL, precedence="negative")[0][0] == 3
    with pytest.raises(LegibleError, match="precedence"):
        chosen(Q, both, ALL, precedence="luck")


def test_everything_blocked_takes_any_action_from_the_episodes_own_stream() -> None:
    n = 4000
    policy = constant(Q)
    block = RuleSet(tuple(rule(f"-{name} <- a") for name in SPACE.action_names))
    rows, episodes, steps = np.ones((n, 3), np.float32), np.arange(n), np.zeros(n, np.int64)
    first, _ = GuidedChooser(policy, [block], [0] * n, range(n))(rows, episodes, steps)
    again, _ = GuidedChooser(policy, [block], [0] * n, range(n))(rows[:5], episodes[:5], steps[:5])
    np.testing.assert_array_equal(first[:5], again)
    counts = np.bincount(first, minlength=ACTIONS)
    assert ((counts - n / 4) ** 2 / (n / 4)).sum() < 16.3  # χ² with 3 degrees of freedom, p = 0.001


def test_every_row_has_its_own_rule_set() -> None:
    policy = constant(Q)
    sets = [RuleSet((rule("+East <- a"),)), RuleSet((rule("-North <- a"),)), RuleSet(())]
    chooser = GuidedChooser(policy, sets, [0, 1, 2, -1], range(4))
    # Rows need not be in the order of episodes, and idle rows (−1) are played without guidance.
    actions, _ = chooser(np.ones((5, 3), np.float32), np.array([3, 1, 0, 2, -1]), np.zeros(5, np.int64))
    assert actions.tolist() == [0, 1, 2, 0, 0]
    assert chooser.fired.tolist() == [1, 1, 0, 0]
    assert chooser.changed.tolist() == [1, 1, 0, 0]


def test_rules_hold_when_the_policy_explores() -> None:
    n = 3000
    q = np.tile(Q, (n, 1))
    actions, _ = chosen(q, [rule("-North <- a")], np.ones((n, 3)), epsilon=1.0)
    counts = np.bincount(actions, minlength=ACTIONS)
    assert counts[0] == 0
    assert ((counts[1:] - n / 3) ** 2 / (n / 3)).sum() < 13.8
    enforced, _ = chosen(q, [rule("+West <- a")], np.ones((n, 3)), epsilon=1.0)
    assert (enforced == 3).all()


@pytest.mark.parametrize("episodes", [[0], [0, 2], [0, -2]])
def test_wrong_rule_set_numbers_are_refused(episodes: list[int]) -> None:
    policy = load_policy(lambda o: Q, output="values", n_features=3, n_actions=ACTIONS)
    with pytest.raises(LegibleError, match="number of its rule set"):
        GuidedChooser(policy, [RuleSet(()), RuleSet(())], episodes, [1, 2])


# ---- the guided policy ------------------------------------------------------------------------------------------


def network(seed: int = 0) -> Policy:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, ACTIONS))
    return load_policy(net, output="values", n_features=3, n_actions=ACTIONS)


COMPOSED = [rule("+East <- a & b"), rule("-North <- c"), rule("-South <- c"), rule("-South <- not a")]


@given(RULES)
@settings(max_examples=50)
def test_its_scores_choose_what_the_chooser_chooses(rules: list[Rule]) -> None:
    policy = network()
    guided = GuidedPolicy(policy, rules, SPACE)
    assert isinstance(guided, Policy)
    states = np.array(STATES, np.float32)
    scores = guided.scores(states)
    q = policy.scores(states)
    for i, state in enumerate(STATES):
        expected = algorithm_1(q[i].tolist(), rules, state)
        if expected is None:
            assert (scores[i] == -np.inf).all()
        else:
            assert scores[i].argmax() == expected
            assert guided.predict(state)[0] == expected


def test_probabilities_are_renormalised() -> None:
    logits = np.log([[0.4, 0.3, 0.2, 0.1]])
    policy = constant(logits, "log-probabilities")
    guided = GuidedPolicy(policy, [rule("-North <- a"), rule("+West <- b & c")], SPACE)
    scores = guided.scores(np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1]], np.float32))
    np.testing.assert_allclose(
        np.exp(scores), [[0, 3 / 6, 2 / 6, 1 / 6], [0.4, 0.3, 0.2, 0.1], [0, 0, 0, 1]], atol=1e-6
    )


def test_predict_has_the_interface_of_stable_baselines() -> None:
    guided = GuidedPolicy(network(), COMPOSED, SPACE)
    one, state = guided.predict(np.array([1.0, 1.0, 0.0]))
    assert one.shape == ()
    assert one == 2
    assert state is None
    many, state = guided.predict(np.array(STATES), state="kept", episode_start=np.ones(8), deterministic=True)
    assert many.shape == (8,)
    assert state == "kept"


def test_predict_samples_on_request() -> None:
    """Only probabilities can be sampled; blocked actions never are, and a seed gives the same actions."""
    n = 20_000
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    rows = np.tile(np.array([1, 0, 0], np.float32), (n, 1))
    guided = GuidedPolicy(constant(logits, "log-probabilities"), [rule("-North <- a")], SPACE)
    actions, _ = guided.predict(rows, deterministic=False)
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / n, [0, 1 / 2, 1 / 3, 1 / 6], atol=0.015)
    assert not np.array_equal(guided.predict(rows, deterministic=False)[0], actions)
    again = GuidedPolicy(constant(logits, "log-probabilities"), [rule("-North <- a")], SPACE, seed=0)
    np.testing.assert_array_equal(again.predict(rows, deterministic=False)[0], actions)
    other = again.seeded(1)
    assert not np.array_equal(other.predict(rows, deterministic=False)[0], actions)
    assert set(guided.predict(rows[:50])[0].tolist()) == {1}
    values = GuidedPolicy(constant(logits), [rule("-North <- a")], SPACE)
    assert set(values.predict(rows[:50], deterministic=False)[0].tolist()) == {1}


def test_single_observations_and_batches_differ(raises_saved) -> None:
    guided = GuidedPolicy(network(), COMPOSED, SPACE)
    assert guided.predict([1.0, 1.0, 0.0])[0].shape == ()
    assert guided.predict([[1.0, 1.0, 0.0]])[0].shape == (1,)
    assert guided.predict([[1.0], [1.0], [0.0]])[0].shape == ()  # one observation that stands upright
    assert guided.predict(np.zeros((2, 3)))[0].shape == (2,)
    assert guided.predict(np.zeros((2, 1, 3)))[0].shape == (2,)
    assert guided.predict(np.zeros((1, 1, 3)))[0].shape == (1,)
    with raises_saved(LegibleError):
        guided.predict([1.0, 1.0, 0.0, 1.0])
    single = FeatureSpace(SPACE.features[:1], SPACE.actions)
    policy = load_policy(lambda o: np.tile(Q, (len(o), 1)), output="values", n_features=1, n_actions=ACTIONS)
    for shape, expected in (((), (1,)), ((1,), ())):
        shaped = GuidedPolicy(policy, [], single, observation_shape=shape)
        assert shaped.predict([1.0])[0].shape == expected
        assert shaped.predict([1.0, 0.0])[0].shape == (2,)


def test_an_enforced_action_can_be_taken_even_if_the_policy_never_would() -> None:
    never = constant([-np.inf, 3.0, 2.0, 1.0])
    guided = GuidedPolicy(never, [rule("+North <- a")], SPACE)
    assert guided.scores(np.array([[1, 0, 0], [0, 0, 0]], np.float32)).tolist() == [
        [0.0, -np.inf, -np.inf, -np.inf],
        [-np.inf, 3.0, 2.0, 1.0],
    ]


def test_it_explains_itself(snapshot) -> None:
    policy = constant(Q)
    guided = GuidedPolicy(policy, COMPOSED, SPACE)
    enforced = guided.explain([1, 1, 0])
    assert (enforced.action, enforced.wanted, enforced.enforced, enforced.changed) == (2, 0, 2, True)
    assert enforced.triggered == (COMPOSED[0],)
    assert str(enforced) == snapshot
    blocked = guided.explain([1, 0, 1])
    assert (blocked.action, blocked.blocked, blocked.enforced) == (2, (0, 1), None)
    assert str(blocked) == snapshot
    quiet = guided.explain([1, 0, 0])
    assert not quiet.changed
    assert "no rule triggered" in str(quiet)
    clash = GuidedPolicy(policy, [rule("+East <- a"), rule("+West <- a")], SPACE).explain([1, 0, 0])
    assert "contradict" in str(clash)
    same = GuidedPolicy(policy, [rule("-West <- a")], SPACE).explain([1, 0, 0])
    assert "as the policy wanted" in str(same)


def test_it_saves_to_one_file_and_loads_back(tmp_path) -> None:
    guided = GuidedPolicy(network(), COMPOSED, SPACE, precedence="negative")
    path = tmp_path / "guided.safetensors"
    guided.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["guided.safetensors"]
    loaded = GuidedPolicy.load(path)
    assert loaded.rules == guided.rules
    assert loaded.space == guided.space
    assert loaded.precedence == "negative"
    states = np.array(STATES, np.float32)
    np.testing.assert_array_equal(loaded.scores(states), guided.scores(states))


def test_files_without_rules_and_policies_without_weights_are_refused(tmp_path) -> None:
    from legible.policies import save_policy

    save_policy(network(), tmp_path / "plain.safetensors")
    with pytest.raises(LegibleError, match="a policy without rules"):
        GuidedPolicy.load(tmp_path / "plain.safetensors")
    function = constant(Q)
    with pytest.raises(LegibleError, match="only network policies"):
        GuidedPolicy(function, COMPOSED, SPACE).save(tmp_path / "function.safetensors")


def test_rules_that_do_not_fit_are_refused(raises_saved) -> None:
    with pytest.raises(LegibleError, match="feature 9 does not exist"):
        GuidedPolicy(network(), [Rule("+", 0, (Condition.equals(9, 1),))], SPACE)
    with raises_saved(LegibleError):
        GuidedPolicy(network(), [], FeatureSpace.of(["a", "b", "c"], ["x", "y"]))


def test_rules_may_keep_random_actions_away():
    space = FeatureSpace.of(["x"], ["A", "B", "C"])
    policy = load_policy(lambda o: np.tile([1.0, 0.0, 0.5], (len(o), 1)), output="values", n_features=1, n_actions=3)
    rules = RuleSet((parse_rule("-B <- x > 0", space),))
    observations = np.repeat(np.array([[1.0], [-1.0]], np.float32), 2000, axis=0)
    seen = {}
    for everywhere in (True, False):
        chooser = GuidedChooser(
            policy, [rules], np.zeros(1, np.int64), [0], epsilon=1.0, epsilon_when_guided=everywhere
        )
        steps = np.arange(len(observations))
        actions, _ = chooser(observations, np.zeros(len(observations), np.int64), steps)
        seen[everywhere] = [set(part.tolist()) for part in (actions[:2000], actions[2000:])]
    assert seen[True] == [{0, 2}, {0, 1, 2}], "random where a rule triggers too, but never what it blocks"
    assert seen[False] == [{0}, {0, 1, 2}], "the best action that is left where a rule triggers"


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "{}",
        "[" * 50_000,
        '{"rules": [3], "space": {}, "precedence": 1}',
        '{"rules": {"rules": [{}]}}',
        "1" * 5000,
    ],
    ids=lambda text: text[:10],
)
def test_damaged_rules_are_named_with_their_file(tmp_path, document) -> None:
    network = load_policy(torch.nn.Sequential(torch.nn.Linear(3, ACTIONS)), output="values")
    path = save_policy(network, tmp_path / "guided.safetensors", metadata={"legible.guidance": document})
    with pytest.raises(LegibleError, match="its rules cannot be read"):
        GuidedPolicy.load(path)


class _Drawn:
    """A policy of which only the sizes are asked for."""

    kind, n_features, n_actions = "log-probabilities", 2, 4

    def scores(self, observations: np.ndarray) -> np.ndarray:
        raise AssertionError(observations)


@pytest.mark.parametrize("groups", [[0, 4], [0, 2, 4], [0, 1, 4]])
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from(["positive", "negative"]))
@settings(max_examples=40, deadline=None)
def test_first_changes_are_those_of_choosing_every_row(
    groups: list[int], seed: int, explores: bool, samples: bool, precedence: str
) -> None:
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *rng.integers(1, 40, 7)])
    n = int(starts[-1])
    observations = rng.integers(0, 3, (n, 2)).astype(np.float32)
    scores = np.log(rng.dirichlet(np.ones(4), n)).astype(np.float32)
    sets = [
        RuleSet(
            tuple(
                Rule(rng.choice(["+", "-"]), int(a), (Condition.equals(0, v),))
                for v, a in enumerate(rng.integers(0, 4, 3))
            )
        )
        for _ in range(4)
    ]
    how = {"epsilon": 0.3, "epsilon_when_guided": bool(rng.integers(2))} if explores else {}
    chooser = GuidedChooser(_Drawn(), sets, [], (), sample=samples, precedence=precedence, **how)
    chooser._starts = np.array(groups)
    keys = rng.integers(0, 2**63, 7).astype(np.uint64).repeat(np.diff(starts))
    steps = np.arange(n) - np.repeat(starts[:-1], np.diff(starts))

    def choose(treatment: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return chooser.choose(observations, scores, np.full(n, treatment), keys, steps)

    own, taken = choose(-1)[0], choose(3)[0]  # the last rule set was played
    found = tuple(np.full((3, 7), value) for value in (-1, 0, 0))
    chooser.first_changes(observations, scores, keys, steps, own, taken, starts, found)
    for s in range(3):
        choices, fired, changed = choose(s)
        for e in range(7):
            rows = slice(starts[e], starts[e + 1])
            differing = np.flatnonzero((choices != taken)[rows].any(axis=1))
            end = differing[0] if differing.size else None
            assert found[0][s, e] == (-1 if end is None else end)
            assert found[1][s, e] == fired[rows][:end].sum()
            assert found[2][s, e] == changed[rows][:end].sum()
