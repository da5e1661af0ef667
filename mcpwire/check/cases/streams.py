"""Event streams: assignment of messages, event ids, and resumption."""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import (
    MODERN,
    Absent,
    Family,
    NoAnswer,
    NotAnswered,
    Start,
    since,
)
from mcpwire.check.cases._calls import BRIEF_S, lasting
from mcpwire.check.cases._http import EVENTS, HTTP, SESSIONS, STREAMABLE, messages_on
from mcpwire.check.roles import arguments_for, call_of

if TYPE_CHECKING:
    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Answer, Message, Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("streams")

_POST: Final = "basic/transports#sending-messages-to-the-server"
_GET: Final = "basic/transports#listening-for-messages-from-the-server"
_SEVERAL: Final = "basic/transports#multiple-connections"
_RESUME: Final = "basic/transports#resumability-and-redelivery"
_MODERN: Final = "basic/transports/streamable-http#receiving-messages"

_REPLAY_S: Final = 2.0  # until a replay, without which a case is absent
AGAIN_S: Final = 5.0  # until a server notices the end of a stream
_LASTING_S: Final = 1.0
_PAUSE_S: Final = 0.2  # until a server notices a closed connection
_POLLED: Final = ("poll", "reconnect", "close_stream", "close-stream")

case = FAMILY.where(revisions=SESSIONS, transports=HTTP)
polled = case.where(revisions=since("2025-11-25", SESSIONS[-1]))


@attrs.frozen
class _Call:
    """A tool call: request id, progress token and HTTP response."""

    id: Any
    token: str
    response: Response


async def _call(
    subject: Subject, role: str = "notify", *, seconds: float = BRIEF_S
) -> _Call:
    """Call the tool of a role with a progress token."""
    params = lasting(subject.need_tool(role), seconds)
    token = f"mcpwire-{subject.next_id()}"
    params["_meta"] = {"progressToken": token}
    id = subject.next_id()
    response = await subject.send(subject.message("tools/call", params, id=id))
    assert response is not None, "these cases run over HTTP"
    return _Call(id, token, response)


async def _answer(subject: Subject, call: _Call) -> Answer:
    """Wait for the answer to a call; raise `Absent` if the tool is too slow."""
    try:
        return await subject.answer(call.id, call.response)
    except NotAnswered:
        raise
    except NoAnswer as found:
        raise Absent(f"tool that is done in time: {found.expected}") from None


def _lively(subject: Subject) -> str:
    """Return the role whose tool most likely gets an event stream as response."""
    return "notify" if "notify" in subject.facts.roles else "slow"


async def _streamed(subject: Subject) -> _Call:
    """Call a tool, wait for its answer; raise `Absent` unless on an event stream."""
    call = await _call(subject, _lively(subject))
    await _answer(subject, call)
    if not call.response.is_stream:
        subject.absent("call that an event stream answers")
    return call


async def _get(subject: Subject, last_event_id: str | None = None) -> Response:
    """Send a GET for a new or resumed stream; wait for the head of the response."""
    fields = {"Accept": EVENTS, "Last-Event-ID": last_event_id}
    return await subject.exchange("GET", fields, complete=False)


async def _listen(subject: Subject, last_event_id: str | None = None) -> Response:
    """Open a stream by GET, or raise `Absent`."""
    response = await _get(subject, last_event_id)
    if not response.is_stream or response.status != 200:
        await subject.need_http().abandon(response)
        subject.absent("stream by GET")
    return response


def _is_progress(message: Message, token: str) -> bool:
    is_one = message.method == "notifications/progress"
    return is_one and message.params.get("progressToken") == token


# --- GET ------------------------------------------------------------------------------


@case.must(
    "LHTTP-15.a",
    "a GET opens an event stream, or is answered with 405",
    source=_GET,
    rules=("LHTTP-01", "LHTTP-14"),
    sends="a GET with Accept: text/event-stream",
    expects="the status 200 and text/event-stream, or the status 405",
    why="clients try again and again, or give the server up",
)
async def get_opens(subject: Subject) -> None:
    other = await subject.another()
    response = await _get(other)
    is_stream = response.status == 200 and response.is_stream
    subject.expect(
        is_stream or response.status == 405,
        "an event stream, or the status 405",
        f"{response.status}, {response.media_type or 'no type'}",
    )


@case.must(
    "LHTTP-16.a",
    "a stream by GET carries no answers",
    source=_GET,
    sends="a GET that opens a stream, then requests and, where there is one, a call",
    expects="their answers elsewhere",
    why="the caller waits for ever for an answer that came somewhere else",
)
async def no_answers_on_get(subject: Subject) -> None:
    other = await subject.another()
    stream = await _listen(other)
    for method in (other.facts.barrier, "tools/list", other.facts.barrier):
        with contextlib.suppress(NoAnswer):
            await other.request(method)
    if other.facts.roles.keys() & {"notify", "slow"}:
        call = await _call(other, _lively(other))
        with contextlib.suppress(Absent, NoAnswer):
            await _answer(other, call)
    got = [each for each in messages_on(other, stream) if each.is_answer]
    subject.expect_none(got, "no answer on this stream")


@case.robust(
    "D07.a",
    "a second stream by GET is served or refused, and ends nothing",
    sends="two GETs at once, and a request",
    expects="a stream or a status from 400 to 499 for the second; an answer",
    why="a client that connects again loses its connection",
)
async def second_get(subject: Subject) -> None:
    other = await subject.another()
    await _listen(other)
    response = await _get(other)
    is_fine = response.is_stream or 400 <= response.status < 500
    subject.expect(is_fine, "a stream or a status from 400 to 499", response.status)
    await other.request(other.facts.barrier)


@case.robust(
    "D07.b",
    "a client may open a broken stream again",
    sends="a GET that opens a stream, its connection closed, and GETs until one opens",
    expects="a stream within 5 s",
    why="after a short loss of the network the client hears nothing for ever",
)
async def get_again(subject: Subject) -> None:
    other = await subject.another()
    http = other.need_http()
    await http.abandon(await _listen(other))
    began = monotonic()
    while True:
        response = await _get(other)
        if response.is_stream:
            return
        if monotonic() - began > AGAIN_S:
            subject.broken("a stream", response.status)
        await asyncio.sleep(_PAUSE_S)


# --- assignment of messages to streams ------------------------------------------------


@case.must(
    "LHTTP-19.a",
    "each message comes on one stream alone",
    source=_SEVERAL,
    needs=("role:notify",),
    sends="GETs that open two streams, and a call that reports its progress",
    expects="each report once",
    why="clients count and show it twice",
)
async def one_stream(subject: Subject) -> None:
    other = await subject.another()
    streams = [await _listen(other)]
    with contextlib.suppress(NoAnswer):
        streams.append(await _get(other))
    call = await _call(other)
    await _answer(other, call)
    await other.barrier()
    reports = [e for e in other.received if _is_progress(e, call.token)]
    if not reports:
        subject.absent("report of progress")
    values = [each.params.get("progress") for each in reports]
    numbers = {each.stream for each in reports}
    is_once = len(set(map(repr, values))) == len(values)
    subject.expect(is_once, "each report once", f"{values} on {len(numbers)} streams")


for id, add, source, revisions in (
    ("LHTTP-11.a", case.should, _POST, SESSIONS),
    ("TR-HTTP-14.a", case.must, _MODERN, MODERN),
):

    async def own_stream(subject: Subject) -> None:
        its = subject if subject.is_modern else await subject.another()
        if not subject.is_modern:
            await _get(its)
        calls = [await _call(its), await _call(its)]
        for call in calls:
            await _answer(its, call)
        for call in calls:
            for message in its.received:
                if _is_progress(message, call.token):
                    is_own = message.stream == call.response.number
                    subject.expect(is_own, "it on its call's stream", message.raw)
        subject.need_judged("report of progress")

    add(
        id,
        "what a call reports comes on the response to that call",
        source=source,
        rules=("LHTTP-17",),
        revisions=revisions,
        needs=("role:notify",),
        sends="two calls at once that report their progress",
        expects="the reports of each on the response to it",
        why="reports reach the wrong caller, or none",
    )(own_stream)


for id, source, revisions in (
    ("LHTTP-09.b", _POST, SESSIONS),
    ("TR-HTTP-16.b", _MODERN, MODERN),
):

    async def own_answer(subject: Subject) -> None:
        calls = [await _call(subject, _lively(subject)) for _ in range(3)]
        for call in calls:
            answer = await _answer(subject, call)
            is_own = answer.message.stream == call.response.number
            has_resumed = call.response.ended.is_set() and not messages_on(
                subject, call.response
            )
            subject.expect(
                is_own or has_resumed, "the answer on its own response", answer
            )

    case.should(
        id,
        "the answer to a request comes on the response to that request",
        source=source,
        revisions=revisions,
        needs=("call:",),
        sends="three calls at once",
        expects="each answer on its own response",
        why="the caller waits for ever for an answer that came somewhere else",
    )(own_answer)


for id, source, revisions in (
    ("LHTTP-09.a", _POST, SESSIONS),
    ("TR-HTTP-16.a", _MODERN, MODERN),
):

    async def ends(subject: Subject) -> None:
        call = await _streamed(subject)
        try:
            await subject.ended(call.response)
        except NoAnswer:
            subject.broken("the end of the stream", "it stays open")

    case.should(
        id,
        "a stream ends after the answer",
        source=source,
        revisions=revisions,
        sends="a call that a stream answers",
        expects="the end of the response after the answer",
        why="each call leaves a connection open",
    )(ends)


# --- event ids and resumption ---------------------------------------------------------


def _ids_of(subject: Subject, *calls: _Call) -> list[str]:
    """Return the event ids of response streams, or raise `Absent`."""
    events = [event for call in calls for event in call.response.events]
    return [e.id for e in events if e.id] or subject.absent("ids of events")


@case.must(
    "LHTTP-20.a",
    "ids of events are unique among all streams of a session",
    source=_RESUME,
    sends="three calls that streams answer",
    expects="different ids",
    why="a client that resumes gets what belongs to another stream",
)
async def unique_ids(subject: Subject) -> None:
    other = await subject.another()
    calls = [await _streamed(other)]
    _ids_of(subject, *calls)  # raises Absent before further calls
    calls += [await _streamed(other) for _ in range(2)]
    ids = _ids_of(subject, *calls)
    twice = sorted({id for id in ids if ids.count(id) > 1})
    subject.expect(not twice, "different ids", f"twice: {twice[:3]}")


def _first_block(text: bytes) -> list[bytes]:
    """Return the lines of the first event of a stream, without comments."""
    for block in text.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [x for x in block.split(b"\n") if x and not x.startswith(b":")]
        if lines:
            return lines
    return []


@polled.should(
    "LHTTP-06.a",
    "a stream begins with an event that has an id and no data",
    source=_POST,
    sends="a call that a stream answers",
    expects="a first event of an id and empty data",
    why="a client that loses the connection early cannot come back for the answer",
)
async def priming(subject: Subject) -> None:
    call = await _streamed(subject)
    lines = _first_block(bytes(call.response.text))
    has_id = any(line.startswith(b"id:") for line in lines)
    data = [line for line in lines if line.startswith(b"data:") and line[5:].strip()]
    is_priming = has_id and not data
    actual = b" / ".join(lines)[:200]
    subject.expect(is_priming, "an event with an id and empty data", actual)


async def _replayed(subject: Subject) -> tuple[_Call, _Call, Response]:
    """Make two calls; resume the stream of the first after its first event."""
    first = await _streamed(subject)
    place = _ids_of(subject, first)[0]
    second = await _streamed(subject)
    stream = await _listen(subject, place)
    await subject.until(
        lambda: stream.ended.is_set() or _has_answer(subject, stream, first.id),
        _REPLAY_S,
    )
    if not messages_on(subject, stream):
        subject.absent("replay of what was sent")
    return first, second, stream


def _has_answer(subject: Subject, stream: Response, id: Any) -> bool:
    return any(
        each.is_answer and each.value.get("id") == id
        for each in messages_on(subject, stream)
    )


@case.must(
    "LHTTP-22.a",
    "a resumed stream has no messages of another one",
    source=_RESUME,
    sends="two calls that streams answer, and a GET that resumes the first",
    expects="messages of the first call alone",
    why="a client gets answers twice, or those of another call",
)
async def replay_of_one(subject: Subject) -> None:
    other = await subject.another()
    first, second, stream = await _replayed(other)
    sent = {each.raw for each in messages_on(other, first.response)}
    foreign = {each.raw for each in messages_on(other, second.response)} - sent
    got = [each for each in messages_on(other, stream) if each.raw in foreign]
    subject.expect_none(got, "nothing of the second call")


@case.robust(
    "D09.a",
    "a resumed stream goes on after the given event, in order and without a gap",
    sends="a call that a stream answers, and a GET that resumes it",
    expects="what followed the event, in the same order",
    why="messages are lost, or seen twice",
)
async def replay_in_order(subject: Subject) -> None:
    other = await subject.another()
    first, _, stream = await _replayed(other)
    events = [event for event in first.response.events if event.id]
    due = [event.data for event in events[1:] if event.data]
    got = [event.data for event in stream.events if event.data]
    subject.expect(got == due, f"{len(due)} events", f"{len(got)} events: {got[:2]}")


@case.must(
    "LHTTP-22.b",
    "the id of an event of another session brings nothing of it",
    source=_RESUME,
    sends="a call in one session, and a GET with its event's id in another",
    expects="nothing of the call",
    why="one user reads the answers of another",
)
async def replay_of_another_session(subject: Subject) -> None:
    mine, foreign = await subject.another(), await subject.another()
    if mine.session_id is None:
        subject.absent("session")
    call = await _streamed(foreign)
    stream = await _get(mine, _ids_of(subject, call)[0])
    if not stream.ended.is_set():
        await mine.barrier()
        await mine.barrier()
    sent = {each.raw for each in messages_on(foreign, call.response)}
    got = [each for each in messages_on(mine, stream) if each.raw in sent]
    subject.expect_none(got, "nothing of it")


@case.robust(
    "D09.b",
    "an unknown event id is refused, or begins a stream without messages",
    sends="GETs with a made-up Last-Event-ID, and one of 4 KiB",
    expects="a status from 400 to 499, or a stream without messages",
    why="the client gets what it has seen, or the server fails",
)
async def unknown_event(subject: Subject) -> None:
    other = await subject.another()
    for id in ("mcpwire-no-such-event", "x" * 4_096):
        stream = await _get(other, id)
        is_fine = stream.is_stream or 400 <= stream.status < 500
        subject.expect(is_fine, "a stream or a status below 500", stream.status)
        if stream.is_stream:
            await other.barrier()
            subject.expect_none(messages_on(other, stream), "no messages")
        await other.need_http().abandon(stream)


@case.should(
    "LHTTP-12.a",
    "a lost connection cancels nothing",
    source=_POST,
    needs=("role:slow",),
    is_quick=False,
    sends="a call that takes a while; its connection closed; a GET that resumes it",
    expects="the answer on the resumed stream",
    why="a short loss of the network costs the work and its result",
)
async def not_cancelled(subject: Subject) -> None:
    other = await subject.another()
    call = await _call(other, "slow", seconds=_LASTING_S)
    response = call.response
    await other.until(
        lambda: response.last_event_id or response.ended.is_set(), _LASTING_S
    )
    if response.ended.is_set() or not response.last_event_id:
        subject.absent("id of an event before the answer")
    await other.need_http().abandon(response)
    await asyncio.sleep(max(_PAUSE_S, (response.retry_ms or 0) / 1000))
    for _ in range(2):  # a server may deliver lost messages only on the next stream
        stream = await _listen(other, response.last_event_id)
        with contextlib.suppress(NoAnswer):
            await other.answer(call.id, stream, timeout=2 * _LASTING_S)
            return
        await other.need_http().abandon(stream)
    subject.broken("the answer", "no answer on streams that were resumed")


async def _polled(subject: Subject) -> _Call:
    """Make a call whose stream ends before the answer; resume until the answer."""
    for tool in subject.facts.callable_tools:
        is_one = any(word in tool["name"].lower() for word in _POLLED)
        if not is_one or arguments_for(tool) is None:
            continue
        id = subject.next_id()
        message = subject.message("tools/call", call_of(tool), id=id)
        response = await subject.send(message)
        assert response is not None, "these cases run over HTTP"
        await subject.answer(id, response)
        if response.is_stream and not _has_answer(subject, response, id):
            return _Call(id, "", response)
    raise Absent("tool with a stream that ends before the answer")


@polled.should(
    "LHTTP-07.a",
    "a stream that ends early says before when to come back",
    source=_POST,
    needs=("call:",),
    sends="a call with a stream that ends before the answer",
    expects="an event with retry before the end",
    why="all clients come back at once, or never",
)
async def retry(subject: Subject) -> None:
    call = await _polled(subject)
    has_retry = call.response.retry_ms is not None
    subject.expect(has_retry, "a retry field", bytes(call.response.text))


@polled.robust(
    "D10.a",
    "an answer that a client comes back for comes once",
    needs=("call:",),
    sends="a call with a stream that ends before the answer, and GETs that resume it",
    expects="one answer",
    why="the client takes the second answer for one that nobody asked for",
)
async def polled_once(subject: Subject) -> None:
    call = await _polled(subject)
    await subject.barrier()
    subject.expect_one_answer(call.id)


# --- format of streams ----------------------------------------------------------------


@case.robust(
    "D16.a",
    "event streams are well-formed",
    revisions=STREAMABLE,
    sends="a call that a stream answers",
    expects="UTF-8, the fields data, event, id and retry alone, events named message",
    why="clients with a strict reader lose events, and browsers those of other names",
)
async def well_formed(subject: Subject) -> None:
    call = await _streamed(subject)
    text = bytes(call.response.text)
    try:
        lines = text.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        subject.broken("UTF-8", str(error))
    for line in lines:
        name, _, value = line.partition(":")
        is_known = name in {"", "data", "event", "id", "retry"}
        is_named = name != "event" or value.strip() == "message"
        subject.expect(is_known and is_named, "fields of an event stream", line)


@case.robust(
    "D16.b",
    "event streams are not to be cached",
    revisions=STREAMABLE,
    sends="a call that a stream answers",
    expects="Cache-Control with no-cache or no-store",
    why="a cache in between keeps the stream back, or gives it to others",
)
async def not_cached(subject: Subject) -> None:
    call = await _streamed(subject)
    got = call.response.fields.get("cache-control", "")
    is_fine = "no-cache" in got or "no-store" in got
    subject.expect(is_fine, "Cache-Control: no-cache", got or "no Cache-Control")


@case.should(
    "TR-HTTP-18.a",
    "event streams ask proxies not to hold them back",
    source=_MODERN,
    revisions=MODERN,
    sends="a call that a stream answers",
    expects="X-Accel-Buffering: no",
    why="behind nginx, reports come with the answer, and late",
)
async def not_buffered(subject: Subject) -> None:
    call = await _streamed(subject)
    got = call.response.fields.get("x-accel-buffering", "")
    actual = got or "no X-Accel-Buffering"
    subject.expect(got.lower() == "no", "X-Accel-Buffering: no", actual)


@case.must(
    "TR-HTTP-15.a",
    "the server sends no requests on any stream",
    source=_MODERN,
    revisions=MODERN,
    start=Start.LAST,
    sends="nothing by itself: it looks at all messages of the connection",
    expects="answers and notifications alone",
    why="clients of this revision have no way to answer, and the call hangs",
)
async def no_requests(subject: Subject) -> None:
    got = [e for e in subject.received if e.method is not None and "id" in e.value]
    subject.expect_none(got, "no request of the server")
