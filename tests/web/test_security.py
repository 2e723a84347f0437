"""Only this machine's own pages may talk to the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from editor.web.security import Guard


def ask(guard: Guard, headers: dict[str, str], query: str = "", kind: str = "http") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "headers": [(k.encode(), v.encode()) for k, v in headers.items()], "query_string": query.encode()}
    asyncio.run(guard(scope, receive, send))
    return sent


async def inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize(("headers", "status"), [
    ({"host": "127.0.0.1:8050"}, 200), ({"host": "localhost:8050"}, 200), ({"host": "[::1]:8050"}, 200),
    ({"host": "evil.example"}, 403), ({"host": "127.0.0.1.evil.example"}, 403), ({}, 403),
    ({"host": "127.0.0.1:8050", "origin": "http://127.0.0.1:8050"}, 200),
    ({"host": "127.0.0.1:8050", "origin": "http://evil.example"}, 403),
    ({"host": "127.0.0.1:8050", "origin": "http://127.0.0.1:9999"}, 403),
    ({"host": "127.0.0.1:8050", "origin": "null"}, 403),
])
def test_host_and_origin(headers: dict[str, str], status: int) -> None:
    assert ask(Guard(inner, "127.0.0.1", None), headers)[0]["status"] == status


def test_websockets_are_guarded_too() -> None:
    assert ask(Guard(inner, "127.0.0.1", None), {"host": "evil.example"}, kind="websocket")[0]["type"] == "websocket.close"


def test_a_token_off_the_loopback() -> None:
    guard = Guard(inner, "0.0.0.0", "secret")
    assert ask(guard, {"host": "box:8050"})[0]["status"] == 403
    assert ask(guard, {"host": "box:8050"}, "token=wrong")[0]["status"] == 403
    first = ask(guard, {"host": "box:8050"}, "token=secret")[0]
    assert first["status"] == 200 and b"HttpOnly" in first["headers"][0][1]
    assert ask(guard, {"host": "box:8050", "cookie": "hetero_token=secret"})[0]["status"] == 200
    assert ask(guard, {"host": "box:8050", "cookie": "hetero_token=other"})[0]["status"] == 403


@pytest.mark.parametrize("headers", [{"host": "[::1"}, {"host": "127.0.0.1:8050", "origin": "http://["}])
def test_a_host_or_origin_that_cannot_be_parsed_is_refused(headers: dict[str, str]) -> None:
    assert ask(Guard(inner, "127.0.0.1", None), headers)[0]["status"] == 403


@pytest.mark.parametrize("others", ["a/b=c", 'x={"a":1}', "a=b=c", ";;"])
def test_cookies_of_other_programs_do_not_hide_the_token(others: str) -> None:
    guard = Guard(inner, "0.0.0.0", "secret")
    assert ask(guard, {"host": "box", "cookie": f"{others}; hetero_token=secret"})[0]["status"] == 200
    assert ask(guard, {"host": "box", "cookie": others})[0]["status"] == 403


def test_every_answer_forbids_frames_and_other_hosts() -> None:
    for headers, status in (({"host": "localhost"}, 200), ({"host": "evil.example"}, 403)):
        answer = ask(Guard(inner, "127.0.0.1", None), headers)[0]
        found = dict(answer["headers"])
        assert answer["status"] == status
        policy = found[b"content-security-policy"]
        assert b"frame-ancestors 'none'" in policy and b"http" not in policy
        assert found[b"x-frame-options"] == b"DENY" and found[b"x-content-type-options"] == b"nosniff"
        assert found[b"referrer-policy"] == b"no-referrer"
