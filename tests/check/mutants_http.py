"""Faults in HTTP itself: formats, statuses, methods, bodies."""

import asyncio
import json
import re

from mutants import Mutant, register

MODERN = "2026-07-28"
BOTH = "application/json, text/event-stream"


def fault(name, *cases, **facts):
    """Register a fault over HTTP."""
    register(Mutant(name, cases, transport="http", **facts))


def body_of(held):
    """Return the message of a request, or an empty dict."""
    try:
        found = json.loads(held["request"]["body"])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def given(held, name):
    """Return a header field as the client sent it."""
    return held["request"]["given"].get(name)


def refuse(held, status=400):
    """Replace a response by a refusal."""
    held["status"] = status
    held["headers"] = {"content-type": "application/json"}
    held["body"] = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"refused"}}'


def refuses_if(condition, status=400):
    """Return a change of responses: responses that meet a condition become refusals."""

    def response(held):
        if condition(held):
            refuse(held, status)

    return response


def reads_as(name, value, becomes):
    """Return a change of requests: the value of a field is replaced by another."""

    def request(head):
        if head["given"].get(name) == value:
            if becomes is None:
                head["headers"].pop(name, None)
            else:
                head["headers"][name] = becomes

    return request


def is_modern_only(held):
    """Refuse `initialize`, as a server of one revision does."""
    if body_of(held).get("method") == "initialize":
        refuse(held)


def both(*changes):
    """Return several changes of responses as one."""

    def response(held):
        for change in changes:
            change(held)

    return response


def invalid_params(held):
    held["body"] = held["body"].replace(b"-32601", b"-32602")


fault(
    "an unknown method is invalid params, over HTTP",
    *("RPC-31.a", "T11-02.a", "T11-03.a"),
    response=invalid_params,
)


def in_plain_text(held):
    if b"-32601" in held["body"]:
        held["status"] = 400
        held["headers"]["content-type"] = "text/plain"
        held["body"] = b"unknown method"


fault(
    "an unknown method is refused in plain text",
    *("RPC-31.a", "B08.a", "T11-02.a", "T11-03.a"),
    response=in_plain_text,
)


# --- formats


def as_text(held):
    if held["headers"].get("content-type") == "application/json":
        held["headers"]["content-type"] = "text/json"


fault("answers have a type that no client knows", "TR-HTTP-12.a", response=as_text)


def in_list(held):
    if held["status"] == 200 and held["body"][:1] == b"{":
        held["body"] = b"[" + held["body"] + b"]"


fault("an answer comes in a list", "TR-HTTP-12.b", response=in_list)

for id, accept in (
    ("D01.a", "*/*"),
    ("D01.b", "application/json;q=0.9, text/event-stream;q=0.8"),
    ("D01.c", "text/event-stream,APPLICATION/JSON"),
):
    fault(
        f"Accept: {accept} is refused",
        id,
        response=refuses_if(lambda held, a=accept: given(held, "accept") == a, 406),
    )


def always_events(held):
    if given(held, "accept") == "application/json" and held["status"] == 200:
        held["headers"]["content-type"] = "text/event-stream"
        held["body"] = b"data: " + held["body"] + b"\n\n"


def always_json(held):
    is_post = held["request"]["method"] == "POST"
    if is_post and given(held, "accept") == "text/event-stream":
        held["headers"]["content-type"] = "application/json"


fault(
    "a client that accepts JSON alone gets events",
    "D01.d",
    "D01.g",
    request=reads_as("accept", "application/json", BOTH),
    response=always_events,
)
fault(
    "a client that accepts events alone gets JSON",
    "D01.e",
    request=reads_as("accept", "text/event-stream", BOTH),
    response=always_json,
)
fault(
    "a client that accepts neither is served",
    "D01.f",
    request=reads_as("accept", "text/html", BOTH),
)


def get_reads_as_events(head):
    if head["method"] == "GET":
        head["headers"]["accept"] = "text/event-stream"


fault("a GET for JSON gets a stream", "D01.g", request=get_reads_as_events)

for id, media in (
    ("D02.a", "text/plain"),
    ("D02.b", "multipart/form-data; boundary=x"),
    ("D02.c", "application/x-www-form-urlencoded"),
    ("D02.d", None),
):
    fault(
        f"a body of the type {media} is read",
        id,
        request=reads_as("content-type", media, "application/json"),
    )
for id, media in (
    ("D02.e", "application/json; charset=utf-8"),
    ("D02.f", "Application/JSON"),
):
    fault(
        f"a body of the type {media} is refused",
        id,
        response=refuses_if(
            lambda held, m=media: given(held, "content-type") == m, 415
        ),
    )


# --- notifications


def taken_with_body(condition):
    def response(held):
        if held["status"] == 202 and condition(body_of(held)):
            held["status"] = 200
            held["headers"]["content-type"] = "application/json"
            held["body"] = b"{}"

    return response


fault(
    "a cancellation is answered with 200",
    "TR-HTTP-10.a",
    "CAN-06.a",
    "CAN-06.b",
    "SCHEMA.EmptyResult",
    response=taken_with_body(lambda m: m.get("method") == "notifications/cancelled"),
)
fault(
    "an unknown notification is answered with 200",
    "TR-HTTP-10.b",
    "RPC-12.a",
    "RPC-12.b",
    "SCHEMA.EmptyResult",
    response=taken_with_body(lambda m: "mcpwire" in m.get("method", "")),
)
fault(
    "an answer to no question is answered with 200",
    "LHTTP-04.a",
    "B08.b",
    "SCHEMA.EmptyResult",
    response=taken_with_body(lambda m: "method" not in m),
)


def parse_error_is_500(held):
    if b"-32700" in held["body"]:
        held["status"] = 500


fault("broken JSON is a failure of the server", "D14.a", response=parse_error_is_500)


# --- statuses of 2026-07-28


def answers_200(method):
    def response(held):
        if held["status"] == 404 and body_of(held).get("method") == method:
            held["status"] = 200

    return response


for id, method in (
    ("TR-HTTP-28.a", "initialize"),
    ("TR-HTTP-28.e", "mcpwire/no-such-method"),
    ("TR-HTTP-28.b", "ping"),
    ("TR-HTTP-28.c", "logging/setLevel"),
    ("TR-HTTP-28.d", "resources/subscribe"),
):
    fault(
        f"{method} is not found with 200",
        id,
        response=answers_200(method),
        revision=MODERN,
    )


def is_method(method):
    return lambda held: held["request"]["method"] == method


def is_not_allowed(method):
    return lambda held: held["status"] == 405 and is_method(method)(held)


for id, method in (("TR-HTTP-30.a", "GET"), ("TR-HTTP-30.b", "DELETE")):
    fault(
        f"{method} is a bad request",
        id,
        "TR-HTTP-28.a",  # finds that `initialize` is refused
        response=both(is_modern_only, refuses_if(is_not_allowed(method))),
        revision=MODERN,
    )


def has_stray(name):
    return lambda held: given(held, name) == "mcpwire-stray"


for id, name in (("TR-HTTP-31.a", "mcp-session-id"), ("TR-HTTP-31.b", "last-event-id")):
    fault(
        f"a stray {name} is refused",
        id,
        "TR-HTTP-28.a",
        *(("TR-HTTP-31.c",) if name == "mcp-session-id" else ()),
        response=both(is_modern_only, refuses_if(has_stray(name), 404)),
        revision=MODERN,
    )


def repeats_session(held):
    if (id := given(held, "mcp-session-id")) is not None:
        held["headers"]["mcp-session-id"] = id


fault(
    "a session id is repeated",
    "TR-HTTP-31.c",
    response=repeats_session,
    revision=MODERN,
)


# --- methods of HTTP


def no_allow(held):
    if held["request"]["method"] in {"PUT", "PATCH"}:
        held["headers"].pop("allow", None)


fault("405 does not say what is allowed", "D12.a", response=no_allow)
fault("OPTIONS fails", "D12.b", response=refuses_if(is_method("OPTIONS"), 500))


# --- bodies


def waits_for_giant(head):
    if len(head["headers"].get("content-length", "")) > 9:
        head["headers"]["content-length"] = "2048"


fault("a giant body is waited for", "D14.b", request=waits_for_giant)
fault(
    "a body in chunks is refused",
    "D14.d",
    response=refuses_if(
        lambda h: "chunked" in (given(h, "transfer-encoding") or ""), 411
    ),
)
fault("a cut body is read", "D14.e", is_hasty=True)


def delays_continue(head):
    # The fault: longer than the bound of an answer, which is 2 s here.
    return asyncio.sleep(4) if "expect" in head["given"] else None


fault("100 Continue comes late", "D14.f", request=delays_continue)


def without(line):
    """Return a change of octets: a line of the head is removed."""
    return lambda data: data.replace(line, b"")


def first_length(data):
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = [x for x in head.split(b"\r\n") if x != b"Content-Length: 7"]
    return b"\r\n".join(lines) + b"\r\n\r\n" + rest


fault("of two lengths the first counts", "D14.g", octets=first_length)
fault(
    "a length with a sign is read", "D14.h", octets=lambda d: d.replace(b": +", b": ")
)


def negative_is_open(data):
    if b"Content-Length: -1" not in data:
        return data
    length = len(data.partition(b"\r\n\r\n")[2])
    return data.replace(b"Content-Length: -1", b"Content-Length: %d" % length)


fault("a negative length is none", "D14.i", octets=negative_is_open)
fault(
    "a length beside chunks is ignored",
    "D14.j",
    "B02.a",
    octets=without(b"Content-Length: 4\r\n"),
)


def counts_itself(data):
    if b"\r\n\r\nzz\r\n" not in data:
        return data
    head, _, rest = data.partition(b"zz\r\n")
    body = rest.removesuffix(b"\r\n0\r\n\r\n")
    return head + b"%x\r\n" % len(body) + rest


fault("a chunk of no size is read", "D14.k", octets=counts_itself)
fault(
    "a compressed body is a failure of the server",
    "D14.l",
    response=refuses_if(lambda held: given(held, "content-encoding"), 500),
)
fault(
    "a long field is a failure of the server",
    "D14.m",
    octets=lambda data: re.sub(b"x{512,}", b"", data),  # it may come in parts
    response=refuses_if(lambda held: given(held, "x-mcpwire") is not None, 500),
)


def few_at_once(head):
    return asyncio.sleep(4) if head["open"] >= 18 else None  # the fault: as above


fault("more than 18 requests wait", "D14.n", request=few_at_once)

fault("HEAD fails", "D12.b", response=refuses_if(is_method("HEAD"), 503))
