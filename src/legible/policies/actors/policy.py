"""`ActorPolicy`: a policy for any spaces that acts like the library that trained it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import nn

from legible.display import Displayed
from legible.policies.actors.heads import Bits, Categories, Head, QValues
from legible.policies.actors.observations import Statistics, batch_of, normalised_batch, tensors_of
from legible.policies.predicting import own_generator
from legible.policies.protocol import Observations, PolicyError, ScoreKind, Scores, as_scores

State = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


class SpacePolicy(Displayed):
    """Base of policies with any spaces: their widths as numbers."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {"observations": self.observation_space, "actions": self.action_space}

    @property
    def n_actions(self) -> int:
        """Number of discrete actions, 0 for other actions."""
        return int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else 0

    @property
    def n_features(self) -> int | None:
        """Width of a flat observation, None for dictionaries."""
        space = self.observation_space
        return None if isinstance(space, spaces.Dict) else int(np.prod(space.shape or (1,)))


@dataclass(frozen=True, eq=False, repr=False)
class ActorPolicy(SpacePolicy):
    """A network from observations of any space to actions of any space."""

    # Spaces of the observations and actions
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    # Feature extractor, hidden layers, and the head that gives actions
    extractor: nn.Module
    body: nn.Module
    head: Head
    memory: nn.LSTM | None = None  # LSTM between extractor and body, None without memory
    # Whether the head gives continuous actions between −1 and 1, which are scaled to the bounds of the action space;
    # otherwise they are clipped
    squashed: bool = False
    scale_images: bool = True  # whether images are divided by 255
    normalisation: Statistics | None = None  # observation statistics, applied first; by entry for dictionaries
    env_id: str | None = None  # the environment that the policy was trained in, None if unknown
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in (self.extractor, self.body, self.head, self.memory):
            if isinstance(part, nn.Module):
                part.eval().requires_grad_(False)

    @property
    def recurrent(self) -> bool:
        """True if the policy has memory."""
        return self.memory is not None

    @property
    def stochastic(self) -> bool:
        """True if actions can be sampled."""
        return self.head.stochastic

    @property
    def kind(self) -> ScoreKind:
        """Meaning of the scores, ``"none"`` without scores."""
        if self.recurrent or not isinstance(self.action_space, spaces.Discrete):
            return "none"
        return "values" if isinstance(self.head, QValues) else "log-probabilities"

    def scores(self, observations: Observations, action_masks: npt.ArrayLike | None = None) -> Scores:
        """Return the scores ``float32[n, actions]`` of a batch of observations, flat or in their space."""
        if self.kind == "none":
            why = "it has memory" if self.recurrent else f"its actions are {self.action_space}"
            raise PolicyError(
                f"this policy has no score for every action, because {why}; scores need a policy without memory and "
                "with actions of a Discrete space"
            )
        scores = self.part_scores(observations, action_masks)
        return as_scores(scores, len(scores), self.n_actions)

    @property
    def has_part_scores(self) -> bool:
        """True if every value of every part of an action has a score."""
        return not self.recurrent and isinstance(self.head, Categories | Bits)

    @property
    def takes_masks(self) -> bool:
        """True if the policy was trained with action masks: scores and actions depend on them."""
        return self.head.maskable

    def part_scores(self, observations: Observations, action_masks: npt.ArrayLike | None = None) -> Scores:
        """Return the concatenated log-probabilities ``float32[n, values]`` of the values of all parts."""
        batch, _ = batch_of(observations, self.observation_space)
        assert isinstance(self.head, QValues | Categories | Bits)
        with torch.inference_mode():
            latent, _ = self._latent(batch, None, None)
            scores: Scores = self.head.scores(latent, self._masks(action_masks, len(latent))).numpy()
        return scores

    def predict(
        self,
        observation: Any,
        state: State | None = None,
        episode_start: npt.ArrayLike | None = None,
        deterministic: bool = True,
        action_masks: npt.ArrayLike | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[npt.NDArray[Any], State | None]:
        """Return the action for an observation, or one action per observation of a batch, and the new memory.

        The signature is that of Stable-Baselines3's ``predict``.

        - `observation`: an observation of `observation_space`, or a batch of them along the first axis.
        - `state`: the memory that the call before returned, None at the start; policies without memory return it
          unchanged.
        - `episode_start`: ``bool[n]``: where an episode begins, the memory is reset.
        - `deterministic`: whether to return the most likely action instead of a sample.
        - `action_masks`: ``bool[n, choices]``: the allowed actions, for policies that were trained with masks.
        - `rng`: generator to sample with; by default one that the policy keeps, from seed 0.
        """
        # Features from the extractor, the memory and the hidden layers; the head turns them into actions, which it
        # samples if it gets a generator.
        observations, is_single = batch_of(observation, self.observation_space)
        samples = self.stochastic and not deterministic
        generator = (rng or own_generator(self)) if samples else None
        with torch.inference_mode():
            latent, state = self._latent(observations, state, episode_start)
            flat_actions = self.head(latent, generator, self._masks(action_masks, len(latent))).numpy()
        # The head returns float32[n, numbers of an action]: give each action the shape and the type of its space.
        space = self.action_space
        actions: npt.NDArray[Any] = flat_actions.reshape(-1, *(space.shape or ()))
        if not isinstance(space, spaces.Box):
            actions = actions.astype(space.dtype if isinstance(space, spaces.MultiBinary) else np.int64)
        elif self.squashed:  # tanh ended between -1 and 1: scale to the bounds
            actions = space.low + (0.5 * (actions + 1.0) * (space.high - space.low))
        else:
            actions = np.clip(actions, space.low, space.high)
        return (actions[0] if is_single else actions), state

    def try_once(self) -> None:
        """Predict once on zeros, which raises an error if tensors do not fit each other or the spaces."""
        space = self.observation_space
        parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        zeros = {key: np.zeros((1, *(part.shape or ())), part.dtype) for key, part in parts.items()}
        self.predict(zeros if isinstance(space, spaces.Dict) else zeros[""])

    def _masks(self, action_masks: npt.ArrayLike | None, n_rows: int) -> torch.Tensor | None:
        if action_masks is None:
            return None
        if not self.head.maskable:
            raise PolicyError(
                "action masks do not apply: this policy was trained without masks. Leave action_masks out"
            )
        masks = np.array(action_masks, np.bool_)
        assert isinstance(self.head, Categories)
        if masks.size != n_rows * sum(self.head.sizes):
            raise PolicyError(f"masks must have shape ({n_rows}, {sum(self.head.sizes)}), not {masks.shape}")
        return torch.from_numpy(masks)

    def _latent(
        self, batch: Any, state: State | None, episode_start: npt.ArrayLike | None
    ) -> tuple[torch.Tensor, State | None]:
        ready = normalised_batch(batch, self.normalisation)
        features = self.extractor(tensors_of(ready, self.observation_space, scale_images=self.scale_images))
        memory = self.memory
        if memory is None:
            return self.body(features), state
        if state is None:
            hidden = cell = torch.zeros(memory.num_layers, len(features), memory.hidden_size)
        else:
            hidden, cell = (torch.tensor(np.asarray(part), dtype=torch.float32) for part in state)
        if episode_start is not None:  # reset the rows whose episode starts
            kept = 1.0 - torch.tensor(np.asarray(episode_start), dtype=torch.float32).reshape(1, len(features), 1)
            hidden, cell = hidden * kept, cell * kept
        output, (hidden, cell) = memory(features[None], (hidden, cell))
        return self.body(output[0]), (hidden.numpy(), cell.numpy())
