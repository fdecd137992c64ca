"""A policy with rules, for use anywhere.

- `GuidedPolicy`: it is a `Policy`, speaks Stable-Baselines3's ``predict``, explains itself, and saves to one file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from legible.environments import FeatureMap
from legible.environments.feature_readers import ObservationReader
from legible.errors import LegibleError
from legible.features import FeatureSpace, choices_of, is_cut, move_to, scores_of
from legible.guidance.chooser import GuidedChooser
from legible.guidance.features import features_from_dict, features_to_dict, remember_actions, rows_of, trusted
from legible.guidance.intervention import Intervention, JointIntervention, intervene
from legible.guidance.kernel import check_precedence, guide_scores
from legible.play import Observations, RowPolicy, Scores, choose_actions
from legible.play.choosing import take_choices
from legible.policies import (
    ActorPolicy,
    ChoicePolicy,
    NetworkPolicy,
    Policy,
    ScoreKind,
    acting,
    load_policy,
    save_policy,
    with_choices,
)
from legible.policies.policy_file import why_not_saved
from legible.policies.protocol import as_observations
from legible.rules import CompiledRules, Rule, RuleSet
from legible.settings import Enforce, Precedence

_GUIDANCE = "legible.guidance"


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
    enforce
        What a continuous action becomes that rules move into another region.
    seed
        Of the random choices where all actions are blocked, or where actions are sampled.
    observation_shape
        Shape of one observation. Needed only where one looks like a batch of one: ``()`` where observations
        are single discrete numbers.
    features
        What the rules see, where that is not the observation alone (`legible.environments.map_features`). Derived
        features of `space` need no map: they are computed from the observation.

    Where rules see more than the observation, `scores`, `explain` and `decide` take rows of features, as a
    `legible.environments.FeatureEnv` shows them. `predict` takes observations, too, if features follow from them; a
    memory of the episode comes and goes as its state, as in Stable-Baselines3. `legible.GuidedEnv` can always.

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
        enforce: Enforce = "typical",
        seed: int = 0,
        observation_shape: tuple[int, ...] | None = None,
        features: FeatureMap | None = None,
    ) -> None:
        check_precedence(precedence)
        self.rules = rules if isinstance(rules, RuleSet) else RuleSet(tuple(rules))
        for rule in self.rules.rules:
            rule.check(space)
        if not is_cut(space):
            raise LegibleError("continuous actions must be cut into regions before rules can speak of them.")
        self.features = _features_of(space) if features is None else features.with_space(space)
        read = policy if self.features is None else RowPolicy(acting(policy), self.features)
        self._scored = with_choices(read, space)
        if len(space.actions) != self._scored.n_actions:
            raise LegibleError(f"the policy has {policy.n_actions} actions, the feature space {len(space.actions)}.")
        self.policy = policy
        self.space = space
        self.precedence = precedence
        self.enforce: Enforce = enforce
        self.observation_shape = observation_shape
        self._compiled = CompiledRules.compile([self.rules])
        self._rng = np.random.default_rng(seed)

    @property
    def n_actions(self) -> int:
        """Number of actions, or of choices in all groups."""
        return self._scored.n_actions

    @property
    def n_features(self) -> int | None:
        """Number of features of an observation, or of the numbers in a row where rules see more."""
        return self._width

    @property
    def _width(self) -> int:
        return len(self.space) if self.features is None else self.features.width

    @property
    def reads_rows(self) -> bool:
        """Whether it reads rows of features, and not observations."""
        return self.features is not None

    def check_sees_observations(self, what: str) -> None:
        """Raise where rules see more than the observation; `what` cannot be done then."""
        if self.reads_rows:
            raise LegibleError(
                f"{what}: these rules see more than the policy's observation (derived features, or features of your "
                "own), which a network is not shown; use the guided policy as it is, or a GuidedEnv."
            )

    @property
    def kind(self) -> ScoreKind:
        """What the scores mean, as for the policy that is guided; "none" where they are not those of whole actions."""
        return self.policy.kind if self.space.is_discrete else "none"

    @property
    def recurrent(self) -> bool:
        """Whether `predict` returns a state that has to come back: rules have a memory of the episode."""
        return self.space.derived is not None

    @property
    def stochastic(self) -> bool:
        """Whether actions can be drawn."""
        return bool(getattr(self._scored, "stochastic", self.kind == "log-probabilities"))

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The observations that it reads, flat."""
        return spaces.Box(-np.inf, np.inf, self.observation_shape or (self._width,), np.float32)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The actions that it takes."""
        return spaces.Discrete(self.n_actions) if self.space.is_discrete else acting(self.policy).action_space

    def scores(self, observations: Observations) -> Scores:
        """Return the policy's scores with blocked actions at −∞; probabilities are renormalised.

        A row in which everything is blocked is −∞ throughout: any action may be taken. Where actions take several
        choices, all this is said of every group.
        """
        batch = as_observations(observations, self._width)
        own = np.ascontiguousarray(self._scored.scores(batch))
        guided = self._guide(batch, own)
        if self._scored.kind != "log-probabilities":
            return guided
        parts = [_renormalised(guided[:, group.choices], own[:, group.choices]) for group in self.space.groups]
        return np.concatenate(parts, axis=1)

    def _guide(self, batch: Observations, own: Scores) -> Scores:
        guided = own.copy()
        guide_scores(self._compiled, batch, self.precedence == "negative", guided, self.space.group_starts)
        return guided

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Choose actions as Stable-Baselines3's ``predict`` does, for one observation or a batch.

        `rng` is what actions are drawn with; by default a generator of the policy's own.
        """
        if self.features is not None and (
            isinstance(observation, Mapping) or np.shape(observation)[-1:] != (self._width,)
        ):
            rows, single, memory = rows_of(self.features, observation, state, episode_start)
            actions, _ = self.predict(rows, deterministic=deterministic, rng=rng)
            remember_actions(self.features, memory, actions)
            return (actions[0] if single else actions), None if memory is None else (memory[None],)
        array = np.asarray(observation, np.float32)
        width = self._width
        if array.size % width:
            raise LegibleError(f"an observation has {width} features, got an array of shape {array.shape}.")
        single, batch = self._is_single(array), array.reshape(-1, width)
        n = len(batch)
        keys = (
            self._rng.integers(0, 2**63, n, np.uint64) if rng is None else (rng.random(n) * 2.0**63).astype(np.uint64)
        )
        if self.space.is_discrete:
            sample = not deterministic and self.kind == "log-probabilities"
            actions = choose_actions(self.scores(batch), keys, np.zeros(n, np.int64), sample=sample)
        else:
            actions = self._act(batch, keys, sample=not deterministic and self.stochastic)
        return (actions[0] if single else actions), state

    def _act(self, batch: Observations, keys: NDArray[np.uint64], *, sample: bool) -> NDArray[Any]:
        """Actions of several parts, or continuous ones, in the shape of their space."""
        chooser = GuidedChooser(
            self._scored, [self.rules], [0], [0], sample=sample, precedence=self.precedence, enforce=self.enforce
        )
        zeros = np.zeros(len(batch), np.int64)
        return self._shaped(chooser.act(batch, zeros, keys, zeros).actions)

    def _shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows.reshape(len(rows), *(self.action_space.shape or ()))

    def _is_single(self, array: NDArray[np.float32]) -> bool:
        """Whether an array is one observation, of whatever shape, and no batch."""
        if self.observation_shape is not None:
            return array.shape == self.observation_shape
        if array.size != self._width:
            return False
        return array.ndim <= 1 or (array.shape[0] != 1 and array.shape[-1] != self._width)

    def explain(self, observation: ArrayLike) -> Intervention | JointIntervention:
        """Say what is done in a state, which rules triggered, and what the policy wanted."""
        row = np.asarray(observation, np.float32).reshape(1, -1)
        batch = as_observations(row, self._width)
        matched = self._compiled.matches(batch)[0]
        triggered = tuple(rule for rule, yes in zip(self.rules.rules, matched, strict=True) if yes)
        if not self.space.is_discrete:
            return self._explain_parts(batch, triggered, None)
        wanted = int(np.argmax(self._scored.scores(batch)[0]))
        action = int(self.predict(batch)[0][0])
        return intervene(action, wanted, triggered, self.space, negative_first=self.precedence == "negative")

    def decide(self, observation: ArrayLike, wanted: ArrayLike) -> Intervention | JointIntervention:
        """Say what rules make of an action that somebody else wants, in a state: what they allow is taken as it is.

        Parameters
        ----------
        observation
            The state.
        wanted
            The action; whole numbers are counted from 0.
        """
        batch = as_observations(np.asarray(observation, np.float32).reshape(1, -1), self._width)
        advised = self.explain(batch)
        if isinstance(advised, JointIntervention):
            return self._explain_parts(batch, advised.triggered, np.asarray(wanted).reshape(1, -1))
        own = int(np.asarray(wanted))
        return replace(advised, wanted=own, action=_allowed(advised, own, self.n_actions, advised.action))

    def _explain_parts(
        self, batch: Observations, triggered: tuple[Rule, ...], wanted: NDArray[Any] | None
    ) -> JointIntervention:
        scored, groups = self._scored, self.space.groups
        assert isinstance(scored, ChoicePolicy)
        scores, own = scored.wishes(batch)
        if wanted is None:
            best = [[group.first + int(scores[0, group.choices].argmax()) for group in groups]]
            wanted = take_choices(scored, np.array(best), own)
        elif not any(group.regions is None for group in groups):
            scores = scores_of(groups, wanted)
        wishes = choices_of(groups, wanted)[0].tolist()
        guided = self._guide(batch, np.ascontiguousarray(scores))[0]
        parts, negative_first = [], self.precedence == "negative"
        for number, group in enumerate(groups):
            of_group = tuple(rule for rule in triggered if self.space.group_of(rule.action) == number)
            part = intervene(wishes[number], wishes[number], of_group, self.space, negative_first=negative_first)
            best_left = group.first + int(guided[group.choices].argmax())
            parts.append(replace(part, action=_allowed(part, wishes[number], group.count, best_left)))
        done = move_to(groups, wanted, np.array([[part.action for part in parts]]), self.enforce)
        return JointIntervention(self._shaped(done)[0], self._shaped(wanted)[0], tuple(parts))

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
        problem = why_not_saved(network)
        if problem is not None:
            raise LegibleError(
                f"only network policies can be saved: {problem}; save the rules with RuleSet.to_dict instead."
            )
        save_policy(network, path, metadata={**(metadata or {}), _GUIDANCE: json.dumps(self._documents())})

    def _documents(self) -> list[dict[str, Any]]:
        """The rules as plain data; a guided policy that was guided again has several, the innermost first."""
        inner = self.policy._documents() if isinstance(self.policy, GuidedPolicy) else []
        own: dict[str, Any] = {
            "rules": self.rules.to_dict(),
            "space": self.space.to_dict(),
            "precedence": self.precedence,
        }
        if not self.space.is_discrete:
            own["enforce"] = self.enforce
        if self.features is not None and not isinstance(self.features.reader, ObservationReader):
            own["features"] = features_to_dict(self.features)
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
        return self._copy(self.policy, self.features, seed, observation_shape)

    def trusting(self, function: str | None = None) -> GuidedPolicy:
        """Return the same guided policy with leave to import the function that its file names for what rules see.

        Parameters
        ----------
        function
            Its ``module:function``, so that no other one is imported; None: whatever the file names.
        """
        inner = self.policy.trusting(function) if isinstance(self.policy, GuidedPolicy) else self.policy
        return self._copy(inner, None if self.features is None else trusted(self.features, function))

    def _copy(
        self, policy: Policy, features: FeatureMap | None, seed: int = 0, shape: tuple[int, ...] | None = None
    ) -> GuidedPolicy:
        return GuidedPolicy(
            policy,
            self.rules,
            self.space,
            precedence=self.precedence,
            enforce=self.enforce,
            seed=seed,
            observation_shape=shape or self.observation_shape,
            features=features,
        )


def _features_of(space: FeatureSpace) -> FeatureMap | None:
    """What rules see that have derived features, and see nothing else than the observation."""
    if space.derived is None:
        return None
    shown = spaces.Box(-np.inf, np.inf, (space.n_own,), np.float32)
    return FeatureMap(space, ObservationReader(space.own.features), shown)


def _renormalised(guided: Scores, own: Scores) -> Scores:
    """Log-probabilities of one group of choices that add up to one again, in the rows that guidance changed."""
    best = guided.max(axis=1, keepdims=True)
    shifted = guided - np.where(np.isfinite(best), best, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    renormalised = shifted - np.where(np.isfinite(total), total, 0.0)
    return np.where((guided != own).any(axis=1, keepdims=True), renormalised, own)


def _allowed(advised: Intervention, wanted: int, choices: int, best_left: int) -> int:
    """What is done when somebody wants a choice: that, unless rules enforce another one or block it."""
    if advised.enforced is not None:
        return advised.enforced
    if wanted in advised.blocked and len(advised.blocked) < choices:
        return best_left
    return wanted


def with_its_rules(network: NetworkPolicy | ActorPolicy, path: str | Path) -> Policy:
    """Return the guided policy that a file holds, given its network; the network itself where the file has no rules."""
    text = network.metadata.get(_GUIDANCE)
    if text is None:
        return network
    try:
        found = json.loads(text)
        if not isinstance(found, list) or not found:
            raise ValueError("no rules")
        policy: Policy = network
        for document in found:
            space = FeatureSpace.from_dict(document["space"], str(path))
            rules = RuleSet.from_dict(document["rules"])
            enforce: Enforce = document.get("enforce", "typical")
            features = features_from_dict(document["features"], space) if "features" in document else None
            policy = GuidedPolicy(
                policy, rules, space, precedence=document["precedence"], enforce=enforce, features=features
            )
        return policy
    except LegibleError as error:
        raise LegibleError(f"{path}: its rules cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise LegibleError(
            f"{path}: its rules cannot be read, the file is damaged or was written by another version "
            f"({type(error).__name__}: {str(error)[:200]})."
        ) from error
