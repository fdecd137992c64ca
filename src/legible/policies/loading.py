"""`load_policy`: one door for everything that can be a policy."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import nn

from legible.errors import did_you_mean
from legible.policies import zoo
from legible.policies.activations import Activation
from legible.policies.encoding import Encoding, OneHot, Plain
from legible.policies.network import NetworkPolicy, layers_of_modules
from legible.policies.normalisation import (
    Normalisation,
    find_normalisation,
    find_pickled_normalisation,
    load_normalisation,
)
from legible.policies.policy_file import read_policy_file
from legible.policies.protocol import Policy, PolicyError, UnclearPolicyError
from legible.policies.sb3_zip import (
    ALGORITHMS,
    Algorithm,
    Answers,
    read_contents,
    read_sb3_zip,
    trained_normalised,
)
from legible.policies.wrapped import OUTPUTS, FunctionPolicy, ModuleFunction, Output, check_finite, kind_of_output

NormalisationSource: TypeAlias = Normalisation | str | os.PathLike[str]
_Built: TypeAlias = NetworkPolicy | FunctionPolicy


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
) -> Policy:
    """Return a policy from a file or an object, without running code that came in a file.

    What can be a policy:

    - a ``.safetensors`` file that `save_policy` wrote, or ``zoo:NAME`` for one of the zoo's;
    - a ``.zip`` file that Stable-Baselines3 (1.0 or later) or sb3-contrib wrote, of DQN, PPO, A2C or QR-DQN with an MLP
      policy. Nothing in it is unpickled, unless it is trusted;
    - a model of Stable-Baselines3 (or its ``policy``) in memory; its ``VecNormalize``, if it has one, comes along;
    - any ``torch.nn.Module`` and any function from ``float32[n, features]`` to ``[n, actions]``, with `output`;
    - a `Policy`, which is returned as it is.

    Scores are Q-values for DQN, the mean of the quantiles for QR-DQN, and log-probabilities for PPO and A2C.
    Observations of ``Discrete`` and ``MultiDiscrete`` spaces are plain numbers, a column each; the policy one-hot
    encodes them itself, as Stable-Baselines3 does. Others are flattened.

    What cannot be read is asked for (`UnclearPolicyError` names the argument), and what contradicts the file is an
    error; nothing is guessed. The zip of a DQN or QR-DQN cannot say that the policy was trained behind
    ``VecNormalize``: keep the statistics beside it.

    Parameters
    ----------
    source
        The file or the object.
    trust
        Let Stable-Baselines3's own loader open a ``.zip``, and allow a pickled ``VecNormalize`` as `normalisation`.
        Both run whatever code the files' author put into them. This also opens policies that are no plain MLP.
    output
        What a module or a function returns: ``"values"``, ``"logits"``, ``"log-probabilities"`` or ``"probabilities"``.
    activation
        The activation function, when the file does not say it: ``"relu"``, ``"leaky_relu(negative_slope=0.2)"``,
        ``torch.nn.ReLU``.
    normalisation
        Observation statistics: a `Normalisation`, or an ``.npz`` or ``.toml`` file (``.pkl`` when trusted). By
        default those that lie beside the file (``driver.normalisation.npz`` beside ``driver.zip``). ``"none"`` says
        that there are none.
    encoding
        The observation encoding, when the file does not say it: ``Plain(69)`` or ``OneHot((3, 4))``.
    algorithm
        ``"DQN"``, ``"QRDQN"``, ``"PPO"`` or ``"A2C"``, when the file does not say it.
    n_features, n_actions
        What the policy must have, such as the environment's. Functions do not know it themselves: for them
        `n_actions` is needed, or `n_features` to find it out.

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
    asked = _Asked(
        trust=trust,
        output=output,
        activation=None if activation is None else Activation.of(activation),
        normalisation=normalisation,
        encoding=encoding,
        algorithm=_algorithm(algorithm),
        n_features=n_features,
        n_actions=n_actions,
    )
    policy = _load(source, asked)
    _check_widths(policy, asked, str(source) if isinstance(source, str | os.PathLike) else "the policy")
    return policy


@dataclasses.dataclass(frozen=True)
class _Asked:
    """The arguments of `load_policy`."""

    trust: bool
    output: Output | None
    activation: Activation | None
    normalisation: NormalisationSource | None
    encoding: Encoding | None
    algorithm: Algorithm | None
    n_features: int | None
    n_actions: int | None

    def refuse(self, what: str, *names: str) -> None:
        """Complain about arguments that say nothing about this kind of policy."""
        for name in names:
            if getattr(self, name) is not None:
                raise PolicyError(f"{name}= does not apply to {what}")


def _load(source: Any, asked: _Asked) -> Policy:
    if isinstance(source, str) and source.startswith(zoo.PREFIX):
        source = zoo.zoo_path(source)
    if isinstance(source, str | os.PathLike):
        return _load_file(Path(source), asked)
    if _is_sb3(source):
        return _load_model(source, asked)
    if isinstance(source, nn.Module):
        return _load_module(source, asked)
    if isinstance(source, type):
        raise PolicyError(f"{source.__name__} is a class; pass an object of it")
    if isinstance(source, Policy):
        asked.refuse("what is a policy already", "output", "activation", "normalisation", "encoding", "algorithm")
        return source
    if callable(source):
        asked.refuse("a function", "activation", "encoding", "algorithm")
        return _with_output(source, asked, "the function")
    raise PolicyError(
        f"a {type(source).__name__} cannot be a policy; pass a .safetensors or .zip file, a model of "
        "Stable-Baselines3, a torch.nn.Module, a function or a Policy"
    )


def _load_file(path: Path, asked: _Asked) -> Policy:
    asked.refuse("a policy file", "output")
    if path.suffix == ".safetensors":
        asked.refuse("a .safetensors file", "encoding", "algorithm")
        return _normalised_file(read_policy_file(path, activation=asked.activation), path, asked, trained_so=False)
    if path.is_file() and path.suffix != ".zip" and not zipfile.is_zipfile(path):
        raise PolicyError(
            f"{path}: policies are .safetensors files of legible or .zip files of Stable-Baselines3. A "
            "torch.nn.Module in any other file has to be loaded by you and passed as an object, with output=..."
        )
    if asked.trust:
        from legible.policies.sb3_models import load_trusted_zip, policy_of_model  # noqa: PLC0415 (slow import)

        asked.refuse("a trusted zip", "activation", "encoding")
        model, trained_so = load_trusted_zip(path, asked.algorithm)
        return _normalised_file(policy_of_model(model), path, asked, trained_so=trained_so)
    contents = read_contents(path)
    answers = Answers(asked.algorithm, asked.activation, asked.encoding, asked.n_actions)
    return _normalised_file(read_sb3_zip(contents, answers), path, asked, trained_so=trained_normalised(contents))


def _load_model(model: Any, asked: _Asked) -> Policy:
    from legible.policies.sb3_models import normalisation_of_model, policy_of_model  # noqa: PLC0415 (slow import)

    what = "a model of Stable-Baselines3"
    asked.refuse(what, "output", "activation", "encoding", "algorithm")
    own = normalisation_of_model(model)
    return _normalised(policy_of_model(model), own, asked, what)


def _load_module(module: nn.Module, asked: _Asked) -> Policy:
    asked.refuse("a torch.nn.Module", "activation", "algorithm")
    name = type(module).__name__
    output = _output(asked, name)
    layers = layers_of_modules(tuple(module)) if type(module) is nn.Sequential else None
    if layers is not None and output in ("values", "logits"):
        check_finite(module)
        encoding = asked.encoding or Plain(layers[0].n_inputs)
        return _normalised(NetworkPolicy(layers, kind_of_output(output), encoding), None, asked, name)
    if asked.encoding is not None:
        raise PolicyError(f"encoding= does not apply to {name}: it is more than a sequence of layers")
    return _with_output(ModuleFunction(module), asked, name)


def _with_output(function: Callable[..., npt.ArrayLike], asked: _Asked, whose: str) -> FunctionPolicy:
    output = _output(asked, whose)
    normalisation = _said_normalisation(asked)
    n_features = asked.n_features
    if normalisation is not None:
        n_features = n_features or normalisation.n_features
    n_actions = asked.n_actions
    if n_actions is None:
        if n_features is None:
            raise UnclearPolicyError(
                f"cannot know how many actions {whose} has. Say it with n_actions=5, or with n_features=69 so that it "
                "can be tried",
                "n_actions",
            )
        n_actions = _tried_width(function, n_features, whose)
    return FunctionPolicy(function, output, n_actions, n_features, normalisation)


def _tried_width(function: Callable[..., npt.ArrayLike], n_features: int, whose: str) -> int:
    answer = np.shape(function(np.zeros((1, n_features), dtype=np.float32)))
    if len(answer) != 2 or answer[0] != 1:
        raise PolicyError(
            f"{whose} must return scores of shape [n, actions], but for one observation it returns shape {answer}"
        )
    return int(answer[1])


def _output(asked: _Asked, whose: str) -> Output:
    if asked.output is None:
        raise UnclearPolicyError(
            f'cannot know what {whose} returns. Say it with output="values" (Q-values), "logits", '
            '"log-probabilities" or "probabilities"',
            "output",
        )
    if asked.output not in OUTPUTS:
        raise PolicyError(f"output={asked.output!r} is none of {', '.join(OUTPUTS)}")
    return asked.output


def _algorithm(said: str | None) -> Algorithm | None:
    if said is None:
        return None
    name = said.upper().replace("-", "")
    if name not in ALGORITHMS:
        raise PolicyError(
            f"unknown algorithm {said!r}.{did_you_mean(name, ALGORITHMS)} "
            f"Policies of {', '.join(ALGORITHMS)} can be loaded"
        )
    return name


def _is_sb3(source: object) -> bool:
    """Return whether an object is a model or a policy of Stable-Baselines3, without importing it."""
    bases = ("BaseAlgorithm", "BasePolicy")
    return any(
        ancestor.__name__ in bases and ancestor.__module__.startswith("stable_baselines3.common.")
        for ancestor in type(source).__mro__
    )


def _said_normalisation(asked: _Asked) -> Normalisation | None:
    said = asked.normalisation
    if said is None or isinstance(said, Normalisation):
        return said
    if isinstance(said, str) and said == "none":
        return None
    return load_normalisation(said, trust=asked.trust)


def _normalised_file(policy: _Built, path: Path, asked: _Asked, *, trained_so: bool | None) -> Policy:
    """Give a policy from a file the statistics that were passed, or those that lie beside it."""
    if policy.normalisation is not None or asked.normalisation is not None:
        return _normalised(policy, policy.normalisation, asked, str(path))
    beside = find_normalisation(path)
    if beside is not None:
        return _normalised(policy, load_normalisation(beside), asked, str(path))
    pickled = None if trained_so is False else find_pickled_normalisation(path)
    if trained_so or pickled is not None:
        sign = "it keeps observations from before one" if pickled is None else f"{pickled.name} lies beside it"
        raise UnclearPolicyError(
            f"{path}: it seems that it was trained behind a VecNormalize ({sign}), but the statistics of its "
            "observations are not there. Convert them once with "
            f"convert_vec_normalize('{pickled or 'vecnormalize.pkl'}', "
            f"'{path.with_suffix('.normalisation.npz')}', trust=True), pass normalisation=..., or say "
            'normalisation="none" if only rewards were normalised',
            "normalisation",
        )
    return policy


def _normalised(policy: _Built, own: Normalisation | None, asked: _Asked, whose: str) -> _Built:
    """Give a policy its own statistics, or those that were passed; both must agree."""
    said = _said_normalisation(asked)
    if own is not None and asked.normalisation is not None and said != own:
        raise PolicyError(f"{whose}: it brings normalisation statistics of its own, and normalisation= says otherwise")
    statistics = own if own is not None else said
    if statistics is None or statistics == policy.normalisation:
        return policy
    if isinstance(policy, NetworkPolicy) and isinstance(policy.encoding, OneHot):
        raise PolicyError(f"{whose}: observations that are one-hot encoded cannot be normalised")
    if statistics.n_features != policy.n_features:
        raise PolicyError(
            f"{whose}: the normalisation statistics are for {statistics.n_features} features, but the policy reads "
            f"{policy.n_features}"
        )
    return dataclasses.replace(policy, normalisation=statistics)


def _check_widths(policy: Policy, asked: _Asked, whose: str) -> None:
    if asked.n_features is not None and policy.n_features not in (None, asked.n_features):
        raise PolicyError(
            f"{whose}: it reads observations of {policy.n_features} features, but {asked.n_features} were asked for"
        )
    if asked.n_actions is not None and policy.n_actions != asked.n_actions:
        raise PolicyError(f"{whose}: it has {policy.n_actions} actions, but {asked.n_actions} were asked for")
