"""Requests and responses of Streamable HTTP."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family, Start, since
from mcpwire.check.cases._http import EVENTS, HTTP, JSON, SESSIONS, STREAMABLE
from mcpwire.check.clients.cases._forms import observed_case, undisturbed_case
from mcpwire.check.clients.cases._http import (
    add_ending_case,
    answer_first,
    describe_request,
    endpoint_requests,
    find_field,
    http_request,
    later_requests,
    send_as_event,
)
from mcpwire.check.clients.http import HttpEndpoint
from mcpwire.check.clients.subject import call_of
from mcpwire.check.subject import decode_messages
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from mcpwire.check.clients.cases._http import Respond
    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject, Exchange

FAMILY: Final = Family("http", defaults={"role": "client"})

case = FAMILY.with_defaults(transports=HTTP, revisions=STREAMABLE)
once = case.with_defaults(is_once=True)
versioned = case.with_defaults(revisions=since("2025-06-18", SESSIONS[-1]))

_POST: Final = "basic/transports#sending-messages-to-the-server"
_VERSION: Final = "mcp-protocol-version"
_RETRY_AFTER_S: Final = 1
_TIMER_TOLERANCE: Final = 0.95


# --- requests -------------------------------------------------------------------------


def _post_without(client: ClientSubject, *media_types: str) -> object:
    for request in endpoint_requests(client, "POST"):
        if not all(request.accepts(each) for each in media_types):
            return describe_request(request, "accept")
    return None


observed_case(
    case.must,
    "C-LHTTP-02.a",
    "each POST accepts application/json and text/event-stream",
    source=_POST,
    rules=("TR-HTTP-07",),
    expects="an Accept field that lists both media types",
    why="servers answer any other request with 406",
)(lambda client: _post_without(client, JSON, EVENTS))


@observed_case(
    versioned.must,
    "C-LHTTP-03.a",
    "the body of each POST is one message",
    source=_POST,
    expects="one request, notification or response",
    why="servers refuse a list of messages",
)
def _body_of_several(client: ClientSubject) -> object:
    for request in endpoint_requests(client, "POST"):
        message = loads(request.body)
        if not isinstance(message, dict):
            return request.body
    return None


@observed_case(
    case.robust,
    "C-E02.a",
    "each POST has the Content-Type application/json",
    expects=f"Content-Type: {JSON}",
    why="servers refuse other types with 415, which protects them from web pages",
)
def _other_content_type(client: ClientSubject) -> object:
    for request in endpoint_requests(client, "POST"):
        value = request.value("content-type") or ""
        if value.partition(";")[0].strip().lower() != JSON:
            return describe_request(request, "content-type")
    return None


@observed_case(
    versioned.must,
    "C-LHTTP-29.a",
    "each request after `initialize` has the field MCP-Protocol-Version",
    source="basic/transports#protocol-version-header",
    expects="MCP-Protocol-Version on each POST, GET and DELETE",
    why="servers assume revision 2025-03-26 without it",
)
def _without_version(client: ClientSubject) -> object:
    return find_field(later_requests(client), _VERSION, lambda r: r.value(_VERSION))


@observed_case(
    versioned.should,
    "C-LHTTP-29.b",
    "MCP-Protocol-Version is the negotiated version",
    source="basic/transports#protocol-version-header",
    expects="the version of the server's answer to `initialize`",
    why="servers refuse a version that they do not support with 400",
)
def _other_version(client: ClientSubject) -> object:
    valid = {None, client.revision.name}
    requests = later_requests(client)
    return find_field(requests, _VERSION, lambda r: r.value(_VERSION) in valid)


# --- valid but unusual responses ------------------------------------------------------


@undisturbed_case(
    once.robust,
    "C-F24.a",
    "a Content-Type may have parameters and upper-case letters",
    sends="the types `Application/JSON; Charset=UTF-8` and "
    "`Text/Event-Stream;charset=utf-8` in turn",
    why="servers and proxies add a charset",
)
def _unusual_media_types(client: ClientSubject) -> None:
    count = 0

    async def send(exchange: Exchange, message: Any) -> None:
        nonlocal count
        count += 1
        fields = client.response_fields(exchange.message)
        if count % 2:
            fields["Content-Type"] = "Application/JSON; Charset=UTF-8"
            await http_request(exchange).respond(200, message, fields)
        else:
            fields["Content-Type"] = "Text/Event-Stream;charset=utf-8"
            await send_as_event(exchange, message, fields)

    client.send_result = send


@undisturbed_case(
    once.robust,
    "C-F24.b",
    "a JSON body may come in chunks",
    sends="each result as JSON in chunks of one octet",
    why="servers and proxies send bodies in chunks",
)
def _chunked_json(client: ClientSubject) -> None:
    async def send(exchange: Exchange, message: Any) -> None:
        message["result"].setdefault("_meta", {})["check/text"] = "é☃😀"
        fields = client.response_fields(exchange.message)
        http = http_request(exchange)
        await http.start_stream({**fields, "Content-Type": JSON})
        for octet in encode(message):
            await http.write(bytes([octet]))
        await http.end()

    client.send_result = send


@undisturbed_case(
    once.robust,
    "C-F25.a",
    "a notification may be answered with 200 and no body",
    revisions=SESSIONS,
    sends="200 without a Content-Type to each notification",
    why="many servers send 200 in place of 202",
)
def _empty_ok(client: ClientSubject) -> None:
    client.accepted_status = 200


@undisturbed_case(
    once.robust,
    "C-F23.a",
    "a server may close a connection after each response",
    sends="each response together with the end of its connection",
    why="servers and load balancers close idle connections",
)
def _close_after_response(client: ClientSubject) -> None:
    async def on_http(request: HttpRequest) -> bool:
        if request.method != "POST":
            return False
        if not request.hold():
            client.raise_absent("way to send data together with the end (TCP_CORK)")
        await client.answer_post(request)
        if not request.is_stream or request.has_ended:
            request.abort()
        return True

    client.on_http = on_http


# --- responses without an answer ------------------------------------------------------


async def _cut_json(http: HttpRequest) -> None:
    fields = {"Content-Type": JSON, "Content-Length": "99"}
    await http.respond(200, b'{"jsonrpc":', fields)
    http.abort()


async def _close(http: HttpRequest) -> None:
    http.abort()


_PAGE: Final = b"<p>Welcome</p>"
_HTML: Final = {"Content-Type": "text/html"}

for id, sends, send in (
    (
        "C-F25.b",
        "202 to a request, and no answer to it",
        lambda http: http.respond(202),
    ),
    (
        "C-F24.c",
        "200 with the Content-Type text/html",
        lambda http: http.respond(200, _PAGE, _HTML),
    ),
    (
        "C-F24.d",
        "200 with HTML as application/json",
        lambda http: http.respond(200, _PAGE, {"Content-Type": JSON}),
    ),
    ("C-F22.a", "a JSON body that is shorter than its Content-Length", _cut_json),
    ("C-F21.a", "the end of the connection in place of a response", _close),
):
    add_ending_case(
        once.robust,
        id,
        f"a client survives {sends}",
        sends=f"{sends}, to the first request after the handshake and its repetitions",
        respond=send,
        why="the call waits for ever, or is repeated for ever",
    )


async def _refuse(http: HttpRequest) -> None:
    error = {"code": -32600, "message": "Bad Request: not now"}
    id = loads(http.body)["id"]
    await http.respond(400, {"jsonrpc": "2.0", "id": id, "error": error})


def _status(status: int, body: bytes = b"", **fields: str) -> Respond:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return lambda http: http.respond(status, body, named)


for letter, what, respond in (
    ("a", "400 with a JSON-RPC error", _refuse),
    ("b", "401 without a challenge", _status(401)),
    ("c", "403 with HTML", _status(403, _PAGE, **_HTML)),
    ("d", "404 without a body", _status(404)),
    ("e", "429 with `Retry-After: 0`", _status(429, Retry_After="0")),
    ("f", "500 with HTML", _status(500, _PAGE, **_HTML)),
    ("g", "503 without a body", _status(503)),
    ("h", "307 to the same URL", _status(307, Location="/mcp")),
):
    add_ending_case(
        once.robust,
        f"C-F26.{letter}",
        f"a client stops after repeated responses of {what}",
        sends=f"{what}, to the first request after the handshake and its repetitions",
        respond=respond,
        why="a client that repeats without end overloads the server, and never reports "
        "the error",
    )


@once.robust(
    "C-F36.a",
    "a request is not repeated before the time of Retry-After",
    start=Start.OWN,
    sends=f"503 with `Retry-After: {_RETRY_AFTER_S}` to the first request after the "
    "handshake",
    expects="no repetition before that time",
    why="servers block clients that repeat too early",
)
async def retry_after(client: ClientSubject) -> None:
    calls: list[str] = []
    times: list[float] = []

    async def respond(http: HttpRequest) -> None:
        calls.extend(map(call_of, decode_messages(http.body, 0, "")))
        if calls[-1] == calls[0]:  # not another one that was sent at the same time
            times.append(monotonic())
        if len(calls) == 1:
            fields = {"Retry-After": str(_RETRY_AFTER_S)}
            await http.respond(503, fields=fields)

    await answer_first(client, respond)
    assert client.facts.run is not None, "the survey is over"
    if len(times) <= max(client.facts.run.calls[calls[0]], 1):
        client.raise_absent("repetition after 503")
    seconds = times[1] - times[0]
    if seconds < _TIMER_TOLERANCE * _RETRY_AFTER_S:
        client.raise_broken(
            f"no repetition before {_RETRY_AFTER_S} s",
            f"a repetition after {seconds:.3f} s",
        )


@once.robust(
    "C-S02.a",
    "a redirect to another origin gets no session id and no credentials",
    revisions=SESSIONS,
    start=Start.OWN,
    sends="307 to another port, to the first request after the handshake",
    expects="no request there, or one without Mcp-Session-Id and Authorization",
    why="a malicious server steals the session or the token",
)
async def other_origin(client: ClientSubject) -> None:
    found: list[str] = []

    async def answer_elsewhere(request: HttpRequest) -> None:
        secrets = [n for n in ("mcp-session-id", "authorization") if request.value(n)]
        found.extend(describe_request(request, name) for name in secrets)
        await request.respond(404)

    other = HttpEndpoint(answer_elsewhere, client.transcript)
    await other.open()

    fields = {"Location": f"{other.origin}/mcp"}
    try:
        await answer_first(client, lambda http: http.respond(307, fields=fields))
    finally:
        await other.close()
    if found:
        client.raise_broken("no session id at another origin", found[0])
