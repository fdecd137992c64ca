"""`load_policy`: load a policy from any supported source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from legible.policies.activations import Activation
from legible.policies.encoding import Encoding
from legible.policies.protocol import Policy, PolicyError
from legible.policies.registry import LoadOptions, find_reader
from legible.policies.wrapped import Output

if TYPE_CHECKING:
    from gymnasium import spaces
    from torch import nn

    from legible.policies.registry import NormalisationSource

_ADDRESS = re.compile(r"[A-Za-z_][\w.]+:")  # a single letter before the colon is a drive of Windows


def load_policy(
    source: str | os.PathLike[str] | Policy | nn.Module | Callable[..., npt.ArrayLike] | Any,
    *,
    trust: bool = False,
    output: Output | None = None,
    activation: str | Activation | nn.Module | type[nn.Module] | None = None,
    normalisation: NormalisationSource | None = None,
    encoding: Encoding | None = None,
    algorithm: str | None = None,
    n_features: int | None = None,
    n_actions: int | None = None,
    architecture: str | os.PathLike[str] | None = None,
    allow_code: bool = False,
    observation_space: spaces.Space[Any] | None = None,
    action_space: spaces.Space[Any] | None = None,
    fallback: int | Sequence[int] | None = None,
) -> Policy:
    """Return a policy from a file or an object, without running code from a file.

    Supported sources:

    - a ``.safetensors`` file that `save_policy` wrote, or ``zoo:NAME`` for a policy of the zoo;
    - a ``.zip`` file of Stable-Baselines3 (1.0 or later) or sb3-contrib, of any algorithm, or a folder of the RL Zoo.
      Nothing is unpickled unless `trust` is set;
    - a ``.cleanrl_model`` file; tensors of PyTorch (``.pt``, ``.pth``) with a TOML description; an ``.onnx`` file;
    - ``hf:USER/REPO`` for a policy on the Hugging Face hub;
    - a TorchScript file, which is a program: only with `trust`;
    - ``module:function``, which is code: only with `allow_code` or `trust`;
    - a model of Stable-Baselines3 (or its ``policy``) in memory, with the statistics of its ``VecNormalize``;
    - any ``torch.nn.Module`` and any function from ``float32[n, features]`` to ``[n, actions]``, with `output`;
    - any function from an observation, or from a batch of them, to actions, and any object with such a ``predict``,
      with `action_space`;
    - a `Policy`, which is returned unchanged.

    `legible.policies.register_reader` adds others.

    Scores are Q-values for DQN, the mean of the quantiles for QR-DQN, and log-probabilities for PPO and A2C.
    Observations of ``Discrete`` and ``MultiDiscrete`` spaces are plain numbers, one column each; the policy one-hot
    encodes them, as Stable-Baselines3 does. Others are flattened.

    Nothing is guessed: `UnclearPolicyError` names the argument that is missing, and an argument that contradicts the
    file is an error. The zip of a DQN or QR-DQN does not record a ``VecNormalize``: keep the statistics next to it.

    Parameters
    ----------
    source
        The file or the object.
    trust
        Run code that the file contains: a TorchScript program, or whatever a ``.zip`` has pickled, which is opened with
        Stable-Baselines3's own loader. That also opens custom policy classes.
    output
        The output of a module or a function: ``"values"``, ``"logits"``, ``"log-probabilities"``, ``"probabilities"``,
        or ``"actions"``: actions themselves. With `action_space`, actions are recognised.
    activation
        The activation function, if the file does not say: ``"relu"``, ``"leaky_relu(negative_slope=0.2)"``,
        ``torch.nn.ReLU``.
    normalisation
        Observation statistics: a `Normalisation`, an ``.npz`` or ``.toml`` file, or the ``.pkl`` of a
        ``VecNormalize``, which is not unpickled; ``"none"`` for none. By default the statistics next to the file:
        ``driver.normalisation.npz`` next to ``driver.zip``, or ``vecnormalize.pkl`` where Stable-Baselines3 and the RL
        Zoo put it. The policy's ``normalisation.source`` is the file that was used.
    encoding
        The observation encoding, if the file does not say: ``Plain(69)`` or ``OneHot((3, 4))``.
    algorithm
        ``"DQN"``, ``"PPO"`` and so on, if the file does not say.
    n_features, n_actions
        The required numbers, such as the environment's. For functions pass `n_actions`, or `n_features` to try the
        function out.
    architecture
        TOML description of the network in a plain PyTorch file (`legible.policies.readers.torch_state`); by default the
        one of the same name next to it.
    allow_code
        Whether the source may be ``module:function``, whose module is imported. Set it only for a source that the user
        typed, never for one that was read from a file.
    observation_space, action_space
        Spaces of the environment, for functions that return actions; by default flat observations of `n_features`
        numbers, and continuous actions.
    fallback
        For functions that return discrete actions, and so no second-best one: the action, counted from 0, that is taken
        where a rule forbids the action returned; for actions of several parts, one number for each part. Without it and
        with more than two actions, only rules that enforce actions are tested.

    Returns
    -------
    Policy
        A `NetworkPolicy` for plain feed-forward networks; it can be saved with `save_policy`.

    Raises
    ------
    UnclearPolicyError
        If an argument is missing.
    PolicyError
        If the policy is missing, damaged, not supported or not the expected one.

    Examples
    --------
    >>> import numpy as np
    >>> policy = load_policy(lambda observations: -observations, output="values", n_features=3)
    >>> policy.n_actions
    3
    >>> load_policy("nowhere.zip")
    Traceback (most recent call last):
    legible.policies.protocol.PolicyError: nowhere.zip: no such file
    """
    options = LoadOptions(
        trust=trust,
        output=output,
        activation=None if activation is None else Activation.of(activation),
        normalisation=normalisation,
        encoding=encoding,
        algorithm=algorithm,
        n_features=n_features,
        n_actions=n_actions,
        architecture=architecture,
        allow_code=allow_code,
        observation_space=observation_space,
        action_space=action_space,
        fallback=fallback,
    )
    # The first reader that recognises the source loads it: a Path for files, a text for addresses, or the object.
    located_source = located(source)
    policy = find_reader(located_source).read(located_source, options)

    # The caller's numbers are requirements, such as the environment's: check them against the loaded policy.
    whose = str(located_source) if isinstance(located_source, str | Path) else "the policy"
    if n_features is not None and policy.n_features not in (None, n_features):
        raise PolicyError(
            f"{whose}: it reads observations of {policy.n_features} features, but {n_features} are required"
        )
    if n_actions is not None and policy.n_actions != n_actions:
        raise PolicyError(f"{whose}: it has {policy.n_actions} actions, but {n_actions} are required")
    return policy


def located(source: Any) -> Any:
    """Return the path of an existing file or folder; return addresses and objects unchanged."""
    if isinstance(source, str) and _ADDRESS.match(source) and not Path(source).exists():
        return source
    if not isinstance(source, str | os.PathLike):
        return source
    path = Path(source)
    if not path.exists():
        zipped = path.with_name(f"{path.name}.zip")
        hint = f"; did you mean {zipped.name}?" if zipped.is_file() else ""
        raise PolicyError(f"{path}: no such file{hint}")
    if path.is_file() and not path.stat().st_size:
        raise PolicyError(f"{path}: the file is empty")
    return path
