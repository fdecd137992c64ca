"""Observation normalisation with the formula of Stable-Baselines3's ``VecNormalize``.

The formula is ``clip((observation - mean) / sqrt(var + epsilon), ±clip)``.

Statistics are found next to the policy under a fixed name: those of ``driver.zip`` or ``driver.safetensors`` are
``driver.normalisation.npz`` or ``driver.normalisation.toml``. Both hold ``mean`` and ``var`` (one number per feature),
``epsilon`` and ``clip``:

.. code-block:: toml

    mean = [0.5, -2.0]
    var = [1.0, 4.0]
    epsilon = 1e-8
    clip = 10.0

The pickle that ``VecNormalize.save`` writes is also read, without unpickling it (`legible.policies.vec_normalize`).
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
"""Suffixes of the statistics next to a policy, in place of the policy's suffix."""

_FIELDS = ("mean", "var", "epsilon", "clip")
_MOST_TOML_BYTES = 16 * 2**20


@dataclass(frozen=True, eq=False)
class Normalisation:
    """Statistics of the observations that a policy was trained on.

    Parameters
    ----------
    mean, var
        Mean and variance of each feature.
    epsilon
        Added to the variance (``VecNormalize``: 1e-8 by default).
    clip
        Largest absolute value after normalisation (``VecNormalize``: 10 by default).
    source
        The file of the statistics, if any; ignored by comparisons.

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
        """Width of the observations."""
        return len(self.mean)

    def apply(self, observations: Observations) -> Observations:
        """Return the normalised observations, bit-identical to those of ``VecNormalize``."""
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
    """Return the file with statistics next to a policy, None without one; raise an error if there are two."""
    sidecars = [sidecar for suffix in SUFFIXES if (sidecar := policy_path.with_suffix(suffix)).is_file()]
    if len(sidecars) > 1:
        names = " and ".join(sidecar.name for sidecar in sidecars)
        raise PolicyError(f"{policy_path}: there are two files with statistics, {names}; keep one of them")
    return sidecars[0] if sidecars else None


def load_normalisation(path: str | os.PathLike[str]) -> Normalisation | Mapping[str, Normalisation] | None:
    """Return the observation statistics of a file.

    Dict observations have a mapping from entry to statistics. None means that the file is a ``VecNormalize`` that
    normalises rewards only.

    The file is an ``.npz`` or ``.toml`` file with mean, var, epsilon and clip, or the ``.pkl`` of a ``VecNormalize``,
    which is read without unpickling it.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if not file.is_file():
        raise PolicyError(f"{file}: no such file with normalisation statistics")
    if suffix in (".pkl", ".pickle"):
        from legible.policies.vec_normalize import read_vec_normalize  # noqa: PLC0415 (it builds on this module)

        return read_vec_normalize(file)
    if suffix not in (".npz", ".toml"):
        raise PolicyError(
            f"{file}: normalisation statistics are .npz or .toml files, or the .pkl of a VecNormalize, not "
            f"'{file.suffix}'"
        )

    # Exactly the four fields of _FIELDS: a misspelt or forgotten one would silently change the policy.
    fields = _read_npz(file) if suffix == ".npz" else read_toml(file, PolicyError, _MOST_TOML_BYTES)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise PolicyError(
            f"{file}: {', '.join(missing)} missing; normalisation statistics are mean, var, epsilon and clip "
            "(VecNormalize's defaults are epsilon = 1e-8 and clip = 10.0)"
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


def save_normalisation(normalisation: Normalisation, path: str | os.PathLike[str]) -> Path:
    """Write statistics to an ``.npz`` or ``.toml`` file atomically, and return its path.

    Both formats are exact. Statistics next to a policy are found if they have its name and one of `SUFFIXES`.
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
