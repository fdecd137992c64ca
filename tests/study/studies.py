"""What several tests of studies share: studies in this process, their settings, and an engine that is stopped."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from legible.engines import InProcess
from legible.settings import StudySettings
from legible.study import Study

make_study = partial(Study, engine=InProcess())
open_study = partial(Study.open, trust=True, engine=InProcess())


def settings_of(**changes: Any) -> StudySettings:
    """Return the default settings with some changes; a section is a dictionary."""
    return StudySettings().updated(changes, "test")


class StoppedError(Exception):
    """Raised by `Impatient` in the place of Ctrl-C."""


class Impatient(InProcess):
    """An engine that is stopped after some units."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.left = units

    def run(self, function: Any, shared: Any, units: Any, **options: Any) -> Iterator[Any]:
        """Run units until the last that is allowed."""
        for outcome in super().run(function, shared, units, **options):
            if not self.left:
                raise StoppedError
            self.left -= 1
            yield outcome
