"""What comes in: header fields, and the first steps of coroutines."""

import asyncio

import pytest
from asgi_driver import Visit, scope

from mcpwire import Limits
from mcpwire.server.auth.resource_server import CREDENTIALS
from mcpwire.server.http.exchange import (
    Exchange,
    Headers,
    ShownFields,
    first_step,
)

pytestmark = pytest.mark.anyio

FIELDS = (("Host", "a"), ("Accept", "*/*"), ("Content-Type", "application/json"))


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(*fields, **options):
    visit = Visit(scope(headers=fields, **options))
    return Exchange(visit.scope, visit.receive, visit.send, Limits())


# Fields...


def test_fields_that_each_came_once_are_read_one_by_one():
    headers = Headers([(b"x-one", b" 1\t"), (b"x-two", b"2")])
    assert not headers.repeats("x-one")
    assert headers.get("x-one") == "1"
    assert headers.get("x-three") is None
    assert headers.all("x-two") == ["2"]
    assert headers.all("x-three") == []
    assert headers.joined == {"x-one": "1", "x-two": "2"}
    assert headers.get("x-two") == "2"
    assert not headers.repeats("x-one")


@pytest.mark.parametrize(
    "fields",
    [
        [(b"X-One", b"1")],
        [(b"x-one", b"1"), (b"x-one", b"1")],
        [(b"x-one", b"1"), (b"X-ONE", b"1")],
        [],
    ],
)
def test_fields_that_came_twice_or_in_capitals_are_found(fields):
    headers = Headers(fields)
    assert headers.repeats("x-one") == (len(fields) > 1)
    assert headers.get("x-one") == (", ".join(["1"] * len(fields)) or None)


def test_handlers_see_all_fields_but_those_that_prove_something():
    headers = Headers([(b"accept", b"*/*"), (b"authorization", b"Bearer abc")])
    shown = ShownFields(headers, CREDENTIALS)
    assert shown == {"accept": "*/*"}
    assert (len(shown), list(shown), shown["accept"]) == (1, ["accept"], "*/*")
    assert shown.get("authorization") is None
    assert repr(shown) == "{'accept': '*/*'}"


def test_what_nobody_has_asked_for_yet_shows_no_credentials():
    exchange = opened(*FIELDS, ("Authorization", "Bearer abc"))
    assert "authorization" not in exchange.facts.headers
    assert exchange.facts is exchange.facts


# First steps...


async def stepping(steps, log):
    for step in steps:
        log.append(await step)
    return log


class Waits:
    def __init__(self):
        self.times = 0

    def __call__(self):
        self.times += 1


async def test_what_ends_in_its_first_step_never_waits():
    waits = Waits()
    assert await first_step(stepping([], []), waits) == []
    assert waits.times == 0


async def test_what_waits_says_so_once_and_goes_on():
    loop, waits, log = asyncio.get_running_loop(), Waits(), []
    first, second = loop.create_future(), loop.create_future()
    running = loop.create_task(
        _awaiting(first_step(stepping([first, asyncio.sleep(0), second], log), waits))
    )
    await asyncio.sleep(0)
    assert (waits.times, log) == (1, [])
    first.set_result(1)
    second.set_result(2)
    assert await asyncio.wait_for(running, 30) == [1, None, 2]
    assert waits.times == 1


async def _awaiting(awaitable):
    return await awaitable


async def test_an_error_of_the_first_step_is_raised_and_nothing_waited():
    async def fail():
        raise ValueError("no")

    waits = Waits()
    with pytest.raises(ValueError, match="no"):
        await first_step(fail(), waits)
    assert waits.times == 0


async def test_an_error_of_what_is_awaited_and_a_cancellation_reach_the_coroutine():
    loop = asyncio.get_running_loop()
    future, log = loop.create_future(), []

    async def careful():
        try:
            await future
        except ValueError as error:
            log.append(str(error))
        try:
            await loop.create_future()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    running = loop.create_task(_awaiting(first_step(careful(), Waits())))
    await asyncio.sleep(0)
    future.set_exception(ValueError("no"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log == ["no", "cancelled"]


async def test_a_cancellation_that_is_swallowed_at_the_end_gives_the_result():
    async def stubborn():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "all the same"

    running = asyncio.get_running_loop().create_task(
        _awaiting(first_step(stubborn(), Waits()))
    )
    await asyncio.sleep(0)
    running.cancel()
    assert await running == "all the same"


async def test_what_is_closed_closes_the_coroutine():
    closed = []

    async def tidy():
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    outer = _awaiting(first_step(tidy(), Waits()))
    outer.send(None)
    outer.close()
    assert closed == [True]
