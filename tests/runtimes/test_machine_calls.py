"""Calls to workers on other machines."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from editor.runtimes.machines import connection
from editor.runtimes.machines.connection import Lost, call


async def _reply() -> dict[str, Any]:
    return {"answer": 1}


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


async def _call_whose_connection_is_removed(reason: str) -> Any:
    """A call whose connection hangs while it is made, until somebody removes all connections to the address."""
    from distributed.core import ConnectionPool, Server

    server = Server({"hetero_echo": _reply})
    await server.listen("tcp://127.0.0.1:0")
    hanging, connections = asyncio.Event(), 0

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            hanging.set()
            return
        there = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))

    way = await asyncio.start_server(accept, "127.0.0.1", 0)
    address = f"tcp://127.0.0.1:{way.sockets[0].getsockname()[1]}"
    pool = await ConnectionPool(limit=8, timeout=5)
    try:
        waiting = asyncio.ensure_future(call(pool, "server", address, "hetero_echo"))
        await hanging.wait()
        pool.remove(address, reason=reason)
        return await waiting
    finally:
        await pool.close()
        way.close()
        await server.close()


def test_a_call_is_not_lost_because_an_earlier_one_gave_up_on_the_address() -> None:
    assert asyncio.run(_call_whose_connection_is_removed(connection._GIVEN_UP)) == {"answer": 1}


def test_a_connection_that_ends_for_another_reason_is_lost() -> None:
    with pytest.raises(Lost, match="server: its worker ended"):
        asyncio.run(_call_whose_connection_is_removed("closing"))
