"""``python -m lab reproduce TABLE…``; see `lab.reproduction.command`."""

import sys

from lab.reproduction.command import reproduce
from legible.errors import LegibleError

if __name__ == "__main__":
    try:
        reproduce(prog_name="python -m lab reproduce")
    except LegibleError as error:
        sys.exit(str(error))
