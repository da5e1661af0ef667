"""A group connects its servers in parallel, and says what came of each."""

import asyncio

import pytest
from fakes import FakeServer, text

from mcpwire.group import Group, NotConnected

pytestmark = pytest.mark.anyio

BOUND_S = 10.0


def server(name="x", **members):
    return FakeServer({"tools/call": lambda *_: text(name)}, **members)


async def test_servers_are_connected_and_called_by_name():
    async with (
        asyncio.timeout(BOUND_S),
        Group({"a": server("A"), "b": server("B")}) as g,
    ):
        assert list(g) == ["a", "b"]
        assert (await g.call_tool("a", "x")).text == "A"
        assert (await g["b"].call_tool("x")).text == "B"
    assert len(g) == 0


@pytest.mark.system("V10")
async def test_one_that_fails_is_left_out_and_reported():
    broken = {"a": server(), "broken": "false"}
    async with asyncio.timeout(BOUND_S), Group(broken, on_error="skip") as group:
        assert list(group) == ["a"]
        assert list(group.report.failed) == ["broken"]
        with pytest.raises(NotConnected, match="ConnectError"):
            group["broken"]
