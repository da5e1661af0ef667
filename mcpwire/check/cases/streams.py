"""Event streams: assignment of messages, event ids, and resumption."""

from __future__ import annotations

import asyncio
import contextlib
import re
from codecs import BOM_UTF8
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import (
    MODERN,
    Absent,
    EndedWithoutAnswer,
    Family,
    NoAnswer,
    Start,
    since,
)
from mcpwire.check.cases._calls import SHORT_CALL_S, params_with_duration
from mcpwire.check.cases._http import EVENTS, HTTP, SESSIONS, STREAMABLE, messages_on
from mcpwire.check.roles import arguments_for, call_params

if TYPE_CHECKING:
    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Answer, Message, Subject

FAMILY: Final = Family("streams")

_POST: Final = "basic/transports#sending-messages-to-the-server"
_GET: Final = "basic/transports#listening-for-messages-from-the-server"
_SEVERAL: Final = "basic/transports#multiple-connections"
_RESUME: Final = "basic/transports#resumability-and-redelivery"
_MODERN: Final = "basic/transports/streamable-http#receiving-messages"

_REPLAY_TIMEOUT_S: Final = 2.0  # until a replay, without which a case is absent
REOPEN_TIMEOUT_S: Final = 5.0  # until a server notices the end of a stream
_SLOW_CALL_S: Final = 1.0
_PAUSE_S: Final = 0.2  # until a server notices a closed connection
_POLLING_WORDS: Final = ("poll", "reconnect", "close_stream", "close-stream")

case = FAMILY.with_defaults(revisions=SESSIONS, transports=HTTP)
polling = case.with_defaults(revisions=since("2025-11-25", SESSIONS[-1]))


@attrs.frozen
class _Call:
    """A tool call: request id, progress token and HTTP response."""

    id: Any
    token: str
    response: Response


async def _start_call(
    subject: Subject, role: str = "notify", *, seconds: float = SHORT_CALL_S
) -> _Call:
    """Call the tool of a role with a progress token."""
    params = params_with_duration(subject.need_tool(role), seconds)
    token = f"mcpwire-{subject.next_id()}"
    params["_meta"] = {"progressToken": token}
    id = subject.next_id()
    response = await subject.send(subject.message("tools/call", params, id=id))
    assert response is not None, "these cases run over HTTP"
    return _Call(id, token, response)


async def _wait_for_answer(subject: Subject, call: _Call) -> Answer:
    """Wait for the answer to a call; raise `Absent` if the tool is too slow."""
    try:
        return await subject.wait_answer(call.id, call.response)
    except EndedWithoutAnswer:
        raise
    except NoAnswer as error:
        raise Absent(f"tool that ends in time: {error.expected}") from None


def _streaming_role(subject: Subject) -> str:
    """Return the role of the tool that most likely gets an event stream as response."""
    return "notify" if "notify" in subject.facts.roles else "slow"


async def _call_on_stream(subject: Subject) -> _Call:
    """Call a tool, wait for its answer; raise `Absent` unless on an event stream."""
    call = await _start_call(subject, _streaming_role(subject))
    await _wait_for_answer(subject, call)
    if not call.response.is_stream:
        subject.raise_absent("call that is answered by an event stream")
    return call


async def _send_get(subject: Subject, last_event_id: str | None = None) -> Response:
    """Send a GET for a new or resumed stream; wait for the head of the response."""
    fields = {"Accept": EVENTS, "Last-Event-ID": last_event_id}
    return await subject.exchange("GET", fields, complete=False)


async def _open_stream(subject: Subject, last_event_id: str | None = None) -> Response:
    """Open a stream by GET, or raise `Absent`."""
    response = await _send_get(subject, last_event_id)
    if not response.is_stream or response.status != 200:
        await subject.need_http().close_exchange(response)
        subject.raise_absent("GET stream")
    return response


def _is_progress(message: Message, token: str) -> bool:
    is_progress = message.method == "notifications/progress"
    return is_progress and message.params.get("progressToken") == token


# --- GET ------------------------------------------------------------------------------


@case.must(
    "LHTTP-15.a",
    "a GET opens an event stream, or is answered with 405",
    source=_GET,
    rules=("LHTTP-01", "LHTTP-14"),
    sends="a GET with Accept: text/event-stream",
    expects="the status 200 and text/event-stream, or the status 405",
    why="clients retry forever, or give up",
)
async def get_opens(subject: Subject) -> None:
    other = await subject.open_another()
    response = await _send_get(other)
    is_stream = response.status == 200 and response.is_stream
    subject.expect(
        is_stream or response.status == 405,
        "an event stream, or the status 405",
        f"{response.status}, {response.media_type or 'no type'}",
    )


@case.must(
    "LHTTP-16.a",
    "a GET stream carries no answers",
    source=_GET,
    sends="a GET that opens a stream, then requests and, if there is a `notify` or "
    "`slow` tool, a call",
    expects="no answers on the GET stream",
    why="the caller waits forever: its answer is on another stream",
)
async def no_answers_on_get(subject: Subject) -> None:
    other = await subject.open_another()
    stream = await _open_stream(other)
    for method in (other.facts.barrier, "tools/list", other.facts.barrier):
        with contextlib.suppress(NoAnswer):
            await other.request(method)
    if other.facts.roles.keys() & {"notify", "slow"}:
        call = await _start_call(other, _streaming_role(other))
        with contextlib.suppress(Absent, NoAnswer):
            await _wait_for_answer(other, call)
    got = [each for each in messages_on(other, stream) if each.is_answer]
    subject.expect_none(got, "no answer on the GET stream")


@case.robust(
    "D07.a",
    "a second GET stream is opened or refused",
    sends="two GETs, the second while the first is still open, then a request",
    expects="a stream or a status from 400 to 499 for the second GET, and an answer to "
    "the request",
    why="a client that reconnects loses its connection",
)
async def second_get(subject: Subject) -> None:
    other = await subject.open_another()
    await _open_stream(other)
    response = await _send_get(other)
    is_fine = response.is_stream or 400 <= response.status < 500
    subject.expect(is_fine, "a stream or a status from 400 to 499", response.status)
    await other.request(other.facts.barrier)


@case.robust(
    "D07.b",
    "a client can reopen a broken GET stream",
    sends="a GET stream that the client closes, then GETs until one opens a stream",
    expects="a stream within 5 s",
    why="after a network failure the client gets no more notifications",
)
async def reopened_get(subject: Subject) -> None:
    other = await subject.open_another()
    http = other.need_http()
    await http.close_exchange(await _open_stream(other))
    began = monotonic()
    while True:
        response = await _send_get(other)
        if response.is_stream:
            return
        if monotonic() - began > REOPEN_TIMEOUT_S:
            subject.raise_broken("a stream", response.status)
        await asyncio.sleep(_PAUSE_S)


# --- assignment of messages to streams ------------------------------------------------


@case.must(
    "LHTTP-19.a",
    "each message is sent on one stream only",
    source=_SEVERAL,
    needs=("role:notify",),
    sends="GETs that open two streams, and a call that reports its progress",
    expects="each progress notification once",
    why="clients process messages twice",
)
async def one_stream(subject: Subject) -> None:
    other = await subject.open_another()
    streams = [await _open_stream(other)]
    with contextlib.suppress(NoAnswer):
        streams.append(await _send_get(other))
    call = await _start_call(other)
    await _wait_for_answer(other, call)
    await other.barrier()
    reports = [e for e in other.received if _is_progress(e, call.token)]
    if not reports:
        subject.raise_absent("progress notification")
    values = [each.params.get("progress") for each in reports]
    numbers = {each.stream for each in reports}
    is_once = len(set(map(repr, values))) == len(values)
    subject.expect(is_once, "each value once", f"{values} on {len(numbers)} streams")


for id, add, source, revisions in (
    ("LHTTP-11.a", case.should, _POST, SESSIONS),
    ("TR-HTTP-14.a", case.must, _MODERN, MODERN),
):

    async def own_stream(subject: Subject) -> None:
        connection = subject if subject.is_modern else await subject.open_another()
        if not subject.is_modern:
            await _send_get(connection)
        calls = [await _start_call(connection), await _start_call(connection)]
        for call in calls:
            await _wait_for_answer(connection, call)
        for call in calls:
            for message in connection.received:
                if _is_progress(message, call.token):
                    is_own = message.stream == call.response.number
                    subject.expect(is_own, "progress on the call's stream", message.raw)
        subject.need_expectation("progress notification")

    add(
        id,
        "progress of a call is sent on the response to that call",
        source=source,
        rules=("LHTTP-17",),
        revisions=revisions,
        needs=("role:notify",),
        sends="two concurrent calls that report their progress",
        expects="the progress notifications of each call on its own response",
        why="progress reaches the wrong caller, or none",
    )(own_stream)


for id, source, revisions in (
    ("LHTTP-09.b", _POST, SESSIONS),
    ("TR-HTTP-16.b", _MODERN, MODERN),
):

    async def own_answer(subject: Subject) -> None:
        calls = [await _start_call(subject, _streaming_role(subject)) for _ in range(3)]
        for call in calls:
            answer = await _wait_for_answer(subject, call)
            is_own = answer.message.stream == call.response.number
            has_resumed = call.response.ended.is_set() and not messages_on(
                subject, call.response
            )
            subject.expect(
                is_own or has_resumed, "the answer on its own response", answer
            )

    case.should(
        id,
        "the answer to a request is sent on the response to that request",
        source=source,
        revisions=revisions,
        needs=("call:",),
        sends="three concurrent calls",
        expects="each answer on its own response",
        why="the caller waits forever: its answer is on another stream",
    )(own_answer)


for id, source, revisions in (
    ("LHTTP-09.a", _POST, SESSIONS),
    ("TR-HTTP-16.a", _MODERN, MODERN),
):

    async def stream_ends(subject: Subject) -> None:
        call = await _call_on_stream(subject)
        try:
            await subject.wait_ended(call.response)
        except NoAnswer:
            subject.raise_broken("the end of the stream", "it stays open")

    case.should(
        id,
        "a stream ends after the answer",
        source=source,
        revisions=revisions,
        sends="a call that is answered by an event stream",
        expects="the end of the response after the answer",
        why="each call leaves a connection open",
    )(stream_ends)


# --- event ids and resumption ---------------------------------------------------------


def _event_ids(subject: Subject, *calls: _Call) -> list[str]:
    """Return the event ids of response streams, or raise `Absent`."""
    events = [event for call in calls for event in call.response.events]
    return [e.id for e in events if e.id] or subject.raise_absent("event ids")


@case.must(
    "LHTTP-20.a",
    "event ids are unique across the streams of a session",
    source=_RESUME,
    sends="three calls that are answered by event streams",
    expects="different ids",
    why="a client that resumes gets messages of another stream",
)
async def unique_ids(subject: Subject) -> None:
    other = await subject.open_another()
    calls = [await _call_on_stream(other)]
    _event_ids(subject, *calls)  # raises Absent before further calls
    calls += [await _call_on_stream(other) for _ in range(2)]
    ids = _event_ids(subject, *calls)
    duplicates = sorted({id for id in ids if ids.count(id) > 1})
    subject.expect(not duplicates, "different ids", f"twice: {duplicates[:3]}")


def _stream_lines(response: Response) -> list[bytes]:
    """Return the complete lines of an event stream, as far as it was recorded."""
    text = bytes(response.text).removeprefix(BOM_UTF8)
    return re.split(rb"\r\n?|\n", text)[:-1]


def _first_block(response: Response) -> list[bytes]:
    """Return the lines of the first event of a stream, without comments."""
    block: list[bytes] = []
    for line in _stream_lines(response):
        if line and not line.startswith(b":"):
            block.append(line)
        elif block and not line:
            break
    return block


@polling.should(
    "LHTTP-06.a",
    "a stream begins with an event that has an id and no data",
    source=_POST,
    sends="a call that is answered by an event stream",
    expects="a first event with an id and empty data",
    why="a client that loses the connection early cannot resume",
)
async def priming(subject: Subject) -> None:
    call = await _call_on_stream(subject)
    lines = _first_block(call.response)
    has_id = any(line.startswith(b"id:") for line in lines)
    data = [line for line in lines if line.startswith(b"data:") and line[5:].strip()]
    is_priming = has_id and not data
    actual = b" / ".join(lines)[:200]
    subject.expect(is_priming, "an event with an id and empty data", actual)


async def _resume_first_call(subject: Subject) -> tuple[_Call, _Call, Response]:
    """Make two calls; resume the stream of the first after its first event."""
    first = await _call_on_stream(subject)
    event_id = _event_ids(subject, first)[0]
    second = await _call_on_stream(subject)
    stream = await _open_stream(subject, event_id)
    await subject.wait_until(
        lambda: stream.ended.is_set() or _has_answer(subject, stream, first.id),
        _REPLAY_TIMEOUT_S,
    )
    if not messages_on(subject, stream):
        subject.raise_absent("replay of events")
    return first, second, stream


def _has_answer(subject: Subject, stream: Response, id: Any) -> bool:
    return any(
        each.is_answer and each.value.get("id") == id
        for each in messages_on(subject, stream)
    )


@case.must(
    "LHTTP-22.a",
    "a resumed stream has no messages of another stream",
    source=_RESUME,
    sends="two calls that are answered by event streams, and a GET that resumes one",
    expects="no messages of the other",
    why="a client gets answers twice, or those of another call",
)
async def replay_of_one(subject: Subject) -> None:
    other = await subject.open_another()
    first, second, stream = await _resume_first_call(other)
    first_raw = {each.raw for each in messages_on(other, first.response)}
    second_raw = {each.raw for each in messages_on(other, second.response)} - first_raw
    got = [each for each in messages_on(other, stream) if each.raw in second_raw]
    subject.expect_none(got, "no message of the second call")


@case.robust(
    "D09.a",
    "a resumed stream continues after the given event, in order and without a gap",
    sends="a call that is answered by an event stream, and a GET that resumes it",
    expects="all events after the given one, in the same order",
    why="messages are lost or duplicated",
)
async def replay_in_order(subject: Subject) -> None:
    other = await subject.open_another()
    first, _, stream = await _resume_first_call(other)
    events = [event for event in first.response.events if event.id]
    expected = [event.data for event in events[1:] if event.data]
    got = [event.data for event in stream.events if event.data]
    subject.expect(
        got == expected, f"{len(expected)} events", f"{len(got)} events: {got[:2]}"
    )


@case.must(
    "LHTTP-22.b",
    "an event id of another session does not replay its events",
    source=_RESUME,
    sends="a call in one session, and a GET with its event id in another",
    expects="no message of the call",
    why="one user can read the answers of another",
)
async def replay_of_another_session(subject: Subject) -> None:
    reader, owner = await subject.open_another(), await subject.open_another()
    if reader.session_id is None:
        subject.raise_absent("session")
    call = await _call_on_stream(owner)
    stream = await _send_get(reader, _event_ids(subject, call)[0])
    if not stream.ended.is_set():
        await reader.barrier()
        await reader.barrier()
    sent = {each.raw for each in messages_on(owner, call.response)}
    got = [each for each in messages_on(reader, stream) if each.raw in sent]
    subject.expect_none(got, "no message of the other session")


@case.robust(
    "D09.b",
    "an unknown event id is refused, or opens a stream without messages",
    sends="GETs with an unknown Last-Event-ID, and with one of 4 KiB",
    expects="a status from 400 to 499, or a stream without messages",
    why="the client gets old messages again, or the server fails",
)
async def unknown_event(subject: Subject) -> None:
    other = await subject.open_another()
    for id in ("mcpwire-no-such-event", "x" * 4_096):
        stream = await _send_get(other, id)
        is_fine = stream.is_stream or 400 <= stream.status < 500
        subject.expect(is_fine, "a stream or a status from 400 to 499", stream.status)
        if stream.is_stream:
            await other.barrier()
            subject.expect_none(messages_on(other, stream), "no messages")
        await other.need_http().close_exchange(stream)


@case.should(
    "LHTTP-12.a",
    "a lost connection does not cancel the call",
    source=_POST,
    needs=("role:slow",),
    is_quick=False,
    sends="a slow call, its connection closed, then a GET that resumes it",
    expects="the answer on the resumed stream",
    why="a network failure loses the result of the call",
)
async def lost_connection(subject: Subject) -> None:
    other = await subject.open_another()
    call = await _start_call(other, "slow", seconds=_SLOW_CALL_S)
    response = call.response
    await other.wait_until(
        lambda: response.last_event_id or response.ended.is_set(), _SLOW_CALL_S
    )
    if response.ended.is_set() or not response.last_event_id:
        subject.raise_absent("event id before the answer")
    await other.need_http().close_exchange(response)
    await asyncio.sleep(max(_PAUSE_S, (response.retry_ms or 0) / 1000))
    for _ in range(2):  # a server may deliver lost messages only on the next stream
        stream = await _open_stream(other, response.last_event_id)
        with contextlib.suppress(NoAnswer):
            await other.wait_answer(call.id, stream, timeout=2 * _SLOW_CALL_S)
            return
        await other.need_http().close_exchange(stream)
    subject.raise_broken("the answer", "no answer on resumed streams")


async def _call_polling_tool(subject: Subject) -> _Call:
    """Make a call, on a stream that ends before the answer; resume until the answer."""
    for tool in subject.facts.callable_tools:
        is_polling = any(word in tool["name"].lower() for word in _POLLING_WORDS)
        if not is_polling or arguments_for(tool) is None:
            continue
        id = subject.next_id()
        message = subject.message("tools/call", call_params(tool), id=id)
        response = await subject.send(message)
        assert response is not None, "these cases run over HTTP"
        await subject.wait_answer(id, response)
        if response.is_stream and not _has_answer(subject, response, id):
            return _Call(id, "", response)
    raise Absent("tool with a stream that ends before the answer")


@polling.should(
    "LHTTP-07.a",
    "a stream that ends before the answer sends a reconnection time first",
    source=_POST,
    needs=("call:",),
    sends="a call with a stream that ends before the answer",
    expects="an event with retry before the end",
    why="all clients reconnect at once, or never",
)
async def retry_time(subject: Subject) -> None:
    call = await _call_polling_tool(subject)
    has_retry = call.response.retry_ms is not None
    subject.expect(has_retry, "a retry field", bytes(call.response.text))


@polling.robust(
    "D10.a",
    "the answer on a resumed stream is sent once",
    needs=("call:",),
    sends="a call with a stream that ends before the answer, and GETs that resume it",
    expects="one answer",
    why="the second answer matches no request of the client",
)
async def answered_once(subject: Subject) -> None:
    call = await _call_polling_tool(subject)
    await subject.barrier()
    subject.expect_one_answer(call.id)


# --- format of streams ----------------------------------------------------------------


@case.robust(
    "D16.a",
    "event streams are well-formed",
    revisions=STREAMABLE,
    sends="a call that is answered by an event stream",
    expects="UTF-8; only the fields data, event, id and retry; only events named "
    "message",
    why="strict clients lose events, and browsers ignore events with other names",
)
async def well_formed(subject: Subject) -> None:
    call = await _call_on_stream(subject)
    for data in _stream_lines(call.response):
        try:
            line = data.decode("utf-8")
        except UnicodeDecodeError as error:
            subject.raise_broken("UTF-8", str(error))
        name, _, value = line.partition(":")
        is_known = name in {"", "data", "event", "id", "retry"}
        is_named = name != "event" or value.strip() == "message"
        subject.expect(is_known and is_named, "fields of message events", line)


@case.robust(
    "D16.b",
    "event streams are not cacheable",
    revisions=STREAMABLE,
    sends="a call that is answered by an event stream",
    expects="Cache-Control with no-cache or no-store",
    why="a cache delays the stream, or serves it to others",
)
async def not_cacheable(subject: Subject) -> None:
    call = await _call_on_stream(subject)
    value = call.response.fields.get("cache-control", "")
    is_disabled = "no-cache" in value or "no-store" in value
    subject.expect(is_disabled, "Cache-Control: no-cache", value or "no Cache-Control")


@case.should(
    "TR-HTTP-18.a",
    "event streams turn off buffering in proxies",
    source=_MODERN,
    revisions=MODERN,
    sends="a call that is answered by an event stream",
    expects="X-Accel-Buffering: no",
    why="behind nginx, progress arrives only with the answer",
)
async def not_buffered(subject: Subject) -> None:
    call = await _call_on_stream(subject)
    value = call.response.fields.get("x-accel-buffering", "")
    actual = value or "no X-Accel-Buffering"
    subject.expect(value.lower() == "no", "X-Accel-Buffering: no", actual)


@case.must(
    "TR-HTTP-15.a",
    "the server sends no requests on any stream",
    source=_MODERN,
    revisions=MODERN,
    start=Start.LAST,
    sends="nothing; checks all messages of the connection",
    expects="answers and notifications only",
    why="clients of this revision cannot answer, and the call hangs",
)
async def no_requests(subject: Subject) -> None:
    requests = [e for e in subject.received if e.method is not None and "id" in e.value]
    subject.expect_none(requests, "no request of the server")
