"""Event streams: reading and resuming them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from codecs import BOM_UTF8
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Broken, Family, NoAnswer, Start, since
from mcpwire.check.cases._http import EVENTS, HTTP, SESSIONS, STREAMABLE
from mcpwire.check.clients.cases._forms import observed_case, undisturbed_case
from mcpwire.check.clients.cases._http import (
    add_ending_case,
    answer_first,
    find_field,
    http_request,
    later_requests,
    respond_to,
    run_patiently,
    send_as_event,
    wait_longer,
)
from mcpwire.check.clients.http import event
from mcpwire.check.clients.subject import Exchange
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.check.clients.cases._http import Respond
    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject

FAMILY: Final = Family("streams", defaults={"role": "client"})

case = FAMILY.with_defaults(transports=HTTP, revisions=STREAMABLE)
once = case.with_defaults(is_once=True)
session = case.with_defaults(revisions=SESSIONS)
polling = case.with_defaults(revisions=since("2025-11-25", SESSIONS[-1]))

_POST: Final = "basic/transports#sending-messages-to-the-server"
_GET: Final = "basic/transports#listening-for-messages-from-the-server"
_RESUME: Final = "basic/transports#resumability-and-redelivery"
_LAST_ID: Final = "last-event-id"
_LARGE_BYTES: Final = 8 * 1024**2
_RETRY_MS: Final = 500
_SHORT_RETRY_MS: Final = 10
_TIMER_TOLERANCE: Final = 0.95
_STORM: Final = 30
_STORM_S: Final = 2.0


# --- forms of events ------------------------------------------------------------------


def _send_all_as(
    form: Callable[[bytes], Iterable[bytes]],
) -> Callable[[ClientSubject], None]:
    """Return a change: each result is an event stream, sent in these pieces."""

    async def send(exchange: Exchange, message: Any) -> None:
        message["result"].setdefault("_meta", {})["check/text"] = "é☃😀"
        http = http_request(exchange)
        await http.start_stream(exchange.client.response_fields(exchange.message))
        for piece in form(encode(message)):
            await http.write(piece)
        await http.end()

    def change(client: ClientSubject) -> None:
        client.send_result = send

    return change


_TYPE: Final = b"event: message\n"


def _several_lines(data: bytes) -> list[bytes]:
    lines = json.dumps(loads(data), indent=1, ensure_ascii=False).splitlines()
    return [_TYPE, *(f"data: {line}\n".encode() for line in lines), b"\n"]


def _with_crlf(data: bytes) -> bytes:
    return b"event: message\r\ndata: %s\r\n\r\n" % data


_OTHER_FIELDS: Final = b"unknown: 1\nnothing\nid: a\0b\nretry: soon\n"

for id, sends, form in (
    ("TR-HTTP-13.a", "LF as the end of lines", lambda d: [_TYPE, b"data: %s\n\n" % d]),
    ("TR-HTTP-13.b", "CRLF as the end of lines", lambda d: [_with_crlf(d)]),
    (
        "TR-HTTP-13.c",
        "CR as the end of lines",
        lambda d: [b"event: message\rdata: %s\r\r:\r" % d],
    ),
    ("TR-HTTP-13.d", "one message in several data lines", _several_lines),
    (
        "TR-HTTP-13.e",
        "no space after the colon",
        lambda d: [b"event:message\ndata:%s\n\n" % d],
    ),
    (
        "TR-HTTP-13.f",
        "unknown fields, an id with NUL, and a retry that is not a number",
        lambda d: [_TYPE, b"%sdata: %s\n\n" % (_OTHER_FIELDS, d)],
    ),
    (
        "TR-HTTP-13.g",
        "CRLF in chunks of one octet",
        lambda d: (bytes([octet]) for octet in _with_crlf(d)),
    ),
    ("TR-HTTP-13.h", "no event type", lambda d: [b"data: %s\n\n" % d]),
    (
        "TR-HTTP-20.a",
        "comments",
        lambda d: [b": ping\n\n:\n: {}\n", _TYPE, b"data: %s\n: end\n\n:\n\n" % d],
    ),
):
    undisturbed_case(
        once.must,
        f"C-{id}",
        f"a client reads event streams with {sends}",
        source=_POST,
        rules=("LHTTP-05",),
        sends=f"each result as an event stream with {sends}",
        why="the call never gets the answer of a correct server",
    )(_send_all_as(form))

undisturbed_case(
    once.robust,
    "C-F30.a",
    "a client ignores events of other types",
    sends="each result after an event of the type ping with the data {}",
    why="servers and proxies keep connections open with such events",
)(
    _send_all_as(
        lambda d: [b"event: ping\ndata: {}\n\n", b"event: message\ndata: %s\n\n" % d]
    )
)


undisturbed_case(
    once.robust,
    "C-F30.c",
    "a client ignores a byte order mark at the start of an event stream",
    sends="each result as an event stream that begins with a byte order mark",
    why="some servers write it before each UTF-8 text",
)(_send_all_as(lambda d: [BOM_UTF8, b"data: %s\n\n" % d]))


@undisturbed_case(
    once.robust,
    "C-F30.b",
    "a client reads an event of 8 MiB",
    is_quick=False,
    sends="one result with 8 MiB in its `_meta`",
    why="results with images or files are as large",
)
def _large_event(client: ClientSubject) -> None:
    async def send(exchange: Exchange, message: Any) -> None:
        if exchange.message.method == "initialize":
            fields = client.response_fields(exchange.message)
            await http_request(exchange).respond(200, message, fields)
            return
        message["result"].setdefault("_meta", {})["check/padding"] = "x" * _LARGE_BYTES
        client.send_result = None
        await send_as_event(exchange, message)

    client.send_result = send


def _start_with(*lead: bytes) -> Callable[[ClientSubject], None]:
    return _send_all_as(lambda data: [*lead, _TYPE, b"data: %s\n\n" % data])


undisturbed_case(
    polling.must,
    "C-LHTTP-06.a",
    "a client accepts an event with an id and empty data before the answer",
    source=_POST,
    sends="each result after events with an id and empty data",
    why="servers of this revision send it first, so that clients can resume",
)(_start_with(b"id: 1\ndata:\n\n", b"id: 2\ndata: \n\n"))

_LOG: Final = {"level": "info", "data": "working"}
_NOTE: Final = {"jsonrpc": "2.0", "method": "notifications/message", "params": _LOG}

undisturbed_case(
    session.must,
    "C-LHTTP-11.a",
    "a client accepts notifications before the answer on its event stream",
    source=_POST,
    sends="each result after two log messages on its event stream",
    why="servers log and report progress during a call",
)(_start_with(_TYPE, event(_NOTE), _TYPE, event(_NOTE)))


# --- streams that end early -----------------------------------------------------------


async def _end_early(http: HttpRequest) -> None:
    await http.start_stream()
    await http.write(b": working\n\n")
    await http.end()


add_ending_case(
    case.robust,
    "C-F31.a",
    "a client survives the end of an event stream without ids and without the answer",
    sends="an event stream without an event to the first request after the handshake "
    "and its repetitions",
    respond=_end_early,
    why="the call waits for ever, or is repeated for ever",
)


modern = case.with_defaults(revisions=MODERN, start=Start.OWN)
_BROKEN: Final = "an event stream that has an event id, and ends before the answer"


async def _break_first(client: ClientSubject) -> tuple[str, list[Any]]:
    """Run the client; return the method of a broken stream, and the ids of requests."""
    ids: list[Any] = []

    async def respond(http: HttpRequest) -> None:
        ids.append(loads(http.body)["id"])
        if len(ids) == 1:
            await http.start_stream()
            await http.write(b"id: 1\nretry: 10\n: working\n\n")
            await http.end()

    return await answer_first(client, respond), ids


@modern.must(
    "C-TR-HTTP-22.a",
    "a request whose event stream broke off is repeated with a new id",
    source="changelog#major-changes",
    sends=_BROKEN,
    expects="no repetition with the same id",
    why="the id belongs to the lost request",
)
async def new_id(client: ClientSubject) -> None:
    method, ids = await _break_first(client)
    assert client.facts.run is not None, "the survey is over"
    usual = [message.value.get("id") for message in client.facts.run.sent(method)]
    if len(ids) <= len(usual):
        client.raise_absent("repetition of a request")
    if ids.count(ids[0]) > max(1, usual.count(ids[0])):
        client.raise_broken("a new id", f"the id {ids[0]} again")


@modern.robust(
    "C-F31.b",
    "a client does not resume event streams of the stateless revisions",
    rules=("TR-HTTP-21",),
    sends=_BROKEN,
    expects="no Last-Event-ID",
    why="servers of these revisions refuse GET",
)
async def no_resumption(client: ClientSubject) -> None:
    await _break_first(client)
    if problem := find_field(
        client.requests, _LAST_ID, lambda r: not r.values(_LAST_ID)
    ):
        client.raise_broken("no Last-Event-ID", problem)


class _Polls:
    """A server that ends the event stream of the first request, to be resumed.

    Attributes:
        client: The client under test.
        parts: What each resumed stream sends before it ends; then comes the answer.
        ids: The Last-Event-ID of each resumption.
        seconds: The time from the end of the first stream to the first resumption.
    """

    def __init__(self, client: ClientSubject, retry_ms: int, *parts: bytes) -> None:
        self.client = client
        self.parts = list(parts)
        self.ids: list[str] = []
        self.seconds = 0.0
        self._lead = b"id: part-1\nretry: %d\ndata:\n\n" % retry_ms
        client.first = self._begin
        client.on_http = self._on_http

    async def _begin(self, exchange: Exchange) -> None:
        self._exchange = exchange
        http = http_request(exchange)
        await http.start_stream()
        await http.write(self._lead)
        self._ended_at = monotonic()
        await http.end()

    async def _on_http(self, request: HttpRequest) -> bool:
        id = request.value(_LAST_ID)
        if request.method != "GET" or id is None:
            return False
        if not self.ids:
            self.seconds = monotonic() - self._ended_at
        self.ids.append(id)
        if self.parts:
            await request.start_stream()
            await request.write(self.parts.pop(0))
            await request.end()
        else:
            self._exchange.http = request
            await request.start_stream()
            await self._exchange.correct()
        return True

    async def run(self, *ids: str) -> None:
        """Run the client; raise `Broken` unless it resumes with these ids."""
        expected = (
            f"GET with Last-Event-ID: {', then '.join(ids)}; then the end as usual"
        )
        end = ""
        try:
            await self.client.run_undisturbed(expected)
        except (Broken, NoAnswer) as finding:
            end = finding.actual
        if end or self.ids != list(ids):
            found = ", then ".join(self.ids) or "no GET with Last-Event-ID"
            self.client.raise_broken(expected, f"{found}; {end or self.client.ending}")


@polling.should(
    "C-LHTTP-21.a",
    "a client resumes an event stream with Last-Event-ID, and gets its answer there",
    source=_RESUME,
    rules=("LHTTP-08",),
    start=Start.OWN,
    sends="an event id, then the end of the stream of a request; the answer on GET",
    expects="a GET with the event id, and the end of the client as usual",
    why="servers end streams of long calls, and the answer is lost",
)
async def resume(client: ClientSubject) -> None:
    await _Polls(client, _SHORT_RETRY_MS).run("part-1")


@polling.robust(
    "C-F32.a",
    "a client resumes with the newest event id of its stream",
    start=Start.OWN,
    sends="a stream that ends early three times: with the id part-1, then with part-2, "
    "then without an event",
    expects="Last-Event-ID: part-1, then twice part-2, and the answer is accepted",
    why="messages are lost or come twice, and long calls fail",
)
async def resume_again(client: ClientSubject) -> None:
    polls = _Polls(client, _SHORT_RETRY_MS, b"id: part-2\ndata:\n\n", b":\n\n")
    await polls.run("part-1", "part-2", "part-2")


@polling.must(
    "C-LHTTP-08.a",
    "a client waits for the time of `retry` before it resumes a stream",
    source=_POST,
    start=Start.OWN,
    sends=f"`retry: {_RETRY_MS}`, then the end of the stream of a request",
    expects=f"no GET with Last-Event-ID within {_RETRY_MS} ms",
    why="servers choose the time to limit their load",
)
async def retry(client: ClientSubject) -> None:
    polls = _Polls(client, _RETRY_MS)
    await run_patiently(client)
    if not polls.ids:
        client.raise_absent("resumption of streams")
    if polls.seconds < _TIMER_TOLERANCE * _RETRY_MS / 1000:
        expected = f"a GET after {_RETRY_MS} ms"
        client.raise_broken(expected, f"after {polls.seconds * 1000:.0f} ms")


# --- the GET stream -------------------------------------------------------------------


@observed_case(
    session.must,
    "C-LHTTP-14.a",
    "each GET of a session accepts text/event-stream",
    source=_GET,
    expects="an Accept field that lists text/event-stream",
    why="servers refuse any other GET with 406",
)
def _get_without_events(client: ClientSubject) -> object:
    # Before the session, a client may look whether the server requires a token.
    streams = [r for r in later_requests(client) if r.method == "GET"]
    if not streams:
        client.raise_absent("GET")
    return find_field(streams, "accept", lambda r: r.accepts(EVENTS))


def _answer_get(respond: Respond) -> Callable[[ClientSubject], None]:
    def change(client: ClientSubject) -> None:
        client.session_id = ""  # of a session, 404 is the end
        wait_longer(client)
        respond_to(client, "GET", respond)

    return change


@session.must(
    "C-LHTTP-14.b",
    "requests of the server on the GET stream are answered",
    source=_GET,
    rules=("PING-01",),
    needs=("sends:GET",),
    start=Start.OWN,
    sends="a ping on the GET stream, before the answer to the first request",
    expects="a response to the ping",
    why="servers that check their connection consider the client dead",
)
async def ping_on_get(client: ClientSubject) -> None:
    opened: asyncio.Future[HttpRequest] = asyncio.get_running_loop().create_future()

    async def open_stream(request: HttpRequest) -> None:
        await request.start_stream()
        if not opened.done():
            opened.set_result(request)

    async def ask(exchange: Exchange) -> None:
        await exchange.need_ping()
        await asyncio.wait({opened}, timeout=client.bound_s)
        if opened.done():
            stream = Exchange(client, exchange.message, opened.result())
            await stream.ask("ping")
        await exchange.correct()

    respond_to(client, "GET", open_stream)
    client.first = ask
    await client.run()
    if not opened.done():
        client.raise_absent("GET during the first request")


for letter, sends, respond in (
    ("a", "405", lambda request: request.respond(405)),
    ("b", "404 with text", lambda request: request.respond(404, b"not found")),
    ("c", "400 with text", lambda request: request.respond(400, b"bad request")),
    ("d", "no response", lambda request: request.closed.wait()),
):
    undisturbed_case(
        session.with_defaults(is_once=True).robust,
        f"C-F29.{letter}",
        f"a client does without the GET stream: {sends} to GET",
        rules=("LHTTP-15",),
        needs=("sends:GET",),
        sends=f"{sends} to GET, by a server without sessions",
        why="many servers have no GET stream",
    )(_answer_get(respond))


@session.robust(
    "C-E07.a",
    "a client opens a GET stream that ends at once only a few times",
    needs=("sends:GET",),
    start=Start.OWN,
    is_once=True,
    is_quick=False,
    sends=f"the end of each GET stream, and for {_STORM_S:g} s no answer to the first "
    "request",
    expects=f"fewer than {_STORM} GET requests",
    why="clients overload a server that cannot keep streams open",
)
async def storm(client: ClientSubject) -> None:
    count = 0
    is_storm = asyncio.Event()

    async def end(request: HttpRequest) -> None:
        nonlocal count
        count += 1
        await request.start_stream()
        await request.end()
        if count >= _STORM:
            is_storm.set()

    async def wait(exchange: Exchange) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STORM_S):
                await is_storm.wait()
        await exchange.correct()

    respond_to(client, "GET", end)
    client.first = wait
    await client.run()
    if not count:
        client.raise_absent("GET")
    if is_storm.is_set():
        client.raise_broken(f"fewer than {_STORM} GET requests", f"{count} of them")
