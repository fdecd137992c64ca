"""``python -m legible``: the command line."""

from legible.cli import main

main()
