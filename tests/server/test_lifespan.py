"""A server's lifespan begins with its first user and ends with its last."""

import asyncio
from contextlib import asynccontextmanager

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


async def test_it_begins_once_however_many_come_at_once():
    log = Log()
    lifespan = begun_by(log.enter)
    await asyncio.gather(*(lifespan.start() for _ in range(3)))
    assert log.words == ["begin"]
    for _ in range(2):
        await lifespan.aclose()
    assert log.words == ["begin"]
    await lifespan.aclose()
    assert log.words == ["begin", "end"]


async def test_it_ends_in_the_task_in_which_it_began():
    log = Log()
    lifespan = begun_by(log.enter)
    await asyncio.create_task(lifespan.start())
    await asyncio.create_task(lifespan.aclose())
    (_, first), (_, last) = log.lines
    assert first is last


async def test_without_anything_to_begin_there_is_nothing_to_wait_for():
    lifespan = Lifespan()
    await lifespan.start()
    assert not lifespan.is_needed
    await lifespan.aclose()


async def test_what_its_end_raises_is_told_to_the_loop():
    @asynccontextmanager
    async def enter():
        yield
        raise LookupError("no end")

    told = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(context)
    )
    lifespan = begun_by(enter)
    await lifespan.start()
    await lifespan.aclose()
    assert [type(context["exception"]) for context in told] == [LookupError]
