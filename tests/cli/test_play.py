"""``legible play`` where something is missing that draws."""

import sys

import pytest

from legible.cli import main


def test_an_environment_that_cannot_be_drawn_is_played_without_pictures(monkeypatch, capfd) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setattr(sys, "argv", ["legible", "play", "CartPole-v1", "--fps", "10000"])
    with pytest.raises(SystemExit) as left:
        main()
    said = capfd.readouterr()
    assert not left.value.code, said.err
    assert "pip install 'legible-rl[human]'" in said.err
    assert "The episode is played without pictures." in said.err
    assert "The episode is over; return" in said.out
