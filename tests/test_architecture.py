"""The rooms of ARCHITECTURE.md know only what its table lets them know.

A row of the table is ``| `room/` | what it holds | may import: `features`, `rules` |``. Its first column names rooms,
its last one those whose modules they may import; "everything above" and "everything" stand for the rooms of all rows
before and of all rows. A folder inside a room may have a row of its own (`environments/pacman/`), which says what the
modules in it may import. All rooms may import the base modules, rooms of their own row, and folders inside themselves.
Imports that only type checkers see count, too; names in strings do not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "legible"
BASE = frozenset({"errors", "files", "streams", "settings", "formatting", "imports", "records", "schemas"})
NAME = re.compile(r"`([\w/.]+)`")

Rules = Mapping[str, frozenset[str]]
"""Room → rooms that it may import, its own among them."""


def read_rules(text: str) -> Rules:
    """Read the table of rooms."""
    rows: list[tuple[list[str], str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[2].startswith("may import"):
            rows.append(([_room(name) for name in NAME.findall(cells[0])], cells[2]))
    everything = {room for rooms, _ in rows for room in rooms}
    rules: dict[str, frozenset[str]] = {}
    for rooms, words in rows:
        known = {_room(name) for name in NAME.findall(words)}
        known |= set(rules) if "everything above" in words else everything if "everything" in words else set()
        unknown = known - everything - BASE
        assert not unknown, f"{', '.join(rooms)} may import {', '.join(sorted(unknown))}, which has no row"
        rules |= dict.fromkeys(rooms, frozenset(known | set(rooms)))
    return rules


def _room(name: str) -> str:
    return name.removesuffix("/").removesuffix(".py")


def module_paths(package: Path) -> dict[str, Path]:
    """Modules of the package by their path without suffix, such as ``rules/wording``; a folder stands for its init."""
    paths = [path.relative_to(package) for path in sorted(package.rglob("*.py"))]
    return {
        path.parent.as_posix() if path.name == "__init__.py" else path.with_suffix("").as_posix(): package / path
        for path in paths
    }


def imports_of(path: Path, modules: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """The modules of the package that a file imports, with the lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: write imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for place in dict.fromkeys(_place(name, modules) for name in names):
            if place:
                yield node.lineno, place


def _place(name: str, modules: Mapping[str, Path]) -> str:
    """The module of the package that a dotted name is of, or "" where it is of none."""
    package, _, place = name.replace(".", "/").partition("/")
    while place and place not in modules:
        place = place.rpartition("/")[0]
    return place if package == "legible" else ""


def room_of(module: str, rules: Rules) -> str:
    """The room of a module: the row for the innermost folder that has one."""
    place = module
    while place and place not in rules:
        place = place.rpartition("/")[0]
    return place or module.partition("/")[0]


def may_import(room: str, other: str, rules: Rules) -> bool:
    """Whether the modules of a room may import those of another; a room's row speaks for the folders inside it."""
    outer = [other[: match.start()] for match in re.finditer("/", other)]
    return other in BASE or any(place in rules[room] for place in [other, *outer])


def broken_rules(package: Path, rules: Rules) -> list[str]:
    """Every import that a room may not have."""
    modules = module_paths(package)
    found = []
    for module, path in modules.items():
        room = room_of(module, rules)
        if module in BASE or module in {".", "__main__"}:
            continue
        for line, imported in imports_of(path, modules):
            other = room_of(imported, rules)
            if room in rules and not may_import(room, other, rules):
                found.append(f"{module}.py:{line}: {room} may not import {other}")
    return found


def test_no_room_imports_what_it_may_not_know() -> None:
    rules = read_rules((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert rules, "ARCHITECTURE.md has no table with 'may import' in its last column"
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= set(rules), f"without a row: {', '.join(sorted(rooms - set(rules)))}"
    gone = {room for room in rules if not (PACKAGE / room).is_dir() and not (PACKAGE / f"{room}.py").is_file()}
    assert not gone, f"rows of what is not there: {', '.join(sorted(gone))}"
    assert not broken_rules(PACKAGE, rules)


OTHER_PACKAGES = re.compile(r"\b(legible_envs|lab)[.:]|^(legible_envs|lab)$")


def named_packages(path: Path) -> Iterator[str]:
    """Where a file imports the other two packages or names them in a string; examples in docstrings may use them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, documented) and ast.get_docstring(n)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            texts = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            texts = [str(node.module)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            texts = [node.value]
        else:
            continue
        if any(OTHER_PACKAGES.search(text) for text in texts):
            yield f"{path}:{node.lineno}"


def test_the_core_names_neither_environments_nor_lab() -> None:
    assert not [place for path in PACKAGE.rglob("*.py") for place in named_packages(path)]


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("import legible_envs", True),
        ("from lab.fleet import dqn", True),
        ("def f():\n    return 'legible_envs.pacman.env:PacmanEnv'", True),
        ("import_module('lab')", True),
        ("'''An example.\n\n>>> import legible_envs.pacman\n'''", False),
        ("x = 'a label.'; from legible import labels", False),
    ],
)
def test_names_of_other_packages_are_noticed(text: str, is_named: bool, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(text)
    assert bool(list(named_packages(tmp_path / "module.py"))) == is_named


def test_base_modules_import_base_modules_only() -> None:
    modules = module_paths(PACKAGE)
    found = {
        f"{name}.py:{line}: imports {other}"
        for name, path in modules.items()
        if name.partition("/")[0] in BASE
        for line, other in imports_of(path, modules)
        if other.partition("/")[0] not in BASE
    }
    assert not found


TABLE = """
| room | holds | knows |
|---|---|---|
| `errors.py` | errors | may import: nothing |
| `rules/` | rules | may import: nothing |
| `play/` | episodes | may import: `rules` |
| `play/fast/` | compiled | may import: `errors` |
| `study/` | studies | may import: everything above |
| `cli/`, `training/` | commands | may import: everything |
"""


@pytest.mark.parametrize(
    ("module", "text", "broken"),
    [
        ("rules/rule", "from legible.errors import LegibleError", []),
        ("rules/rule", "import numpy\nfrom legible.play import collect", [2]),
        ("rules/rule", "from legible import play", [1]),
        ("rules/rule", "if TYPE_CHECKING:\n    from legible.play import Slots", [2]),
        ("rules/rule", "def f():\n    import legible.play.slots", [2]),
        ("rules/rule", "x = 'from legible.play import Slots'", []),
        ("rules/rule", "from legible.rules.words import word\nfrom legible import __version__", []),
        ("play/slots", "from legible.rules import Rule\nfrom legible.study.study import Study", [2]),
        ("play/slots", "from legible.play.fast import step", []),
        ("play/fast/kernel", "from legible.play.slots import Slots", [1]),
        ("play/fast/kernel", "from legible.rules import Rule\nfrom legible.errors import LegibleError", [1]),
        ("study/study", "from legible.play.fast import step\nfrom legible.cli import main", [2]),
        ("cli/run", "from legible.study import Study\nfrom legible.training import train", []),
        ("__main__", "from legible.cli import main", []),
    ],
)
def test_forbidden_imports_are_noticed(module: str, text: str, broken: list[int], tmp_path: Path) -> None:
    for name in ("rules/words", "play/slots", "play/fast/kernel", "study/study", "cli/run", "training/fleet", module):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in [tmp_path, *path.relative_to(tmp_path).parents]:
            (tmp_path / folder / "__init__.py").touch()
        path.touch()
    (tmp_path / "errors.py").touch()
    (tmp_path / f"{module}.py").write_text(text)
    found = broken_rules(tmp_path, read_rules(TABLE))
    assert [int(line.split(":")[1]) for line in found] == broken


def test_rows_must_name_rooms_that_have_rows() -> None:
    with pytest.raises(AssertionError, match="game, which has no row"):
        read_rules("| `rules/` | rules | may import: `game` |")
