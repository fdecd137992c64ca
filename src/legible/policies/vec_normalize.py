"""Stable-Baselines3's pickled ``VecNormalize``: found where it and the RL Zoo put it, and read without unpickling it.

- `find_vec_normalize`: the file that belongs to a policy.
- `read_vec_normalize`: the statistics of the observations in it.
- `normalisation_of_vec_normalize`: those of a ``VecNormalize`` in memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from legible.policies.environment_ids import trained_environment
from legible.policies.inert_pickle import Record, array_of, read_pickle
from legible.policies.normalisation import Normalisation
from legible.policies.protocol import PolicyError, UnclearPolicyError, naming

_NAMES = ("vecnormalize.pkl", "vec_normalize.pkl")

_KNOWN = re.compile(
    r"(gym|gymnasium)\.(spaces|utils\.seeding)\.[\w.]+"
    r"|stable_baselines3?\.common\.(running_mean_std\.RunningMeanStd|vec_env\.vec_normalize\.VecNormalize)"
    r"|numpy\.(ndarray|dtype|(bool|u?int|float)\d*_?)"
    r"|numpy\._?core\.(multiarray\.(_reconstruct|scalar)|numeric\._frombuffer)"
    r"|numpy\.random\.\w+\.(__\w+_ctor|__pyx_unpickle_\w+|PCG64|MT19937|SeedSequence|Generator|RandomState)"
    r"|copyreg\.(_reconstructor|__newobj__)|copy_reg\._reconstructor|_codecs\.encode"
    r"|(builtins|__builtin__)\.(object|dict|list|tuple|set|frozenset|int|float|bool|str|bytes|bytearray|slice)"
    r"|collections\.(OrderedDict|defaultdict|deque)"
)
# What such a pickle holds: spaces, running means, their random generators, arrays and numbers.


def is_known_name(name: str) -> bool:
    """Return whether a class or function belongs into a pickle of statistics or spaces."""
    return _KNOWN.fullmatch(name) is not None


def find_vec_normalize(policy_path: Path) -> Path | None:
    """Return the pickled ``VecNormalize`` of a policy, or None when there is none.

    In this order: that of the same checkpoint (``rl_model_vecnormalize_100_steps.pkl`` of ``rl_model_100_steps.zip``),
    ``driver_vecnormalize.pkl`` of ``driver.zip``, ``vecnormalize.pkl`` next to it, and ``vecnormalize.pkl`` in the
    folder of the policy's or of the environment's name, as the RL Zoo has it:
    ``CartPole-v1_1/CartPole-v1/vecnormalize.pkl`` for ``CartPole-v1_1/best_model.zip``. ``vec_normalize.pkl`` is as
    good.

    Raises
    ------
    UnclearPolicyError
        When there is only one under another name, which may belong to another policy.
    """
    folder, stem = policy_path.parent, policy_path.stem
    names = [*(f"{stem}_{name}" for name in _NAMES), *_NAMES]
    names += [f"{inner}/{name}" for inner in (stem, trained_environment(folder)) for name in _NAMES]
    checkpoint = re.fullmatch(r"(.+)_(\d+)_steps", stem)
    if checkpoint is not None:
        names.insert(0, f"{checkpoint[1]}_vecnormalize_{checkpoint[2]}_steps.pkl")
    for name in names:
        if (folder / name).is_file():
            return folder / name
    for other in sorted(folder.glob("*.pkl")):
        if "vecnormalize" in other.name.lower().replace("_", "").replace("-", ""):
            raise UnclearPolicyError(
                f"{policy_path}: it may have been trained behind a VecNormalize: {other.name} lies beside it, under a "
                "name that does not say whose it is. Give the file as normalisation, or 'none' if it is not this "
                "policy's",
                "normalisation",
            )
    return None


def read_vec_normalize(file: Path) -> Normalisation | Mapping[str, Normalisation] | None:
    """Return the observation statistics of a pickled ``VecNormalize``, None when it normalises rewards only.

    Those of Dict observations come by entry.

    Raises
    ------
    PolicyError
        When it is damaged or holds anything that does not belong there. Nothing in it is run.
    """
    made = read_pickle(file.read_bytes(), str(file), is_known_name)
    attributes = made.attributes() if isinstance(made, Record) else {}
    if not isinstance(made, Record) or "norm_obs" not in attributes:
        what = made.name if isinstance(made, Record) else f"a {type(made).__name__}"
        raise PolicyError(f"{file}: holds {what}, not a VecNormalize")
    if not attributes["norm_obs"]:
        return None
    statistics = attributes.get("obs_rms")
    if isinstance(statistics, dict):
        return {str(key): _of_running_mean(file, attributes, running) for key, running in statistics.items()}
    return _of_running_mean(file, attributes, statistics)


def _of_running_mean(file: Path, attributes: Mapping[str, Any], statistics: Any) -> Normalisation:
    try:
        running = statistics.attributes() if isinstance(statistics, Record) else {}
        mean, var, epsilon, clip = (
            array_of(value)
            for value in (running["mean"], running["var"], attributes["epsilon"], attributes["clip_obs"])
        )
        with naming(file):
            return Normalisation(mean, var, epsilon.item(), clip.item(), source=str(file))
    except KeyError as error:
        raise PolicyError(f"{file}: this VecNormalize has no {error.args[0]}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise PolicyError(f"{file}: the statistics of this VecNormalize cannot be read: {error}") from error


def normalisation_of_vec_normalize(vec_normalize: Any) -> Normalisation | Mapping[str, Normalisation] | None:
    """Return the observation statistics of a ``VecNormalize`` object, None when it normalises rewards only."""
    if not vec_normalize.norm_obs:
        return None
    epsilon, clip = vec_normalize.epsilon, vec_normalize.clip_obs
    statistics = vec_normalize.obs_rms
    if isinstance(statistics, Mapping):
        return {key: Normalisation(part.mean, part.var, epsilon, clip) for key, part in statistics.items()}
    return Normalisation(statistics.mean, statistics.var, epsilon, clip)
