"""Studies whose saved results are gone: they go on from the episodes that their folder holds."""

from pathlib import Path

from legible.study import STEPS


def forget_results(folder: Path, first: str = "evaluation") -> Path:
    """Delete the results of a step and of all that come after it."""
    names = list(STEPS)
    for name in names[names.index(first) :]:
        (folder / STEPS[name].file).unlink(missing_ok=True)
    return folder
