"""Description of a policy in the JSON of a zip of Stable-Baselines3.

Objects that JSON cannot hold are stored twice: as a pickle in base64 under ``":serialized:"``, and as the text of their
attributes. Only the text is read here.

- `algorithm_of`: the algorithm.
- `options_of`, `activation_of`: options and activation of the network.
- `trained_normalised`: whether observations were normalised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from legible.errors import did_you_mean
from legible.policies.activations import Activation
from legible.policies.protocol import PolicyError, UnclearPolicyError
from legible.policies.sb3.archive import Contents

Algorithm = Literal[
    "DQN", "QRDQN", "PPO", "A2C", "TRPO", "SAC", "TD3", "DDPG", "TQC", "CrossQ", "ARS", "MaskablePPO", "RecurrentPPO"
]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
"""The algorithms of Stable-Baselines3 and sb3-contrib whose policies can be loaded."""

Between = Activation | Literal["prelu"]
"""Activation between the layers; PReLU has its slope among the tensors."""

Design = Literal["values", "actor-critic", "squashed actor", "plain actor"]
"""Design of an algorithm's network: Q-values, actor and critic, the actor of SAC, or the actor of TD3."""

DESIGNS: Mapping[Algorithm, Design] = {
    "DQN": "values",
    "QRDQN": "values",
    "PPO": "actor-critic",
    "A2C": "actor-critic",
    "TRPO": "actor-critic",
    "MaskablePPO": "actor-critic",
    "RecurrentPPO": "actor-critic",
    "SAC": "squashed actor",
    "TQC": "squashed actor",
    "CrossQ": "squashed actor",
    "TD3": "plain actor",
    "DDPG": "plain actor",
    "ARS": "plain actor",
}

_FAMILIES: Mapping[str, tuple[tuple[str, ...], tuple[Algorithm, ...]]] = {
    "stable_baselines3.dqn.policies": (("DQNPolicy", "CnnPolicy", "MultiInputPolicy"), ("DQN",)),
    "sb3_contrib.qrdqn.policies": (("QRDQNPolicy", "CnnPolicy", "MultiInputPolicy"), ("QRDQN",)),
    "stable_baselines3.common.policies": (
        ("ActorCriticPolicy", "ActorCriticCnnPolicy", "MultiInputActorCriticPolicy"),
        ("PPO", "A2C", "TRPO"),
    ),
    "sb3_contrib.common.maskable.policies": (
        ("MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy"),
        ("MaskablePPO",),
    ),
    "sb3_contrib.common.recurrent.policies": (
        ("RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy"),
        ("RecurrentPPO",),
    ),
    "stable_baselines3.sac.policies": (("SACPolicy", "CnnPolicy", "MultiInputPolicy"), ("SAC",)),
    "sb3_contrib.tqc.policies": (("TQCPolicy", "CnnPolicy", "MultiInputPolicy"), ("TQC",)),
    "sb3_contrib.crossq.policies": (("CrossQPolicy", "CnnPolicy", "MultiInputPolicy"), ("CrossQ",)),
    "stable_baselines3.td3.policies": (("TD3Policy", "CnnPolicy", "MultiInputPolicy"), ("TD3", "DDPG")),
    "sb3_contrib.ars.policies": (("ARSPolicy", "ARSLinearPolicy"), ("ARS",)),
}
# Policy classes whose networks can be rebuilt from their tensors, by module, with their algorithms.

_HARMLESS_OPTIONS = frozenset(
    {
        *("device", "optimizer_class", "optimizer_kwargs", "ortho_init"),
        *("net_arch", "n_critics", "lstm_hidden_size", "n_lstm_layers", "batch_norm"),  # the tensors say it better
        *("full_std", "log_std_init", "with_bias", "share_features_extractor"),  # so here
        *("shared_lstm", "enable_critic_lstm", "batch_norm_momentum", "renorm_warmup_steps"),
    }
)
_READ_OPTIONS = frozenset(
    {
        *("activation_fn", "features_extractor_class", "features_extractor_kwargs", "n_quantiles", "normalize_images"),
        *("squash_output", "use_sde", "use_expln", "clip_mean", "sde_net_arch", "batch_norm_eps", "lstm_kwargs"),
    }
)
_EXTRACTORS = {
    f"<class 'stable_baselines3.common.torch_layers.{name}'>"
    for name in ("FlattenExtractor", "NatureCNN", "CombinedExtractor")
}
_EXTRACTOR_OPTIONS = frozenset({"features_dim", "cnn_output_dim", "normalized_image"})

_MARKS: tuple[tuple[tuple[str, ...], Algorithm], ...] = (
    (("exploration_fraction", "n_quantiles"), "QRDQN"),
    (("exploration_fraction",), "DQN"),
    (("cg_max_steps",), "TRPO"),
    (("gae_lambda", "clip_range"), "PPO"),
    (("gae_lambda",), "A2C"),
    (("target_entropy", "top_quantiles_to_drop_per_net"), "TQC"),
    (("target_entropy", "policy_delay"), "CrossQ"),
    (("target_entropy",), "SAC"),
    (("delta_std",), "ARS"),
)

_CLASS_TEXT = re.compile(r"<class '([\w.]+)'>")
_PARTIAL_TEXT = re.compile(r"functools\.partial\(<class 'torch\.nn\.modules\.activation\.(\w+)'>((?:, \w+=[^,()]+)*)\)")
_FUNCTION_TEXT = re.compile(r"<function ([\w.<>]+)\.__init__ at 0x[0-9a-fA-F]+>")


def checked_algorithm(given: str | None) -> Algorithm | None:
    """Return the algorithm for a name in any spelling, or raise an error that lists the algorithms."""
    if given is None:
        return None
    plain = given.upper().replace("-", "").replace("_", "")
    for name in ALGORITHMS:
        if name.upper() == plain:
            return name
    raise PolicyError(
        f"unknown algorithm {given!r}.{did_you_mean(plain, ALGORITHMS)} "
        f"Policies of {', '.join(ALGORITHMS)} can be loaded"
    )


def trained_normalised(contents: Contents) -> bool | None:
    """Return whether a policy was trained with ``VecNormalize``, None if its zip does not show it.

    On-policy algorithms store the last unnormalised observation only with ``VecNormalize``. Others always store it, and
    untrained ones never.
    """
    if "gae_lambda" not in contents.data or contents.data.get("_last_obs") is None:
        return None
    return contents.data.get("_last_original_obs") is not None


def algorithm_of(contents: Contents, given: Algorithm | None, *, any_policy_class: bool = False) -> Algorithm:
    """Return the algorithm that a zip was trained with, or raise an error if its contents contradict each other.

    - `contents`: the part of the zip that can be read without running code.
    - `given`: the algorithm that the caller named; None leaves it to the zip.
    - `any_policy_class`: whether to accept policy classes that cannot be rebuilt from tensors alone; the trusted loader
      can.
    """
    # Two traces: settings that only one algorithm has, and the policy class, which several algorithms may share. They
    # contradict each other if their networks have different designs, such as Q-values and an actor with a critic.
    from_settings = _algorithm_in_settings(contents)
    from_class = _family_of(contents, refuse_others=not any_policy_class)
    if from_class and from_settings is not None and DESIGNS[from_settings] != DESIGNS[from_class[0]]:
        contents.refuse(
            f"its settings are those of {from_settings}, but its policy class belongs to {' or '.join(from_class)}"
        )
    # The algorithms that both traces allow: settings decide where several share the policy class. The caller's answer
    # must be one of them, if there are any.
    candidates = from_class if len(from_class) == 1 or from_settings is None else (from_settings,)
    if given is not None and candidates and given not in candidates:
        named = " or ".join(candidates)
        raise PolicyError(f"{contents.path}: the algorithm {given!r} was given, but the file says that it is {named}")
    if given is not None:
        return given
    if len(candidates) != 1:
        raise UnclearPolicyError(
            f"{contents.path}: cannot read which algorithm it was trained with. Give the algorithm, such as PPO",
            "algorithm",
        )
    return candidates[0]


def _algorithm_in_settings(contents: Contents) -> Algorithm | None:
    """Return the algorithm by its characteristic settings."""
    settings = contents.data
    if "target_policy_noise" in settings:
        # DDPG is TD3 without what makes it TD3.
        return "DDPG" if (settings.get("policy_delay"), settings.get("target_noise_clip")) == (1, 0.0) else "TD3"
    for marks, algorithm in _MARKS:
        if all(mark in settings for mark in marks):
            return algorithm
    return None


def _family_of(contents: Contents, *, refuse_others: bool) -> tuple[Algorithm, ...]:
    described = contents.text_of("policy_class")
    module = described.get("__module__")
    if not isinstance(module, str):
        return ()
    written = _FUNCTION_TEXT.fullmatch(str(described.get("__init__", "")))
    name = written.group(1) if written else "?"
    classes, algorithms = _FAMILIES.get(module, ((), ()))
    if name in classes:
        return algorithms
    if not refuse_others:
        return ()
    full_name = f"{module}.{name}" if written else f"a class of {module}"
    return contents.refuse(f"its policy is {full_name}, a policy class that cannot be rebuilt from its tensors alone")


def options_of(contents: Contents) -> Mapping[str, Any]:
    """Return the readable options of the policy class; refuse those with unknown effects."""
    if not isinstance(contents.data.get("policy_kwargs"), dict):
        return {}
    options = {key: value for key, value in contents.text_of("policy_kwargs").items() if key != ":type:"}
    unknown = sorted(set(options) - _HARMLESS_OPTIONS - _READ_OPTIONS)
    if unknown:
        contents.refuse(f"its policy_kwargs hold {', '.join(unknown)}, whose effect on the network is not known")
    extractor = options.get("features_extractor_class")
    if extractor is not None and str(extractor) not in _EXTRACTORS:
        contents.refuse(f"it has a custom feature extractor ({str(extractor)[:100]})")
    for key in ("features_extractor_kwargs", "lstm_kwargs"):
        known = _EXTRACTOR_OPTIONS if key == "features_extractor_kwargs" else frozenset()
        inner = options.get(key)
        if inner and (not isinstance(inner, dict) or set(inner) - known):
            contents.refuse(f"its policy_kwargs hold {key} whose effect on the network is not known")
    if options.get("sde_net_arch"):
        contents.refuse("it has a separate network for exploration (sde_net_arch)")
    return options


def activation_of(
    contents: Contents, options: Mapping[str, Any], algorithm: Algorithm, given: Activation | None
) -> Between:
    """Return the activation function between the layers, or raise an error if the zip does not show it.

    It is an `Activation`, or ``"prelu"``, whose parameters are among the tensors.

    - `contents`: the part of the zip that can be read without running code.
    - `options`: the options of the policy class in the zip.
    - `algorithm`: the algorithm; it decides the default of the policy class.
    - `given`: the activation that the caller named, for zips that do not show it; it must not contradict the zip.
    """
    # Without readable options nothing is known; options that name no activation mean the default of the policy class.
    in_file: Between | None
    if not isinstance(contents.data.get("policy_kwargs"), dict):
        in_file = None
    elif "activation_fn" not in options:
        in_file = Activation("tanh" if DESIGNS[algorithm] == "actor-critic" else "relu")
    else:
        in_file = _activation_in_text(str(options["activation_fn"]))
    # The caller's answer counts if the zip does not show the activation; without an answer, `ask` raises an error.
    if in_file is None:
        if given is not None:
            return given
        shown = f" (it is written as {options['activation_fn']!r})" if "activation_fn" in options else ""
        contents.ask(f"cannot read the activation function{shown}", "activation", "relu")
    if given is not None and given != in_file:
        raise PolicyError(
            f"{contents.path}: the activation {str(given)!r} was given, but the file says that it is {str(in_file)!r}"
        )
    return in_file


def _activation_in_text(text: str) -> Between | None:
    named = _CLASS_TEXT.fullmatch(text)
    partial = _PARTIAL_TEXT.fullmatch(text)
    try:
        if named is not None:
            module, _, name = named.group(1).rpartition(".")
            if (module, name) == ("torch.nn.modules.activation", "PReLU"):
                return "prelu"
            if module == "torch.nn.modules.activation" or (module, name) == ("torch.nn.modules.linear", "Identity"):
                return Activation.of(name)
        elif partial is not None:
            name, parameters = partial.groups()
            wanted = [pair for pair in parameters.split(", ")[1:] if not pair.startswith("inplace=")]
            return Activation.of(f"{name}({', '.join(wanted)})")
    except PolicyError:
        return None
    return None
