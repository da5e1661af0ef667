"""A server's lifespan begins with its first user and ends with its last."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from mcpwire import Client, Context, InternalError, Server
from mcpwire.server.lifespan import Lifespan


class Log:
    def __init__(self):
        self.lines = []

    @asynccontextmanager
    async def enter(self):
        self.lines.append(("begin", asyncio.current_task()))
        yield
        self.lines.append(("end", asyncio.current_task()))

    @property
    def words(self):
        return [word for word, _ in self.lines]


def begun_by(enter):
    lifespan = Lifespan()
    lifespan.add(enter)
    return lifespan


async def test_concurrent_starts_enter_once_and_the_last_close_exits():
    log = Log()
    lifespan = begun_by(log.enter)
    await asyncio.gather(*(lifespan.start() for _ in range(3)))
    assert log.words == ["begin"]
    for _ in range(2):
        await lifespan.aclose()
    assert log.words == ["begin"]
    await lifespan.aclose()
    assert log.words == ["begin", "end"]


async def test_lifespan_exits_in_the_task_that_entered_it():
    log = Log()
    lifespan = begun_by(log.enter)
    await asyncio.create_task(lifespan.start())
    await asyncio.create_task(lifespan.aclose())
    (_, first), (_, last) = log.lines
    assert first is last


async def test_empty_lifespan_is_not_needed():
    lifespan = Lifespan()
    await lifespan.start()
    assert not lifespan.is_needed
    await lifespan.aclose()


async def test_failed_start_is_logged_and_the_next_request_starts_again(caplog):
    problems = [LookupError("no database")]

    @asynccontextmanager
    async def lifespan(_):
        if problems:
            raise problems.pop()
        yield "database"

    server = Server("s", lifespan=lifespan)

    @server.tool
    def t(ctx: Context) -> str:
        return ctx.lifespan

    async with Client(server) as client:
        with pytest.raises(InternalError, match="could not start") as caught:
            await client.call_tool("t")
        assert "no database" not in str(caught.value)
        assert (await client.call_tool("t")).text == "database"
    [record] = caplog.records
    assert record.getMessage() == "the server could not start"
    assert "no database" in caplog.text
