"""Progress bars as a terminal shows them."""

import re

from legible.cli import drawing
from legible.cli.drawing import Bars, say


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


def test_a_finished_bar_is_shown_once_and_remarks_stand_above(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(drawing, "PATIENCE", 0.0)
    with Bars() as bars:
        bars("experiences", 300, 600)
        bars("experiences", 600, 600)
        say("102 rule sets to test.")
        bars("racing", 10, 20)
        say("Something else.")
        bars("racing", 20, 20)
    shown = screen(capsys.readouterr().err)
    assert shown[:2] == ["102 rule sets to test.", "Something else."]
    assert [line.split()[0] for line in shown[2:]] == ["experiences", "racing"]
    assert "600/600" in shown[2]


def test_elsewhere_a_stage_is_a_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(drawing, "PATIENCE", 0.0)
    with Bars() as bars:
        bars("experiences", 300, 600)
        bars("experiences", 600, 600)
        bars("racing", 20, 20)
    assert [line.split(" in ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "experiences: 600 episodes",
        "racing: 20 episodes",
    ]
