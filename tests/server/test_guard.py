"""Attacks on the guard: each is refused in words, and never reaches what is behind it."""

import asyncio
import json
from typing import Any

import pytest

from legible.server.guard import BURST, HEADER, MOST_BYTES, Guard, make_token
from server.requests import HOST, JSON, Answer, send

TOKEN = "t" * 43


class Behind:
    """An application that counts what reaches it."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def __call__(self, scope: Any, _: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


class Visit:
    """A browser that has, or has not, exchanged the token."""

    def __init__(self) -> None:
        self.behind, self.now = Behind(), 0.0
        self.guard = Guard(self.behind, {HOST, "localhost:8123"}, TOKEN, clock=lambda: self.now)
        self.cookie = ""

    def send(self, method: str, path: str, *headers: tuple[str, str], **options: Any) -> Answer:
        own = (("cookie", self.cookie),) if self.cookie else ()
        return asyncio.run(send(self.guard, method, path, (*own, *headers), **options))

    def enter(self) -> Answer:
        found = self.send("GET", f"/?token={TOKEN}")
        self.cookie = found.headers["set-cookie"].partition(";")[0]
        return found


@pytest.fixture
def visit() -> Visit:
    return Visit()


@pytest.fixture
def inside(visit: Visit) -> Visit:
    visit.enter()
    return visit


def test_the_token_becomes_a_cookie_that_no_script_reads_and_no_site_sends(visit) -> None:
    found = visit.enter()
    assert found.status == 200
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(found.headers["set-cookie"].split("; "))
    assert TOKEN not in found.headers["set-cookie"]
    assert visit.send("GET", "/").status == 200


def test_the_token_works_once(visit) -> None:
    visit.enter()
    visit.cookie = ""
    again = visit.send("GET", f"/?token={TOKEN}")
    assert again.status == 403
    assert "used already" in again.data["error"]
    assert "set-cookie" not in again.headers


def test_whoever_has_the_cookie_may_use_the_address_again(inside) -> None:
    assert inside.send("GET", f"/?token={TOKEN}").status == 200


@pytest.mark.parametrize("token", ["", "t" * 42, "t" * 44, "é" * 43, "%00"])
def test_another_token_opens_nothing_and_uses_up_nothing(visit, token) -> None:
    assert visit.send("GET", f"/?token={token}").status in (401, 403)
    assert visit.enter().status == 200


def test_tokens_have_256_bits_and_differ() -> None:
    assert len({make_token() for _ in range(100)}) == 100
    assert all(len(make_token()) >= 43 for _ in range(10)), "43 letters of base64 are 256 bits"


@pytest.mark.parametrize("path", ["/", "/assets/main.js", "/api/about", "/anything"])
@pytest.mark.parametrize("cookie", ["", "legible-8123=", "legible-8123=guess", "other=1", "legible-8123", ";;=;"])
def test_without_the_cookie_nothing_is_answered(visit, path, cookie) -> None:
    visit.cookie = cookie
    assert visit.send("GET", path).status == 401
    assert visit.send("POST", path, *JSON, body=b"{}").status == 401
    assert visit.behind.reached == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "", None])
def test_a_rebound_name_is_refused_even_with_the_cookie(inside, host) -> None:
    assert inside.send("GET", "/", host=host).status == 421
    assert inside.send("GET", f"/?token={TOKEN}", host=host).status == 421
    assert inside.send("POST", "/api/about", *JSON, body=b"{}", host=host).status == 421
    assert inside.behind.reached == []


def test_two_hosts_in_a_request_are_refused(inside) -> None:
    assert inside.send("GET", "/", ("host", "evil.example")).status == 400


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "file://"])
def test_other_origins_are_refused(inside, origin) -> None:
    assert inside.send("POST", "/api/keep", *JSON, ("origin", origin), body=b"{}").status == 403
    assert inside.behind.reached == []
    assert inside.send("POST", "/api/keep", *JSON, ("origin", f"http://{HOST}"), body=b"{}").status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((("content-type", "text/plain"), (HEADER, "1")), 415),
        ((("content-type", "application/x-www-form-urlencoded"), (HEADER, "1")), 415),
        (((HEADER, "1"),), 415),
        ((("content-type", "application/json"),), 403),
        ((("content-type", "application/json"), (HEADER, "0")), 403),
    ],
)
def test_what_another_site_can_send_changes_nothing(inside, headers, status) -> None:
    assert inside.send("POST", "/api/keep", *headers, body=b"{}").status == status
    assert inside.behind.reached == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_other_methods_are_refused(inside, method) -> None:
    assert inside.send(method, "/api/keep", *JSON).status == 405
    assert inside.behind.reached == []


def test_large_bodies_are_refused(inside) -> None:
    large = json.dumps({"rule": "x" * MOST_BYTES}).encode()
    assert inside.send("POST", "/api/read", *JSON, body=large).status == 413
    assert inside.behind.reached == []


def test_bodies_that_never_end_are_refused(inside, monkeypatch) -> None:
    monkeypatch.setattr("legible.server.guard.BODY_SECONDS", 0.05)
    assert inside.send("POST", "/api/read", *JSON, ends=False).status == 408
    assert inside.behind.reached == []


def test_floods_are_refused_and_pass(inside) -> None:
    statuses = [inside.send("GET", "/").status for _ in range(int(BURST) + 20)]
    assert statuses[-1] == 429
    inside.now += 1.0
    assert inside.send("GET", "/").status == 200


def test_floods_of_strangers_do_not_lock_the_user_out(inside) -> None:
    for _ in range(int(BURST) + 1):
        stranger = asyncio.run(send(inside.guard, "GET", "/"))
    assert stranger.status == 429
    assert inside.send("GET", "/").status == 200


@pytest.mark.parametrize("other", ['{"a":1}; ', 'x="2|1:0; ', "legible-8123=tossed; ", "bad name=1; "])
def test_cookies_of_other_servers_do_not_matter(inside, other) -> None:
    inside.cookie = f"{other}{inside.cookie}"
    assert inside.send("GET", "/").status == 200


@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_only_a_visit_uses_the_token(visit, method) -> None:
    assert visit.send(method, f"/?token={TOKEN}", *JSON).status == 401
    assert visit.enter().status == 200


def test_every_answer_keeps_browsers_strict(inside) -> None:
    for found in (inside.send("GET", "/"), inside.send("GET", "/", host="evil.example"), Visit().enter()):
        policy = found.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert found.headers["x-frame-options"] == "DENY"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert found.headers["cache-control"] == "no-store"


def test_web_sockets_are_not_answered(inside) -> None:
    sent: list[Any] = []

    async def connect() -> None:
        async def keep(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        await inside.guard({"type": "websocket", "path": "/", "headers": []}, receive, keep)

    asyncio.run(connect())
    assert sent == []
    assert inside.behind.reached == []
