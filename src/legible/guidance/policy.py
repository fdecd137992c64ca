"""`GuidedPolicy`: a policy with rules that has ``predict``, explains its actions, and saves to one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from legible.display import Displayed
from legible.environments import FeatureMap, MaskReader
from legible.environments.feature_readers import ObservationReader
from legible.errors import LegibleError
from legible.features import FeatureSpace, choices_of, is_cut, move_to, scores_of
from legible.guidance.chooser import GuidedChooser
from legible.guidance.features import features_from_dict, features_to_dict, remember_actions, rows_of, trusted
from legible.guidance.intervention import Intervention, JointIntervention, intervene
from legible.guidance.kernel import check_precedence, guide_scores
from legible.play import AdaptedPolicy, Observations, Scores, adapt_policy, choose_actions
from legible.play.choosing import choices_to_actions
from legible.policies import (
    ActorPolicy,
    NetworkPolicy,
    Policy,
    ScoreKind,
    acting,
    load_policy,
    save_policy,
)
from legible.policies.policy_file import why_not_saved
from legible.policies.protocol import MASKED, as_observations
from legible.rules import CompiledRules, Rule, RuleSet
from legible.settings import Enforce, Precedence

_GUIDANCE = "legible.guidance"


class GuidedPolicy(Displayed):
    """A policy that is guided by rules.

    Parameters
    ----------
    policy
        The unguided policy.
    rules
        The rules, for example a composition found by `legible.improvement`.
    space
        Names of features and actions.
    precedence
        Which rules win a conflict, positive or negative ones.
    enforce
        The value of a continuous action that rules move into another region.
    seed
        Seed of the random choices if all actions are blocked, or if actions are sampled.
    observation_shape
        Shape of one observation. Only needed if an observation looks like a batch of one: ``()`` for single discrete
        numbers.
    features
        The features that rules see, if not the observation alone (`legible.environments.map_features`). Derived
        features of `space` need no map: they are computed from the observation.

    Attributes
    ----------
    n_features, n_actions
        Number of features (of numbers in a row if rules see more), and of actions, or of choices in all groups.
    kind
        Kind of the scores, as for the unguided policy; "none" if an action is not a single choice.
    recurrent, stochastic
        Whether `predict` returns a state to pass back, because features depend on earlier steps, and whether actions
        can be sampled.

    If rules see more than the observation, `scores`, `explain` and `decide` take rows of features, as a
    `legible.environments.FeatureEnv` shows them. `predict` also takes observations, if the features can be computed
    from them; the memory of the episode is its state, as in Stable-Baselines3. `legible.GuidedEnv` always works.

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
        policy: Policy,  # to be guided
        rules: RuleSet | Iterable[Rule],  # take or avoid an action if all conditions hold
        space: FeatureSpace,  # names and kinds of features and actions
        *,
        precedence: Precedence = "positive",  # which rules win a conflict: "positive" (take) or "negative" (avoid) ones
        enforce: Enforce = "typical",  # the value of a continuous action that rules move; or "nearest"
        seed: int = 0,  # of sampled actions
        observation_shape: tuple[int, ...] | None = None,  # of one observation, if it looks like a batch of one
        features: FeatureMap | None = None,  # the features that rules see, if not the observation alone
    ) -> None:
        """Combine a policy with rules, after checks that they fit each other; the class explains the parameters."""
        check_precedence(precedence)
        self.rules = rules if isinstance(rules, RuleSet) else RuleSet(tuple(rules))
        for rule in self.rules.rules:
            rule.check(space)
        if not is_cut(space):
            raise LegibleError("continuous actions must be divided into regions before rules can use them.")

        # `_scored` is the policy as it plays here: it reads rows of features, and scores every choice.
        if features is not None:
            self.features: FeatureMap | None = features.with_space(space)
        else:
            self.features = _flat_features(space) if space.derived is not None else None
        self._scored = adapt_policy(policy, space=space, features=self.features)
        if len(space.actions) != self._scored.n_actions:
            raise LegibleError(f"the policy has {policy.n_actions} actions, the feature space {len(space.actions)}.")

        self.policy = policy
        self.space = space
        self.precedence = precedence
        self.enforce: Enforce = enforce
        self.observation_shape = observation_shape
        self._width = len(space) if self.features is None else self.features.width
        self.n_features: int | None = self._width
        self.n_actions = self._scored.n_actions
        self.kind: ScoreKind = policy.kind if space.is_discrete else "none"
        self.recurrent = space.derived is not None  # derived features may depend on earlier steps
        self.stochastic = acting(self._scored).stochastic
        self._compiled = CompiledRules.compile([self.rules])
        self._rng = np.random.default_rng(seed)

    def check_sees_observations(self, what: str) -> None:
        """Raise if rules see more than the observation; `what` names the operation that then fails."""
        # Observations of another width are raw: features for the rules are computed from them.
        if self.features is not None and (
            self.space.derived is not None or not isinstance(self.features.reader, ObservationReader)
        ):
            raise LegibleError(
                f"{what}: these rules see features that the policy's network does not (derived ones, or your own); "
                "use the guided policy itself, or a GuidedEnv."
            )

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {"rules": len(self.rules.rules), "network": self.network}

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of flat observations."""
        return spaces.Box(-np.inf, np.inf, self.observation_shape or (self._width,), np.float32)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of the actions."""
        return spaces.Discrete(self.n_actions) if self.space.is_discrete else acting(self.policy).action_space

    def scores(self, observations: Observations) -> Scores:
        """Return the policy's scores with blocked actions at −∞; probabilities are renormalised.

        If everything is blocked, all scores are −∞ and any action may be taken. This applies to each group of choices.
        """
        batch = as_observations(observations, self._width)
        own_scores = np.ascontiguousarray(self._scored.scores(batch))
        guided = self._guide(batch, own_scores)
        if self._scored.kind != "log-probabilities":
            return guided
        parts = [_renormalised(guided[:, group.choices], own_scores[:, group.choices]) for group in self.space.groups]
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
        action_masks: ArrayLike | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Return the guided action for an observation, or one action per observation of a batch, and the new state.

        The signature is that of Stable-Baselines3's ``predict``.

        Parameters
        ----------
        observation
            One observation of the environment or a batch of n; or, if rules see more than the observation, rows of
            features as a `legible.environments.FeatureEnv` shows them.
        state
            The state that the call before returned, None at the start of episodes. It holds the memory of derived
            features, which depend on earlier steps.
        episode_start
            ``bool[n]``: where an episode starts although there is a state.
        deterministic
            Whether to take the best action instead of sampling one.
        action_masks
            ``bool[n, choices]``: the allowed actions, in an environment with action masks.
        rng
            Generator to sample with; by default the policy's own.
        """
        # Observations of the environment are recognised by their width: compute the features that rules see.
        if self.features is not None and (
            isinstance(observation, Mapping) or np.shape(observation)[-1:] != (self._width,)
        ):
            rows, is_single, memory = rows_of(self.features, observation, state, episode_start, action_masks)
            actions, _ = self.predict(rows, deterministic=deterministic, rng=rng)
            remember_actions(self.features, memory, actions)  # for features about the last action
            return (actions[0] if is_single else actions), None if memory is None else (memory[None],)

        # Rows of features. Random numbers follow from a key and a step: draw a key for each row; all steps are 0. A
        # generator of the caller may have no `integers` (`legible.streams.RowGenerator`).
        array = np.asarray(observation, np.float32)
        if array.size % self._width:
            raise LegibleError(f"an observation must have {self._width} features, got an array of shape {array.shape}.")
        is_single, batch = self._is_single(array), array.reshape(-1, self._width)
        n = len(batch)
        keys = (
            self._rng.integers(0, 2**63, n, np.uint64) if rng is None else (rng.random(n) * 2.0**63).astype(np.uint64)
        )
        zero_steps = np.zeros(n, np.int64)
        # An action is a single choice, made from the guided scores; or it has several parts, each guided separately, by
        # a chooser with one rule set (number 0) for all rows.
        if self.space.is_discrete:
            sample = not deterministic and self.kind == "log-probabilities"
            actions = choose_actions(self.scores(batch), keys, zero_steps, sample=sample)
        else:
            sample = not deterministic and self.stochastic
            chooser = GuidedChooser(
                self._scored, [self.rules], [0], [0], sample=sample, precedence=self.precedence, enforce=self.enforce
            )
            actions = self._shaped(chooser.act(batch, zero_steps, keys, zero_steps).actions)
        return (actions[0] if is_single else actions), state

    def _shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows.reshape(len(rows), *(self.action_space.shape or ()))

    def _is_single(self, array: NDArray[np.float32]) -> bool:
        """Return whether an array is a single observation, not a batch."""
        if self.observation_shape is not None:
            return array.shape == self.observation_shape
        if array.size != self._width:
            return False
        return array.ndim <= 1 or (array.shape[0] != 1 and array.shape[-1] != self._width)

    def explain(self, observation: ArrayLike) -> Intervention | JointIntervention:
        """Return the intervention in a state: the action, the rules that triggered, and what the policy wanted."""
        row = np.asarray(observation, np.float32).reshape(1, -1)
        batch = as_observations(row, self._width)
        matched = self._compiled.matches(batch)[0]
        triggered = tuple(rule for rule, yes in zip(self.rules.rules, matched, strict=True) if yes)
        if not self.space.is_discrete:
            return self._explain_parts(batch, triggered, None)
        own_scores = self._scored.scores(batch)[0]
        wanted, allowed = int(np.argmax(own_scores)), np.flatnonzero(own_scores != MASKED).tolist()
        action, negative_first = int(self.predict(batch)[0][0]), self.precedence == "negative"
        return intervene(action, wanted, triggered, self.space, negative_first=negative_first, allowed=allowed)

    def decide(self, observation: ArrayLike, wanted: ArrayLike) -> Intervention | JointIntervention:
        """Return the intervention for a given action in a state; an action that the rules allow is taken.

        Parameters
        ----------
        observation
            The state.
        wanted
            The action, with discrete values counted from 0.
        """
        batch = as_observations(np.asarray(observation, np.float32).reshape(1, -1), self._width)
        advised = self.explain(batch)
        if isinstance(advised, JointIntervention):
            return self._explain_parts(batch, advised.triggered, np.asarray(wanted).reshape(1, -1))
        wanted_choice = int(np.asarray(wanted))
        return replace(
            advised, wanted=wanted_choice, action=_allowed(advised, wanted_choice, self.n_actions, advised.action)
        )

    def _explain_parts(
        self, batch: Observations, triggered: tuple[Rule, ...], wanted: NDArray[Any] | None
    ) -> JointIntervention:
        """Return a record of what rules do to an action of several parts, or a continuous one, in one state.

        Parameters
        ----------
        batch
            ``float32[1, features]``: the state.
        triggered
            The rules whose conditions hold in it.
        wanted
            ``[1, groups]``: the action before rules change it; None for the best action of the policy.
        """
        scored, groups = self._scored, self.space.groups
        assert isinstance(scored, AdaptedPolicy)
        # The wanted action, and scores of all choices: the policy's, or those by which the wanted action is the best.
        scores, own_actions = scored.outputs(batch)
        if wanted is None:
            best_choices = [[group.first + int(scores[0, group.choices].argmax()) for group in groups]]
            wanted = choices_to_actions(scored, np.array(best_choices), own_actions)
        elif all(group.regions is not None for group in groups):  # scores of regions follow from the action alone
            scores = scores_of(groups, wanted)

        # Per part of the action: the wanted choice is kept if the rules allow it, otherwise the best one that they
        # leave is taken.
        wanted_choices = choices_of(groups, wanted)[0].tolist()
        guided = self._guide(batch, np.ascontiguousarray(scores))[0]
        parts, negative_first = [], self.precedence == "negative"
        for i, group in enumerate(groups):
            group_rules = tuple(rule for rule in triggered if self.space.group_of(rule.action) == i)
            allowed = (group.first + np.flatnonzero(scores[0, group.choices] != MASKED)).tolist()
            wanted_choice = wanted_choices[i]
            part = intervene(
                wanted_choice, wanted_choice, group_rules, self.space, negative_first=negative_first, allowed=allowed
            )
            best_guided_choice = group.first + int(guided[group.choices].argmax())
            parts.append(replace(part, action=_allowed(part, wanted_choice, group.count, best_guided_choice)))
        final_action = move_to(groups, wanted, np.array([[part.action for part in parts]]), self.enforce)
        return JointIntervention(self._shaped(final_action)[0], self._shaped(wanted)[0], tuple(parts))

    @property
    def network(self) -> Policy:
        """The policy without any rules, also if it was guided several times."""
        return self.policy.network if isinstance(self.policy, GuidedPolicy) else self.policy

    def save(self, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write policy, rules and names into one ``.safetensors`` file, which `legible.load_policy` reads.

        `metadata` holds additional entries, in types that JSON supports.
        """
        network = self.network
        problem = why_not_saved(network)
        if problem is not None:
            raise LegibleError(
                f"only network policies can be saved: {problem}; save the rules with RuleSet.to_dict instead."
            )
        save_policy(network, path, metadata={**(metadata or {}), _GUIDANCE: json.dumps(self._documents())})

    def _documents(self) -> list[dict[str, Any]]:
        """Return the rules as plain data: one entry per layer of guidance, the innermost first."""
        inner = self.policy._documents() if isinstance(self.policy, GuidedPolicy) else []
        rules, space = self.rules.to_dict(), self.space.to_dict()
        guidance: dict[str, Any] = {"rules": rules, "space": space, "precedence": self.precedence}
        if not self.space.is_discrete:
            guidance["enforce"] = self.enforce
        if self.features is not None and not isinstance(self.features.reader, ObservationReader):
            guidance["features"] = features_to_dict(self.features)
        if self.features is not None and self.features.masks is not None:
            guidance["masks"] = {"source": self.features.masks.source, "sizes": list(self.features.masks.sizes)}
        return [*inner, guidance]

    @classmethod
    def load(cls, path: str | Path, *, seed: int = 0, observation_shape: tuple[int, ...] | None = None) -> GuidedPolicy:
        """Read a file that `save` wrote, as `legible.load_policy` does, with a seed for random choices."""
        policy = load_policy(path)
        if not isinstance(policy, GuidedPolicy):
            raise LegibleError(f"{path}: is a policy without rules; load it as an ordinary policy.")
        return policy.seeded(seed, observation_shape)

    def seeded(self, seed: int, observation_shape: tuple[int, ...] | None = None) -> GuidedPolicy:
        """Return the same guided policy with another seed for its random choices."""
        return self._copy(self.policy, self.features, seed, observation_shape)

    def trusting(self, function: str | None = None) -> GuidedPolicy:
        """Return the same guided policy, allowed to import the feature function that its file names.

        `function` restricts this to one ``module:function``; by default any function that the file names is allowed.
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


def _flat_features(space: FeatureSpace) -> FeatureMap:
    """Return the map for the features of flat observations, and for derived ones."""
    shown = spaces.Box(-np.inf, np.inf, (space.n_own,), np.float32)
    return FeatureMap(space, ObservationReader(space.own.features), shown)


def _renormalised(guided: Scores, own: Scores) -> Scores:
    """Return the log-probabilities of one group of choices, normalised in the rows that guidance changed."""
    best = guided.max(axis=1, keepdims=True)
    shifted = guided - np.where(np.isfinite(best), best, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    renormalised = shifted - np.where(np.isfinite(total), total, 0.0)
    return np.where((guided != own).any(axis=1, keepdims=True), renormalised, own)


def _allowed(advised: Intervention, wanted: int, choices: int, best_left: int) -> int:
    """Return the wanted choice, unless rules enforce another one or block it."""
    if advised.enforced is not None:
        return advised.enforced
    if wanted in advised.blocked and len(advised.blocked) < choices:
        return best_left
    return wanted


def restore_guidance(network: NetworkPolicy | ActorPolicy, path: str | Path) -> Policy:
    """Return a network with the rules that its file holds; the network itself if the file has no rules.

    Parameters
    ----------
    network
        The policy as read from the file, whose metadata hold the rules as text.
    path
        The file, for error messages.
    """
    text = network.metadata.get(_GUIDANCE)
    if text is None:
        return network
    try:
        rule_layers = json.loads(text)
        if not isinstance(rule_layers, list) or not rule_layers:
            raise ValueError("no rules")
        # A policy may be guided several times, innermost rules first.
        policy: Policy = network
        for document in rule_layers:
            space = FeatureSpace.from_dict(document["space"], str(path))
            rules = RuleSet.from_dict(document["rules"])
            enforce: Enforce = document.get("enforce", "typical")
            features = features_from_dict(document["features"], space) if "features" in document else None
            if "masks" in document:
                masks = MaskReader(document["masks"]["source"], tuple(map(int, document["masks"]["sizes"])))
                features = replace(features or _flat_features(space), masks=masks)
            policy = GuidedPolicy(
                policy, rules, space, precedence=document["precedence"], enforce=enforce, features=features
            )
        return policy
    except LegibleError as error:
        raise LegibleError(f"{path}: its rules cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise LegibleError(
            f"{path}: its rules cannot be read; the file is damaged or was written by another version "
            f"({type(error).__name__}: {str(error)[:200]})."
        ) from error
