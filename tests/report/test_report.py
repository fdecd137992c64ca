"""The report as a file: what it says is what the study found, it needs nothing else, and it is the same every time."""

import csv
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mirror_world
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.features import Action, Feature, FeatureSpace
from legible.report import write_report
from legible.report.builder import asset
from legible.report.command import rerun_command
from legible.report.findings import gather
from legible.settings import MiningSettings, PlaySettings
from legible.study import Study
from report.studies import MIRROR_SETTINGS, mirror_study


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that elements are closed in order."""

    EMPTY = frozenset({"meta", "link", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data


def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def words_of(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\xa0", " "))


def test_the_report_says_what_the_study_found(pacman_study, pacman_report) -> None:
    page = page_of(pacman_report)
    text = words_of(page.text)
    assert pacman_report == pacman_study.folder / "report.html"
    assert words_of(pacman_study.conclusion.headline) in text
    for sentence in pacman_study.conclusion.sentences:
        assert words_of(sentence) in text
    for entry in pacman_study.references.results:
        assert entry.reference.words in text
    assert "greedy, the best action" in text
    for explanation in pacman_study.explanations:
        assert words_of(explanation.headline[1:].split(": ")[0]) in text
        for sentence in explanation.sentences():
            assert words_of(sentence) in text
    for mined in pacman_study.mining.rules:
        assert mined.rule.text(pacman_study.space) in text
    for part in ("For: go north", "numpy", "[evaluation]"):
        assert part in text
    rows = [attributes for tag, attributes in page.tags if tag == "tr" and "data-kinds" in attributes]
    assert len(rows) == len(pacman_study.mining.rules)
    confirmed = [row for row in rows if "confirmed" in (row["data-kinds"] or "").split()]
    assert len(confirmed) == len(pacman_study.evaluation.confirmed)


def test_one_count_everywhere(pacman_study, pacman_report) -> None:
    """Headline, answers, cards and table count the same."""
    found = gather(pacman_study)
    confirmed = len(pacman_study.evaluation.confirmed)
    groups = [group for group in pacman_study.weaknesses if group.is_confirmed]
    assert confirmed
    assert len(groups) == len([card for card in found.cards if card.verdict.is_confirmed])
    assert sum(len(group.verdicts) for group in groups) == confirmed
    assert sum("confirmed" in row.kinds for row in found.rules) == confirmed
    assert all(row.weakness is not None for row in found.rules if "confirmed" in row.kinds)
    text = words_of(page_of(pacman_report).text)
    plural = "weakness" if len(groups) == 1 else "weaknesses"
    assert f"{len(groups)} distinct {plural} ({confirmed} of" in text
    for answer in pacman_study.answers:
        assert answer.question in text
        for sentence in answer.sentences:
            assert words_of(sentence) in text
    assert len(groups) == 1 or f"weakness, of {len(groups)}:" in pacman_study.answers[2].sentences[0]


def test_before_you_deploy(pacman_study, pacman_report) -> None:
    text = words_of(page_of(pacman_report).text)
    deployment = pacman_study.deployment
    assert [change.name for change in deployment.figures][:4] == ["mean", "median", "worst-tenth", "success"]
    for change in deployment.figures:
        for cell in change.cells()[1:]:
            assert words_of(cell) in text
    assert "An episode succeeds when PAC-Man" in text
    for loss in deployment.losses:
        assert str(loss.seed) in text
    for sentence in deployment.not_tested:
        assert sentence in text
    assert "Next steps" in text


def test_seeds_that_are_asked_for_can_be_watched(pacman_study, raises_saved) -> None:
    seeds = pacman_study.improvement.final_blocks.seeds
    found = gather(pacman_study, [seeds[7]])
    assert found.replays[found.composition_replays[0]]["seed"] == seeds[7]
    with raises_saved(LegibleError):
        gather(pacman_study, [-5])


def test_a_study_without_a_weakness_suggests_next_steps(tmp_path) -> None:
    study = Study(
        tmp_path,
        mirror_world.WORLD,
        mirror_world.best_policy(),
        relations=mirror_world.mirror(),
        settings=MIRROR_SETTINGS,
        engine=InProcess(),
    )
    study.run()
    assert study.next_steps is not None
    text = words_of(page_of(write_report(study)).text)
    assert "Next steps" in text
    for sentence in (*study.next_steps.seen, *study.next_steps.steps):
        assert words_of(sentence) in text
    found = gather(study)
    worst = [found.replays[k] for k in found.composition_replays]
    assert (
        worst[0]["seed"]
        == study.improvement.final_blocks.seeds[int(study.improvement.final_blocks.base.returns.argmin())]
    )
    assert all(len(replay["sides"]) == 1 for replay in worst)


def test_the_top_says_where_a_policy_is_weak(pacman_study, pacman_report) -> None:
    page = page_of(pacman_report)
    top = words_of(page.text).split("Terms")[0]
    for card in gather(pacman_study).cards[:3]:
        assert words_of(card.explanation.in_short) in top
        assert card.explanation.advice.split(";")[0][1:] in card.explanation.in_short


def test_options_are_code_that_does_not_break() -> None:
    from legible.report.builder import _figure_cell, _with_options

    assert _with_options("Search <longer>: --search.budget.") == (
        'Search &lt;longer&gt;: <code class="whole">--search.budget</code>.'
    )
    assert _figure_cell("599 (566 to 633)") == '599 <span class="whole">(566 to 633)</span>'


def test_cards_steps_and_replays_lead_to_each_other(pacman_study, pacman_report) -> None:
    findings = gather(pacman_study)
    text = pacman_report.read_text()
    joined = [(number, card.joined) for number, card in enumerate(findings.cards, start=1) if card.joined]
    assert joined
    for number, step in joined:
        assert findings.steps[step - 1].weakness == number
        assert findings.steps[step - 1].badge == "kept"
        assert f'<tr id="step-{step}">' in text
        assert f'<a href="#step-{step}">used in the guided policy</a>' in text
        assert f'<a href="#weakness-{number}">weakness {number}</a>' in text
    shown = [findings.replays[k] for k in findings.composition_replays]
    assert {number for replay in shown for number in replay["weaknesses"]} & {number for number, _ in joined}


def test_the_report_needs_nothing_else(pacman_report) -> None:
    page = page_of(pacman_report)
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:")), (tag, target)
    text = pacman_report.read_text(encoding="utf-8")
    for library in ("d3.min.js", "plot.min.js"):  # with names of XML and their own licences' addresses
        text = text.replace(asset(f"vendor/{library}"), "")
    assert not re.search(r"@import|url\(|https?://", text)
    assert "default-src 'none'" in text
    assert pacman_report.stat().st_size < 3_000_000


def test_links_within_the_page_lead_somewhere(pacman_report) -> None:
    page, page_text = page_of(pacman_report), pacman_report.read_text(encoding="utf-8")
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    wanted = [a["href"][1:] for tag, a in page.tags if tag == "a"] + [
        a["aria-controls"] for _, a in page.tags if "aria-controls" in a
    ]
    assert wanted
    replays = json.loads(re.search('<script type="application/json" id="replays">(.*?)</script>', page_text)[1])
    assert {f"seed={replay['seed']}" for replay in replays} >= {name for name in wanted if name.startswith("seed=")}
    assert {name for name in wanted if not name.startswith("seed=")} <= set(names)


def test_plots_and_tables(pacman_study, pacman_report) -> None:
    folder = pacman_report.parent / "plots"
    for name in ("returns", "p-values", "effects", "composition", "importances"):
        with Image.open(folder / f"{name}.png") as image:
            assert image.width > 600
            assert len(np.unique(np.asarray(image.convert("L")))) > 2
    rows = read_table(folder / "returns.csv")
    guided = np.array([float(row["guided"]) for row in rows])
    assert guided.mean() == pytest.approx(pacman_study.improvement.guided.mean)
    assert int(rows[0]["seed"]) == pacman_study.improvement.final_blocks.seeds[0]
    assert [float(row["p"]) for row in read_table(folder / "verdicts.csv")] == [
        v.p for v in pacman_study.evaluation.verdicts
    ]
    assert len(read_table(folder / "references.csv")) == len(pacman_study.references.results)
    for name in ("rules", "importances", "composition"):
        assert (folder / f"{name}.csv").stat().st_size > 50


def test_other_policies_are_baselines(mirror, tmp_path) -> None:
    path = write_report(mirror, tmp_path / "report.html", others={"the same again": mirror_world.policy()})
    rows = read_table(tmp_path / "plots" / "returns.csv")
    # Another policy plays the same seeds; this one is the same policy, so it earns the same.
    assert [row["the same again"] for row in rows] == [row["the policy alone"] for row in rows]
    assert "the same again" in page_of(path).text


def test_a_study_that_found_nothing_has_a_report(tmp_path) -> None:
    settings = replace(MIRROR_SETTINGS, mining=MiningSettings(importance="none", min_coverage=1.0))
    study = mirror_study(tmp_path, settings=settings)
    page = page_of(write_report(study))
    assert "No rules were mined, so" in page.text
    assert "None was found" in page.text
    assert not (tmp_path / "plots" / "verdicts.csv").exists()


def test_the_way_of_playing_is_named(tmp_path, snapshot) -> None:
    play = PlaySettings(batch=8, unit_episodes=40, epsilon=0.1, epsilon_when_guided=False, precedence="negative")
    study = mirror_study(tmp_path, settings=replace(MIRROR_SETTINGS, play=play))
    text = words_of(page_of(write_report(study)).text)
    assert re.search("except for.* negative rules win", text)[0] == snapshot
    assert re.search(r"Where a rule holds, the guided [^.]*\.", text)[0] == snapshot


def test_names_cannot_break_the_page(tmp_path) -> None:
    nasty = '</script><script>alert("1")</script><b>'
    features = tuple(
        Feature(f.name, f.kind, words=nasty, values=dict.fromkeys(f.values, nasty)) for f in mirror_world.SPACE.features
    )
    names = FeatureSpace(features, tuple(Action(a.name, nasty) for a in mirror_world.SPACE.actions))
    study = mirror_study(tmp_path, names=names)
    path = write_report(study)
    page = page_of(path)
    assert nasty in page.text
    assert sum(tag == "script" for tag, _ in page.tags) == 4
    assert nasty not in path.read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_is_named(mirror, tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(LegibleError, match="cannot be created"):
        write_report(mirror, blocked / "report.html")


def test_an_opened_study_gives_the_same_report(pacman_study, pacman_report, tmp_path) -> None:
    again = write_report(Study.open(pacman_study.folder, engine=pacman_study.engine), tmp_path / "report.html")
    assert again.read_bytes() == pacman_report.read_bytes()
    for path in (tmp_path / "plots").iterdir():
        assert path.read_bytes() == (pacman_report.parent / "plots" / path.name).read_bytes()


def test_the_command_names_all_arguments(pacman_study, mirror, tmp_path, snapshot) -> None:
    assert rerun_command(mirror) == ""  # the policy was not loaded from a file
    assert rerun_command(pacman_study) == snapshot
    policy = pacman_study.folder / "policy.safetensors"
    given = Study(
        tmp_path,
        EnvironmentSpec("legible/PacmanSmall-v0", {"attack": 0.5, "maze": "small"}),
        policy,
        relations=[],
        rules=["+North <- food.north"],
        veto=["-East <- not open.east"],
        names=pacman_study.space.with_kinds({"food.south": "numeric"}),  # not what the environment says
        seed=3,
        settings=pacman_study.settings,
        engine=pacman_study.engine,
    )
    given.collect()
    assert shlex.split(rerun_command(given))[3:] == [
        *("policy.safetensors", "--seed", "3", "--arg", "attack=0.5", "--arg", 'maze="small"', "--relations", "none"),
        *("--names", "names.toml", "--rule", "+North <- food.north", "--veto", "-East <- not open.east"),
        *("--settings", "settings.toml", "--out", "again"),
    ]
