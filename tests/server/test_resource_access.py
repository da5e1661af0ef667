"""Visibility of resources and prompts; caching and change notifications."""

import asyncio
import enum

import pytest
from raw_client import CLIENT_KEY, Hand, modern, request
from single_request import in_session, over_http, reading, result, sees

from mcpwire.server.auth.resource_server import ScopeRequired
from mcpwire.server.server import Server


class Colour(enum.Enum):
    RED = "red"


def guarded(**options):
    """Return a server whose components need what the options say."""
    server = Server("s")
    server.add_resource("a://b", "x", **options)

    @server.resource("t://{colour}", **options)
    def template(colour: Colour) -> str:
        return colour.value

    @server.prompt(name="p", **options)
    def prompt(colour: Colour = Colour.RED) -> str:
        return "x"

    return server


def completing(**reference):
    argument = {"name": "colour", "value": ""}
    return "completion/complete", {"ref": reference, "argument": argument}


USES = {
    "resource": ("resources/read", {"uri": "a://b"}),
    "template": ("resources/read", {"uri": "t://red"}),
    "prompt": ("prompts/get", {"name": "p"}),
    "completed prompt": completing(type="ref/prompt", name="p"),
    "completed template": completing(type="ref/resource", uri="t://{colour}"),
    "completed URI": completing(type="ref/resource", uri="t://red"),
}
EACH_USE = pytest.mark.parametrize(("method", "params"), USES.values(), ids=USES)
LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


@pytest.mark.rule("RES-02", "RES-08", "PROMPT-02", "COMP-06", "CACHE-13")
@pytest.mark.parametrize(("name", "count"), [("Ada", 1), ("Bob", 0)])
async def test_hidden_component_is_neither_listed_nor_usable(name, count):
    hand = Hand(guarded(visible=sees("Ada")).dispatcher)
    meta = {CLIENT_KEY: {"name": name, "version": "1"}}
    for method, member in LISTS.items():
        [listed] = await hand.ask(modern(1, method, {}, **meta))
        assert len(listed["result"][member]) == count
        assert listed["result"]["cacheScope"] == "private"
    for method, params in USES.values():
        [answer] = await hand.ask(modern(2, method, params, **meta))
        assert ("result" in answer) is bool(count)


@pytest.mark.rule("RES-08", "COMP-06")
@EACH_USE
async def test_required_scopes_apply_over_http(method, params):
    server = guarded(scopes=["use"])
    for scopes in (None, [], ["other"]):
        with pytest.raises(ScopeRequired):
            await over_http(server, method, scopes=scopes, **params)
    assert await over_http(server, method, scopes=["use"], **params)
    assert await result(server, method, **params)  # scopes apply to HTTP only


@pytest.mark.rule("CACHE-13")
async def test_read_result_has_the_registered_cache_hints():
    server = reading("x", ttl_ms=5_000, cache_scope="public")
    read = await result(server, "resources/read", uri="a://b")
    assert (read["ttlMs"], read["cacheScope"]) == (5_000, "public")
    private = await over_http(server, "resources/read", uri="a://b", scopes=[])
    assert private["cacheScope"] == "private"
    old = await in_session(server, "2025-11-25", "resources/read", uri="a://b")
    assert old["result"].keys() == {"contents"}
    plain = await result(reading("x"), "resources/read", uri="a://b")
    assert (plain["ttlMs"], plain["cacheScope"]) == (0, "private")


@pytest.mark.rule("CACHE-13")
@pytest.mark.case("F15")
async def test_read_is_private_if_any_resource_has_a_predicate():
    server = reading("x", cache_scope="public")
    server.add_resource("t://{x}", lambda x: x, name="t", visible=sees("Ada"))
    read = await result(server, "resources/read", uri="a://b")
    assert read["cacheScope"] == "private"


@pytest.mark.rule("CACHE-12", "CACHE-13")
@pytest.mark.case("F05")
async def test_all_pages_of_a_list_have_the_same_cache_scope():
    server = Server("s", page_size=1)
    for name in "abc":
        server.add_resource(f"a://{name}", name)
    pages = [await result(server, "resources/list")]
    while "nextCursor" in pages[-1]:
        cursor = pages[-1]["nextCursor"]
        pages.append(await result(server, "resources/list", cursor=cursor))
    assert [page["resources"][0]["name"] for page in pages] == ["a", "b", "c"]
    assert {page["cacheScope"] for page in pages} == {"public"}
    private = await over_http(server, "resources/list", scopes=[])
    assert private["cacheScope"] == "private"


@pytest.mark.rule("RES-03")
@pytest.mark.case("F06")
async def test_subscribed_session_gets_updates_until_unsubscribing(server):
    server.add_resource("a://b", "x")
    server.add_resource("t://{x}", lambda x: x, name="t")
    hand = Hand(server.dispatcher, "2025-11-25")
    answers = await hand.ask(
        request(1, "resources/subscribe", {"uri": "a://b"}),
        request(2, "resources/subscribe", {"uri": "a://b"}),
        request(3, "resources/subscribe", {"uri": "t://1"}),
    )
    assert [each["result"] for each in answers] == [{}, {}, {}]
    for uri in ("a://b", "t://1", "t://2"):
        server.notify_resource_updated(uri)
    notifications = [await hand.next(), await hand.next()]
    assert [each["params"] for each in notifications] == [
        {"uri": "a://b"},
        {"uri": "t://1"},
    ]
    [removed, unknown] = await hand.ask(
        request(4, "resources/unsubscribe", {"uri": "a://b"}),
        request(5, "resources/unsubscribe", {"uri": "a://never"}),
    )
    assert (removed["result"], unknown["result"]) == ({}, {})
    server.notify_resource_updated("a://b")
    await asyncio.sleep(0)  # the iteration that would send a notification
    [pong] = await hand.ask(request(6, "ping"))
    assert pong["result"] == {}


@pytest.mark.rule("RES-03")
@pytest.mark.parametrize("uri", ["a://b", "t://{x}"])
async def test_each_list_change_is_notified_in_both_eras(uri):
    server = reading("x")
    filter = {"resourcesListChanged": True}
    listen = modern("sub", "subscriptions/listen", {"notifications": filter})
    hands = Hand(server.dispatcher, "2025-11-25"), Hand(server.dispatcher)
    assert (await hands[1].ask(listen))[0]["params"]["notifications"] == filter

    async def next_methods():
        return {(await hand.next())["method"] for hand in hands}

    added = {"notifications/resources/list_changed"}
    if uri == "t://{x}":
        server.add_resource(uri, lambda x: x, name="t")
        assert await next_methods() == added
    server.resources[uri].disable()
    assert await next_methods() == added
    server.resources[uri].remove()
    assert await next_methods() == added
    for hand in hands:
        await hand.connection.aclose()


@pytest.mark.parametrize("uri", ["a://c", "nothing", 7])
async def test_subscribing_to_an_unknown_resource_is_refused(uri):
    found = await in_session(reading("x"), "2025-11-25", "resources/subscribe", uri=uri)
    assert found["error"]["code"] == (-32002 if uri == "a://c" else -32602)


async def test_subscriptions_of_a_session_are_bounded(server):
    server.add_resource("a://{x}", lambda x: x, name="t")
    hand = Hand(server.dispatcher, "2025-11-25")
    requests = [
        request(n, "resources/subscribe", {"uri": f"a://{n}"}) for n in range(1, 1_025)
    ]
    assert all("result" in found for found in await hand.ask(*requests))
    [again, more, long] = await hand.ask(
        request(2_000, "resources/subscribe", {"uri": "a://1"}),
        request(2_001, "resources/subscribe", {"uri": "a://more"}),
        request(2_002, "resources/subscribe", {"uri": "a://" + "x" * 9_000}),
    )
    assert "result" in again
    assert more["error"]["code"] == long["error"]["code"] == -32602
