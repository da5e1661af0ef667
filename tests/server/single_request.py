"""Helpers that send one request to a server, in either era."""

import attrs
import httpx
from raw_client import META, Hand, modern, request

from mcpwire import Client, Http
from mcpwire.server.context import Context
from mcpwire.server.request import RequestInfo
from mcpwire.server.server import Server
from mcpwire.testing import AsgiTransport


async def answer(server, method, **params):
    hand = Hand(server.dispatcher)
    [response] = await hand.ask(modern(1, method, params))
    return response


async def result(server, method, **params):
    """Return the result of one stateless request, without the server's name."""
    response = dict((await answer(server, method, **params))["result"])
    del response["_meta"], response["resultType"]
    return response


async def error(server, method, **params):
    return (await answer(server, method, **params))["error"]


async def code(server, method, **params):
    return (await error(server, method, **params))["code"]


async def in_session(server, version, method, **params):
    hand = Hand(server.dispatcher, version)
    [response] = await hand.ask(request(1, method, params))
    return response


@attrs.frozen
class Somebody:
    """A principal with some scopes."""

    scopes: frozenset
    realm: object = None
    key: tuple = (None, None, "somebody")


async def over_http(server, method, *, scopes=None, **params):
    """Return the result of a request over HTTP; scopes ``None``: not authenticated."""
    principal = None if scopes is None else Somebody(frozenset(scopes))
    dispatcher = server.dispatcher
    sent = {**params, "_meta": META}
    admitted = dispatcher.admit(
        1,
        method,
        sent,
        None,
        lambda *_: None,
        info=RequestInfo(transport="http", principal=principal),
    )
    return await dispatcher.perform(admitted, sent)


async def client_at(stack, app, address, **options):
    """Return a client of an application that comes from that address."""
    transport = AsgiTransport(app, client=(address, 50_000))
    http = await stack.enter_async_context(httpx.AsyncClient(transport=transport))
    target = Http("https://x.example/mcp", http_client=http)
    return await stack.enter_async_context(Client(target, **options))


def reading(value, **options):
    """Return a server with one resource, whose function returns `value`."""
    server = Server("s")
    server.add_resource("a://b", lambda: value, name="b", **options)
    return server


async def contents(server, uri="a://b"):
    return (await result(server, "resources/read", uri=uri))["contents"]


def sees(*names):
    """Return a predicate: clients with these names see the component."""

    def visible(context: Context, component):
        return context.client_info["name"] in names

    return visible
