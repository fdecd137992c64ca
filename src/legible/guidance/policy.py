"""A policy with rules, for use anywhere.

- `GuidedPolicy`: it is a `Policy`, speaks Stable-Baselines3's ``predict``, explains itself, and saves to one file.
- `Intervention`: what guidance did in one state, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance.kernel import check_precedence, guide_scores
from legible.play import Observations, Scores, choose_row
from legible.policies import NetworkPolicy, Policy, ScoreKind, load_policy, save_policy
from legible.policies.protocol import as_observations
from legible.rules import CompiledRules, Rule, RuleSet
from legible.settings import Precedence

_GUIDANCE = "legible.guidance"


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
        check_precedence(precedence)
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
        guide_scores(self._compiled, batch, self.precedence == "negative", guided)
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

    @property
    def network(self) -> Policy:
        """The policy without any rules, however many times it was guided."""
        return self.policy.network if isinstance(self.policy, GuidedPolicy) else self.policy

    def save(self, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write policy, rules and names into one ``.safetensors`` file, which `legible.load_policy` reads.

        Parameters
        ----------
        path
            Where to.
        metadata
            Anything else worth keeping that JSON can hold.
        """
        network = self.network
        if not isinstance(network, NetworkPolicy):
            raise LegibleError(
                f"only network policies can be saved, and this one is a {type(network).__name__}; save its rules "
                "with RuleSet.to_dict instead."
            )
        save_policy(network, path, metadata={**(metadata or {}), _GUIDANCE: json.dumps(self._documents())})

    def _documents(self) -> list[dict[str, Any]]:
        """The rules as plain data; a guided policy that was guided again has several, the innermost first."""
        inner = self.policy._documents() if isinstance(self.policy, GuidedPolicy) else []
        own = {"rules": self.rules.to_dict(), "space": self.space.to_dict(), "precedence": self.precedence}
        return [*inner, own]

    @classmethod
    def load(cls, path: str | Path, *, seed: int = 0, observation_shape: tuple[int, ...] | None = None) -> GuidedPolicy:
        """Read what `save` wrote, as `legible.load_policy` does, with a seed of its own."""
        policy = load_policy(path)
        if not isinstance(policy, GuidedPolicy):
            raise LegibleError(f"{path}: is a policy without rules.")
        return policy.seeded(seed, observation_shape)

    def seeded(self, seed: int, observation_shape: tuple[int, ...] | None = None) -> GuidedPolicy:
        """Return the same guided policy with another seed for its random choices."""
        return GuidedPolicy(
            self.policy,
            self.rules,
            self.space,
            precedence=self.precedence,
            seed=seed,
            observation_shape=observation_shape or self.observation_shape,
        )


def with_its_rules(network: NetworkPolicy, path: str | Path) -> Policy:
    """Return the guided policy that a file holds, given its network; the network itself where the file has no rules."""
    text = network.metadata.get(_GUIDANCE)
    if text is None:
        return network
    try:
        found = json.loads(text)
        documents = found if isinstance(found, list) else [found]  # older files hold one table
        if not documents:
            raise ValueError("no rules")
        policy: Policy = network
        for document in documents:
            space = FeatureSpace.from_dict(document["space"], str(path))
            rules = RuleSet.from_dict(document["rules"])
            policy = GuidedPolicy(policy, rules, space, precedence=document["precedence"])
        return policy
    except LegibleError as error:
        raise LegibleError(f"{path}: its rules cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise LegibleError(
            f"{path}: its rules cannot be read, the file is damaged or was written by another version "
            f"({type(error).__name__}: {str(error)[:200]})."
        ) from error
