"""The server of the workbench.

- `Workbench`: the policies that are open, the thread that plays, and the engine with its warm workers.
- `make_app`: the application: a page, its modules, and one address per question.
- `serve`: runs it until Ctrl-C.

No address takes a path, the name of code or a pickle: studies and policies are those of the command line, by number.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from legible.engines import Engine
from legible.errors import LegibleError, describe_error
from legible.imports import needs_extra
from legible.server.bench import start_workers, warm_up
from legible.server.desk import Desk, RequestError, number_of, read_asset
from legible.server.guard import Guard
from legible.server.jobs import BusyError, Job, Player, make_workers
from legible.server.overview import overview_of, state_of
from legible.server.questions import ANSWERS, STREAMS, Streamed, to_plain

with needs_extra("workbench", "the workbench"):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol

ASSETS = {
    "workbench.css": "text/css",
    "main.js": "text/javascript",
    "api.js": "text/javascript",
    "bench.js": "text/javascript",
    "viewer.js": "text/javascript",
    "states.js": "text/javascript",
    "overview.js": "text/javascript",
    "report.css": "text/css",
    "player.js": "text/javascript",
}
MOST_STREAMS = 48
MOST_AT_ONCE = 4
"""Questions that are answered at the same time; some replay episodes."""
HEAD_SECONDS = 10.0
"""Time in which the first request of a connection has to begin."""
_WAKE_SECONDS, _BEAT_SECONDS = 0.5, 10.0


@dataclass(frozen=True)
class Subject:
    """Something to open: its name, how it is opened, and the folder of the study if it is one."""

    name: str
    open: Callable[[Engine], Desk]
    folder: Path | None = None
    trust: bool = False


class Workbench:
    """The policies of the command line, opened when a page first asks about them.

    Parameters
    ----------
    subjects
        What can be opened.
    engine
        Where episodes run; by default worker processes that stay warm.
    """

    def __init__(self, subjects: Sequence[Subject], engine: Engine | None = None) -> None:
        self.subjects, self.engine = tuple(subjects), engine or make_workers()
        self.player = Player()
        self.is_closing = False
        self.streams = 0
        self.answering = asyncio.Semaphore(MOST_AT_ONCE)
        self.overviews: dict[int, tuple[object, dict[str, Any]]] = {}  # by subject, each with the state of its folder
        self.overviews_lock = threading.Lock()
        self._desks: dict[int, Desk] = {}
        self._opening = asyncio.Lock()

    async def desk(self, number: int) -> Desk:
        """Return an open policy; the first time this takes a while."""
        async with self._opening:
            if number not in self._desks:
                desk = await run_in_threadpool(self.subjects[number].open, self.engine)
                self.player.prepare(partial(warm_up, desk))
                self._desks[number] = desk
            return self._desks[number]

    def start(self) -> None:
        """Start workers, and open the first policy meanwhile: both take seconds, and a user will need them."""
        self.engine.__enter__()
        # One core is left for opening the policy; the last worker starts after that.
        self.player.prepare(partial(start_workers, self.engine, max(1, (self.engine.workers or 1) - 1)))

        async def open_first() -> None:
            with suppress(Exception):  # a page that asks about this policy gets the error
                await self.desk(0)

        self._first = asyncio.get_running_loop().create_task(open_first())

    def close(self) -> None:
        """Stop all plays and workers."""
        self.is_closing = True
        self.player.close()
        self.engine.__exit__(KeyboardInterrupt, None, None)


def make_app(bench: Workbench) -> Starlette:
    """Return the application, without its guard."""
    assets = {name: read_asset(name) for name in ("index.html", *ASSETS)}

    async def page(_: Request) -> Response:
        return Response(assets["index.html"], media_type="text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return _error(404, "There is no such file.")
        return Response(assets[name], media_type=ASSETS[name])

    async def ask(request: Request) -> Response:
        return await _respond(bench, request.path_params["name"], request)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        bench.start()
        try:
            yield
        finally:
            await run_in_threadpool(bench.close)

    routes = [
        Route("/", page),
        Route("/assets/{name}", asset),
        Route("/api/{name}", ask, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


async def _respond(bench: Workbench, name: str, request: Request) -> Response:
    """Answer a question; an error is an answer in words."""
    try:
        return await _answer(bench, name, await _body(request))
    except BusyError as error:
        return _error(429, str(error))
    except LegibleError as error:
        return _error(400, str(error))
    except Exception as error:  # the page must say it, and the server goes on
        return _error(500, f"Unexpected {describe_error(error)}.")


async def _answer(bench: Workbench, name: str, body: Mapping[str, Any]) -> Response:
    if name == "studies":
        return _json(await run_in_threadpool(_studies, bench, body))
    if name not in ANSWERS and name not in STREAMS:
        return _error(404, "There is no such question.")
    desk = await bench.desk(number_of(body, "subject", len(bench.subjects), 0))
    if name in STREAMS:
        return _stream(bench, _played(bench, STREAMS[name], desk, body))
    async with bench.answering:
        return _json(await run_in_threadpool(ANSWERS[name], desk, body))


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError) as error:
        raise RequestError("the request is no JSON.") from error
    if not isinstance(body, dict):
        raise RequestError("the request must be a JSON object.")
    return body


def _studies(bench: Workbench, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overview; nothing but its version where the page has it already.

    Pages ask again and again. A stream would keep one of the six connections that a browser has for all its tabs.
    """
    states = [() if subject.folder is None else state_of(subject.folder) for subject in bench.subjects]
    version = hashlib.sha256(repr(states).encode()).hexdigest()
    if body.get("version") == version:
        return {"version": version}
    with bench.overviews_lock:  # many tabs ask for the same
        for number, (subject, state) in enumerate(zip(bench.subjects, states, strict=True)):
            if subject.folder is None:
                bench.overviews[number] = (state, {"name": subject.name, "is_study": False})
            elif bench.overviews.get(number, ((), {}))[0] != state:
                found = overview_of(subject.folder, trust=subject.trust)
                bench.overviews[number] = (state, {**found, "is_study": True})
        return {"version": version, "subjects": [bench.overviews[number][1] for number in range(len(states))]}


async def _played(
    bench: Workbench, work: Streamed, desk: Desk, body: Mapping[str, Any]
) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the messages of a play; stop it when the page is gone."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[Mapping[str, Any] | None]()

    def send(message: Mapping[str, Any] | None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(queue.put_nowait, message)

    job = Job(lambda emit: work(desk, body, emit), send)
    bench.player.submit(job)
    try:
        while (message := await queue.get()) is not None:
            yield message
    finally:
        job.stop()
        if not bench.is_closing:
            bench.player.prepare(partial(warm_up, desk))  # a play that was stopped took its workers along


def _stream(bench: Workbench, messages: AsyncGenerator[Mapping[str, Any]]) -> Response:
    if bench.streams >= MOST_STREAMS:
        raise BusyError(f"{MOST_STREAMS} answers are being sent already; close some pages.")
    return StreamingResponse(_events(bench, messages), media_type="text/event-stream")


async def _events(bench: Workbench, messages: AsyncGenerator[Mapping[str, Any]]) -> AsyncIterator[str]:
    """Yield messages as server-sent events, and a sign of life when there are none for a while.

    It wakes up twice a second to see whether the workbench is closing, so that Ctrl-C ends every stream at once.
    """
    bench.streams += 1
    next_message: asyncio.Task[Any] | None = None
    silent_seconds = 0.0
    try:
        while not bench.is_closing:
            # A message that has not arrived is waited for again: the timeout does not cancel it.
            next_message = next_message or asyncio.ensure_future(anext(messages))
            arrived, _ = await asyncio.wait({next_message}, timeout=_WAKE_SECONDS)
            if not arrived:
                silent_seconds += _WAKE_SECONDS
                if silent_seconds >= _BEAT_SECONDS:
                    silent_seconds = 0.0
                    yield ": still here\n\n"  # a comment: pages ignore it
                continue
            silent_seconds = 0.0
            try:
                message = next_message.result()
            except StopAsyncIteration:
                return
            except LegibleError as error:
                message = {"kind": "error", "error": str(error)}
            next_message = None
            yield f"data: {_dump(message)}\n\n"
            if message.get("kind") == "error":
                return
    finally:
        bench.streams -= 1
        if next_message is not None:
            next_message.cancel()
            with suppress(BaseException):  # it raises that it was cancelled
                await next_message
        await messages.aclose()


def _dump(message: Mapping[str, Any]) -> str:
    return json.dumps(to_plain(message), separators=(",", ":"), allow_nan=False)


def _json(message: Mapping[str, Any]) -> Response:
    return Response(_dump(message), media_type="application/json")


def _error(status: int, words: str) -> Response:
    return JSONResponse({"error": words}, status)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    if sys.platform != "win32":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise LegibleError(f"cannot listen on {host} port {port} ({error.strerror}); choose another one.") from error
    made.listen(64)
    return made


def allowed_hosts(host: str, port: int) -> set[str]:
    """Return the names under which the server answers.

    >>> sorted(allowed_hosts("127.0.0.1", 8000))
    ['127.0.0.1:8000', 'localhost:8000']
    """
    if host in ("127.0.0.1", "localhost"):
        names = {"127.0.0.1", "localhost"}
    elif host in ("0.0.0.0", "::"):
        names = {"127.0.0.1", "localhost", socket.gethostname(), socket.getfqdn()}
    else:
        names = {f"[{host}]" if ":" in host else host}
    return {f"{name.lower()}:{port}" for name in names}


def serve(bench: Workbench, listening: socket.socket, host: str, token: str) -> None:
    """Answer requests until Ctrl-C."""
    port = listening.getsockname()[1]
    app = Guard(make_app(bench), allowed_hosts(host, port), token)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        proxy_headers=False,
        limit_concurrency=256,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=16_384,
    )
    server = _Server(config, bench)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


class _Protocol(H11Protocol):
    """A connection that is closed if it sends no request: silent ones would use up what may be open at once."""

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, lambda: None if self.cycle else transport.close())


class _Server(uvicorn.Server):
    """A server that ends its streams as soon as it is asked to stop."""

    def __init__(self, config: uvicorn.Config, bench: Workbench) -> None:
        super().__init__(config)
        self._bench = bench

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop, and let the streams end first."""
        self._bench.is_closing = True
        super().handle_exit(sig, frame)
