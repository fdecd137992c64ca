"""Files from anybody: each that cannot be read is one line that names it, and soon."""

import json
import time

import numpy as np
import pytest

from legible.errors import LegibleError
from legible.features import FeatureError, FeatureSpace
from legible.files import (
    LARGEST_TEXT,
    DamagedFileError,
    parse_toml,
    read_arrays,
    read_json,
    read_text,
    read_toml,
    write_arrays,
    write_json,
    write_text,
)
from legible.relations import RelationError, load_relations
from legible.settings import SettingsError, read_settings_file

DEEP = 3000
TOML_BOMBS = {
    "arrays": ("a = " + "[" * DEEP + "]" * DEEP, "line 1: is nested more than 32 deep"),
    "tables": ("\n\na = " + "{ a = " * DEEP + "1" + " }" * DEEP, "line 3: is nested more than 32 deep"),
    "header": ("[" + ".".join("a" * DEEP) + "]", "line 1: is nested more than 32 deep"),
    "dotted": ("b = 1\n" + " . ".join('"a"' for _ in range(DEEP)) + " = 1", "line 2: is nested more than 32 deep"),
    "digits": ("a = " + "9" * 5000, "holds a number with too many digits"),
    "hexadecimal": ("a = 0x" + "f" * 5000, "holds a whole number of 20000 bits; 64 are the most"),
    "size": ("a = 1\n" + "#" * LARGEST_TEXT, "is larger than 2 MB"),
    "quotes": ('a = "' + r"\"" * 500_000, "is not valid TOML"),
    "syntax": ("a = 1\nb = ", "is not valid TOML: Invalid value"),
    "bytes": (b"a = '\xff'", "is not UTF-8 text (invalid start byte at byte 5)"),
}


@pytest.mark.parametrize("bomb", TOML_BOMBS)
@pytest.mark.parametrize(
    ("read", "error"),
    [
        (read_toml, LegibleError),
        (FeatureSpace.from_toml, FeatureError),
        (read_settings_file, SettingsError),
        (lambda path: load_relations(path, FeatureSpace.of("ab")), RelationError),
    ],
    ids=["toml", "names", "settings", "relations"],
)
def test_toml_that_cannot_be_read_is_refused_soon(tmp_path, bomb, read, error) -> None:
    content, message = TOML_BOMBS[bomb]
    path = tmp_path / "bomb.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    begin = time.process_time()
    with pytest.raises(error) as refusal:
        read(path)
    assert time.process_time() - begin < 5  # a bomb that goes off takes minutes
    said = str(refusal.value)
    assert said.startswith(f"{path}:")
    assert message in said
    assert len(said) < 400


def test_toml_that_looks_dangerous_but_is_not() -> None:
    text = """
    note = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h"
    more = '''[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[['''
    # [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
    floats = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1,
      2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9, 3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2, 4.3]
    largest = 0xffff_ffff_ffff_ffff
    """
    data = parse_toml(text, "fine.toml")
    assert len(data["floats"]) == 43
    assert data["largest"] == 2**64 - 1


@pytest.mark.parametrize("text", ["[" * DEEP + "]" * DEEP, '{"a": ' * DEEP, "9" * 5000, '"' + r"\"" * 500_000, "[1,"])
def test_json_that_cannot_be_read_is_refused_soon(tmp_path, text: str) -> None:
    path = tmp_path / "bomb.json"
    path.write_text(text)
    begin = time.process_time()
    with pytest.raises(DamagedFileError) as refusal:
        read_json(path, advice="use another")
    assert time.process_time() - begin < 5  # a bomb that goes off takes minutes
    assert str(refusal.value).startswith(f"{path}: is damaged (")
    assert str(refusal.value).endswith("); use another.")


def test_what_was_written_is_read(tmp_path) -> None:
    data = {"words": '[[[[ ä " }}}', "deep": [[[{"numbers": [1, 2.5, None]}]]]}
    write_json(tmp_path / "a.json", data)
    assert read_json(tmp_path / "a.json") == data
    write_text(tmp_path / "a.toml", "a = 1\r\nb = 'ä'\r\n")
    assert read_toml(tmp_path / "a.toml") == {"a": 1, "b": "ä"}
    assert read_text(tmp_path / "a.toml") == "a = 1\nb = 'ä'\n"


def test_a_file_that_is_not_there_is_named(tmp_path, raises_saved) -> None:
    with raises_saved(LegibleError):
        read_toml(tmp_path / "nowhere.toml")
    with raises_saved(LegibleError):
        read_toml(tmp_path)


@pytest.mark.parametrize("lost", ["_key", "_checksum"])
def test_a_key_without_a_checksum_is_damage(tmp_path, lost: str) -> None:
    write_json(tmp_path / "a.json", {"seed": 3}, "mine")
    kept = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps({name: value for name, value in kept.items() if name != lost}))
    with pytest.raises(DamagedFileError, match="not what was written"):
        read_json(tmp_path / "a.json")
    write_arrays(tmp_path / "a.npz", {"seeds": np.arange(3)}, "mine")
    with np.load(tmp_path / "a.npz") as data:
        arrays = {name: data[name] for name in data.files if name != lost}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DamagedFileError, match="not what was written"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("order", "<>")
def test_letters_that_do_not_exist_are_damage(tmp_path, order: str, raises_saved) -> None:
    letters = np.array([ord("a"), 0x110000], f"{order}u4").view(f"{order}U2")
    np.savez(tmp_path / "a.npz", text=letters)
    with raises_saved(DamagedFileError):
        read_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", text=np.array("ä𝄞"), empty=np.array(""))
    assert str(read_arrays(tmp_path / "b.npz")["text"]) == "ä𝄞"
