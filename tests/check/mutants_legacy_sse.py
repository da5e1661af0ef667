"""Faults in HTTP with server-sent events, the transport of 2024-11-05."""

import re

import mutants_http

FIRST = "2024-11-05"
EVIL = "http://evil.example"


def fault(name, *cases, **facts):
    mutants_http.fault(name, *cases, below="/sse", **facts)


def is_post(held):
    return held["request"]["method"] == "POST"


def elsewhere(data, _):
    return data.replace(b"data: messages?", b"data: http://elsewhere/mcp/messages?")


fault(
    "messages go to another host", "SSE-02.a", "C01.c", chunk=elsewhere, revision=FIRST
)


def named(data, _):
    data = re.sub(rb"event: message\n", b"", data)
    return data.replace(b"data: {", b"event: answer\ndata: {")


fault("messages are events of another name", "SSE-04.a", chunk=named)


def with_message(held):
    if is_post(held) and held["status"] == 202:
        held["body"] = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        held["headers"]["content-type"] = "text/plain"


fault("a POST is answered with a message", "SSE-04.b", response=with_message)


def any_origin(head):
    if head["given"].get("origin") == EVIL:
        head["headers"].pop("origin")


fault("every page may connect", "SSE-05.a", "C01.c", request=any_origin, revision=FIRST)


def always_taken(held):
    if is_post(held) and held["status"] == 404:
        held["status"], held["body"] = 202, b""


fault("messages to closed connections are taken", "SSE-03.a", response=always_taken)


def fails(held):
    if is_post(held) and held["request"]["body"].endswith(b'"id":1,'):
        held["status"] = 500


fault("broken JSON is a failure over HTTP+SSE", "SSE-03.b", response=fails)

KEPT = {}


def to_all(data, held):
    if b"mcpwire-same" not in data:
        return data
    session = id(held)
    others = b"".join(kept for key, kept in KEPT.items() if key != session)
    KEPT.clear()
    KEPT[session] = data
    return data + others


fault("answers go to all connections", "SSE-03.c", chunk=to_all)
