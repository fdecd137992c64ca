"""``legible show``: every section as text and as JSON, the verdict on one screen, and the report."""

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from drawn_play import SETUP, DrawnPlay, evaluation_of, noise, rule, rule_set
from legible.cli.show import SECTIONS
from legible.improvement import Improvement, improve
from legible.rules import RuleSet
from legible.settings import ImprovementSettings
from legible.study import Study
from mirror_world import SPACE
from unfinished import forget_results

CASES = {
    "verdict": ("Mean return", {"verdict", "references", "weaknesses", "improvement", "mistakes"}),
    "weaknesses": ("Unguided: mean return", {"verdicts", "base", "weaknesses"}),
    "rules": ("Related forms", {"rules", "learned", "rule_sets"}),
    "mistakes": ("40 decisions", {"mistakes", "decisions"}),
    "composition": ("Rules of the guided policy", {"effect", "composition", "figures", "front"}),
    "seeds": ("experiences", {"stages"}),
    "report": ("report.html", {"report"}),
}


@pytest.mark.parametrize("section", CASES)
def test_every_section_is_text_or_json(legible, studied, section) -> None:
    text, keys = CASES[section]
    shown = legible("show", studied, section, "--trust")
    assert (shown.code, text in shown.out) == (0, True), shown
    printed = legible("show", studied, section, "--trust", "--json")
    document = json.loads(printed.out)
    assert keys <= document.keys()
    assert (document["folder"], printed.err) == (str(studied), "")


def test_the_verdict_fits_on_one_screen(legible, studied) -> None:
    shown = legible("show", studied, "--trust").out
    assert len(shown.splitlines()) <= 40
    assert shown == legible("show", studied, "verdict", "--trust").out
    words = " ".join(shown.split())  # numbers stay with their units by narrow spaces
    assert words.startswith("Two rules raise")
    assert "Weaknesses: following the rule" in words
    assert "random play" in words
    assert f"Guided policy: {studied / 'guided.safetensors'}" in words
    assert words.endswith(f"Report: {studied / 'report.html'}")


def test_a_long_verdict_shows_fewer_weaknesses_in_a_terminal(legible, studied, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")  # no line is wrapped
    one = len(legible("show", studied, "--trust").out.splitlines())
    explanations = Study.explanations.fget
    monkeypatch.setattr(Study, "explanations", property(lambda study: 3 * explanations(study)))
    three = len(legible("show", studied, "--trust").out.splitlines())
    assert three > one
    monkeypatch.setattr("legible.cli.show.MOST_LINES", three - 1)
    two = len(legible("show", studied, "--trust").out.splitlines())
    assert three - two == two - one


@pytest.mark.parametrize(("section", "shown"), [("verdict", "Mean return"), ("weaknesses", "Confirmed"), ("rules", "")])
def test_results_need_neither_torch_nor_numba(studied, section: str, shown: str) -> None:
    program = f"""
import sys
sys.argv = ["legible", "show", {str(studied)!r}, {section!r}, "--trust"]
from legible.cli import main
try:
    main()
finally:
    print("imported:", *sys.modules.keys() & {{"numba", "scipy.optimize", "torch"}}, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown in done.stdout
    assert done.stderr.split() == ["imported:"]


def test_a_section_that_is_not_there_yet_names_the_command(legible, copied) -> None:
    assert legible("show", forget_results(copied), "rules", "--trust").code == 0
    for section in ("verdict", "weaknesses", "composition"):
        done = legible("show", copied, section, "--trust")
        assert (done.code, f"'legible run {copied}" in done.err) == (2, True)


# --- Report ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_report_goes_where_it_is_asked_for_with_replays_and_other_policies(legible, copied, place, tmp_path):
    seed = (copied / "plots" / "returns.csv").read_text().splitlines()[7].partition(",")[0]
    words = ("show", copied, "report", "--trust", "--html", tmp_path / "mine.html", "--replay", seed)
    done = legible(*words, "--other", f"again={place / 'policy.safetensors'}")
    assert (done.code, done.out.strip()) == (0, f"Report: {tmp_path / 'mine.html'}")
    assert "again" in (tmp_path / "mine.html").read_text(encoding="utf-8")


@pytest.fixture
def read_only(studied, tmp_path):
    """Yield a finished study in which nothing can be written, made or locked, as on a read-only file system."""
    folder = shutil.copytree(studied, tmp_path / "read-only", ignore=shutil.ignore_patterns("lock", "report.html"))
    (folder / "plots").rename(tmp_path / "earlier plots")
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    watched = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event not in watched or not guarding or not str(arguments[0]).startswith(str(folder)):
            return
        if event != "open" or int(arguments[2]) & writing:
            raise OSError(errno.EROFS, "Read-only file system", str(arguments[0]))

    guarding = [True]
    sys.addaudithook(refuse)
    yield folder
    guarding.clear()  # a hook stays for as long as the process


def test_a_finished_study_can_be_read_where_nothing_can_be_written(legible, read_only, tmp_path) -> None:
    for section in set(CASES) - {"report"}:
        done = legible("show", read_only, section, "--trust")
        assert (done.code, CASES[section][0] in done.out) == (0, True), done.err
    assert "Rules triggered in" in legible("play", read_only, "--trust").out
    refused = legible("show", read_only, "report", "--trust")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "Read-only file system" in refused.err
    assert legible("show", read_only, "report", "--trust", "--html", tmp_path / "elsewhere.html").code == 0


# --- Composition -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def improvement() -> Improvement:
    play = DrawnPlay({rule(0): noise(2.0, 9.0), rule(1): noise(2.0, 4.0)}, changes={rule(0): 8, rule(1): 2})
    settings = ImprovementSettings(episodes=400, final_episodes=100)
    return improve(SETUP, evaluation_of([rule_set(0), rule_set(1)]), seed=0, settings=settings, run=play)


def composition_of(improvement: Improvement) -> SimpleNamespace:
    """Return as much of a study as its composition needs."""
    return SimpleNamespace(improvement=improvement, space=SPACE, folder=Path("s"), has=lambda _: False)


def test_compositions_with_fewer_changes_are_a_table(improvement, capsys) -> None:
    SECTIONS["composition"].print(composition_of(improvement))
    printed = " ".join(capsys.readouterr().out.split())
    for words in ("Actions changed Rules Gain (95 % CI) Chosen", "10 % 1 +", "50 % 2 +"):
        assert words in printed
    assert "given up" not in printed
    data = SECTIONS["composition"].to_data(composition_of(improvement))
    assert [(point["changed"], len(point["rules"])) for point in data["front"]] == [(0.1, 1), (0.4, 1), (0.5, 2)]
    assert data["front"][-1]["chosen"] is True
    assert (data["changed"], data["check"]["passed"]) == (0.5, True)
    assert data["environment_steps"] == improvement.environment_steps > 0


@pytest.mark.parametrize("case", ["changes too much", "may be chance", "too rare"])
def test_what_is_wrong_with_a_composition_is_said(improvement, capsys, case, snapshot) -> None:
    if case == "changes too much":
        shown = replace(improvement, settings=replace(improvement.settings, most_changed=0.3))
    else:
        check = replace(improvement.check, is_passed=False, is_too_rare=case == "too rare")
        shown = replace(improvement, check=check, rule_sets=(), composition=RuleSet(()))
    SECTIONS["composition"].print(composition_of(shown))
    assert " ".join(capsys.readouterr().out.split()).partition(" yes ")[2].rpartition(" yes ")[2] == snapshot
