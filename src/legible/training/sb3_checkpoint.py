"""Checkpoints of a training with Stable-Baselines3: written whole or not at all, read without running code.

- `TrainingCheckpoint`: the folder with the model, its replay buffer and the description of the training.
- `Model`: the classes of models.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from legible.imports import needs_extra
from legible.training.errors import TrainingError

with needs_extra("sb3", "training and exporting policies with Stable-Baselines3"):
    from stable_baselines3 import DQN, PPO, SAC, TD3
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.running_mean_std import RunningMeanStd

Model: TypeAlias = DQN | PPO | SAC | TD3
# Counters of a model that are not among its parameters.
_COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "_episode_num", "exploration_rate")
_REPLAY = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class TrainingCheckpoint:
    """A folder with the model, its replay buffer and the description of the training."""

    def __init__(self, stem: Path, description: dict[str, Any]) -> None:
        self._folder = stem.with_name(f"{stem.name}.checkpoint")
        self._description = description

    def save(self, model: Model) -> None:
        """Write the networks, the replay buffer and the counters of a model into the checkpoint's folder.

        The files are named after the number of steps. ``checkpoint.json`` names those that are valid and is replaced
        last, so a crash while writing leaves the previous checkpoint usable.
        """
        stem = f"{model.num_timesteps}"
        self._folder.mkdir(exist_ok=True)
        model.save(self._folder / f"{stem}.zip")
        buffer = _replay_buffer(model)
        if buffer is not None:
            filled = buffer.buffer_size if buffer.full else buffer.pos  # rows that hold a transition
            arrays = {name: getattr(buffer, name)[:filled] for name in _REPLAY}
            np.savez(self._folder / f"{stem}.npz", pos=buffer.pos, full=buffer.full, **arrays)
        # SAC learns the logarithm of the weight of its entropy, which is not in the zip of the networks.
        log_weight = model.log_ent_coef if isinstance(model, SAC) else None
        document = {
            "file": stem,
            "training": self._description,
            "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
            "entropy": None if log_weight is None else float(log_weight.detach()),
            "statistics": {
                name: {"mean": each.mean.tolist(), "var": each.var.tolist(), "count": float(each.count)}
                for name, each in _statistics(model).items()
            },
        }
        unfinished = self._folder / "checkpoint.json.part"
        unfinished.write_text(json.dumps(document))
        unfinished.replace(self._folder / "checkpoint.json")
        # Only now are the files of the previous checkpoint unnecessary.
        for old in self._folder.iterdir():
            if old.stem != stem and old.suffix in (".zip", ".npz"):
                old.unlink()

    def restore(self, model: Model) -> None:
        """Copy the checkpoint into a new model, if there is one; raise if it is damaged or of another training.

        Only numbers are read: Stable-Baselines3's loader of whole models would run code from the zip.
        """
        checkpoint_file = self._folder / "checkpoint.json"
        if not checkpoint_file.is_file():
            return
        try:
            document = json.loads(checkpoint_file.read_text())
            saved_description = document["training"]
            counters = {name: document["counters"][name] for name in _COUNTERS if hasattr(model, name)}
            stem = int(document["file"])
            zip_file, arrays_file = self._folder / f"{stem}.zip", self._folder / f"{stem}.npz"
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(checkpoint_file, error) from error

        # A checkpoint of other settings would silently continue another training.
        current = self._description
        if saved_description != current:
            names = {**current, **saved_description}
            name = next(name for name in names if saved_description.get(name) != current.get(name))
            raise TrainingError(
                f"{self._folder} is the checkpoint of another training: {name} is {saved_description.get(name)!r} "
                f"there and {current.get(name)!r} here. Remove it to start again, or choose another output."
            )

        try:
            # Networks and optimisers.
            model.set_parameters(str(zip_file), device=model.device)
            buffer = _replay_buffer(model)
            if buffer is not None:
                with np.load(arrays_file) as arrays:
                    for name in _REPLAY:
                        getattr(buffer, name)[: len(arrays[name])] = arrays[name]
                    buffer.pos, buffer.full = int(arrays["pos"]), bool(arrays["full"])
            set_entropy_weight(model, document.get("entropy"))
            # Running mean and variance by which observations and returns are normalised.
            for name, statistics in _statistics(model).items():
                saved = document["statistics"][name]
                statistics.mean = np.array(saved["mean"], np.float64)
                statistics.var = np.array(saved["var"], np.float64)
                statistics.count = float(saved["count"])
        except Exception as error:  # a damaged file can raise any error
            raise self._damaged(zip_file, error) from error
        for name, value in counters.items():
            setattr(model, name, value)

    def _damaged(self, file: Path, error: Exception) -> TrainingError:
        return TrainingError(f"{file} is damaged ({error!r}); remove {self._folder} to start again.")

    def remove(self) -> None:
        """Remove the checkpoint."""
        if self._folder.is_dir():
            shutil.rmtree(self._folder)


def _replay_buffer(model: Model) -> ReplayBuffer | None:
    return None if isinstance(model, PPO) else model.replay_buffer


def set_entropy_weight(model: Model, weight: float | None) -> None:
    """Set the logarithm of SAC's weight of the entropy, where the model has one and it is known."""
    if isinstance(model, SAC) and model.log_ent_coef is not None and weight is not None:
        with torch.no_grad():
            model.log_ent_coef.fill_(weight)


def _statistics(model: Model) -> dict[str, RunningMeanStd]:
    """Return the statistics of observations and returns, where they are normalised."""
    wrapper = model.get_vec_normalize_env()
    if wrapper is None:
        return {}
    assert isinstance(wrapper.obs_rms, RunningMeanStd)
    return {"observations": wrapper.obs_rms, "returns": wrapper.ret_rms}
