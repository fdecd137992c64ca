import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_programs import PROGRAM, in_mid_run, session_members, start
from engine_units import (
    Parcel,
    half_done,
    misbehave,
    runs,
    seeded,
    slow_table,
    threads_in_use,
    torch_product,
    wait_for,
    wait_for_the_word,
    with_parcel,
)
from legible.engines import Failed, Finished, InProcess, RayEngine, make_engine, workers
from legible.errors import LegibleError

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'legible-rl[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    with RayEngine(workers=2) as engine:
        yield engine


def test_same_bits_as_in_this_process(engine: RayEngine) -> None:
    shared = np.random.default_rng(1).normal(size=(400, 300)).astype(np.float32)
    for function in (seeded, torch_product):
        here, there = (
            {report.index: report.result.tobytes() for report in some.run(function, shared, range(20, 28))}
            for some in (InProcess(), engine)
        )
        assert len(here) == 8
        assert here == there


def test_every_unit_has_one_thread(engine: RayEngine) -> None:
    assert [report.result for report in engine.run(threads_in_use, None, [0])] == [{1}]


def test_results_come_before_all_are_finished(engine: RayEngine, tmp_path: Path) -> None:
    order = []
    for report in engine.run(wait_for_the_word, tmp_path, [0, 1, 2]):
        order.append(report.index)
        if len(order) == 2:
            (tmp_path / "go on").touch()
    assert order == [1, 2, 0]


def test_what_is_shared_is_sent_once_to_every_worker(engine: RayEngine, tmp_path: Path) -> None:
    assert len(list(engine.run(with_parcel, Parcel(tmp_path), range(10)))) == 10
    assert runs(tmp_path, "packed") == [os.getpid()]
    receivers = runs(tmp_path, "unpacked")
    assert len(receivers) == len(set(receivers))
    assert 1 <= len(receivers) <= 2


def test_units_that_misbehave_fail_alone(engine: RayEngine, tmp_path: Path) -> None:
    units = ["dies", "raises", "a", "dies twice", "raises once", "gives a lock", "b"]
    reports = {units[report.index]: report for report in engine.run(misbehave, tmp_path, units)}
    assert set(reports) == set(units)
    good = ["a", "b", "dies twice", "raises once"]
    assert [reports[unit].result for unit in good] == good
    assert "worker died (WorkerCrashedError" in reports["dies"].error
    assert reports["raises"].error.startswith("ZeroDivisionError: the cart")
    assert "in misbehave" in reports["raises"].traceback
    assert "cannot pickle '_thread.lock'" in reports["gives a lock"].error
    assert [reports[unit].attempts for unit in ("dies", "raises", "gives a lock")] == [3, 2, 2]
    assert [len(runs(tmp_path, unit)) for unit in units] == [3, 2, 1, 3, 2, 2, 1]


def test_units_that_hang_are_stopped(monkeypatch: pytest.MonkeyPatch, engine: RayEngine, tmp_path: Path) -> None:
    monkeypatch.setattr(workers, "GRACE_SECONDS", 1.0)
    units = ["hangs", "a", "hangs in C", "b"]
    reports = {units[report.index]: report for report in engine.run(misbehave, tmp_path, units, time_limit=0.5)}
    assert {reports["a"], reports["b"]} == {Finished(1, "a"), Finished(3, "b")}
    hung, hung_in_c = reports["hangs"], reports["hangs in C"]
    assert isinstance(hung, Failed)
    assert (hung.error, hung.attempts) == ("took longer than 0.5 s", 1)
    assert "time.sleep(60)" in hung.traceback
    assert hung_in_c == Failed(2, "took longer than 0.5 s", "", 1)


def test_killed_workers_lose_and_double_nothing(engine: RayEngine, tmp_path: Path) -> None:
    shared = SimpleNamespace(folder=tmp_path, seconds=0.2)
    victims: list[int] = []
    reports = []
    for report in engine.run(slow_table, shared, range(10)):
        reports.append(report)
        if len(reports) in {2, 5}:
            victims += [kill_one_of_those_at_work(tmp_path, {done.index for done in reports})]
    assert sorted(report.index for report in reports) == list(range(10))
    assert {report.index: report.result.tobytes() for report in reports} == undisturbed(range(10))
    again = [unit for unit in range(10) if len(runs(tmp_path, unit)) > 1]
    assert len(again) == 2
    assert all(runs(tmp_path, unit)[0] in victims for unit in again)


def kill_one_of_those_at_work(folder: Path, done: set[int]) -> int:
    def at_work() -> list[int]:
        return [unit for unit in range(10) if unit not in done and len(runs(folder, unit)) == 1]

    assert wait_for(at_work)
    victim = runs(folder, at_work()[-1])[0]
    os.kill(victim, signal.SIGKILL)
    return victim


def undisturbed(units: range) -> dict[int, bytes]:
    shared = SimpleNamespace(folder=None, seconds=0.0)
    return {report.index: report.result.tobytes() for report in InProcess().run(slow_table, shared, units)}


def test_what_cannot_be_sent_is_said(engine: RayEngine) -> None:
    with pytest.raises(LegibleError, match="with them cannot be sent"):
        list(engine.run(pow, threading.Lock(), [1]))
    with pytest.raises(LegibleError, match="unit 1 cannot be sent"):
        list(engine.run(pow, 2, [1, threading.Lock()]))
    assert [report.result for report in engine.run(lambda shared, unit: shared + unit, 1, [1])] == [2]


def test_closing_early_stops_the_units(engine: RayEngine, tmp_path: Path) -> None:
    reports = engine.run(misbehave, tmp_path, ["a", *["hangs"] * 5])
    assert next(reports) == Finished(0, "a")
    reports.close()
    assert sorted(report.result for report in engine.run(pow, 2, [1, 2, 3, 4])) == [2, 4, 8, 16]


def test_a_worker_that_was_interrupted_is_replaced(engine: RayEngine, tmp_path: Path) -> None:
    (first,) = engine.run(half_done, tmp_path, ["a"], time_limit=0.5)
    reports = list(engine.run(half_done, tmp_path, ["a"] + [f"b{i}" for i in range(6)], time_limit=30))
    assert isinstance(first, Failed)
    assert all(isinstance(report, Finished) for report in reports)
    interrupted = runs(tmp_path, "a")[0]
    assert all(interrupted not in runs(tmp_path, f"b{i}") for i in range(6))


def test_a_ray_of_others_is_left_running(engine: RayEngine) -> None:
    assert ray.is_initialized()
    assert [report.result for report in make_engine("ray").run(pow, 2, [5])] == [32]
    assert ray.is_initialized()


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(LegibleError, match=r"pip install 'legible-rl\[ray\]'"):
        make_engine("ray")


@pytest.fixture
def cluster(engine: RayEngine, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Two nodes. The engine of the other tests is closed for it: a process can be connected to one Ray only."""
    from ray.cluster_utils import Cluster

    engine.__exit__()
    assert not ray.is_initialized()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()
    engine.__enter__()


def test_a_node_that_leaves_takes_no_result_with_it(cluster: Any, tmp_path: Path) -> None:
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    shared = SimpleNamespace(folder=tmp_path, seconds=0.5)
    reports = []
    engine = make_engine("ray", address=cluster.address)
    for report in engine.run(slow_table, shared, range(12)):
        reports.append(report)
        if len(reports) == 3:
            cluster.remove_node(second, allow_graceful=False)
    assert not ray.is_initialized()
    assert sorted(report.index for report in reports) == list(range(12))
    assert {report.index: report.result.tobytes() for report in reports} == undisturbed(range(12))
    workers = {process for unit in range(12) for process in runs(tmp_path, unit)}
    assert len(workers) > 1
    assert any(len(runs(tmp_path, unit)) > 1 for unit in range(12))


def test_an_address_where_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(LegibleError, match="there is no Ray cluster"):
        list(make_engine("ray", address="127.0.0.1:1").run(pow, 2, [1]))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_stopped_takes_its_ray_with_it(how: signal.Signals, tmp_path: Path) -> None:
    program = start(PROGRAM, tmp_path, "0", "ray")
    assert wait_for(lambda: in_mid_run(tmp_path), 40)
    workers = {int(path.read_text()) for path in tmp_path.glob("unit *")}
    assert len(workers & set(session_members(program.pid))) == 2
    began = time.monotonic()
    os.kill(program.pid, how)
    _, errors = program.communicate(timeout=30)
    assert time.monotonic() - began < 20
    assert program.returncode == -how
    assert errors.count("Traceback") == (how == signal.SIGINT)
    # Ray's own housekeeping takes a minute to notice that its program was killed; what uses the cores must go at once.
    ours = workers if how == signal.SIGKILL else set(session_members(program.pid))
    assert wait_for(lambda: not ours & set(session_members(program.pid)), 15)
