"""``legible play`` where something is missing that draws."""

import io
import sys

import pytest
from rich.console import Console

from legible.cli import play


def test_an_environment_that_cannot_be_drawn_is_played_without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = io.StringIO()
    monkeypatch.setattr(
        play, "Console", lambda **_: Console(file=seen, force_terminal=True, no_color=True, highlight=False, width=400)
    )
    monkeypatch.setitem(sys.modules, "pygame", None)
    play.play("CartPole-v1", fps=1000.0)
    assert "pip install 'legible-rl[human]'" in seen.getvalue()
    assert seen.getvalue().count("The episode goes on without pictures.") == 1
    assert "The episode is over; return" in seen.getvalue()
