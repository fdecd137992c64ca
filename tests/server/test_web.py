import asyncio
import json
import multiprocessing
import os
import signal
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the workbench is an extra")

from uvicorn.server import ServerState

from legible.engines import InProcess, LocalProcesses
from legible.errors import LegibleError
from legible.server import web
from legible.server.bench import try_on_bench
from legible.server.desk import Desk
from legible.server.jobs import MOST_WAITING, BusyError, Job, Player
from legible.server.overview import overview_of
from legible.server.questions import ANSWERS, STREAMS
from legible.server.web import ASSETS, Subject, Workbench, allowed_hosts, listen, make_app
from server.programs import Opened
from server.requests import JSON, post, send

RULE = "+Left <- left"


def opened(*subjects):
    return make_app(Workbench(subjects, InProcess()))


@pytest.fixture
def app(desk):
    return opened(Subject("mirror", lambda _: desk))


def test_the_page_holds_no_code_of_its_own(app) -> None:
    page = asyncio.run(send(app, "GET", "/")).body.decode()
    assert "<script>" not in page
    assert " style=" not in page
    assert " on" not in page.replace(" on ", "")
    for name in ASSETS:
        found = asyncio.run(send(app, "GET", f"/assets/{name}"))
        assert found.status == 200
        assert b"://" not in found.body.replace(b"http://www.w3.org", b""), "nothing comes from elsewhere"


@pytest.mark.parametrize(
    "path", ["/assets/guard.py", "/assets/..%2Fguard.py", "/assets/../guard.py", "/etc/passwd", "/assets//etc/passwd"]
)
def test_no_address_takes_a_path(app, path) -> None:
    assert asyncio.run(send(app, "GET", path)).status == 404


@pytest.mark.parametrize("name", ["__class__", "os:system", "../about", "desk"])
def test_only_known_questions_are_answered(app, name) -> None:
    assert post(app, name, {}).status in (404, 405)


@pytest.mark.parametrize("name", [*ANSWERS, *STREAMS])
@pytest.mark.parametrize(
    "body",
    [
        {"subject": "/etc/passwd"},
        {"subject": 7},
        {"rule": {"$ref": "x"}, "episode": "os:system", "filter": 3, "what": "x", "first": -1, "step": 1e300},
        {"rule": "+Left <- left", "what": "../../x", "episode": 10**9, "step": 10**12, "choice": 10**12, "x": 10**9},
    ],
)
def test_nonsense_is_refused_in_words(app, name, body) -> None:
    if name in ("about", "claims", "episodes") and body.get("subject") is None:
        return  # they ask for nothing else
    if name in ("try", "read", "confirm") and body.get("rule") == RULE:
        return  # this is a rule
    found = post(app, name, body)
    if name in STREAMS and found.status == 200:
        assert found.messages[-1]["error"]
    elif found.status == 200:
        assert found.data.get("problem") or name in ("episode", "frames")
    else:
        assert found.status == 400, found.body
        assert found.data["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\x80\x04N.", b"[" * 10_000])
def test_what_is_no_json_object_is_refused(app, body) -> None:
    found = asyncio.run(send(app, "POST", "/api/read", body=body))
    assert found.status in (400, 200)
    assert found.data.get("error") or found.data.get("problem") or body == b""


def test_a_verdict_is_streamed(app) -> None:
    found = post(app, "try", {"rule": RULE})
    assert found.headers["content-type"].startswith("text/event-stream")
    kinds = [message["kind"] for message in found.messages]
    assert kinds[-1] == "verdict"
    assert "figures" in kinds


def test_an_unexpected_error_is_a_message_and_the_server_goes_on(desk) -> None:
    def fail(_):
        raise ZeroDivisionError("nought")

    app = opened(Subject("broken", fail), Subject("mirror", lambda _: desk))
    assert "nought" in post(app, "about", {"subject": 0}).data["error"]
    assert post(app, "about", {"subject": 1}).status == 200


def test_the_first_policy_is_open_and_warm_before_a_page_asks(desk) -> None:
    opened = []

    def open_once(_):
        opened.append(1)
        return Desk(replace(desk.arena, stores={}))

    async def start() -> Desk:
        bench = Workbench([Subject("mirror", open_once)], InProcess())
        bench.start()
        found = await bench.desk(0)
        while not found.is_warm:
            await asyncio.sleep(0.01)
        bench.close()
        return found

    warm = asyncio.run(asyncio.wait_for(start(), 60))
    assert opened == [1]
    played: list[dict[str, object]] = []
    try_on_bench(warm, {"rule": RULE}, played.append)
    plain: list[dict[str, object]] = []
    try_on_bench(desk, {"rule": RULE}, plain.append)
    assert played[-1]["rules"] == plain[-1]["rules"], "what was played before changes no verdict"


def test_the_line_of_plays_is_short() -> None:
    player = Player()
    jobs = [Job(lambda emit: time.sleep(0.05) or emit({}), lambda _: None) for _ in range(MOST_WAITING)]
    for job in jobs:
        player.submit(job)
    with pytest.raises(BusyError):
        player.submit(Job(lambda _: None, lambda _: None))
    player.close()


def test_hosts_are_those_that_the_server_listens_on() -> None:
    assert allowed_hosts("127.0.0.1", 5) == {"127.0.0.1:5", "localhost:5"}
    assert allowed_hosts("::1", 5) == {"[::1]:5"}
    assert "evil.example:5" not in allowed_hosts("0.0.0.0", 5)
    listening = listen("127.0.0.1", 0)
    with listening, pytest.raises(LegibleError):
        listen("127.0.0.1", listening.getsockname()[1])


def test_a_study_is_shown_as_far_as_it_has_come(study_copy) -> None:
    whole = overview_of(study_copy, trust=True)
    assert whole["headline"]
    assert whole["confirmed"] == sum(one["is_confirmed"] for one in whole["weaknesses"]) > 0
    for path in study_copy.glob("*.np*"):
        if not path.name.startswith("experiences"):
            path.unlink()
    begun = overview_of(study_copy, trust=True)
    assert begun["done"] == ["episodes recorded"]
    assert begun["headline"] == ""
    assert overview_of(study_copy / "nowhere")["error"]


def test_the_overview_is_sent_again_when_a_folder_changes(study_copy) -> None:
    app = opened(Subject("s", lambda _: None, study_copy, trust=True))
    first = post(app, "studies", {}).data
    assert first["subjects"][0]["headline"]
    assert post(app, "studies", {"version": first["version"]}).data == {"version": first["version"]}
    (study_copy / "figures.npz").unlink()
    again = post(app, "studies", {"version": first["version"]}).data
    assert "summarised" in again["subjects"][0]["left"]


def test_connections_that_send_nothing_are_closed(app, monkeypatch) -> None:
    monkeypatch.setattr(web, "HEAD_SECONDS", 0.05)
    config = web.uvicorn.Config(app, http=web._Protocol, ws="none", lifespan="off")
    config.load()

    async def wait() -> tuple[bytes, bytes]:
        def connection() -> asyncio.Protocol:
            return web._Protocol(config, ServerState(), {})

        async with await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            silent, _ = await asyncio.open_connection("127.0.0.1", port)
            asking, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            return await asyncio.wait_for(silent.read(), 5), await asyncio.wait_for(asking.readline(), 5)

    assert asyncio.run(wait()) == (b"", b"HTTP/1.1 200 OK\r\n")


def test_few_questions_are_answered_at_the_same_time(app, monkeypatch) -> None:
    running, most = [], []

    def slow(_, __):
        running.append(1)
        most.append(len(running))
        time.sleep(0.02)
        running.pop()
        return {}

    monkeypatch.setitem(ANSWERS, "claims", slow)

    async def flood() -> None:
        asked = [send(app, "POST", "/api/claims", JSON, b"{}") for _ in range(20)]
        assert {found.status for found in await asyncio.gather(*asked)} == {200}

    asyncio.run(flood())
    assert 1 < max(most) <= web.MOST_AT_ONCE


@pytest.mark.subprocess
def test_a_verdict_survives_a_killed_worker(desk) -> None:
    killed, found = [], []

    def kill_once(message) -> None:
        workers = [child for child in multiprocessing.active_children() if child.name == "legible worker"]
        if workers and not killed:
            os.kill(workers[0].pid, signal.SIGKILL)
            killed.append(message)
        found.append(message)

    with LocalProcesses(1) as engine:
        other = Desk(replace(desk.arena, engine=engine, stores={}))
        try_on_bench(other, {"rule": RULE}, kill_once)
    undisturbed: list[dict[str, object]] = []
    try_on_bench(desk, {"rule": RULE}, undisturbed.append)
    assert killed
    assert found[-1]["rules"] == undisturbed[-1]["rules"]


@pytest.mark.subprocess
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_ctrl_c_stops_it_while_it_plays_and_leaves_no_process_behind(policy_file) -> None:
    opened = Opened("mirror_world:MirrorWorld", policy_file, "--relations", "none")
    try:
        with pytest.raises(urllib.error.HTTPError):
            opened.ask("/")
        opened.ask(f"/?token={opened.address.partition('=')[2]}")
        with pytest.raises(urllib.error.HTTPError) as refused:
            opened.ask("/", host="evil.example")
        assert refused.value.code == 421
        assert b"Left" in opened.ask("/api/about", {})
        children: list[int] = []
        for attempt in range(50):  # short plays may end before the first worker has started
            playing = urllib.request.Request(
                opened.address.partition("/?")[0] + "/api/try",
                json.dumps({"rule": f"+Stay <- luck > {2 + attempt / 100}"}).encode(),
                {"content-type": "application/json", "x-legible": "1", "cookie": opened.cookie},
            )
            with urllib.request.urlopen(playing, timeout=60) as stream:
                assert stream.readline().startswith(b"data: ")
                while not (children := opened.children()) and stream.readline():
                    pass
                if children:
                    opened.process.send_signal(signal.SIGINT)
                    assert opened.process.wait(15) == 0
                    break
        assert children, "no worker was started"
        deadline = time.monotonic() + 5
        while any(Path(f"/proc/{child}").exists() for child in children):
            assert time.monotonic() < deadline, "a worker was left behind"
            time.sleep(0.05)
        assert "has stopped" in opened.process.stderr.read()
    finally:
        opened.process.kill()
