"""Algorithm 1 of the paper: from scores and triggered rules to actions, for whole batches.

- `GuidedChooser`: guides a policy in rollouts; every episode has a rule set of its own.
- `GuidedPolicy`: a policy with rules, for use anywhere: it is a `Policy`, speaks Stable-Baselines3's ``predict``,
  explains itself, and saves to one file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.play import Observations, Scores, check_exploration, choose_row
from legible.policies import NetworkPolicy, Policy, ScoreKind, load_policy, save_policy
from legible.policies.protocol import as_observations, as_scores
from legible.rules import CompiledRules, Rule, RuleSet, triggers
from legible.settings import Precedence
from legible.streams import policy_keys

_GUIDANCE = "legible.guidance"


def _check_precedence(precedence: str) -> None:
    if precedence not in {"positive", "negative"}:
        raise LegibleError(f"precedence must be 'positive' or 'negative', got {precedence!r}.")


@njit(cache=True)
def _guide_row(
    rules: CompiledRules,
    rule_set: int,
    observation: NDArray[np.float32],
    negative_first: bool,
    scores: Scores,
    marks: NDArray[np.bool_],
) -> bool:
    """Apply a rule set to one row of scores, in place; returns whether any of its rules triggered.

    Lines 5 to 11 of Algorithm 1: if the positive rules that trigger name exactly one action, all others are blocked
    (score −∞); else the actions of the negative rules that trigger are. `marks` is room for ``bool[2, actions]``.
    """
    marks[:] = False
    blocked, enforced = marks[0], marks[1]
    fired = False
    for r in range(rules.set_starts[rule_set], rules.set_starts[rule_set + 1]):
        if triggers(rules, r, observation):
            fired = True
            marks[1 if rules.positive[r] else 0, rules.action[r]] = True
    if fired:
        if negative_first:
            enforced &= ~blocked
        if enforced.sum() == 1:
            chosen = np.argmax(enforced)
            own = scores[chosen]
            scores[:] = -np.inf
            scores[chosen] = own if own > -np.inf else 0.0
        else:
            for a in range(scores.size):
                if blocked[a]:
                    scores[a] = -np.inf
    return fired


@njit(cache=True, nogil=True)
def _guide(
    rules: CompiledRules,
    rule_sets: NDArray[np.int64],
    observations: NDArray[np.float32],
    scores: Scores,
    negative_first: bool,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    epsilon: float,
    guided_epsilon: float,
    sample: bool,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Guide every row with its own rule set (−1: none); returns actions, which rows fired, and which were changed."""
    n, n_actions = scores.shape
    actions = np.empty(n, np.int64)
    fired = np.zeros(n, np.bool_)
    changed = np.zeros(n, np.bool_)
    marks = np.empty((2, n_actions), np.bool_)
    guided = np.empty(n_actions, scores.dtype)
    for i in range(n):
        actions[i] = choose_row(scores[i], keys[i], steps[i], epsilon, sample)
        if rule_sets[i] >= 0:
            guided[:] = scores[i]
            fired[i] = _guide_row(rules, rule_sets[i], observations[i], negative_first, guided, marks)
        if fired[i]:
            wanted = actions[i]
            actions[i] = choose_row(guided, keys[i], steps[i], guided_epsilon, sample)
            changed[i] = actions[i] != wanted
    return actions, fired, changed


@njit(cache=True, nogil=True)
def _guided_scores(
    rules: CompiledRules, observations: NDArray[np.float32], negative_first: bool, scores: Scores
) -> None:
    """Apply the first rule set to all rows of scores, in place."""
    marks = np.empty((2, scores.shape[1]), np.bool_)
    for i in range(scores.shape[0]):
        _guide_row(rules, 0, observations[i], negative_first, scores[i], marks)


class GuidedChooser:
    """Guides a policy in rollouts, each episode with a rule set of its own, and counts how often rules stepped in.

    Parameters
    ----------
    policy
        The policy.
    rule_sets
        The rule sets that episodes may use.
    episodes
        For every episode, the number of its rule set; −1 plays without guidance.
    seeds
        For every episode, its seed.
    epsilon, sample
        Random actions, guided or not: see `legible.play.choose_actions`. Rules hold when the policy explores, too.
    epsilon_when_guided
        Whether random actions are taken in states in which a rule triggers, too.
    precedence
        Which rules win where they conflict.

    Attributes
    ----------
    fired, changed
        For every episode, the number of steps in which a rule triggered, and in which guidance changed the action.
    """

    def __init__(
        self,
        policy: Policy,
        rule_sets: Sequence[RuleSet],
        episodes: ArrayLike,
        seeds: Sequence[int],
        *,
        epsilon: float = 0.0,
        epsilon_when_guided: bool = True,
        sample: bool = False,
        precedence: Precedence = "positive",
    ) -> None:
        check_exploration(policy, epsilon, sample)
        _check_precedence(precedence)
        chosen = np.asarray(episodes, np.int64)
        if chosen.shape != (len(seeds),) or (chosen >= len(rule_sets)).any() or (chosen < -1).any():
            raise LegibleError(f"a rule set −1 … {len(rule_sets) - 1} is needed for each of {len(seeds)} episodes.")
        self._policy = policy
        self._rules = CompiledRules.compile(rule_sets)
        # The last entries serve idle rows, whose episode is −1.
        self._sets = np.append(chosen, -1)
        self._keys = policy_keys([*seeds, 0])
        self._epsilon, self._sample = epsilon, sample
        self._guided_epsilon = epsilon if epsilon_when_guided else 0.0
        self._negative_first = precedence == "negative"
        self.fired = np.zeros(len(seeds), np.int64)
        self.changed = np.zeros(len(seeds), np.int64)

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Scores]:
        """Choose for every row."""
        scores = as_scores(self._policy.scores(observations), len(observations), self._policy.n_actions)
        actions, fired, changed = _guide(
            self._rules,
            self._sets[episodes],
            observations,
            scores,
            self._negative_first,
            self._keys[episodes],
            steps,
            self._epsilon,
            self._guided_epsilon,
            self._sample,
        )
        self.fired[episodes[fired]] += 1
        self.changed[episodes[changed]] += 1
        return actions, scores


@dataclass(frozen=True)
class Intervention:
    """What guidance did in one state.

    Parameters
    ----------
    action
        What is done.
    wanted
        What the policy alone would have done.
    enforced
        The action that positive rules enforce, or None.
    blocked
        The actions that negative rules block.
    triggered
        The rules that triggered.
    space
        Names.
    """

    action: int
    wanted: int
    enforced: int | None
    blocked: tuple[int, ...]
    triggered: tuple[Rule, ...]
    space: FeatureSpace

    @property
    def changed(self) -> bool:
        """Whether guidance changed what is done."""
        return self.action != self.wanted

    def __str__(self) -> str:
        names = self.space.action_names
        if not self.triggered:
            return f"{names[self.action]}: the policy's own choice, no rule triggered."
        if self.enforced is not None:
            did = f"rules enforce {names[self.enforced]}"
        elif self.blocked:
            did = "rules block " + ", ".join(names[a] for a in self.blocked)
        else:
            did = "positive rules contradict each other, so none is enforced"
        wish = f"the policy wanted {names[self.wanted]}" if self.changed else "as the policy wanted"
        why = "; ".join(rule.text(self.space) for rule in self.triggered)
        return f"{names[self.action]}: {did} ({wish}). Triggered: {why}"


class GuidedPolicy:
    """A policy with rules: better where the rules help, the same elsewhere.

    Parameters
    ----------
    policy
        The policy that is guided.
    rules
        The rules, for instance a composition found by `legible.improvement`.
    space
        Names of features and actions.
    precedence
        Which rules win where they conflict.
    seed
        Of the random choices where all actions are blocked, or where actions are sampled.
    observation_shape
        Shape of one observation. Needed only where one cannot be told from a batch of one: ``()`` where observations
        are single discrete numbers.

    Examples
    --------
    >>> from legible.rules import parse_rule
    >>> space = FeatureSpace.of(["gap"], ["Brake", "Go"])
    >>> always_go = load_policy(lambda o: np.tile([0.0, 1.0], (len(o), 1)), output="values", n_features=1, n_actions=2)
    >>> careful = GuidedPolicy(always_go, [parse_rule("+Brake <- gap < 5", space)], space)
    >>> careful.predict(np.array([[3.0], [8.0]]))[0].tolist()
    [0, 1]
    >>> print(careful.explain([3.0]))
    Brake: rules enforce Brake (the policy wanted Go). Triggered: +Brake <- gap < 5
    """

    def __init__(
        self,
        policy: Policy,
        rules: RuleSet | Iterable[Rule],
        space: FeatureSpace,
        *,
        precedence: Precedence = "positive",
        seed: int = 0,
        observation_shape: tuple[int, ...] | None = None,
    ) -> None:
        _check_precedence(precedence)
        self.rules = rules if isinstance(rules, RuleSet) else RuleSet(tuple(rules))
        for rule in self.rules.rules:
            rule.check(space)
        if len(space.actions) != policy.n_actions:
            raise LegibleError(f"the policy has {policy.n_actions} actions, the feature space {len(space.actions)}.")
        self.policy = policy
        self.space = space
        self.precedence = precedence
        self.observation_shape = observation_shape
        self._compiled = CompiledRules.compile([self.rules])
        self._rng = np.random.default_rng(seed)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.policy.n_actions

    @property
    def n_features(self) -> int | None:
        """Number of features of an observation."""
        return len(self.space)

    @property
    def kind(self) -> ScoreKind:
        """What the scores mean, as for the policy that is guided."""
        return self.policy.kind

    def scores(self, observations: Observations) -> Scores:
        """Return the policy's scores with blocked actions at −∞; probabilities are renormalised.

        A row in which everything is blocked is −∞ throughout: any action may be taken.
        """
        batch = as_observations(observations, len(self.space))
        own = np.ascontiguousarray(self.policy.scores(batch))
        guided = own.copy()
        _guided_scores(self._compiled, batch, self.precedence == "negative", guided)
        if self.kind == "log-probabilities":
            best = guided.max(axis=1, keepdims=True)
            shifted = guided - np.where(np.isfinite(best), best, 0.0)
            with np.errstate(divide="ignore"):
                total = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            renormalised = shifted - np.where(np.isfinite(total), total, 0.0)
            guided = np.where((guided != own).any(axis=1, keepdims=True), renormalised, own)
        return guided

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002 (Stable-Baselines3's signature)
        deterministic: bool = True,
    ) -> tuple[NDArray[np.int64], Any]:
        """Choose actions as Stable-Baselines3's ``predict`` does, for one observation or a batch."""
        array = np.asarray(observation, np.float32)
        width = len(self.space)
        if array.size % width:
            raise LegibleError(f"an observation has {width} features, got an array of shape {array.shape}.")
        single = self._is_single(array)
        scores = self.scores(array.reshape(-1, width))
        keys = self._rng.integers(0, 2**63, len(scores), dtype=np.uint64)
        sample = not deterministic and self.kind == "log-probabilities"
        actions = np.array(
            [choose_row(row, key, 0, 0.0, sample) for row, key in zip(scores, keys, strict=True)], np.int64
        )
        return (actions[0] if single else actions), state

    def _is_single(self, array: NDArray[np.float32]) -> bool:
        """Whether an array is one observation, of whatever shape, and no batch."""
        if self.observation_shape is not None:
            return array.shape == self.observation_shape
        if array.size != len(self.space):
            return False
        return array.ndim <= 1 or (array.shape[0] != 1 and array.shape[-1] != len(self.space))

    def explain(self, observation: ArrayLike) -> Intervention:
        """Say what is done in a state, which rules triggered, and what the policy wanted."""
        row = np.asarray(observation, np.float32).reshape(1, -1)
        batch = as_observations(row, len(self.space))
        matched = self._compiled.matches(batch)[0]
        triggered = tuple(rule for rule, yes in zip(self.rules.rules, matched, strict=True) if yes)
        wanted = int(np.argmax(self.policy.scores(batch)[0]))
        action = int(self.predict(batch)[0][0])
        positive = {rule.action for rule in triggered if rule.polarity == "+"}
        blocked = {rule.action for rule in triggered if rule.polarity == "-"}
        if self.precedence == "negative":
            positive -= blocked
        enforced = positive.pop() if len(positive) == 1 else None
        return Intervention(action, wanted, enforced, tuple(sorted(blocked)), triggered, self.space)

    def save(self, path: str | Path) -> None:
        """Write policy, rules and names into one ``.safetensors`` file."""
        if not isinstance(self.policy, NetworkPolicy):
            raise LegibleError(
                f"only network policies can be saved, and this one is a {type(self.policy).__name__}; save its rules "
                "with RuleSet.to_dict instead."
            )
        document = {"rules": self.rules.to_dict(), "space": self.space.to_dict(), "precedence": self.precedence}
        save_policy(self.policy, path, metadata={_GUIDANCE: json.dumps(document)})

    @staticmethod
    def is_in(policy: Policy) -> bool:
        """Whether the file that a policy was loaded from has rules, too, so that `load` gives a guided policy."""
        return _GUIDANCE in getattr(policy, "metadata", {})

    @classmethod
    def load(cls, path: str | Path, *, seed: int = 0, observation_shape: tuple[int, ...] | None = None) -> GuidedPolicy:
        """Read what `save` wrote."""
        policy = load_policy(path)
        text = getattr(policy, "metadata", {}).get(_GUIDANCE)
        if text is None:
            raise LegibleError(f"{path}: is a policy without rules; load it with load_policy.")
        try:
            document = json.loads(text)
            space = FeatureSpace.from_dict(document["space"], str(path))
            rules = RuleSet.from_dict(document["rules"])
            precedence = document["precedence"]
            return cls(policy, rules, space, precedence=precedence, seed=seed, observation_shape=observation_shape)
        except LegibleError as error:
            raise LegibleError(f"{path}: its rules cannot be read: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise LegibleError(
                f"{path}: its rules cannot be read, the file is damaged or was written by another version "
                f"({type(error).__name__}: {str(error)[:200]})."
            ) from error
