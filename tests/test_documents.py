"""The documents tell the truth: their examples run, their commands exist, their links lead somewhere.

The blocks of a page run in order, in one namespace and in a folder of their own:

- ``python`` blocks are executed;
- blocks whose first line is a comment with a file's name, such as ``# names.toml``, are written to that file;
- commands of ``legible`` in ``console`` and ``sh`` blocks are parsed, and run where ``<!-- run -->`` stands before the
  block;
- ``<!-- not run: why -->`` before a block leaves it out.

Studies play fewer episodes here than the pages say, and in this process.
"""

import importlib.util
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from legible import engines, settings
from legible.cli import app, main
from legible.settings import (
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    MistakeSettings,
    PlaySettings,
    StudySettings,
)
from legible.study import study

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted(DOCS.glob("*.md")))]
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (?P<mark>run|not run: [^>]+) -->\s*\Z")
FILE = re.compile(r"# (?P<name>[\w.-]+\.(py|toml))\n")
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
# The study that several pages look at; the quick start makes it.
FOLDER, POLICY = "studies/PacmanSmall-ppo-4", "zoo:PacmanSmall/ppo/4"
FEW = StudySettings(
    sources="mined,yours",
    episodes=60,
    # Rules that keep random actions away help so much that few episodes show it.
    play=PlaySettings(epsilon=0.2, epsilon_when_guided=False),
    mining=MiningSettings(lime_states=20, lime_samples=1000),
    evaluation=EvaluationSettings(
        rungs=2, race_seeds=100, confirmation_changes=200, confirmation_seeds=500, confirmation_episodes=60
    ),
    improvement=ImprovementSettings(episodes=30, final_episodes=60, most_candidates=3),
    mistakes=MistakeSettings(steps=400_000, episodes=40),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def file(self) -> str:
        found = FILE.match(self.text)
        return found["name"] if found else ""

    @property
    def commands(self) -> list[list[str]]:
        """The words of every command of legible's."""
        if self.language not in {"console", "sh"}:
            return []
        prompt = "$ " if self.language == "console" else ""
        lines = [line.removeprefix(prompt) for line in self.text.splitlines() if line.startswith(f"{prompt}legible ")]
        return [shlex.split(line.partition(" > ")[0], comments=True)[1:] for line in lines]


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        mark = MARK.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start()) + 2
        found.append(Block(page, line, fence["language"], fence["text"], mark["mark"] if mark else ""))
    return found


@pytest.fixture
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StudySettings, "quick", classmethod(lambda _: FEW))
    monkeypatch.setitem(settings.PRESETS, "quick", lambda: FEW)
    monkeypatch.setattr(study, "settings_for", lambda _: FEW)  # what a study takes when nothing is said
    monkeypatch.setattr(study, "LocalProcesses", engines.InProcess)
    monkeypatch.setattr(engines, "make_engine", lambda *_, **__: engines.InProcess())
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.fixture(scope="module")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents") / "study"
    made = study.Study(folder, "legible/PacmanSmall-v0", POLICY, settings=FEW, engine=engines.InProcess())
    assert len(made.run().composition), "the pages speak of a guided policy, so there must be one"
    return folder


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, page: str
) -> Iterator[Path]:
    """An empty folder that modules are imported from, with the study in it if the page speaks of it."""
    if FOLDER in (ROOT / page).read_text(encoding="utf-8"):
        shutil.copytree(request.getfixturevalue("small_study"), tmp_path / FOLDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.usefixtures("few_episodes")
@pytest.mark.parametrize("page", [page for page in PAGES if any(b.language == "python" for b in blocks_of(page))])
def test_the_examples_of_a_page_run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.mark.startswith("not run"):
            continue
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            # The empty lines make an error's line number the page's.
            exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), namespace)
        elif block.mark == "run":
            for words in block.commands:
                assert run(words, monkeypatch) == 0, f"{page}:{block.line}: legible {shlex.join(words)}"


@pytest.mark.slow
@pytest.mark.usefixtures("few_episodes")
def test_the_cells_of_the_notebook_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
    assert (tmp_path / "studies" / "notebook" / "report.html").exists()


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command as the terminal would and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["legible", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("page", [page for page in PAGES if any(b.commands for b in blocks_of(page))])
def test_the_commands_of_a_page_exist(page: str) -> None:
    for block in blocks_of(page):
        for words in block.commands:
            try:
                parse(words)
            except Exception as error:
                pytest.fail(f"{page}:{block.line}: legible {shlex.join(words)}: {error}")


def parse(words: list[str]) -> None:
    """Parse a command without running it."""
    command, context, rest = app, None, words
    context = command.make_context("legible", list(rest))
    while hasattr(command, "commands"):
        name, rest = rest[0], rest[1:]
        assert name in command.commands, f"there is no command {name!r}"
        command = command.commands[name]
        context = command.make_context(name, list(rest), parent=context)


@pytest.mark.parametrize(
    "words",
    [["no-such-command"], ["run", "CartPole-v1", "p.zip", "--no-such-option", "5"], ["run"], ["relations", "chek"]],
)
def test_wrong_commands_are_noticed(words: list[str]) -> None:
    with pytest.raises(BaseException, match=r".") as caught:
        parse(words)
    assert not isinstance(caught.value, KeyboardInterrupt)


def program_of(name: str) -> Any:
    """Return a program of the documents as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_says_what_the_code_says() -> None:
    for name, page in program_of("make_reference").PAGES.items():
        assert page() == (DOCS / name).read_text(encoding="utf-8"), f"run docs/make_reference.py: {name} is out of date"


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for link in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
        target, _, heading = link["target"].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = path.parent / target if target else path
        assert there.exists(), f"{page}: {link['target']}"
        if heading:
            assert heading in headings(there), f"{page}: {link['target']}"


def headings(path: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    # Tables of measurements are linked from the page that speaks of them.
    assert listed == {path.name for path in DOCS.glob("*.md") if not path.name.startswith("highway-")}


def test_the_table_of_policies_says_what_opens() -> None:
    module = program_of("make_policies")
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    rows = [*module.combinations(("QRDQN", "RecurrentPPO")), *module.refusals()]
    assert len(rows) == 8
    assert not [row for row in rows if row not in page], "run docs/make_policies.py"


def test_pages_use_what_is_installed_or_say_where_the_zoo_is() -> None:
    """A wheel holds one policy of the zoo; where a page names another, it says how to get it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = {
        Path(path).relative_to("zoo").with_suffix("").as_posix()
        for path in wheel["force-include"]
        if path.startswith("zoo/")
    }
    assert shipped == {"PacmanSmall/ppo/4"}
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        named = set(re.findall(r"zoo:(\w+/\w+/\d[\w-]*)", text)) - shipped
        told = "quickstart.md#the-zoo" in text or "## The zoo" in text or page.startswith("docs/reference-")
        assert not named or told, f"{page} names {', '.join(sorted(named))} and does not say where it is"


def test_the_first_pages_show_the_default() -> None:
    for page in ("README.md", "docs/quickstart.md", "docs/index.md"):
        for block in blocks_of(page):
            assert "StudySettings.quick()" not in block.text, page
            assert not any("quick" in words for words in block.commands), page
