import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_programs import PROGRAM, in_mid_run, session_members, start
from engine_units import (
    Parcel,
    give_one_way,
    half_done,
    hang_stubbornly,
    leave_a_child,
    misbehave,
    runs,
    seeded,
    slowly,
    threads_in_use,
    torch_product,
    wait_for,
    wait_for_the_word,
    with_parcel,
)
from legible.engines import Engine, Failed, Finished, InProcess, LocalProcesses, attempts, make_engine, run_one, workers
from legible.errors import LegibleError

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


def children() -> list[int]:
    """The worker processes of this process (not the one in which Python keeps track of semaphores)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_text()
        except OSError:  # it has just ended
            continue
        if parent == os.getpid() and "resource_tracker" not in words:
            found.append(int(process.name))
    return found


@pytest.fixture(scope="module")
def processes() -> Iterator[LocalProcesses]:
    with LocalProcesses(2) as engine:
        yield engine


@pytest.mark.subprocess
def test_same_bits_in_this_process_and_in_others(processes: LocalProcesses) -> None:
    shared = np.random.default_rng(1).normal(size=(400, 300)).astype(np.float32)
    for function in (seeded, torch_product):
        here, there, alone = (
            {report.index: report.result.tobytes() for report in engine.run(function, shared, range(20, 28))}
            for engine in (InProcess(), processes, LocalProcesses(1))
        )
        assert list(here) == list(range(8))
        assert here == there
        assert here == alone


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_every_unit_has_one_thread_and_others_keep_theirs(name: str) -> None:
    import torch

    before = torch.get_num_threads(), dict(os.environ)
    try:
        torch.set_num_threads(2)
        assert [report.result for report in make_engine(name).run(threads_in_use, None, [0])] == [{1}]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before[0])
    assert dict(os.environ) == before[1]


def test_results_come_before_all_are_finished(processes: LocalProcesses, tmp_path: Path) -> None:
    order = []
    for report in processes.run(wait_for_the_word, tmp_path, [0, 1, 2]):
        order.append(report.index)
        if len(order) == 2:
            (tmp_path / "go on").touch()
    assert order == [1, 2, 0]


def test_inline_runs_a_unit_only_when_it_is_asked_for(tmp_path: Path) -> None:
    reports = InProcess().run(misbehave, tmp_path, ["a", "b"])
    assert next(reports) == Finished(0, "a")
    assert runs(tmp_path, "b") == []


def test_what_is_shared_is_sent_once_to_every_worker(tmp_path: Path) -> None:
    reports = list(LocalProcesses(2).run(with_parcel, Parcel(tmp_path), range(10)))
    assert len(reports) == 10
    assert runs(tmp_path, "packed") == [os.getpid()]
    receivers = runs(tmp_path, "unpacked")
    assert len(receivers) == len(set(receivers)) == 2


def test_a_worker_keeps_what_is_shared_from_one_run_to_the_next(tmp_path: Path) -> None:
    with LocalProcesses(2) as engine:
        for unit in range(5):
            assert run_one(engine, with_parcel, Parcel(tmp_path), unit) == unit
        assert len(runs(tmp_path, "unpacked")) == 1
        assert run_one(engine, pow, 2, 3) == 8
        assert run_one(engine, with_parcel, Parcel(tmp_path), 5) == 5
    assert len(runs(tmp_path, "unpacked")) == 2


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_a_unit_that_raises_is_run_once_more(name: str, processes: LocalProcesses, tmp_path: Path, snapshot) -> None:
    engine: Engine = processes if name == "processes" else InProcess()
    units = ["a", "raises", "raises once", "exits", "b"]
    reports = {report.index: report for report in engine.run(misbehave, tmp_path, units)}
    assert len(reports) == 5
    assert [reports[index] for index in (0, 2, 4)] == [Finished(0, "a"), Finished(2, "raises once"), Finished(4, "b")]
    raised, left = reports[1], reports[3]
    assert isinstance(raised, Failed)
    assert isinstance(left, Failed)
    assert raised.error == snapshot
    assert raised.attempts == 2
    assert "Traceback" in raised.traceback
    assert "in misbehave" in raised.traceback
    assert left.error == snapshot
    assert [len(runs(tmp_path, unit)) for unit in units] == [1, 2, 2, 2, 1]


def test_a_unit_that_kills_its_workers_fails_alone(processes: LocalProcesses, tmp_path: Path, snapshot) -> None:
    units = ["dies", "a", "dies twice", "leaves", "dies, then raises", "b", "gives a lock"]
    reports = {units[report.index]: report for report in processes.run(misbehave, tmp_path, units)}
    assert set(reports) == set(units)
    assert [reports[unit].result for unit in ("a", "b", "dies twice")] == ["a", "b", "dies twice"]
    assert "worker died (signal 9, SIGKILL" in reports["dies"].error
    assert reports["leaves"].error == "worker died (exit code 7)"
    assert reports["dies, then raises"].error == snapshot
    assert "cannot pickle '_thread.lock'" in reports["gives a lock"].error
    assert [reports[unit].attempts for unit in ("dies", "leaves", "dies, then raises", "gives a lock")] == [3, 3, 2, 2]
    assert [len(runs(tmp_path, unit)) for unit in units] == [3, 1, 3, 3, 2, 1, 2]


@linux
def test_a_death_is_noticed_when_the_dead_left_a_process_behind(processes: LocalProcesses, tmp_path: Path) -> None:
    began = time.monotonic()
    assert list(processes.run(leave_a_child, tmp_path, ["a"])) == [Finished(0, None)]
    assert len(runs(tmp_path, "a")) == 2
    assert time.monotonic() - began < 5


def test_a_result_that_cannot_be_made_again_is_a_failure(processes: LocalProcesses) -> None:
    (report,) = processes.run(give_one_way, None, [0])
    assert isinstance(report, Failed)
    assert "ValueError: invalid literal for int()" in report.error
    assert report.attempts == 2


@linux
def test_killed_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    others = set(children())
    victims: list[int] = []
    reports = []
    for report in LocalProcesses(2).run(slowly, tmp_path, range(12)):
        reports.append(report)
        if len(reports) in {1, 4}:
            victim = min(set(children()) - others)
            os.kill(victim, signal.SIGKILL)
            victims.append(victim)
    assert sorted(report.index for report in reports) == list(range(12))
    assert all(report == Finished(report.index, report.index**2) for report in reports)
    again = [unit for unit in range(12) if len(runs(tmp_path, unit)) > 1]
    assert 1 <= len(again) <= 2
    assert all(runs(tmp_path, unit)[0] in victims for unit in again)


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_a_unit_that_hangs_is_stopped(name: str, processes: LocalProcesses, tmp_path: Path) -> None:
    engine: Engine = processes if name == "processes" else InProcess()
    began = time.monotonic()
    reports = {report.index: report for report in engine.run(misbehave, tmp_path, ["a", "hangs", "b"], time_limit=0.5)}
    assert time.monotonic() - began < 0.5 + attempts.GRACE_SECONDS
    assert (reports[0], reports[2]) == (Finished(0, "a"), Finished(2, "b"))
    hung = reports[1]
    assert isinstance(hung, Failed)
    assert (hung.error, hung.attempts) == ("took longer than 0.5 s", 1)
    assert "time.sleep(60)" in hung.traceback


def test_a_worker_that_was_interrupted_is_replaced(tmp_path: Path) -> None:
    """As after a compilation that a time limit broke off: what it had half done is still there."""
    with LocalProcesses(1) as engine:
        (first,) = engine.run(half_done, tmp_path, ["a"], time_limit=0.5)
        (second,) = engine.run(half_done, tmp_path, ["a"], time_limit=30)
    assert isinstance(first, Failed)
    assert second == Finished(0, "all done")
    assert len(set(runs(tmp_path, "a"))) == 2


def test_a_unit_that_hangs_where_no_signal_gets_in_is_killed(
    monkeypatch: pytest.MonkeyPatch, processes: LocalProcesses, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.5)
    units = ["hangs in C", "a", "b"]
    reports = {units[report.index]: report for report in processes.run(misbehave, tmp_path, units, time_limit=0.5)}
    assert reports["hangs in C"] == Failed(0, "took longer than 0.5 s", "", 1)
    assert {reports["a"], reports["b"]} == {Finished(1, "a"), Finished(2, "b")}


def test_what_goes_on_after_an_interruption_is_interrupted_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECONDS", 0.2)
    (report,) = InProcess().run(hang_stubbornly, tmp_path, ["a"], time_limit=0.1)
    assert isinstance(report, Failed)
    assert (report.error, report.attempts) == ("took longer than 0.1 s", 1)
    assert len(runs(tmp_path, "a")) == 1


def test_a_time_limit_within_another_leaves_the_outer_one_set(tmp_path: Path) -> None:
    def play_two(shared: None, unit: int) -> None:
        (inner,) = InProcess().run(misbehave, tmp_path, ["hangs"], time_limit=0.1)
        assert inner.error == "took longer than 0.1 s"
        time.sleep(60)

    (report,) = InProcess().run(play_two, None, [0], time_limit=0.4)
    assert isinstance(report, Failed)
    assert report.error == "took longer than 0.4 s"


def test_processes_keep_a_time_limit_in_any_thread(processes: LocalProcesses, tmp_path: Path) -> None:
    reports: list[object] = []
    thread = threading.Thread(
        target=lambda: reports.extend(processes.run(misbehave, tmp_path, ["hangs", "a"], time_limit=0.3))
    )
    thread.start()
    thread.join(20)
    assert sorted(type(report).__name__ for report in reports) == ["Failed", "Finished"]


def test_inline_gives_the_alarm_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGALRM)
    list(InProcess().run(misbehave, tmp_path, ["a", "hangs"], time_limit=0.1))
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_inline_says_when_it_cannot_keep_a_time_limit(tmp_path: Path) -> None:
    caught: list[str] = []

    def elsewhere() -> None:
        with pytest.warns(UserWarning, match="cannot apply a time limit") as warned:
            list(InProcess().run(misbehave, tmp_path, ["a"], time_limit=1))
        caught.extend(str(warning.message) for warning in warned)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_what_cannot_be_sent_is_said(processes: LocalProcesses, tmp_path: Path) -> None:
    for function, shared, units in [
        (lambda shared, unit: unit, None, [1]),
        (seeded, lambda observation: 0, [1]),
        (seeded, None, [threading.Lock()]),
    ]:
        with pytest.raises(LegibleError, match=r"cannot be sent .*engine 'inline'"):
            list(processes.run(function, shared, units))
    assert [r.result for r in InProcess().run(lambda shared, unit: shared(unit), lambda unit: unit + 1, [1])] == [2]


def test_what_workers_cannot_import_is_said(processes: LocalProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("made_up_here")
    exec("def work(shared, unit): return unit", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_up_here", module)
    assert pickle.loads(pickle.dumps(module.work)) is module.work
    with pytest.raises(LegibleError, match=r"cannot load .*made_up_here"):
        list(processes.run(module.work, None, [1]))
    assert [report.result for report in processes.run(pow, 2, [3])] == [8]


@linux
def test_closing_early_leaves_no_process(tmp_path: Path) -> None:
    others = set(children())
    reports = LocalProcesses(2).run(slowly, tmp_path, range(100))
    next(reports)
    assert set(children()) - others
    reports.close()
    assert set(children()) - others == set()
    assert sum(len(runs(tmp_path, unit)) for unit in range(100)) < 10
    for _ in LocalProcesses(2).run(slowly, tmp_path, range(100)):
        break  # as an error of the caller does
    assert set(children()) - others == set()


@linux
def test_workers_are_kept_while_the_engine_is_entered(tmp_path: Path) -> None:
    others = set(children())
    engine = LocalProcesses(2)
    with engine:
        first, second = (
            {report.result for report in engine.run(misbehave, tmp_path, ["gives its process"] * 8)} for _ in range(2)
        )
        assert len(first | second) <= 2
        assert {report.result for report in engine.run(pow, 3, [2])} == {9}
        for worker in set(children()) - others:
            os.kill(worker, signal.SIGKILL)
        assert sorted(report.result for report in engine.run(pow, 2, [1, 2, 3])) == [2, 4, 8]
        for _ in engine.run(slowly, tmp_path, range(100)):
            break
        nested = [inner.result for outer in engine.run(pow, 2, [1]) for inner in engine.run(pow, outer.result, [3])]
        assert nested == [8]
    assert set(children()) - others == set()


@settings(max_examples=30, deadline=None)
@given(failures=st.lists(st.integers(0, 3), max_size=12))
def test_every_unit_is_reported_once(failures: list[int]) -> None:
    left = list(failures)

    def fail_at_first(shared: None, unit: int) -> int:
        left[unit] -= 1
        if left[unit] >= 0:
            raise RuntimeError(f"{left[unit]} to go")
        return unit

    reports = list(InProcess().run(fail_at_first, None, range(len(failures))))
    assert [report.index for report in reports] == list(range(len(failures)))
    assert [isinstance(report, Finished) for report in reports] == [count < 2 for count in failures]


@pytest.mark.parametrize("time_limit", [0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["inline", "processes"])
def test_time_limits_that_cannot_be(name: str, time_limit: float) -> None:
    with pytest.raises(LegibleError, match="seconds above 0"):
        list(make_engine(name).run(pow, 2, [1], time_limit=time_limit))


# Whole programs, which are interrupted or killed.


@linux
@pytest.mark.parametrize("moment", ["in mid-run", "while workers import"])
def test_ctrl_c_is_clean(moment: str, tmp_path: Path) -> None:
    early = moment == "while workers import"
    (tmp_path / "tmp").mkdir()
    program = start(PROGRAM, tmp_path, "60" if early else "0", "processes", TMPDIR=str(tmp_path / "tmp"))
    assert wait_for((tmp_path / "a worker imports").exists if early else lambda: in_mid_run(tmp_path))
    os.killpg(program.pid, signal.SIGINT)  # as the terminal does: to the workers too
    began = time.monotonic()
    output, errors = program.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert program.returncode == -signal.SIGINT
    assert output == ""
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert wait_for(lambda: not session_members(program.pid), 2)
    assert not list((tmp_path / "tmp").iterdir())


@linux
def test_workers_do_not_outlive_a_killed_program(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    program = start(PROGRAM, tmp_path, "0", "processes", TMPDIR=str(tmp_path / "tmp"))
    assert wait_for(lambda: in_mid_run(tmp_path))
    program.kill()
    _, errors = program.communicate(timeout=20)
    assert wait_for(lambda: not session_members(program.pid), 5)
    assert "Traceback" not in errors
    assert not list((tmp_path / "tmp").iterdir())


@linux
def test_a_program_may_end_without_leaving_the_engine(tmp_path: Path) -> None:
    program = start(
        """
        import time
        from legible.engines import LocalProcesses

        def work(shared, unit):
            time.sleep(60 * unit)

        if __name__ == "__main__":
            engine = LocalProcesses(2).__enter__()
            reports = engine.run(work, None, [0, 1])
            print(next(reports))
        """,
        tmp_path,
    )
    output, errors = program.communicate(timeout=20)
    assert (output, errors, program.returncode) == ("Finished(index=0, result=None)\n", "", 0)
    assert wait_for(lambda: not session_members(program.pid), 5)


def test_a_script_without_a_guard_is_explained(tmp_path: Path, snapshot) -> None:
    program = start(
        """
        from legible.engines import LocalProcesses
        print(list(LocalProcesses(2).run(pow, 2, [1, 2])))
        """,
        tmp_path,
    )
    _, errors = program.communicate(timeout=20)
    assert program.returncode == 1
    assert errors.splitlines()[-1] == snapshot
