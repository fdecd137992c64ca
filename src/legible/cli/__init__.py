"""The command line."""

from legible.cli.commands import app, main

__all__ = ["app", "main"]
