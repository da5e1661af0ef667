"""HTTP itself: media types, statuses, methods, bodies and their limits."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import MODERN, Family, NoAnswer, PeerDied
from mcpwire.check.cases._exchange import (
    AnyOf,
    ChangedRequest,
    Error,
    Notification,
    Octets,
    Result,
    Status,
    add_exchange_case,
)
from mcpwire.check.cases._http import (
    EVENTS,
    HTTP,
    JSON,
    SESSIONS,
    STREAMABLE,
    expect_answer_beside,
    messages_on,
    request_head,
    session_revision,
)
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("http")

_POST: Final = "basic/transports#sending-messages-to-the-server"
_GIANT_BODY_BYTES: Final = 10 * 1024**3
_SENT_BODY_BYTES: Final = 1024
_LARGE_BODY_BYTES: Final = 80 * 1024**2
_SLOW_CLIENTS: Final = 20
_BODY_TIMEOUT_S: Final = 60.0
_WHY_FORMS: Final = "forms on web pages can send it to any site"
_REFUSAL: Final = "a status from 400 to 499, or a closed connection"

case = FAMILY.with_defaults(transports=HTTP)
streamable = case.with_defaults(revisions=STREAMABLE)
hostile = case.with_defaults(is_hostile=True, is_quick=False)
modern = case.with_defaults(revisions=MODERN)


# --- media types ----------------------------------------------------------------------


def _plain_methods(subject: Subject) -> list[str]:
    has_tools = subject.facts.declares("tools")
    return [subject.facts.barrier, *(["tools/list"] if has_tools else [])]


@streamable.must(
    "TR-HTTP-12.a",
    "a request is answered as application/json or as text/event-stream",
    source=_POST,
    rules=("LHTTP-05",),
    sends="a request that any server answers, and tools/list",
    expects="a Content-Type of application/json or text/event-stream for each",
    why="clients read the answer by its Content-Type and refuse any other",
)
async def media_type(subject: Subject) -> None:
    for method in _plain_methods(subject):
        answer = await subject.request(method)
        value = answer.response.media_type if answer.response else ""
        subject.expect(value in {JSON, EVENTS}, f"{JSON} or {EVENTS}", value or "none")


@case.must(
    "TR-HTTP-12.b",
    "a JSON body is one JSON object, and each event with data is one JSON-RPC message",
    source=_POST,
    revisions=STREAMABLE[1:],
    sends="a request that any server answers, and tools/list",
    expects="one JSON object, or events that each hold one",
    why="a client that reads one message fails on anything else",
)
async def one_object(subject: Subject) -> None:
    for method in _plain_methods(subject):
        start = len(subject.received)
        answer = await subject.request(method)
        for message in subject.received[start:]:
            is_object = message.value is not None and message.raw.strip()[:1] == b"{"
            subject.expect(is_object, "one JSON object", message.raw)
        if answer.response is not None and answer.response.media_type == JSON:
            body = bytes(answer.response.body)
            subject.expect(body.strip()[:1] == b"{", "one JSON object", body)


def _request_with_field(name: str, value: str) -> ChangedRequest:
    """Return a request with a changed header field."""
    return ChangedRequest({}, f"a request with {name}: {value}", headers={name: value})


for letter, accept, text in (
    ("a", "*/*", "*/*"),
    ("b", "application/json;q=0.9, text/event-stream;q=0.8", "weights"),
    ("c", "text/event-stream,APPLICATION/JSON", "another order and case"),
):
    add_exchange_case(
        streamable.robust,
        f"D01.{letter}",
        f"an Accept with {text} that covers both formats is accepted",
        send=_request_with_field("Accept", accept),
        expect=Result(),
        why="HTTP libraries and proxies write the field in these forms too",
    )


def _with_media_type(media: str) -> Status:
    return Status(200, condition=lambda r: r.media_type == media, text=f"as {media}")


for letter, accept in (("d", JSON), ("e", EVENTS)):
    other = EVENTS if accept == JSON else JSON
    add_exchange_case(
        streamable.robust,
        f"D01.{letter}",
        f"a client that accepts only {accept} gets no {other}",
        send=_request_with_field("Accept", accept),
        expect=AnyOf(Status(400, 406), _with_media_type(accept)),
        lenient=Result(),
        why="the client cannot read the other format",
    )

add_exchange_case(
    streamable.robust,
    "D01.f",
    "a client that accepts neither format is refused",
    send=_request_with_field("Accept", "text/html"),
    expect=Status(400, 406, 415),
    lenient=Result(),
    why="a browser that opens the URL is shown protocol messages",
)


@case.robust(
    "D01.g",
    "a GET that does not accept an event stream gets none",
    revisions=SESSIONS,
    sends="a GET with Accept: application/json",
    expects="a status from 400 to 499, such as 405 or 406; lenient: an event stream",
    why="health checks and browsers would hold streams open",
)
async def get_without_events(subject: Subject) -> None:
    response = await request_head(subject, "GET", {"Accept": JSON})
    if response.is_stream:
        subject.raise_lenient(
            "a status from 400 to 499", f"{response.status}, {EVENTS}"
        )
    subject.expect_refused(response.status)


for letter, media, why in (
    ("a", "text/plain", "web pages can send it to any site without a CORS preflight"),
    ("b", "multipart/form-data; boundary=x", _WHY_FORMS),
    ("c", "application/x-www-form-urlencoded", _WHY_FORMS),
):
    add_exchange_case(
        streamable.robust,
        f"D02.{letter}",
        f"a body of the type {media.partition(';')[0]} is refused",
        send=_request_with_field("Content-Type", media),
        expect=Status(400, 403, 406, 415, 422),
        why=why,
    )

add_exchange_case(
    streamable.robust,
    "D02.d",
    "a body without Content-Type is refused",
    send=ChangedRequest(
        {}, "a request without Content-Type", headers={"Content-Type": None}
    ),
    expect=Status(400, 403, 406, 415, 422),
    lenient=Result(),
    why="web pages can send such a body to any site",
)

for letter, media, text in (
    ("e", "application/json; charset=utf-8", "with a charset"),
    ("f", "Application/JSON", "in another case"),
):
    add_exchange_case(
        streamable.robust,
        f"D02.{letter}",
        f"a Content-Type of JSON {text} is accepted",
        send=_request_with_field("Content-Type", media),
        expect=Result(),
        why="HTTP libraries write the field in this form too",
    )


# --- notifications and responses of the client ----------------------------------------


_ACCEPTED: Final = Status(202, condition=lambda r: not r.body, text="with no body")
_REJECTED: Final = Status(*range(400, 500))

add_exchange_case(
    streamable.must,
    "TR-HTTP-10.a",
    "a notification is answered with 202 and no body, or refused",
    source=_POST,
    rules=("TR-HTTP-11", "LHTTP-04"),
    send=Notification(
        "notifications/cancelled",
        {"requestId": "mcpwire-no-such-request"},
        text="the cancellation of an unknown request",
    ),
    expect=AnyOf(_ACCEPTED, _REJECTED),
    why="clients wait for a body, or read it as an answer",
)

add_exchange_case(
    streamable.must,
    "TR-HTTP-10.b",
    "an unknown notification is answered with 202 and no body, or refused",
    source=_POST,
    rules=("TR-HTTP-11", "LHTTP-04"),
    send=Notification("notifications/mcpwire-unknown"),
    expect=AnyOf(_ACCEPTED, _REJECTED),
    why="newer clients get an answer to a notification",
)

add_exchange_case(
    case.must,
    "LHTTP-04.a",
    "an answer that matches no server request gets 202 and no body, or is refused",
    source=_POST,
    revisions=SESSIONS,
    send=Octets(
        b'{"jsonrpc":"2.0","id":"mcpwire-nobody-asked","result":{}}',
        "an answer that matches no server request",
    ),
    expect=AnyOf(_ACCEPTED, _REJECTED),
    why="a late answer of a client breaks the connection",
)

add_exchange_case(
    streamable.robust,
    "D14.a",
    "invalid JSON is answered with a status from 400 to 499",
    send=(
        Octets(b'{"jsonrpc":"2.0","id":1,"method":', "a body with truncated JSON"),
        Octets(b"", "an empty body"),
    ),
    expect=_REJECTED,
    lenient=Error(-32700, -32600),
    why="monitoring counts it as a server failure, and proxies retry",
)


# --- statuses of 2026-07-28 -----------------------------------------------------------

for letter, method in (
    ("a", "initialize"),
    ("b", "ping"),
    ("c", "logging/setLevel"),
    ("d", "resources/subscribe"),
    ("e", "mcpwire/no-such-method"),
):
    add_exchange_case(
        modern.must,
        f"TR-HTTP-28.{letter}",
        f"{method}, which this revision does not have, is answered with 404 and -32601",
        source="basic/transports/streamable-http#protocol-version-header",
        send=ChangedRequest({}, f"the request {method}", method=method),
        expect=Error(-32601, status=(404,)),
        why="clients detect from this answer which revisions the server supports",
    )


async def _need_modern_only(subject: Subject) -> None:
    """Raise `Absent` if the server also supports revisions with sessions."""
    if await session_revision(subject) is not None:
        subject.raise_absent("need for the rule: the server supports earlier revisions")


for letter, method in (("a", "GET"), ("b", "DELETE")):

    async def not_allowed(subject: Subject, method: str = method) -> None:
        fields = {"Accept": EVENTS} if method == "GET" else {}
        response = await request_head(subject, method, fields)
        if response.status != 405:
            await _need_modern_only(subject)
        subject.expect(response.status == 405, "the status 405", response.status)

    modern.should(
        f"TR-HTTP-30.{letter}",
        f"a {method} is answered with 405",
        source="basic/transports/streamable-http#earlier-streamable-http-revisions",
        sends=f"a {method}",
        expects="the status 405, unless the server supports earlier revisions",
        why="older clients conclude from another status that they have a session",
    )(not_allowed)


for letter, field, text in (
    ("a", "Mcp-Session-Id", "a session id"),
    ("b", "Last-Event-ID", "an event id"),
):

    async def stray_field(subject: Subject, field: str = field) -> None:
        fields = {field: "mcpwire-stray"}
        reaction = await subject.provoke(subject.any_request(), headers=fields)
        if not Result().matches(reaction):
            await _need_modern_only(subject)
        subject.expect(Result().matches(reaction), "a result", reaction)

    modern.should(
        f"TR-HTTP-31.{letter}",
        f"{text} of an earlier revision is ignored",
        source="basic/transports/streamable-http#earlier-streamable-http-revisions",
        rules=("TR-HTTP-21",),
        sends=f"a request with {field}: mcpwire-stray",
        expects="a result, unless the server supports earlier revisions",
        why="requests of clients that support both revisions fail",
    )(stray_field)


@modern.should(
    "TR-HTTP-31.c",
    "responses have no session id",
    source="basic/transports/streamable-http#earlier-streamable-http-revisions",
    sends="a request without a session id, and a request with one",
    expects="no Mcp-Session-Id in the responses",
    why="older clients rely on a session that does not exist",
)
async def no_session_id(subject: Subject) -> None:
    for session_id in (None, "mcpwire-stray"):
        message = subject.any_request()
        reaction = await subject.provoke(
            message, headers={"Mcp-Session-Id": session_id}
        )
        fields = reaction.response.fields if reaction.response else {}
        got = fields.get("mcp-session-id")
        subject.expect(got is None, "no Mcp-Session-Id", f"Mcp-Session-Id: {got}")


# --- HTTP methods ---------------------------------------------------------------------


@streamable.robust(
    "D12.a",
    "unsupported HTTP methods are answered with 405 and Allow",
    sends="a PUT, and a PATCH",
    expects="the status 405 with Allow, or 501",
    why="proxies and tools learn the supported methods from Allow",
)
async def other_methods(subject: Subject) -> None:
    for method in ("PUT", "PATCH"):
        response = await subject.exchange(method, None, b"{}")
        expected = f"the status 405 with Allow for {method}"
        subject.expect(response.status in {405, 501}, expected, response.status)
        if response.status == 405:
            subject.expect("allow" in response.fields, expected, "405 without Allow")


@streamable.robust(
    "D12.b",
    "HEAD and OPTIONS cause no server error",
    sends="a HEAD, and an OPTIONS",
    expects="any status below 500, or 501",
    why="load balancers consider the server broken",
)
async def probes(subject: Subject) -> None:
    for method in ("HEAD", "OPTIONS"):
        response = await request_head(subject, method)
        is_fine = 200 <= response.status < 500 or response.status == 501
        actual = response.status or response.problem
        subject.expect(is_fine, f"a status below 500 for {method}", actual)


# --- bodies ---------------------------------------------------------------------------


def _plain_request(subject: Subject) -> tuple[bytes, bytes, int]:
    """Return the head without its blank line, body and id of a valid request."""
    id = subject.next_id()
    message = subject.message(subject.facts.barrier, id=id)
    http = subject.need_http()
    head = http.head("POST", subject.http_headers(message), http.url.target)
    return head[:-2], encode(message), id


async def _expect_result(subject: Subject, response: Response) -> None:
    """Wait for the end of a response; raise `Broken` unless it has a result."""
    await subject.wait_ended(response)
    is_answered = any(
        isinstance(each.value, dict) and "result" in each.value
        for each in messages_on(subject, response)
    )
    subject.expect(is_answered, "a result", response.status or response.problem)


def _expect_refusal(subject: Subject, response: Response, text: str = _REFUSAL) -> None:
    """Raise `Broken` unless the status is 4xx or the connection was closed."""
    is_refused = 400 <= response.status < 500 or not response.status
    subject.expect(is_refused, text, response.status)


@case.robust(
    "D14.b",
    "an oversized body is refused before it is read",
    sends="the head of a POST of 10 GiB, and 1 KiB of its body",
    expects="the status 413, or another from 400 to 499, or a closed connection",
    why="one client exhausts the memory of the server",
)
async def oversized_body(subject: Subject) -> None:
    head, _, _ = _plain_request(subject)
    data = (
        head
        + b"Content-Length: %d\r\n\r\n" % _GIANT_BODY_BYTES
        + b" " * _SENT_BODY_BYTES
    )
    expected = "the status 413 before the rest of the body"
    try:
        response = await subject.exchange_raw(data)
    except NoAnswer:
        subject.raise_broken(expected, "the server waits for the rest of 10 GiB")
    _expect_refusal(subject, response, expected)


@hostile.robust(
    "D14.c",
    "a body of 80 MiB does not stop the server",
    bound_s=60.0,
    sends="a request with 80 MiB of JSON",
    expects="a status below 500 or a closed connection; then an answer to the next "
    "request",
    why="one client exhausts the memory of the server",
)
async def large_body(subject: Subject) -> None:
    message = subject.any_request()
    message["params"] = {
        **message.get("params", {}),
        "mcpwire": "x" * _LARGE_BODY_BYTES,
    }
    subject.bound_s, bound_s = _BODY_TIMEOUT_S / 2, subject.bound_s
    try:
        reaction = await subject.provoke(message)
    finally:
        subject.bound_s = bound_s
    got = reaction.status or 0
    subject.expect(got < 500, "a status below 500, or a closed connection", got)


@case.robust(
    "D14.d",
    "a chunked body is read",
    sends="a request with Transfer-Encoding: chunked, in two chunks",
    expects="a result",
    why="HTTP libraries send bodies of unknown length in chunks",
)
async def chunked_body(subject: Subject) -> None:
    head, body, _ = _plain_request(subject)
    halves = body[:20], body[20:]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in halves)
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    response = await subject.exchange_raw(head + chunks + b"0\r\n\r\n")
    await _expect_result(subject, response)


@case.robust(
    "D14.e",
    "a truncated body gets no result",
    sends="a request in a body that is 10 bytes shorter than its Content-Length",
    expects="no result",
    why="the server acts on an incomplete request",
)
async def truncated_body(subject: Subject) -> None:
    head, body, id = _plain_request(subject)
    head += b"Content-Length: %d\r\n\r\n" % (len(body) + 10)
    http = subject.need_http()
    subject.last_sent = head + body
    response = await http.send_raw(head + body)
    await subject.barrier()  # time for a premature answer
    http.send_more(response, b"", is_last=True)
    try:
        await subject.wait_ended(response)
    except NoAnswer:
        await http.close_exchange(response)
    got = [each for each in subject.answers_to(id) if "result" in each.value]
    subject.expect_none(got, "no result")


@case.robust(
    "D14.f",
    "a client that waits for 100 Continue is answered",
    sends="the head of a request with Expect: 100-continue, and later its body",
    expects="100 Continue or a final status before the body; then the answer",
    why="curl and other clients wait before they send a large body",
)
async def expect_100_continue(subject: Subject) -> None:
    head, body, _ = _plain_request(subject)
    head += b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    http = subject.need_http()
    subject.last_sent = head
    response = await http.send_raw(head)
    expected = "100 Continue, or a final status"
    try:
        async with asyncio.timeout(subject.bound_s):
            await response.first_data.wait()
    except TimeoutError:
        await http.close_exchange(response)
        subject.raise_broken(expected, "nothing, while the client waits")
    subject.expect(not response.ended.is_set() or response.status, expected, "nothing")
    if response.head_received.is_set():  # a final status is allowed
        await http.close_exchange(response)
        return
    http.send_more(response, body)
    await _expect_result(subject, response)


for letter, lines, text in (
    ("g", b"Content-Length: 5\r\nContent-Length: 7\r\n", "two different lengths"),
    ("h", b"Content-Length: +7\r\n", "a plus sign in its length"),
    ("i", b"Content-Length: -1\r\n", "a negative length"),
):

    async def bad_length(subject: Subject, lines: bytes = lines) -> None:
        head, body, id = _plain_request(subject)
        length = b"%d" % len(body)
        # The first length, or the number without its sign, is the true length.
        lines = lines.replace(b": 5", b": " + length).replace(b"+7", b"+" + length)
        response = await subject.exchange_raw(head + lines + b"\r\n" + body)
        answers = subject.answers_to(id)
        expected = "no JSON-RPC answer to the request"
        subject.expect(not answers, expected, response.status)
        _expect_refusal(subject, response)

    case.robust(
        f"D14.{letter}",
        f"a body with {text} is refused",
        sends=f"a request with {text}",
        expects=f"{_REFUSAL}, and no JSON-RPC answer to the request",
        why="a proxy and the server see different requests in the same bytes",
    )(bad_length)


@case.robust(
    "D14.j",
    "a chunked body with a Content-Length is refused, or read as chunks",
    sends="a request with Content-Length: 4 and Transfer-Encoding: chunked",
    expects=f"{_REFUSAL}; lenient: a result",
    why="a proxy and the server see different requests in the same bytes",
)
async def two_framings(subject: Subject) -> None:
    head, body, id = _plain_request(subject)
    head += b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    response = await subject.exchange_raw(head + chunks)
    if any("result" in each.value for each in subject.answers_to(id)):
        subject.raise_lenient(_REFUSAL, response.status)
    _expect_refusal(subject, response)


@case.robust(
    "D14.k",
    "an invalid chunk size is refused",
    sends="a chunked request with the chunk size zz",
    expects=_REFUSAL,
    why="the rest is read as another request",
)
async def bad_chunk(subject: Subject) -> None:
    head, body, _ = _plain_request(subject)
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    response = await subject.exchange_raw(head + b"zz\r\n" + body + b"\r\n0\r\n\r\n")
    _expect_refusal(subject, response)


@case.robust(
    "D14.l",
    "a compressed body is read or refused",
    sends="a request compressed with gzip, and Content-Encoding: gzip",
    expects="a result, or a status from 400 to 499",
    why="the server fails instead of refusing the encoding",
)
async def compressed_body(subject: Subject) -> None:
    message = subject.any_request()
    fields = {**subject.http_headers(message), "Content-Encoding": "gzip"}
    reaction = await subject.provoke(gzip.compress(encode(message)), headers=fields)
    is_fine = Result().matches(reaction) or _REJECTED.matches(reaction)
    subject.expect(is_fine, "a result, or a status from 400 to 499", reaction)


add_exchange_case(
    case.robust,
    "D14.m",
    "a header field of 100 KiB causes no server error",
    send=ChangedRequest(
        {}, "a request with a field of 100 KiB", headers={"X-Mcpwire": "x" * 102_400}
    ),
    expect=AnyOf(
        Result(), Status(*range(400, 500)), Status(0, text="a closed connection")
    ),
    why="cookies and tokens can be long",
)


@case.robust(
    "D14.n",
    "slow clients do not block others",
    is_once=True,
    sends="20 requests that stop in the middle of the body, then a complete one",
    expects="an answer to the complete one",
    why="a few slow clients block the server for everyone else",
)
async def slow_bodies(subject: Subject) -> None:
    http = subject.need_http()
    head, body, _ = _plain_request(subject)
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    slow = [await http.send_raw(head + body[:10]) for _ in range(_SLOW_CLIENTS)]
    await expect_answer_beside(subject, slow)


@hostile.robust(
    "D14.o",
    "an incomplete body times out",
    bound_s=_BODY_TIMEOUT_S + 10,
    sends="a request that stops in the middle of the body",
    expects="a complete response, such as the status 408, or a closed connection, "
    f"within {_BODY_TIMEOUT_S:g} s",
    why="each such client holds a connection and memory forever",
)
async def incomplete_body(subject: Subject) -> None:
    http = subject.need_http()
    head, body, _ = _plain_request(subject)
    response = await http.send_raw(
        head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:10]
    )
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            await response.ended.wait()
    except TimeoutError:
        await http.close_exchange(response)
        subject.raise_broken(
            f"a response within {_BODY_TIMEOUT_S:g} s", "the server still waits"
        )


@case.robust(
    "D14.p",
    "aborted connections do not affect the server",
    sends="32 connections, each closed immediately, before or within the head of the "
    "request",
    expects="an answer to the next request",
    why="port scanners and health checks make such connections",
)
async def aborted_connections(subject: Subject) -> None:
    http = subject.need_http()
    for data in (
        b"",
        b"POST ",
        b"\x16\x03\x01\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
    ) * 8:
        response = await http.send_raw(data)
        await http.close_exchange(response)
    try:
        await subject.request(subject.facts.barrier)
    except PeerDied as error:
        subject.raise_broken("an answer to the next request", error.actual)
