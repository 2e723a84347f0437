"""Only this machine's own pages may talk to the server."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pages import Server

from editor.web.security import Access, Guard, other_users


def ask(
    guard: Guard,
    headers: dict[str, str] | list[tuple[str, str]],
    query: str = "",
    kind: str = "http",
    path: str = "/",
) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = headers.items() if isinstance(headers, dict) else headers
    scope = {
        "type": kind,
        "headers": [(k.encode(), v.encode()) for k, v in pairs],
        "query_string": query.encode(),
        "method": "GET",
        "path": path,
        "client": ("127.0.0.1", 5),
    }
    asyncio.run(guard(scope, receive, send))
    return sent


async def inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8050"}, 200),
        ({"host": "localhost:8050"}, 200),
        ({"host": "[::1]:8050"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({}, 403),
        ({"host": "127.0.0.1:8050", "origin": "http://127.0.0.1:8050"}, 200),
        ({"host": "127.0.0.1:8050", "origin": "http://evil.example"}, 403),
        ({"host": "127.0.0.1:8050", "origin": "http://127.0.0.1:9999"}, 403),
        ({"host": "127.0.0.1:8050", "origin": "null"}, 403),
    ],
)
def test_host_and_origin(headers: dict[str, str], status: int) -> None:
    assert ask(Guard(inner, "127.0.0.1", None), headers)[0]["status"] == status


def test_websockets_are_guarded_too() -> None:
    assert (
        ask(Guard(inner, "127.0.0.1", None), {"host": "evil.example"}, kind="websocket")[0]["type"]
        == "websocket.close"
    )


BOX = {"host": "box:8050"}


def test_a_token_off_the_loopback() -> None:
    access = Access("secret")
    guard = Guard(inner, "0.0.0.0", access, 8050)
    assert ask(guard, BOX)[0]["status"] == 403
    assert ask(guard, BOX, "token=wrong")[0]["status"] == 403
    first = ask(guard, BOX, "token=secret")[0]
    cookie = dict(first["headers"])[b"set-cookie"].decode()
    assert first["status"] == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert cookie.startswith(f"hetero_token_8050={access.session}") and "secret" not in cookie
    assert ask(guard, {**BOX, "cookie": cookie.partition(";")[0]})[0]["status"] == 200
    assert ask(guard, {**BOX, "cookie": "hetero_token_8050=other"})[0]["status"] == 403
    assert ask(guard, {**BOX, "cookie": f"hetero_token_8051={access.session}"})[0]["status"] == 403
    assert ask(guard, BOX, kind="websocket")[0]["type"] == "websocket.close"


@pytest.mark.parametrize(
    ("path", "query", "place"),
    [
        ("/", "token=secret", b"/"),
        ("/d/1", "token=secret&x=1%202", b"/d/1?x=1+2"),
        ("//evil.example", "token=secret", b"/evil.example"),
        ("/a\r\nb", "token=secret", b"/a%0D%0Ab"),
    ],
)
def test_a_browser_is_sent_on_to_the_address_without_the_token(
    path: str, query: str, place: bytes
) -> None:
    guard = Guard(inner, "127.0.0.1", Access("secret"))
    answer = ask(guard, {"host": "127.0.0.1", "accept": "text/html,*/*"}, query, path=path)[0]
    assert answer["status"] == 303 and dict(answer["headers"])[b"location"] == place


def test_a_ticket_is_good_for_one_visit() -> None:
    access = Access("secret")
    guard = Guard(inner, "127.0.0.1", access)
    query = f"token={access.ticket()}"
    assert [ask(guard, {"host": "127.0.0.1"}, query)[0]["status"] for _ in range(2)] == [200, 403]
    assert ask(guard, {"host": "127.0.0.1"}, "token=secret")[0]["status"] == 200


def test_wrong_tokens_lock_nobody_out() -> None:
    """Other users of the machine come from the same address as its owner."""
    guard = Guard(inner, "127.0.0.1", Access("secret"))
    home = {"host": "127.0.0.1"}
    assert {ask(guard, home, f"token={i}")[0]["status"] for i in range(300)} == {403}
    assert {
        ask(guard, {**home, "cookie": f"hetero_token={i}"})[0]["status"] for i in range(300)
    } == {403}
    assert ask(guard, home, "token=secret")[0]["status"] == 200


@pytest.mark.parametrize("name", ["host", "origin", "content-length"])
def test_a_header_that_counts_may_come_once(name: str) -> None:
    guard = Guard(inner, "127.0.0.1", None)
    pair = (name, {"host": "127.0.0.1", "origin": "http://127.0.0.1", "content-length": "0"}[name])
    for first, second in (
        (pair, pair),
        ((name, "evil.example"), pair),
        (pair, (name, "evil.example")),
    ):
        others = [] if name == "host" else [("host", "127.0.0.1")]
        assert ask(guard, [*others, first, second])[0]["status"] == 400


def test_a_page_of_an_earlier_server_that_comes_again_and_again_locks_nobody_out() -> None:
    guard = Guard(inner, "127.0.0.1", Access("secret"))
    old = {"host": "127.0.0.1", "cookie": "hetero_token=of-the-earlier-server"}
    assert {ask(guard, old)[0]["status"] for _ in range(50)} == {403}
    assert ask(guard, old, "token=secret")[0]["status"] == 200


def _account(name: str, uid: int, shell: str) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", shell))


def test_others_are_people_with_a_shell_or_who_are_logged_in() -> None:
    me = _account("me", os.getuid(), "/bin/sh")
    services = [_account("daemon", 1, "/bin/sh"), _account("nobody", 65534, "/usr/sbin/nologin")]
    assert other_users([me, *services], ["me"]) == []
    assert other_users([me, *services, _account("eve", 54321, "/bin/bash")], ["me"]) == ["eve"]
    assert other_users([me, *services], ["me", "mallory"]) == ["mallory"]


def test_the_page_opens_with_the_printed_address_only(tmp_path: Path) -> None:
    server = Server(tmp_path, "--token")
    server.start()
    try:
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(server.url)
        found = re.search(r"http\S+token=\S+", server.said)
        assert found
        visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"Hetero Editor" in visitor.open(found[0]).read()
        assert b"Hetero Editor" in visitor.open(server.url + "/open").read()
    finally:
        server.stop()


@pytest.mark.parametrize(
    "headers", [{"host": "[::1"}, {"host": "127.0.0.1:8050", "origin": "http://["}]
)
def test_a_host_or_origin_that_cannot_be_parsed_is_refused(headers: dict[str, str]) -> None:
    assert ask(Guard(inner, "127.0.0.1", None), headers)[0]["status"] == 403


@pytest.mark.parametrize("others", ["a/b=c", 'x={"a":1}', "a=b=c", ";;"])
def test_cookies_of_other_programs_do_not_hide_the_token(others: str) -> None:
    access = Access("secret")
    guard = Guard(inner, "0.0.0.0", access)
    assert (
        ask(guard, {"host": "box", "cookie": f"{others}; hetero_token={access.session}"})[0][
            "status"
        ]
        == 200
    )
    assert ask(guard, {"host": "box", "cookie": others})[0]["status"] == 403


def test_every_answer_forbids_frames_and_other_hosts() -> None:
    for headers, status in (({"host": "localhost"}, 200), ({"host": "evil.example"}, 403)):
        answer = ask(Guard(inner, "127.0.0.1", None), headers)[0]
        found = dict(answer["headers"])
        assert answer["status"] == status
        policy = found[b"content-security-policy"]
        assert b"frame-ancestors 'none'" in policy and b"http" not in policy
        scripts = next(part for part in policy.split(b";") if b"script-src" in part)
        assert b"unsafe" not in scripts
        assert (
            found[b"x-frame-options"] == b"DENY" and found[b"x-content-type-options"] == b"nosniff"
        )
        assert found[b"referrer-policy"] == b"no-referrer"
