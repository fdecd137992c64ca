"""Data frames for those who have pandas, which is imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from legible.errors import LegibleError


def data_frame(data: Sequence[Mapping[str, Any]] | Mapping[str, Any], columns: Sequence[str] | None = None) -> Any:
    """Make a pandas data frame from rows or columns.

    `columns` names the columns of a frame that may have no rows, so that it has its columns all the same.
    """
    try:
        import pandas  # noqa: PLC0415 (optional, and slow to import)
    except ImportError as error:
        raise LegibleError(
            "data frames need pandas, which is not installed: pip install 'legible-rl[pandas]', or use to_rows()."
        ) from error
    return pandas.DataFrame(data, columns=columns if columns is not None and not len(data) else None)
