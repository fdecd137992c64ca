"""`load_policy`: one door for everything that can be a policy."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from torch import nn

from legible.policies.activations import Activation
from legible.policies.encoding import Encoding
from legible.policies.protocol import Policy, PolicyError
from legible.policies.registry import LoadOptions, find_reader
from legible.policies.wrapped import Output

if TYPE_CHECKING:
    from legible.policies.registry import NormalisationSource

_ADDRESS = re.compile(r"[A-Za-z_][\w.]+:")
# What begins with a word and a colon, such as zoo:, is no path; a single letter is a drive of Windows.


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
    typed: bool = False,
) -> Policy:
    """Return a policy from a file or an object, without running code that came in a file.

    What can be a policy:

    - a ``.safetensors`` file that `save_policy` wrote, or ``zoo:NAME`` for one of the zoo's;
    - a ``.zip`` file that Stable-Baselines3 (1.0 or later) or sb3-contrib wrote, of any of their algorithms, or a
      folder of the RL Zoo. Nothing in it is unpickled, unless it is trusted;
    - a ``.cleanrl_model`` file; tensors of PyTorch (``.pt``, ``.pth``) with a TOML file that says which network they
      are; an ``.onnx`` file;
    - ``hf:USER/REPO`` for a policy on the Hugging Face hub;
    - a TorchScript file or ``module:function``, which are code: only when `typed` or trusted;
    - a model of Stable-Baselines3 (or its ``policy``) in memory; its ``VecNormalize``, if it has one, comes along;
    - any ``torch.nn.Module`` and any function from ``float32[n, features]`` to ``[n, actions]``, with `output`;
    - a `Policy`, which is returned as it is.

    `legible.policies.register_reader` adds others.

    Scores are Q-values for DQN, the mean of the quantiles for QR-DQN, and log-probabilities for PPO and A2C.
    Observations of ``Discrete`` and ``MultiDiscrete`` spaces are plain numbers, a column each; the policy one-hot
    encodes them itself, as Stable-Baselines3 does. Others are flattened.

    What cannot be read is asked for (`UnclearPolicyError` names the argument), and what contradicts the file is an
    error; nothing is guessed. The zip of a DQN or QR-DQN cannot say that the policy was trained behind
    ``VecNormalize``: keep the statistics next to it.

    Parameters
    ----------
    source
        The file or the object.
    trust
        Let Stable-Baselines3's own loader open a ``.zip``. It runs whatever code the file's author put into it, and
        also opens policies with classes of their own.
    output
        What a module or a function returns: ``"values"``, ``"logits"``, ``"log-probabilities"``, ``"probabilities"``,
        or ``"actions"``: continuous ones, as the environment takes them.
    activation
        The activation function, when the file does not say it: ``"relu"``, ``"leaky_relu(negative_slope=0.2)"``,
        ``torch.nn.ReLU``.
    normalisation
        Observation statistics: a `Normalisation`, or an ``.npz`` or ``.toml`` file, or the ``.pkl`` of a
        ``VecNormalize``, which is not unpickled. By default those that lie next to the file:
        ``driver.normalisation.npz`` next to ``driver.zip``, or ``vecnormalize.pkl`` where Stable-Baselines3 and the RL
        Zoo put it. ``"none"`` says that there are none. The policy's ``normalisation.source`` says which file it is.
    encoding
        The observation encoding, when the file does not say it: ``Plain(69)`` or ``OneHot((3, 4))``.
    algorithm
        ``"DQN"``, ``"PPO"`` and so on, when the file does not say it.
    n_features, n_actions
        What the policy must have, such as the environment's. Functions do not know it themselves: for them
        `n_actions` is needed, or `n_features` to find it out.
    architecture
        TOML file that says which network the tensors of a plain PyTorch file are (`legible.policies.architecture`); by
        default the one of the same name next to it.
    typed
        The person named this source, it did not come out of a file: then it may be code itself, a TorchScript file or
        ``module:function``.

    Returns
    -------
    Policy
        A `NetworkPolicy` wherever the policy is a plain feed-forward network; it can be saved with `save_policy`.

    Raises
    ------
    UnclearPolicyError
        When something has to be said that cannot be read.
    PolicyError
        When the policy is missing, damaged, not supported or not the one that was asked for.

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
        typed=typed,
    )
    found = located(source)
    policy = find_reader(found).read(found, options)
    whose = str(found) if isinstance(found, str | Path) else "the policy"
    if n_features is not None and policy.n_features not in (None, n_features):
        raise PolicyError(
            f"{whose}: it reads observations of {policy.n_features} features, but {n_features} were asked for"
        )
    if n_actions is not None and policy.n_actions != n_actions:
        raise PolicyError(f"{whose}: it has {policy.n_actions} actions, but {n_actions} were asked for")
    return policy


def located(source: Any) -> Any:
    """Return the path of a file or folder that is there; addresses and objects as they are."""
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
