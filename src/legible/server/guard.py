"""Security of the workbench's server, in front of everything else.

- `Guard`: ASGI middleware. It refuses requests with a foreign ``Host`` or ``Origin``, without the cookie, with large
  bodies, or too many of them, and adds the headers that keep browsers strict.
- `make_token`: a random 256-bit token.

The address that is printed holds a token. It is exchanged once for a cookie that no script can read. DNS rebinding
is stopped by the list of allowed hosts, cross-site requests by the cookie (``SameSite=Strict``) and by a header that
other sites cannot send.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN_BYTES = 32
HEADER = "x-legible"
"""Header of every request that does something: another site cannot send it without being asked first."""
MOST_BYTES = 64_000
"""Largest body of a request."""
BODY_SECONDS = 10.0
"""Time in which a request has to arrive."""
RATE, BURST = 40.0, 200.0
"""Requests per second on average, and at once."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_ENTRY = """<!doctype html><html lang="en"><meta charset="utf-8"><title>legible</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">
<p>Opening <a href="/">the workbench</a> …"""
_STRANGER = (
    "This page needs the address that 'legible open' printed when it was last started; it works once, in one browser. "
    "Start 'legible open' again for a new one."
)


def make_token() -> str:
    """Return a random token of 256 bits."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class Guard:
    """Middleware that lets only the user's own browser through.

    Parameters
    ----------
    app
        The application behind it.
    hosts
        Allowed values of the ``Host`` header, such as "127.0.0.1:8123".
    token
        The token in the address that is printed.
    clock
        Returns the time in seconds, for the limit of the rate.
    """

    def __init__(self, app: App, hosts: Iterable[str], token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._hosts, self._token = app, frozenset(host.lower() for host in hosts), token
        self._is_used, self._session = False, make_token()
        port = next(iter(sorted(self._hosts))).rpartition(":")[2]
        self._cookie = f"legible-{port}"  # cookies are shared between the ports of a host
        self._clock = clock
        # Strangers have a limit of their own, so that a page that sends many requests does not lock the user out.
        self._left = {is_user: (BURST, clock()) for is_user in (True, False)}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it in words."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        headers = _single_headers(scope)
        if headers is None:
            await _refuse(send_strictly, 400, "A header of this request appears twice.")
            return
        problem, token = self._problem(scope, headers), _token_of(scope)
        if problem is not None:
            await _refuse(send_strictly, *problem)
        elif token is not None:  # a browser that comes by the printed address gets a cookie
            await self._enter(headers, token, send_strictly)
        elif not self._has_cookie(headers):
            await _refuse_stranger(scope, send_strictly)
        elif scope["method"] == "POST":
            await self._pass_on_with_body(scope, receive, send_strictly)
        else:
            await self._app(scope, receive, send_strictly)

    async def _pass_on_with_body(self, scope: Message, receive: Receive, send: Send) -> None:
        """Read the body of a request, which must be small and arrive in time, and let the application answer."""
        try:
            body = await asyncio.wait_for(_read_body(receive), BODY_SECONDS)
        except TimeoutError:
            await _refuse(send, 408, "The request did not end in time.")
            return
        if body is None:
            await _refuse(send, 413, f"The request is too large; the limit is {MOST_BYTES} bytes.")
        else:
            await self._app(scope, _replayed(body, receive), send)

    def _problem(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return status and words if a request must not be answered, whoever sent it."""
        if headers.get("host", "").lower() not in self._hosts:
            return 421, "This server does not answer to that name; use the address that 'legible open' printed."
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self._hosts:
            return 403, "Requests from other sites are refused."
        if not self._is_within_rate(self._has_cookie(headers)):
            return 429, "Too many requests; wait a moment."
        return _problem_of_method(scope["method"], headers)

    def _is_within_rate(self, is_user: bool) -> bool:
        """Count a request, and return whether it may be answered: each uses up one of those that are left."""
        (left, last_time), now = self._left[is_user], self._clock()
        left = min(BURST, left + RATE * (now - last_time))
        may_be_answered = left >= 1.0
        self._left[is_user] = (left - may_be_answered, now)
        return may_be_answered

    def _has_cookie(self, headers: dict[str, str]) -> bool:
        # Other servers on this machine may have set cookies, too, of any form and even under the same name.
        cookies = [cookie.partition("=") for cookie in headers.get("cookie", "").split(";")]
        return any(
            name.strip() == self._cookie and _is_same(value.strip(), self._session) for name, _, value in cookies
        )

    async def _enter(self, headers: dict[str, str], token: str, send: Send) -> None:
        """Exchange the token for the cookie, once; whoever has the cookie may use the address again."""
        fits = _is_same(token, self._token)
        if self._has_cookie(headers) and fits:
            await _answer(send, 200, _ENTRY, "text/html")
        elif fits and not self._is_used:
            self._is_used = True
            cookie = f"{self._cookie}={self._session}; HttpOnly; SameSite=Strict; Path=/"
            await _answer(send, 200, _ENTRY, "text/html", {"set-cookie": cookie})
        else:
            words = "This address was used already, or it belongs to another start. Start 'legible open' again."
            await _refuse(send, 403, words)


def _token_of(scope: Message) -> str | None:
    """Return the token in the address of the page; None if there is none."""
    if (scope["method"], scope["path"]) != ("GET", "/"):
        return None
    tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return tokens[-1] if tokens else None


def _problem_of_method(method: str, headers: dict[str, str]) -> tuple[int, str] | None:
    if method not in ("GET", "HEAD", "POST"):
        return 405, "Only GET and POST are answered."
    if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return 415, "Requests must be JSON."
    if method == "POST" and headers.get(HEADER) != "1":
        return 403, f"The header {HEADER} is missing."
    return None


def _is_same(given: str, wanted: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(given.encode(), wanted.encode())


def _single_headers(scope: Message) -> dict[str, str] | None:
    """Return the headers by lower-case name; None if one that decides appears twice."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in found and name in {"host", "origin", "content-type", HEADER}:
            return None
        found[name] = f"{found[name]}; {value}" if name == "cookie" and name in found else value
    return found


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return body
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives the body that was read, and then what follows."""
    waiting = [body]

    async def next_message() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return next_message


async def _refuse(send: Send, status: int, words: str) -> None:
    await _answer(send, status, json.dumps({"error": words}), "application/json", {"connection": "close"})


async def _refuse_stranger(scope: Message, send: Send) -> None:
    """Refuse a request without the cookie: as a page if somebody opened the address in a browser, else as JSON."""
    if (scope["method"], scope["path"]) == ("GET", "/"):
        page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>legible</title><p>{_STRANGER}'
        await _answer(send, 401, page, "text/html", {"connection": "close"})
    else:
        await _refuse(send, 401, _STRANGER)


async def _answer(send: Send, status: int, text: str, kind: str, more: dict[str, str] | None = None) -> None:
    body = text.encode()
    headers = {"content-type": f"{kind}; charset=utf-8", "content-length": str(len(body)), **(more or {})}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
