from pathlib import Path

import pytest

from engine_units import UnfitError, misbehave, refuse
from legible.engines import InProcess, UnitFailedError, base, make_engine, register_engine, run_one
from legible.errors import LegibleError


class Threads(InProcess):
    """A toy engine that accepts any number of workers."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_factories", dict(base._factories))
    register_engine("threads", Threads)


@pytest.mark.usefixtures("toy")
def test_an_engine_from_outside_runs_units_by_name() -> None:
    with make_engine("threads", workers=3) as engine:
        assert isinstance(engine, Threads)
        assert engine.workers == 3
        assert {report.index: report.result for report in engine.run(pow, 2, [1, 2, 3])} == {0: 2, 1: 4, 2: 8}
        assert run_one(engine, pow, 3, 2) == 9
        with pytest.raises(UnitFailedError, match="TypeError: unsupported operand"):
            run_one(engine, pow, 2, "3")


@pytest.mark.usefixtures("toy")
def test_options_go_to_the_engines_that_have_them(raises_saved) -> None:

    def plain() -> InProcess:
        return InProcess()

    register_engine("plain", plain)
    register_engine("anything", lambda **options: options)
    assert isinstance(make_engine("plain"), InProcess)
    assert make_engine("anything", 2, "there") == {"workers": 2, "address": "there"}
    with raises_saved(LegibleError):
        make_engine("plain", workers=2)
    with raises_saved(LegibleError):
        make_engine("threads", address="there")


@pytest.mark.usefixtures("toy")
def test_names_are_given_once_and_listed(raises_saved) -> None:
    with pytest.raises(LegibleError, match="already an engine 'processes'"):
        register_engine("processes", Threads)
    with raises_saved(LegibleError):
        make_engine("thread")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inlin",), "Did you mean 'inline'?"),
        (("processes", 0), "at least 1, got 0"),
        (("inline", 2), "choose 'processes'"),
        (("processes", 2, "auto"), "takes no address: leave it out or choose 'ray'"),
    ],
)
def test_settings_that_cannot_be(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(LegibleError, match=message.replace("?", r"\?")):
        make_engine(*arguments)


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_one_unit_gives_its_result_or_raises_its_error(name: str, tmp_path: Path, raises_saved) -> None:
    with make_engine(name) as engine:
        assert run_one(engine, misbehave, tmp_path, "a") == "a"
        with raises_saved(UnitFailedError):
            run_one(engine, misbehave, tmp_path, "raises")
        with pytest.raises(UnitFailedError, match=r"^took longer than 0\.2 s$"):
            run_one(engine, misbehave, tmp_path, "hangs", time_limit=0.2)
        with pytest.raises(UnfitError, match=r"^the environment is unfit$"):
            run_one(engine, refuse, None, "unfit")
        with pytest.raises(UnitFailedError, match=r"^PickyError: place 3$"):
            run_one(engine, refuse, None, "picky")
