"""Observation normalisation: statistics that a policy was trained with and cannot be used without.

The formula is Stable-Baselines3's ``VecNormalize``: ``clip((observation - mean) / sqrt(var + epsilon), ±clip)``.

Statistics lie next to the policy under a fixed name, where they are found: those of ``driver.zip`` or
``driver.safetensors`` are ``driver.normalisation.npz`` or ``driver.normalisation.toml``. Both hold ``mean`` and ``var``
(one number a feature), ``epsilon`` and ``clip``:

.. code-block:: toml

    mean = [0.5, -2.0]
    var = [1.0, 4.0]
    epsilon = 1e-8
    clip = 10.0

Stable-Baselines3 itself saves them as a pickle of its ``VecNormalize``. That is read, too, without unpickling it
(`legible.policies.vec_normalize`); `convert_vec_normalize` turns one into an ``.npz``.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from legible.files import DamagedFileError, read_arrays, read_toml, write_arrays, write_text
from legible.policies.protocol import Observations, PolicyError, naming
from legible.policies.unpacking import check_member

SUFFIXES = (".normalisation.npz", ".normalisation.toml")
"""What replaces the policy's suffix in the name of the statistics next to it."""

_FIELDS = ("mean", "var", "epsilon", "clip")
_MOST_TOML_BYTES = 16 * 2**20


@dataclass(frozen=True, eq=False)
class Normalisation:
    """Statistics of the observations a policy was trained on.

    Parameters
    ----------
    mean, var
        Mean and variance of each feature.
    epsilon
        Added to the variance (``VecNormalize``: 1e-8 unless set otherwise).
    clip
        Largest absolute value after normalisation (``VecNormalize``: 10 unless set otherwise).
    source
        The file that they come from, None when they come from none; not part of what they are.

    Examples
    --------
    >>> statistics = Normalisation(mean=[1.0], var=[4.0], epsilon=0.0, clip=2.0)
    >>> statistics.apply(np.array([[2.0], [99.0]], dtype=np.float32))
    array([[0.5],
           [2. ]], dtype=float32)
    """

    mean: npt.NDArray[np.float64]
    var: npt.NDArray[np.float64]
    epsilon: float
    clip: float
    source: str | None = None

    def __post_init__(self) -> None:
        for name in ("mean", "var"):
            values = np.array(getattr(self, name), dtype=np.float64).reshape(-1)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "clip", float(self.clip))
        if len(self.mean) != len(self.var) or not len(self.mean):
            raise PolicyError(f"normalisation: mean has {len(self.mean)} numbers and var has {len(self.var)}")
        if not np.isfinite(self.mean).all() or not np.isfinite(self.var).all():
            raise PolicyError("normalisation: mean and var must be finite numbers")
        if (self.var < 0).any() or self.epsilon < 0 or not (self.var + self.epsilon > 0).all():
            raise PolicyError("normalisation: var + epsilon must be above zero for every feature")
        if not self.clip > 0:
            raise PolicyError(f"normalisation: clip must be above zero, not {self.clip}")
        object.__setattr__(self, "_scale", np.sqrt(self.var + self.epsilon))

    @property
    def n_features(self) -> int:
        """Width of the observations that the statistics belong to."""
        return len(self.mean)

    def apply(self, observations: Observations) -> Observations:
        """Return the normalised observations, to the bit as ``VecNormalize`` does."""
        scale: npt.NDArray[np.float64] = self.__dict__["_scale"]
        normalised = np.clip((observations - self.mean) / scale, -self.clip, self.clip)
        return normalised.astype(np.float32)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Normalisation):
            return NotImplemented
        return (
            np.array_equal(self.mean, other.mean)
            and np.array_equal(self.var, other.var)
            and (self.epsilon, self.clip) == (other.epsilon, other.clip)
        )

    def __hash__(self) -> int:
        return hash((self.mean.tobytes(), self.var.tobytes(), self.epsilon, self.clip))


def find_normalisation(policy_path: Path) -> Path | None:
    """Return the statistics that lie next to a policy under the documented name, None when there are none.

    Raises
    ------
    PolicyError
        When both an ``.npz`` and a ``.toml`` are there.
    """
    found = [beside for suffix in SUFFIXES if (beside := policy_path.with_suffix(suffix)).is_file()]
    if len(found) > 1:
        raise PolicyError(f"{policy_path}: both {found[0].name} and {found[1].name} lie beside it; keep one of them")
    return found[0] if found else None


def load_normalisation(path: str | os.PathLike[str]) -> Normalisation | Mapping[str, Normalisation] | None:
    """Read statistics from an ``.npz`` or ``.toml`` file, or from a pickled ``VecNormalize``, which is not unpickled.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Normalisation, mapping or None
        A mapping, by entry, for Dict observations; None for a ``VecNormalize`` that normalises rewards only.

    Raises
    ------
    PolicyError
        When the file is missing, damaged or incomplete, or a pickle of anything else.
    """
    file = Path(path)
    if not file.is_file():
        raise PolicyError(f"{file}: no such file with normalisation statistics")
    suffix = file.suffix.lower()
    if suffix == ".npz":
        fields = _read_npz(file)
    elif suffix == ".toml":
        fields = read_toml(file, PolicyError, _MOST_TOML_BYTES)
    elif suffix in (".pkl", ".pickle"):
        from legible.policies.vec_normalize import read_vec_normalize  # noqa: PLC0415 (it builds on this module)

        return read_vec_normalize(file)
    else:
        raise PolicyError(
            f"{file}: normalisation statistics are .npz or .toml files, or the .pkl of a VecNormalize, not "
            f"'{file.suffix}'"
        )
    return _normalisation_of(file, fields)


def save_normalisation(normalisation: Normalisation, path: str | os.PathLike[str]) -> Path:
    """Write statistics to an ``.npz`` or ``.toml`` file, whole or not at all, and return its path.

    Both keep every bit. To be found next to a policy the name must be the policy's, with one of `SUFFIXES`.
    """
    file = Path(path)
    if file.suffix.lower() == ".npz":
        write_arrays(file, {name: np.asarray(getattr(normalisation, name)) for name in _FIELDS})
    elif file.suffix.lower() == ".toml":
        numbers = {"mean": normalisation.mean.tolist(), "var": normalisation.var.tolist()}
        numbers |= {"epsilon": normalisation.epsilon, "clip": normalisation.clip}
        write_text(file, "".join(f"{name} = {value!r}\n" for name, value in numbers.items()))
    else:
        raise PolicyError(f"{file}: normalisation statistics are saved as .npz or .toml, not '{file.suffix}'")
    return file


def convert_vec_normalize(pickled: str | os.PathLike[str], destination: str | os.PathLike[str]) -> Path:
    """Turn a pickled ``VecNormalize`` into an ``.npz`` or ``.toml``, without unpickling it.

    Parameters
    ----------
    pickled
        The ``.pkl`` file that ``VecNormalize.save`` wrote.
    destination
        Where the statistics go, such as ``driver.normalisation.npz`` next to ``driver.zip``.
    """
    statistics = load_normalisation(pickled)
    if statistics is None:
        raise PolicyError(f"{pickled}: this VecNormalize normalises rewards only (norm_obs=False): nothing to convert")
    if not isinstance(statistics, Normalisation):
        raise PolicyError(f"{pickled}: statistics of Dict observations can only be used as they are, not converted")
    return save_normalisation(statistics, destination)


def _read_npz(file: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as members:
            for name in members.namelist():
                check_member(file, members, name)
        return read_arrays(file, advice="make it again")
    except (
        DamagedFileError,
        OSError,
        ValueError,
        EOFError,
        KeyError,
        NotImplementedError,
        zipfile.BadZipFile,
    ) as error:
        reason = str(error).removeprefix(f"{file}: ")
        raise PolicyError(f"{file}: cannot be read as .npz with normalisation statistics: {reason}") from error


def _normalisation_of(file: Path, fields: Mapping[str, Any]) -> Normalisation:
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise PolicyError(
            f"{file}: {', '.join(missing)} missing; normalisation statistics are mean, var, epsilon and clip "
            "(VecNormalize's own defaults are epsilon = 1e-8 and clip = 10.0)"
        )
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise PolicyError(f"{file}: unknown entries {', '.join(unknown)}; expected mean, var, epsilon and clip")
    try:
        mean, var, epsilon, clip = (np.asarray(fields[name], dtype=np.float64) for name in _FIELDS)
        with naming(file):
            return Normalisation(mean, var, epsilon.item(), clip.item(), source=str(file))
    except (TypeError, ValueError, OverflowError) as error:
        raise PolicyError(
            f"{file}: mean and var must be lists of numbers, epsilon and clip numbers ({error})"
        ) from error
