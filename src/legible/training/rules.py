"""Rules in training: allowed choices, fading, and the margin loss.

- `TrainingRules`: the rules of a guided policy, a study's folder or a text file (`read_rules`).
- `RuleSettings`: the schedule by which they fade out, and their margin loss.
- `RuleMasks`: the choices that the rules allow in the states of a batch.
- `guided_shift`: a shift of logits with which a policy follows the rules in a share of its actions.
- `margin_loss`: a penalty on high scores of forbidden choices.

Algorithms only ask which choices the rules *allow* in a state (Algorithm 1): the enforced one where positive rules
agree on one, else all that no negative rule blocks, else all. So enforcing and blocking are one case: the margin loss
``max(0, max over forbidden (score + margin) − max over allowed score)`` is the loss of DQfD where a choice is enforced,
and otherwise puts a blocked choice a margin below the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legible.environments import Env, EnvironmentSpec, resolve_names
from legible.errors import LegibleError
from legible.features import FeatureSpace, is_cut
from legible.guidance import GuidedPolicy
from legible.guidance.kernel import guide_row
from legible.imports import njit
from legible.policies.protocol import MASKED
from legible.rules import CompiledRules, RuleSet, parse_rule
from legible.settings import Enforce, Precedence
from legible.training.errors import TrainingError

LEAST_SHIFT = -1e4  # stands for −∞: probabilities are zero, and zero times it is zero
_MOST_TEXT_BYTES = 1_000_000


class RuleLayer(NamedTuple):
    """Rules that guide together, and their precedence where they conflict."""

    rules: RuleSet
    precedence: Precedence


@dataclass(frozen=True)
class RuleSettings:
    """Settings of rules in a training.

    >>> settings = RuleSettings(fade=0.5)
    >>> [settings.share(done) for done in (0.0, 0.25, 0.5, 1.0)]
    [1.0, 0.5, 0.0, 0.0]
    """

    fade: float = 0.5  # the share of the training over which guidance falls linearly from 1 to 0
    # The distance by which forbidden choices must score below the best allowed one; None for no such loss. Scores are
    # Q-values for DQN, logits for PPO, and depths in a region, in spreads of the dimension, for SAC and TD3.
    margin: float | None = None
    margin_weight: float = 1.0  # weight of the margin loss; it fades out with the rules

    def __post_init__(self) -> None:
        if not 0.0 < self.fade <= 1.0:
            raise TrainingError(f"rules fade out over a share of the training above 0, at most 1, not {self.fade}.")
        if self.margin is not None and not 0.0 <= self.margin < np.inf:
            raise TrainingError(f"the margin must be at least 0, got {self.margin}.")
        if not 0.0 <= self.margin_weight < np.inf:
            raise TrainingError(f"the weight of the margin loss must be at least 0, got {self.margin_weight}.")

    def share(self, done: float) -> float:
        """Return the share of guidance after a share of the training: 1 at first, 0 after the rules have faded out."""
        return max(0.0, 1.0 - done / self.fade)


@dataclass(frozen=True)
class TrainingRules:
    """Rules that guide a training."""

    layers: tuple[RuleLayer, ...]  # rules, the innermost first: a guided policy that was guided again has several
    space: FeatureSpace  # names of features and actions, with the regions of continuous ones
    enforce: Enforce = "typical"  # the value of a continuous action that rules move into another region

    def __post_init__(self) -> None:
        for rule in (rule for layer in self.layers for rule in layer.rules.rules):
            rule.check(self.space)
            # Derived features have a memory, which a replay buffer lacks.
            derived = [feature for feature in rule.features if feature >= self.space.n_own]
            if derived:
                raise TrainingError(
                    f"the rule {rule.text(self.space)!r} uses {self.space[derived[0]].name!r}, which is derived; rules "
                    "in training see the observation only."
                )
        if not is_cut(self.space):
            raise TrainingError("continuous actions must be cut into regions before rules can use them.")

    @classmethod
    def of(cls, guided: GuidedPolicy) -> TrainingRules:
        """Return the rules of a guided policy."""
        layers: list[RuleLayer] = []
        policy = guided
        while True:
            policy.check_sees_observations("a policy cannot be trained with these rules")
            layers.insert(0, RuleLayer(policy.rules, policy.precedence))
            if not isinstance(policy.policy, GuidedPolicy):
                return cls(tuple(layers), guided.space, guided.enforce)
            policy = policy.policy

    @property
    def n_rules(self) -> int:
        """The number of rules."""
        return sum(len(layer.rules) for layer in self.layers)

    def description(self) -> dict[str, Any]:
        """Return the rules as plain data, for the description of a training."""
        layers = [{"rules": layer.rules.text(self.space), "precedence": layer.precedence} for layer in self.layers]
        return {"layers": layers, **({} if self.space.is_discrete else {"enforce": self.enforce})}


class RuleMasks:
    """The choices that rules allow, for several policies with the same numbers of features and choices.

    >>> space = FeatureSpace.of(["gap"], ["Brake", "Go", "Turn"])
    >>> rules = RuleSet((parse_rule("+Brake <- gap < 5", space), parse_rule("-Turn <- gap < 9", space)))
    >>> masks = RuleMasks([TrainingRules((RuleLayer(rules, "positive"),), space)])
    >>> masks.allowed(np.array([[3.0], [8.0], [10.0]], np.float32)).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    def __init__(self, rules: Sequence[TrainingRules]) -> None:
        layers = [layer for each in rules for layer in each.layers]
        self._compiled = CompiledRules.compile([layer.rules for layer in layers])
        self._negative_first = np.array([layer.precedence == "negative" for layer in layers], np.bool_)
        self._first_layers = np.cumsum([0, *(len(each.layers) for each in rules)], dtype=np.int64)
        self.starts = rules[0].space.group_starts
        self.n_policies, self.n_choices = len(rules), int(self.starts[-1])

    def allowed(self, observations: NDArray[np.float32], masks: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return which choices the rules allow, ``bool[n, choices]``.

        `observations` are ``[n, features]``: first those of the first policy, then as many of the second, and so on.
        `masks` ``bool[n, choices]`` are the environment's action masks; where rules block everything that they allow,
        all of that is allowed.
        """
        # Contiguous rows of the types that the compiled function expects.
        rows = np.ascontiguousarray(observations, np.float32).reshape(len(observations), -1)
        allowed = np.empty((len(rows), self.n_choices), np.bool_)
        rows_per_policy = len(rows) // self.n_policies
        possible = np.ones_like(allowed) if masks is None else np.ascontiguousarray(masks, np.bool_)
        _mark_allowed(
            self._compiled,
            self._first_layers,
            self._negative_first,
            rows_per_policy,
            rows,
            self.starts,
            possible,
            allowed,
        )
        return allowed


@njit(cache=True, nogil=True)
def _mark_allowed(
    rules: CompiledRules,
    first_layers: NDArray[np.int64],
    negative_first: NDArray[np.bool_],
    rows_per_policy: int,
    observations: NDArray[np.float32],
    group_starts: NDArray[np.int64],
    possible: NDArray[np.bool_],
    allowed: NDArray[np.bool_],
) -> None:
    """Set ``allowed[i, c]`` to whether the rules allow choice c in observation i.

    A *choice* is a discrete action, or a region of a continuous one. Choices form *groups*: one choice of each group is
    taken per step (an environment with Discrete actions has one group).

    - `rules`: all layers of rules, compiled. The rules of a layer are applied together, the layers of a policy in turn.
    - `first_layers`: ``[policies + 1]``: policy p has the layers from ``first_layers[p]`` up to ``first_layers[p +
      1]``.
    - `negative_first`: ``[layers]``: whether rules that forbid an action win over rules that demand one.
    - `rows_per_policy`: the first `rows_per_policy` observations belong to policy 0, the next ones to policy 1, and so
      on.
    - `group_starts`: ``[groups + 1]``: group g holds the choices from ``group_starts[g]`` up to ``group_starts[g +
      1]``.
    - `possible`: ``[n, choices]``: the choices that the environment's action mask allows.
    """
    n_choices = allowed.shape[1]
    scratch = np.empty((2, n_choices), np.bool_)  # working memory of `guide_row`
    scores = np.empty(n_choices, np.float64)
    for i in range(observations.shape[0]):
        policy = i // rows_per_policy
        for choice in range(n_choices):
            scores[choice] = 0.0 if possible[i, choice] else MASKED
        # The rules lower the score of every choice that they forbid to MASKED.
        for layer in range(first_layers[policy], first_layers[policy + 1]):
            guide_row(rules, layer, observations[i], negative_first[layer], scores, group_starts, scratch)
        # If the rules forbid all choices of a group, all possible ones are allowed again.
        for group in range(group_starts.size - 1):
            some_allowed = scores[group_starts[group] : group_starts[group + 1]].max() > MASKED
            for choice in range(group_starts[group], group_starts[group + 1]):
                allowed[i, choice] = scores[choice] > MASKED or (possible[i, choice] and not some_allowed)


# --- Guidance and losses ---------------------------------------------------------------------------------------------


def guided_shift(logits: Tensor, allowed: Tensor, share: Tensor, starts: Sequence[int]) -> Tensor:
    """Return what to add to logits so that forbidden choices keep only the fraction 1 − share of their probability.

    The policy with shifted logits is the one that acts *and* the one that PPO improves, so it learns from its own
    actions; as the share falls to zero it becomes the network's policy. The allowed choices keep their proportions, and
    so do the forbidden ones.

    - `logits`: ``[…, choices]``. A choice is a discrete action, or a value of one component of a MultiDiscrete action.
    - `allowed`: ``bool[…, choices]``: whether the rules allow a choice.
    - `share`: the share of guidance, from 0 (none) to 1 (forbidden choices get probability zero).
    - `starts`: the first choice of each component, and the number of choices at the end.
    """
    shifts = []
    log_rest = (1.0 - share).log()  # −∞ for a share of 1
    for first, last in pairwise(starts):
        is_allowed = allowed[..., first:last]
        log_probabilities = logits[..., first:last].log_softmax(dim=-1)
        log_allowed = log_probabilities.masked_fill(~is_allowed, -torch.inf).logsumexp(dim=-1, keepdim=True)
        # A forbidden probability b falls to (1 − share) · b, and the allowed 1 − b grows accordingly. Adding one number
        # to all forbidden logits does both, because the softmax normalises afterwards: the logarithm of
        # (1 − share) · (1 − b) / (share + (1 − share) · (1 − b)).
        forbidden_shift = log_rest + log_allowed - torch.logaddexp(share.log(), log_rest + log_allowed)
        shifts.append(
            torch.where(is_allowed, torch.zeros_like(log_probabilities), forbidden_shift.clamp(min=LEAST_SHIFT))
        )
    return torch.cat(shifts, dim=-1)


def margin_loss(scores: Tensor, allowed: Tensor, margin: float, starts: Sequence[int]) -> Tensor:
    """Return the margin loss of every row of scores ``[…, choices]``, summed over groups.

    >>> scores, allowed = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[True, False, True]])
    >>> margin_loss(scores, allowed, 0.5, (0, 3)).tolist()  # 3 + 0.5 − 2
    [1.5]
    """
    losses = []
    for first, last in pairwise(starts):
        group_scores, is_allowed = scores[..., first:last], allowed[..., first:last]
        forbidden = group_scores.masked_fill(is_allowed, -torch.inf).max(dim=-1).values
        best = group_scores.masked_fill(~is_allowed, -torch.inf).max(dim=-1).values
        losses.append((forbidden + margin - best).clamp(min=0.0))
    return torch.stack(losses).sum(dim=0)


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_rules(
    source: str | Path, environment: EnvironmentSpec, names: str | Path | FeatureSpace | None = None
) -> TrainingRules:
    """Return the rules that guide a training, after a check that they belong to its environment.

    - `source`: the folder of a study, for the rules that it found to improve the policy; the file of a guided policy
      (``guided.safetensors``); or a text file with one rule per line (empty lines and those that begin with # are
      ignored).
    - `environment`: the environment of the training.
    - `names`: the user's names of features and actions, for a text file.
    """
    path = Path(source)
    env = environment.make()
    try:
        if path.is_dir() or path.suffix == ".safetensors":
            policy_file = path / "guided.safetensors" if path.is_dir() else path
            if path.is_dir() and not policy_file.is_file():
                if not (path / "study.json").is_file():
                    raise TrainingError(f"{path}: holds no study; 'legible run ENV POLICY --out {path}' makes one.")
                raise TrainingError(
                    f"{path}: this study has no guided policy. Either it is not finished ('legible run {path}' "
                    "continues it), or its composition is empty, and there is nothing to train with."
                )
            rules = TrainingRules.of(GuidedPolicy.load(policy_file))
            # The file has names of its own, which can be those of another environment.
            _check_names(rules.space, env, f"{source}", environment.name)
        else:
            rules = _read_text(path, env, names)
    finally:
        env.close()
    if not rules.n_rules:
        raise TrainingError(f"{source}: there are no rules in it, so there is nothing to train with.")
    return rules


def _check_names(space_of_rules: FeatureSpace, env: Env, source: str, environment: str) -> None:
    """Raise if the features or actions of rules have other numbers or names than those of the environment.

    `space_of_rules` has the names that the rules use. `source` and `environment` are the names of the rules and of the
    environment in the message.
    """
    named_space = resolve_names(env)
    own_space = named_space.space
    if own_space.is_discrete:
        actions = (own_space.action_names, space_of_rules.action_names)
    else:  # regions differ between studies, so only the dimensions of the actions are compared
        actions = (
            tuple(group.name for group in own_space.groups),
            tuple(group.name for group in space_of_rules.groups),
        )
    # `own` are the features of the observation; derived ones cannot occur in these rules.
    features = (own_space.own.names, space_of_rules.own.names)
    for what, (own_names, names_of_rules) in {"features": features, "actions": actions}.items():
        if len(own_names) != len(names_of_rules):
            raise TrainingError(
                f"{source}: its rules belong to another environment: they have {len(names_of_rules)} {what}, but "
                f"{environment} has {len(own_names)}."
            )
        different = [pair for pair in zip(own_names, names_of_rules, strict=True) if pair[0] != pair[1]]
        if different and named_space.is_named:  # names that legible made up, such as f0, prove nothing
            own_name, name_of_rules = different[0]
            raise TrainingError(
                f"{source}: its rules belong to another environment: among their {what} is {name_of_rules!r} where "
                f"{environment} has {own_name!r}."
            )


def _read_text(path: Path, env: Env, names: str | Path | FeatureSpace | None) -> TrainingRules:
    """Return the rules of a text file that has one rule per line, such as ``-push_left <- angle > 0.1``.

    `names` are the user's names of features and actions; without them the environment's are used.
    """
    space = resolve_names(env, names).space
    # Rules on continuous actions name regions ("steer left"), and only a study decides where regions begin and end.
    if not is_cut(space):
        raise TrainingError(
            f"{path}: rules on continuous actions need the regions of a study; give its folder or its "
            "guided.safetensors instead of a text."
        )

    # A wrong path may lead to a huge or binary file, so the size is checked before reading.
    try:
        if path.stat().st_size > _MOST_TEXT_BYTES:
            raise TrainingError(f"{path}: is too large for a text of rules ({_MOST_TEXT_BYTES} bytes at most).")
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise TrainingError(f"{path}: no such file or folder with rules.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"{path}: cannot be read as a text of rules ({error}).") from error

    rules = []
    for number, line in enumerate(lines, 1):
        is_comment = line.lstrip().startswith("#")
        if line.strip() and not is_comment:
            try:
                rules.append(parse_rule(line, space))
            except LegibleError as error:
                raise TrainingError(f"{path}, line {number}: {error}") from error
    without_repeats = RuleSet(tuple(dict.fromkeys(rules)))
    # All rules apply together, in one layer; where they conflict, those that demand an action win.
    return TrainingRules((RuleLayer(without_repeats, "positive"),), space)
