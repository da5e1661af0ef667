"""A failing tool fails its own call and no other."""

import asyncio
import json

import pytest
from attacked_server import build
from client_paths import WAYS, frame, opened, works

SECRET = "s3cr3t"


class Abort(BaseException):
    """An exception outside Exception, as test frameworks and other loops raise."""


def cyclic():
    value = {}
    value["x"] = value
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def overflow():
    return overflow() + 1


def raising(error):
    def tool():
        raise error

    return tool


FAILURES = {
    "an exception": raising(ValueError(SECRET)),
    "an exit": raising(SystemExit(SECRET)),
    "no exception": raising(Abort(SECRET)),
    "a group": raising(BaseExceptionGroup(SECRET, [Abort(), ValueError(SECRET)])),
    "an exception group": raising(ExceptionGroup(SECRET, [ValueError(SECRET)])),
    "a cancellation": raising(asyncio.CancelledError(SECRET)),
    "the end of a generator": raising(StopIteration(SECRET)),
    "the end of an async one": raising(StopAsyncIteration(SECRET)),
    "no memory": raising(MemoryError(SECRET)),
    "time out": raising(TimeoutError(SECRET)),
    "endless recursion": overflow,
    "an object": lambda: [object()],
    "a class": lambda: Abort,
    "NaN": lambda: {"x": float("nan")},
    "a surrogate": lambda: "\ud800",
    "a huge integer": lambda: {"x": 10**400},
    "no text as key": lambda: {1.5: SECRET, None: 1},
    "itself": cyclic,
    "a deep list": deep,
    "a generator": lambda: (_ for _ in [SECRET]),
    "a function": lambda: deep,
}
"""Failing functions; each is also tried as a coroutine and in a thread."""


def kinds(act):
    async def soon():
        await asyncio.sleep(0)
        return act()

    return {
        "at once": (act, {"thread": False}),
        "later": (soon, {}),
        "in a thread": (act, {"thread": True}),
    }


def spelled(name, kind):
    return f"{name}.{kind}".replace(" ", "_")


def attacked():
    """Return a server with one tool for each failure."""
    server = build()
    for name, act in FAILURES.items():
        for kind, (function, options) in kinds(act).items():
            # Failing functions and lambdas have no result annotation.
            server.add_tool(function, name=spelled(name, kind), **options)
    return server


def is_failed(answer):
    """Return whether a response reports a failed call; check it for details."""
    assert SECRET not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)
    return answer.get("error", {}).get("code") == -32603 or answer["result"]["isError"]


NAMES = [spelled(name, kind) for name in FAILURES for kind in kinds(None)]


@pytest.mark.case("D19")
@pytest.mark.attack("S12")
@pytest.mark.grounds(2, "way")
@pytest.mark.parametrize("way", WAYS)
async def test_failing_tool_fails_only_its_own_call(way, caplog):
    way = await opened(way, attacked())
    for name in NAMES:
        [answer] = await way.say(frame(way, name, name, b"{}"))
        assert answer["id"] == name
        assert is_failed(answer), answer
    await works(way)
    assert SECRET in caplog.text
    await way.aclose()
