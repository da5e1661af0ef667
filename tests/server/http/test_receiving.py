"""What comes in: fields that are decoded late, heads that are known, first steps."""

import asyncio

import pytest
from asgi_driver import Visit, scope

from mcpwire import Limits
from mcpwire.server.auth.credentials import CREDENTIALS
from mcpwire.server.http.exchange import Exchange
from mcpwire.server.http.receiving import accepted
from mcpwire.server.http.receiving.accepted import Accepted, Head
from mcpwire.server.http.receiving.first_step import first_step
from mcpwire.server.http.receiving.headers import Headers, Shape, ShownFields

pytestmark = pytest.mark.anyio

HEAD = Head((), is_stateless=True)
FIELDS = (("Host", "a"), ("Accept", "*/*"), ("Content-Type", "application/json"))


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(*fields, known=None, **options):
    visit = Visit(scope(headers=fields, **options))
    made = Exchange(visit.scope, visit.receive, visit.send, Limits())
    if known is not None:
        made.headers = known.read(visit.scope["headers"])
    return made


# Fields...


@pytest.mark.parametrize("is_known", [True, False])
def test_fields_that_each_came_once_are_read_one_by_one(is_known):
    raw = [(b"x-one", b" 1\t"), (b"x-two", b"2")]
    known = [Shape((b"x-one", b"x-two")), (b" 1\t", b"2")] if is_known else []
    headers = Headers(raw, *known)
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
    assert "authorization" not in exchange.info.headers
    assert exchange.info is exchange.info


# Heads that are known...


def test_a_head_that_was_let_in_is_known_again():
    known = Accepted()
    assert known.find(opened(*FIELDS, known=known)) is None
    known.remember(opened(*FIELDS, ("X", "7")), HEAD)
    assert known.find(opened(*FIELDS, ("X", "8"), known=known)) is HEAD
    assert known.find(opened(*FIELDS, ("X", "8"))) is None
    assert known.find(opened(*FIELDS, ("Y", "7"), known=known)) is None
    assert known.find(opened(known=known)) is None
    known.remember(opened(*FIELDS, ("X", "7"), path="/x"), HEAD)
    assert known.find(opened(*FIELDS, ("X", "9"), known=known, path="/x")) is HEAD
    assert len(known) == 2


def test_a_head_may_come_as_any_iterable():
    known = Accepted()
    assert known.read(iter([(b"x", b"1")])).get("x") == "1"


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ([("Host", "b"), *FIELDS[1:]], {}),
        ([*FIELDS, ("Origin", "http://a")], {}),
        ([*FIELDS[:1], ("Accept", "text/html"), *FIELDS[2:]], {}),
        ([*FIELDS[:2], ("Content-Type", "text/plain")], {}),
        ([*FIELDS, ("Content-Encoding", "gzip")], {}),
        ([*FIELDS, ("Transfer-Encoding", "chunked")], {}),
        ([*FIELDS, ("MCP-Protocol-Version", "2025-06-18")], {}),
        ([*FIELDS, ("Mcp-Method", "ping")], {}),
        ([*FIELDS, ("Host", "a")], {}),
        (FIELDS, {"verb": "GET"}),
        (FIELDS, {"path": "/"}),
        (FIELDS, {"root_path": "/mount"}),
        (FIELDS, {"server": None}),
        (FIELDS, {"server": ("10.0.0.1", 8000)}),
    ],
)
def test_a_head_that_differs_in_anything_that_is_looked_at_is_not_known(
    fields, options
):
    known = Accepted()
    known.remember(opened(*FIELDS), HEAD)
    assert known.find(opened(*fields, known=known, **options)) is None


@pytest.mark.parametrize(
    "fields",
    [
        (*FIELDS, ("Accept", "*/*")),
        (*FIELDS, ("Transfer-Encoding", "chunked")),
        FIELDS[:1],
        (("X", "1"),),
        (*FIELDS, ("X" * 1_024, "")),
        (*FIELDS[:2], ("Content-Type", "a" * 1_024)),
    ],
)
@pytest.mark.attack("S13")
def test_a_head_that_is_long_or_says_something_twice_is_not_remembered(fields):
    known = Accepted()
    known.remember(opened(*fields), HEAD)
    assert known.find(opened(*fields, known=known)) is None
    assert len(known) == 0


def test_names_in_capitals_are_not_remembered():
    known, exchange = Accepted(), opened()
    exchange.scope["headers"] = [(b"Host", b"a"), (b"Accept", b"*/*")]
    known.remember(exchange, HEAD)
    assert len(known) == 0


@pytest.mark.attack("S13")
def test_what_is_remembered_is_bounded_in_number(monkeypatch):
    monkeypatch.setattr(accepted, "MOST", 3)
    known = Accepted()
    for number in range(10):
        fields = (("Host", f"h{number}"), *FIELDS[1:], (f"x-{number % 2}", ""))
        known.remember(opened(*fields), HEAD)
        assert known.find(opened(*fields, known=known)) is HEAD
        assert len(known) <= 3


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
