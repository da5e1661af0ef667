"""Servers over HTTP for the tests, and requests as clients of 2026-07-28 send them."""

import json

import raw_client
from asgi_driver import Visit, scope, visit

from mcpwire.server.http.app import AsgiApp
from mcpwire.server.notifications import OpenSubscriptions, Subscriptions
from mcpwire.versions import REVISIONS

NEW = "2026-07-28"
META = raw_client.META
MODERN = REVISIONS[-1:]


def tools(call, **options):
    options = {
        "methods": {"tools/call": call, **options.pop("methods", {})},
        "capabilities": {"tools": {}, "logging": {}},
        "revisions": MODERN,
        **options,
    }
    return raw_client.server(**options)


def subscribed(call):
    capabilities = {"tools": {"listChanged": True}, "logging": {}}
    dispatcher = tools(call, capabilities=capabilities)
    subscriptions = Subscriptions(
        dispatcher.hub,
        subscriptions=OpenSubscriptions(2),
        capabilities=lambda: capabilities,
    )
    methods = {"tools/call": call, "subscriptions/listen": subscriptions.listen}
    dispatcher.declare(capabilities, methods)
    return dispatcher


async def echo(params, request):
    return {"content": [{"type": "text", "text": str(params.get("arguments"))}]}


def app(call=echo, *, dispatcher=None, **options):
    """Return an application that streams a response only where a test expects it.

    With the default of 0.1 s it would stream any call on a busy machine.
    """
    options = {"stream_after": 30.0, **options}
    return AsgiApp(dispatcher or tools(call), **options)


def fields(message=None, **more):
    """Return the header fields of a message; a value of None removes a field."""
    named = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEW,
    }
    if message is not None:
        named["mcp-method"] = message["method"]
        name = message.get("params", {}).get("name")
        if name is not None:
            named["mcp-name"] = name
    named.update({k.replace("_", "-"): v for k, v in more.items()})
    return [(k, v) for k, v in named.items() if v is not None]


def call(id=1, name="echo", arguments=None, **meta):
    params = {"name": name, "arguments": arguments or {}}
    return raw_client.modern(id, "tools/call", params, **meta)


def posted(message, **more):
    known = message if isinstance(message, dict) and "method" in message else None
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Visit(scope(headers=fields(known, **more)), body)


async def post(app, message, **more):
    return await posted(message, **more).begin(app).done()


def opening(version="2025-11-25"):
    return raw_client.request(1, "initialize", raw_client.session(version))


async def opened(made, version="2025-11-25"):
    """Open a session; return the header fields of its requests."""
    visit = await post(made, opening(version), mcp_protocol_version=None)
    assert visit.status == 200
    headers = {name.lower(): value for name, value in visit.headers.items()}
    return {
        "mcp_protocol_version": version,
        "mcp_session_id": headers["mcp-session-id"],
    }


async def asgi_request(app, verb, path="/mcp", body=b"", *, headers=None, **more):
    named = [("host", "127.0.0.1:8000")] if headers is None else headers
    return await visit(app, scope(verb, path, named, **more), body)


def text(answer):
    return answer["result"]["content"][0]["text"]
