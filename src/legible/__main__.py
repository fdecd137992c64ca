"""``python -m legible``: the command line."""

import sys
from pathlib import Path

# ``python -m`` looks for modules in the current folder first; a file there must not take the place of a package.
if sys.path and sys.path[0] in {"", str(Path.cwd())}:
    del sys.path[0]

from legible.cli import main

main()
