"""`ActorPolicy`: a policy of any spaces that acts as its author's library would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import nn

from legible.policies.actors.heads import Bits, Categories, Head, QValues
from legible.policies.actors.observations import Statistics, batch_of, normalised_batch, tensors_of
from legible.policies.predicting import own_generator
from legible.policies.protocol import Observations, PolicyError, ScoreKind, Scores, as_scores

State = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class ActorPolicy:
    """A network that turns observations of any space into actions of any space.

    Parameters
    ----------
    observation_space, action_space
        What goes in and what comes out.
    extractor
        From observations to features.
    body
        The hidden layers.
    head
        From the last hidden layer to actions.
    memory
        What stands between extractor and body in a policy that remembers, else None.
    squashed
        Whether continuous actions leave the head between −1 and 1 and are stretched to the bounds of the action space;
        else they are cut off there.
    scale_images
        Whether pictures are divided by 255.
    normalisation
        Statistics to normalise observations with before anything else; by entry for dictionaries.
    env_id
        The environment that the policy was made for, None when it is not known.
    metadata
        Anything else worth keeping.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    extractor: nn.Module
    body: nn.Module
    head: Head
    memory: nn.LSTM | None = None
    squashed: bool = False
    scale_images: bool = True
    normalisation: Statistics | None = None
    env_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in (self.extractor, self.body, self.head, self.memory):
            if isinstance(part, nn.Module):
                part.eval().requires_grad_(False)

    @property
    def recurrent(self) -> bool:
        """Whether it remembers."""
        return self.memory is not None

    @property
    def stochastic(self) -> bool:
        """Whether actions can be drawn."""
        return self.head.stochastic

    @property
    def n_actions(self) -> int:
        """Number of actions where they are discrete, else 0."""
        return int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else 0

    @property
    def n_features(self) -> int | None:
        """Width of a flat observation, None for dictionaries."""
        space = self.observation_space
        return None if isinstance(space, spaces.Dict) else int(np.prod(space.shape or (1,)))

    @property
    def kind(self) -> ScoreKind:
        """What the scores mean, ``"none"`` when there are none."""
        if self.recurrent or not isinstance(self.action_space, spaces.Discrete):
            return "none"
        return "values" if isinstance(self.head, QValues) else "log-probabilities"

    def scores(self, observations: Observations, action_masks: npt.ArrayLike | None = None) -> Scores:
        """Return the scores ``float32[n, actions]`` of a batch of observations, flat or as the environment gives them.

        Raises
        ------
        PolicyError
            When the policy has none: its actions are continuous or in several parts, or it remembers.
        """
        if self.kind == "none":
            why = "it remembers earlier observations" if self.recurrent else f"its actions are {self.action_space}"
            raise PolicyError(
                f"this policy has no score for every action, because {why}; scores need a policy without memory that "
                "chooses among the actions of a Discrete space"
            )
        batch, _ = batch_of(observations, self.observation_space)
        assert isinstance(self.head, QValues | Categories)
        with torch.inference_mode():
            latent, _ = self._latent(batch, None, None)
            scores = self.head.scores(latent, self._masks(action_masks, len(latent)))
            return as_scores(scores.numpy(), len(latent), self.n_actions)

    @property
    def has_part_scores(self) -> bool:
        """Whether there is a score for every value of every part of an action."""
        return not self.recurrent and isinstance(self.head, Categories | Bits)

    def part_scores(self, observations: Observations) -> Scores:
        """Return the log-probabilities ``float32[n, values]`` of all values of every part, one part after another."""
        batch, _ = batch_of(observations, self.observation_space)
        assert isinstance(self.head, Categories | Bits)
        with torch.inference_mode():
            latent, _ = self._latent(batch, None, None)
            scores: Scores = self.head.scores(latent, None).numpy()
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
        """Choose the action of an observation, or those of a batch, as Stable-Baselines3's ``predict`` does.

        Parameters
        ----------
        observation, state, episode_start, deterministic
            As in `legible.policies.ActingPolicy`.
        action_masks
            Which actions may be taken, for policies that were trained with masks: others are never taken.
        rng
            What actions are drawn with; by default a generator of the policy's own, from seed 0.
        """
        batch, single = batch_of(observation, self.observation_space)
        drawn_with = None if deterministic or not self.stochastic else rng or own_generator(self)
        with torch.inference_mode():
            latent, state = self._latent(batch, state, episode_start)
            raw = self.head(latent, drawn_with, self._masks(action_masks, len(latent))).numpy()
        actions = self._in_space(raw.reshape(-1, *(self.action_space.shape or ())))
        return (actions[0] if single else actions), state

    def try_once(self) -> None:
        """Act once on zeros: tensors that do not fit each other or the spaces raise an error."""
        space = self.observation_space
        parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        zeros = {key: np.zeros((1, *(part.shape or ())), part.dtype) for key, part in parts.items()}
        self.predict(zeros if isinstance(space, spaces.Dict) else zeros[""])

    def _masks(self, action_masks: npt.ArrayLike | None, n_rows: int) -> torch.Tensor | None:
        if action_masks is None:
            return None
        if not self.head.maskable:
            raise PolicyError("action masks were given, but this policy was not trained with any")
        masks = np.array(action_masks, np.bool_)
        assert isinstance(self.head, Categories)
        if masks.size != n_rows * sum(self.head.sizes):
            raise PolicyError(f"masks of shape {masks.shape} do not fit {n_rows} times {sum(self.head.sizes)} choices")
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
        if episode_start is not None:  # rows whose episode starts begin with nothing
            kept = 1.0 - torch.tensor(np.asarray(episode_start), dtype=torch.float32).reshape(1, len(features), 1)
            hidden, cell = hidden * kept, cell * kept
        output, (hidden, cell) = memory(features[None], (hidden, cell))
        return self.body(output[0]), (hidden.numpy(), cell.numpy())

    def _in_space(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        space = self.action_space
        if not isinstance(space, spaces.Box):
            return actions.astype(space.dtype if isinstance(space, spaces.MultiBinary) else np.int64)
        if self.squashed:
            stretched: npt.NDArray[Any] = space.low + (0.5 * (actions + 1.0) * (space.high - space.low))
            return stretched
        return np.clip(actions, space.low, space.high)
