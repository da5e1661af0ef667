"""Notifications a handler sends while it runs: progress in order, logs by level."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_client import (
    LOG_KEY,
    STAMP,
    Hand,
    failure,
    modern,
    notice,
    request,
    server,
    success,
)

from mcpwire import LocalProtocolError, TransportError
from mcpwire.server.dispatcher import Route
from mcpwire.server.request import LEVELS, RequestContext, Session
from mcpwire.versions import LATEST, LATEST_SESSION, Era, find_revision

TOOLS = {"tools": {}}
DONE = {"content": []}


def progress(token, value, **more):
    return notice("notifications/progress", progressToken=token, progress=value, **more)


def message(level, data, **more):
    return notice("notifications/message", level=level, **more, data=data)


def open_tool(work, capabilities=None, version="2025-11-25"):
    """Open a connection to a tool that calls `work` with its request."""

    async def tool(params, request):
        work(request)
        await asyncio.sleep(0)
        return DONE

    dispatcher = server({"tools/call": tool}, {**TOOLS, **(capabilities or {})})
    return Hand(dispatcher, version)


async def exchange(wire, *messages):
    wire.send(*messages)
    return await wire.settled()


def context(notify, meta=None, revision=LATEST):
    session = None if revision.era is Era.STATELESS else Session(revision, {}, {})
    return RequestContext(
        1,
        "tools/call",
        meta or {},
        revision,
        session=session,
        client_capabilities={},
        notify=notify,
        can_log=True,
        route=Route(print),
    )


@pytest.mark.rule("PROG-02", "PROG-03", "PROG-04", "PROG-05")
@pytest.mark.parametrize("token", ["t", "", 0, 7, -1])
async def test_progress_is_sent_in_order_before_the_response(token):
    def work(request):
        request.progress(0)
        request.progress(0.5, 2)
        request.progress(2, 2, "two of two")

    wire = open_tool(work)
    lines = [
        progress(token, 0),
        progress(token, 0.5, total=2),
        progress(token, 2, total=2, message="two of two"),
    ]
    meta = {"progressToken": token}
    assert await exchange(wire, request(1, "tools/call", {}, meta)) == [
        *lines,
        success(1, DONE),
    ]
    alone = modern(2, "tools/call", {}, **meta)
    assert await exchange(wire, alone) == [*lines, success(2, {**DONE, **STAMP})]


@pytest.mark.rule("PROG-03")
@pytest.mark.parametrize("token", [None, True, 1.5, [], {}])
async def test_no_progress_is_sent_without_a_valid_token(token):
    wire = open_tool(lambda request: request.progress(1))
    call_request = request(1, "tools/call", {}, {"progressToken": token})
    assert await exchange(wire, call_request) == [success(1, DONE)]
    assert await exchange(wire, request(2, "tools/call")) == [success(2, DONE)]


@pytest.mark.rule("PROG-02")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.integers(-3, 3) | st.floats(allow_nan=False), max_size=12))
def test_progress_values_only_increase(values):
    sent = []
    request = context(lambda _, params: sent.append(params), {"progressToken": 1})
    for value in values:
        request.progress(value)
    numbers = [params["progress"] for params in sent]
    assert numbers == sorted(set(numbers))
    assert max(numbers, default=None) == max(values, default=None)


@pytest.mark.rule("PROG-04", "LOG-03")
async def test_handler_sends_nothing_after_the_response():
    kept = []
    wire = open_tool(kept.append, {"logging": {}})
    meta = {"progressToken": "t", LOG_KEY: "debug"}
    call_request = modern(1, "tools/call", {}, **meta)
    assert await exchange(wire, call_request) == [success(1, {**DONE, **STAMP})]
    [request] = kept
    assert not request.is_open
    request.progress(1)
    request.log("error", "late")
    assert wire.rest() == []


async def test_the_first_revision_has_no_message_with_progress():
    wire = open_tool(
        lambda request: request.progress(1, 2, "half"), version="2024-11-05"
    )
    call_request = request(1, "tools/call", {}, {"progressToken": "t"})
    assert await exchange(wire, call_request) == [
        progress("t", 1, total=2),
        success(1, DONE),
    ]


async def test_non_finite_progress_raises_in_the_handler():
    def work(request):
        with pytest.raises(LocalProtocolError, match="progress"):
            request.progress(float("nan"))
        request.progress(1)

    wire = open_tool(work)
    call_request = request(1, "tools/call", {}, {"progressToken": "t"})
    assert await exchange(wire, call_request) == [progress("t", 1), success(1, DONE)]


@pytest.mark.rule("LOG-02", "LOG-03")
@pytest.mark.parametrize("minimum", LEVELS)
async def test_request_log_level_selects_that_level_and_above(minimum):
    def work(request):
        for level in LEVELS:
            request.log(level, {"at": level}, logger="tool")

    wire = open_tool(work, {"logging": {}})
    call_request = modern(1, "tools/call", {}, **{LOG_KEY: minimum})
    assert await exchange(wire, call_request) == [
        *(
            message(level, {"at": level}, logger="tool")
            for level in LEVELS[LEVELS.index(minimum) :]
        ),
        success(1, {**DONE, **STAMP}),
    ]


@pytest.mark.rule("LOG-02", "META-14")
async def test_stateless_request_without_a_level_gets_no_logs():
    wire = open_tool(lambda request: request.log("emergency", "fire"), {"logging": {}})
    await exchange(wire, request(1, "logging/setLevel", {"level": "debug"}))
    await exchange(wire, modern(2, "tools/call", {}, **{LOG_KEY: "debug"}))
    lines = await exchange(wire, modern(3, "tools/call"))
    assert lines == [success(3, {**DONE, **STAMP})]


@pytest.mark.rule("LOG-04")
@pytest.mark.parametrize("level", ["loud", "DEBUG", "", None, 7, ["info"]])
async def test_request_with_an_unknown_log_level_is_refused(level):
    wire = open_tool(lambda request: None)
    [answer] = await exchange(wire, modern(1, "tools/call", {}, **{LOG_KEY: level}))
    assert answer["error"]["code"] == -32602


@pytest.mark.rule("LOG-05")
async def test_session_log_level_applies_to_all_its_requests():
    def work(request):
        request.log("debug", 1)
        request.log("info", 2)
        request.log("error", None)

    wire = open_tool(work, {"logging": {}})
    first = [message("info", 2), message("error", None), success(1, DONE)]
    assert await exchange(wire, request(1, "tools/call")) == first
    for level, expected in (
        ("error", ["error"]),
        ("debug", ["debug", "info", "error"]),
    ):
        [answer] = await exchange(
            wire, request(2, "logging/setLevel", {"level": level})
        )
        assert answer == success(2, {})
        *lines, _ = await exchange(wire, request(3, "tools/call"))
        assert [line["params"]["level"] for line in lines] == expected


@pytest.mark.rule("LOG-05")
@pytest.mark.parametrize("params", [{}, {"level": "loud"}, {"level": None}])
async def test_unknown_session_log_level_is_refused(params):
    wire = open_tool(lambda request: None, {"logging": {}})
    problem = f"the log level must be one of {', '.join(LEVELS)}"
    answers = await exchange(wire, request(1, "logging/setLevel", params))
    assert answers == [failure(1, -32602, problem)]
    assert wire.connection.session.log_level == "info"


@pytest.mark.rule("LOG-01")
async def test_server_without_logging_capability_sends_no_logs():
    wire = open_tool(lambda request: request.log("error", "fire"))
    assert await exchange(wire, request(1, "tools/call")) == [success(1, DONE)]
    call_request = modern(2, "tools/call", {}, **{LOG_KEY: "debug"})
    assert await exchange(wire, call_request) == [success(2, {**DONE, **STAMP})]


async def test_request_context_has_revision_and_era():
    for name, era in (("2026-07-28", Era.STATELESS), ("2024-11-05", Era.SESSION)):
        request = context(lambda *_: None, revision=find_revision(name))
        assert (request.revision.name, request.era) == (name, era)
        assert repr(request) == f"<RequestContext tools/call 1, {name}>"


async def test_failed_progress_notification_does_not_fail_the_request():
    def refuse(*_):
        raise TransportError("the peer does not read")

    wire = open_tool(lambda request: request.progress(1))
    wire.notify_nowait = refuse
    call_request = request(1, "tools/call", {}, {"progressToken": "t"})
    assert await exchange(wire, call_request) == [success(1, DONE)]


def test_session_context_has_its_session_and_client_info():
    request = context(lambda *_: None, revision=LATEST_SESSION)
    assert request.session.revision is LATEST_SESSION
    assert request.client_info == {}


async def test_server_request_outside_a_session_is_refused():
    request = context(lambda *_: None)
    with pytest.raises(LocalProtocolError, match="may not ask 'roots/list'"):
        await request.ask("roots/list", {})
