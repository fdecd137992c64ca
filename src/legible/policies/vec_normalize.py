"""Observation statistics of Stable-Baselines3's ``VecNormalize``, read from its pickle without unpickling it.

- `find_vec_normalize`: find the file that belongs to a policy.
- `read_vec_normalize`: read the statistics.
- `normalisation_of_vec_normalize`: the statistics of a ``VecNormalize`` in memory.
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
# Such a pickle holds spaces, running means, their random generators, arrays and numbers.


def is_known_name(name: str) -> bool:
    """Return whether a class or function is expected in a pickle of statistics or spaces."""
    return _KNOWN.fullmatch(name) is not None


def find_vec_normalize(policy_path: Path) -> Path | None:
    """Return the file with the pickled ``VecNormalize`` (observation statistics) of a policy, None without one.

    These files are tried in this order:

    1. of the same checkpoint: ``rl_model_vecnormalize_100_steps.pkl`` for ``rl_model_100_steps.zip``;
    2. of the same name: ``driver_vecnormalize.pkl`` for ``driver.zip``;
    3. ``vecnormalize.pkl`` or ``vec_normalize.pkl`` in the policy's folder;
    4. the same in the subfolder named after the policy or the environment, as in the RL Zoo:
       ``CartPole-v1_1/CartPole-v1/vecnormalize.pkl`` for ``CartPole-v1_1/best_model.zip``.

    A file with another name may belong to another policy: it raises `UnclearPolicyError`.
    """
    folder, stem = policy_path.parent, policy_path.stem
    names = [*(f"{stem}_{name}" for name in _NAMES), *_NAMES]
    names += [f"{subfolder}/{name}" for subfolder in (stem, trained_environment(folder)) for name in _NAMES]
    checkpoint = re.fullmatch(r"(.+)_(\d+)_steps", stem)
    if checkpoint is not None:
        names.insert(0, f"{checkpoint[1]}_vecnormalize_{checkpoint[2]}_steps.pkl")
    for name in names:
        if (folder / name).is_file():
            return folder / name

    # A file that sounds like statistics but is not named after the policy: only the user knows whose it is.
    for other in sorted(folder.glob("*.pkl")):
        if "vecnormalize" in other.name.lower().replace("_", "").replace("-", ""):
            raise UnclearPolicyError(
                f"{policy_path}: {other.name} may hold its observation statistics, but is not named after it. Pass "
                "--normalisation FILE (in Python normalisation=FILE), or 'none' if it belongs to another policy",
                "normalisation",
            )
    return None


def read_vec_normalize(file: Path) -> Normalisation | Mapping[str, Normalisation] | None:
    """Return the observation statistics of a pickled ``VecNormalize``, None if it normalises rewards only.

    Dict observations have statistics by entry. Nothing in the file is run; unexpected content raises `PolicyError`.
    """
    content = read_pickle(file.read_bytes(), str(file), is_known_name)
    attributes = content.attributes() if isinstance(content, Record) else {}
    if "norm_obs" not in attributes:
        what = content.name if isinstance(content, Record) else f"a {type(content).__name__}"
        raise PolicyError(f"{file}: holds {what}, not a VecNormalize")
    if not attributes["norm_obs"]:
        return None
    statistics = attributes.get("obs_rms")
    if isinstance(statistics, dict):
        return {str(key): _normalisation_of(file, attributes, running) for key, running in statistics.items()}
    return _normalisation_of(file, attributes, statistics)


def _normalisation_of(file: Path, attributes: Mapping[str, Any], statistics: Any) -> Normalisation:
    try:
        running = statistics.attributes() if isinstance(statistics, Record) else {}
        numbers = (running["mean"], running["var"], attributes["epsilon"], attributes["clip_obs"])
        mean, var, epsilon, clip = (array_of(each) for each in numbers)
        with naming(file):
            return Normalisation(mean, var, epsilon.item(), clip.item(), source=str(file))
    except KeyError as error:
        raise PolicyError(f"{file}: this VecNormalize has no {error.args[0]}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise PolicyError(f"{file}: the statistics of this VecNormalize cannot be read: {error}") from error


def normalisation_of_vec_normalize(vec_normalize: Any) -> Normalisation | Mapping[str, Normalisation] | None:
    """Return the observation statistics of a ``VecNormalize`` object, None if it normalises rewards only."""
    if not vec_normalize.norm_obs:
        return None
    epsilon, clip = vec_normalize.epsilon, vec_normalize.clip_obs
    statistics = vec_normalize.obs_rms
    if isinstance(statistics, Mapping):
        return {key: Normalisation(part.mean, part.var, epsilon, clip) for key, part in statistics.items()}
    return Normalisation(statistics.mean, statistics.var, epsilon, clip)
