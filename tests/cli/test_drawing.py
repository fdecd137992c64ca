"""Progress bars as a terminal shows them."""

import re
import time

import pytest

from legible.cli import drawing
from legible.cli.drawing import Bars, say
from legible.play import STAGES


def screen(written: str) -> list[str]:
    """The lines that a terminal shows in the end: cursors go up, lines are erased and written again."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif re.fullmatch(r"\x1b\[\d*A", part):
            at -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[at] = ""
        elif not part.startswith(("\x1b", "\r")):
            lines[at] += part
    return [line.rstrip() for line in lines if line.strip()]


def test_stages_leave_a_line_each_and_the_line_that_is_drawn_disappears(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(drawing, "PATIENCE", 0.0)
    with Bars() as bars:
        bars.now("loading the policy")
        bars("experiences", 300, 600)
        bars("experiences", 600, 600)
        say("102 rule sets to test.")
        bars("racing", 10, 20)
        say("Something else.")
        bars("racing", 20, 20)
    written = capsys.readouterr().err
    assert "starting" in written
    assert [line.split(" in ")[0] for line in screen(written)] == [
        "playing: 600 episodes",
        "102 rule sets to test.",
        "Something else.",
        "testing rules: 20 episodes",
    ]


def test_elsewhere_a_stage_is_a_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(drawing, "PATIENCE", 0.0)
    with Bars() as bars:
        bars("experiences", 300, 600)
        bars("experiences", 600, 600)
        bars("racing", 20, 20)
    assert [line.split(" in ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "playing: 600 episodes",
        "testing rules: 20 episodes",
    ]


def test_elsewhere_there_is_a_sign_of_life_after_a_while(monkeypatch, capsys) -> None:
    monkeypatch.setattr(drawing, "SILENCE", 0.1)
    with Bars() as bars:
        bars.now("loading the policy")
        time.sleep(1.2)
    assert "… loading the policy" in capsys.readouterr().err
    with Bars(quiet=True):
        time.sleep(1.2)
    assert capsys.readouterr().err == ""


def test_the_time_left_is_that_of_all_stages(monkeypatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(drawing.time, "monotonic", lambda: clock[0])
    bars = Bars(quiet=True)
    assert bars.seconds_left() is None
    bars.expect(40.0, {"experiences": 100, "racing": 300})
    assert bars.seconds_left() == pytest.approx(40.0)
    bars("experiences", 0, 100)
    clock[0] += 5.0
    assert bars.seconds_left() == pytest.approx(35.0)  # as expected before
    bars("experiences", 25, 100)
    assert bars.seconds_left() == pytest.approx(30.0 + 0.5 * 15.0 + 0.5 * 5.0)  # half as measured
    bars("experiences", 100, 100)
    assert bars.seconds_left() == pytest.approx(30.0)
    bars("racing", 0, 300)
    assert bars.status() == "testing rules 0/300, about 30 seconds left"


def test_every_stage_of_a_study_has_plain_words() -> None:
    assert set(STAGES) - set(drawing.STAGE_WORDS) <= {"mistakes", "random rules", "random tests"}
