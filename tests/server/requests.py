"""Requests to an application, without a network."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1:8123"
JSON = (("content-type", "application/json"), ("x-legible", "1"))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """The messages of a stream."""
        events = self.body.decode().split("\n\n")
        return [json.loads(event[6:]) for event in events if event.startswith("data: ")]


async def send(
    app: Any,
    method: str,
    path: str,
    headers: Sequence[tuple[str, str]] = (),
    body: bytes = b"",
    host: str | None = HOST,
    ends: bool = True,
) -> Answer:
    path, _, query = path.partition("?")
    every = [*headers] if host is None else [("host", host), *headers]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in every],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8123),
    }
    waiting = [{"type": "http.request", "body": body, "more_body": not ends}]
    sent: list[Any] = []

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def keep(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, keep)
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


def post(app: Any, name: str, body: Any, *more: tuple[str, str]) -> Answer:
    return asyncio.run(send(app, "POST", f"/api/{name}", (*JSON, *more), json.dumps(body).encode()))
