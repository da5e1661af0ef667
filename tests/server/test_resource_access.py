"""Resources: for whom they are, who may keep them, who hears of their changes."""

import asyncio

import pytest
from by_hand import CLIENT_KEY, Hand, modern, request
from single import contents, in_session, over_http, reading, result, sees

from mcpwire.server.auth.resource_server import ScopeRequired
from mcpwire.server.server import Server

# For whom...


@pytest.mark.rule("RES-02", "RES-08", "CACHE-13")
async def test_what_somebody_does_not_see_is_not_there(server):
    server.add_resource("a://b", "x", visible=sees("Ada"))
    server.add_resource("t://{x}", lambda x: x, name="t", visible=sees("Ada"))
    hand = Hand(server.dispatcher)
    for name, count in (("Ada", 1), ("Bob", 0)):
        meta = {CLIENT_KEY: {"name": name, "version": "1"}}
        lists, templates, read, made = await hand.ask(
            modern(1, "resources/list", {}, **meta),
            modern(2, "resources/templates/list", {}, **meta),
            modern(3, "resources/read", {"uri": "a://b"}, **meta),
            modern(4, "resources/read", {"uri": "t://b"}, **meta),
        )
        assert len(lists["result"]["resources"]) == count
        assert len(templates["result"]["resourceTemplates"]) == count
        assert ("result" in read, "result" in made) == (bool(count), bool(count))
        assert lists["result"]["cacheScope"] == "private"


@pytest.mark.rule("RES-08")
async def test_scopes_are_needed_over_http(server):
    server.add_resource("a://b", "x", scopes=["read"])
    server.add_resource("t://{x}", lambda x: x, name="t", scopes=["read"])
    for uri in ("a://b", "t://b"):
        for scopes in (None, [], ["write"]):
            with pytest.raises(ScopeRequired):
                await over_http(server, "resources/read", uri=uri, scopes=scopes)
        assert await over_http(server, "resources/read", uri=uri, scopes=["read"])
        assert await contents(server, uri)  # no such thing elsewhere


@pytest.mark.rule("CACHE-13")
async def test_what_was_read_is_kept_as_long_as_it_says():
    server = reading("x", ttl_ms=5_000, cache_scope="public")
    read = await result(server, "resources/read", uri="a://b")
    assert (read["ttlMs"], read["cacheScope"]) == (5_000, "public")
    private = await over_http(server, "resources/read", uri="a://b", scopes=[])
    assert private["cacheScope"] == "private"
    then = await in_session(server, "2025-11-25", "resources/read", uri="a://b")
    assert then["result"].keys() == {"contents"}
    plain = await result(reading("x"), "resources/read", uri="a://b")
    assert (plain["ttlMs"], plain["cacheScope"]) == (0, "private")


@pytest.mark.rule("CACHE-13")
@pytest.mark.case("F15")
async def test_nothing_is_public_where_not_everybody_sees_the_same():
    server = reading("x", cache_scope="public")
    server.add_resource("t://{x}", lambda x: x, name="t", visible=sees("Ada"))
    read = await result(server, "resources/read", uri="a://b")
    assert read["cacheScope"] == "private"


@pytest.mark.rule("CACHE-12", "CACHE-13")
@pytest.mark.case("F05")
async def test_all_pages_of_a_list_may_be_kept_by_the_same():
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


# Subscriptions...


@pytest.mark.rule("RES-03")
@pytest.mark.case("F06")
async def test_who_subscribed_hears_of_changes_until_they_unsubscribe(server):
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
    heard = [await hand.next(), await hand.next()]
    assert [each["params"] for each in heard] == [{"uri": "a://b"}, {"uri": "t://1"}]
    [gone, never] = await hand.ask(
        request(4, "resources/unsubscribe", {"uri": "a://b"}),
        request(5, "resources/unsubscribe", {"uri": "a://never"}),
    )
    assert (gone["result"], never["result"]) == ({}, {})
    server.notify_resource_updated("a://b")
    await asyncio.sleep(0)  # the turn in which it would be told
    [pong] = await hand.ask(request(6, "ping"))
    assert pong["result"] == {}


@pytest.mark.rule("RES-03")
@pytest.mark.parametrize("uri", ["a://b", "t://{x}"])
async def test_each_change_of_the_list_is_told_in_both_eras(uri):
    server = reading("x")
    filter = {"resourcesListChanged": True}
    listen = modern("sub", "subscriptions/listen", {"notifications": filter})
    hands = Hand(server.dispatcher, "2025-11-25"), Hand(server.dispatcher)
    assert (await hands[1].ask(listen))[0]["params"]["notifications"] == filter

    async def told():
        return {(await hand.next())["method"] for hand in hands}

    added = {"notifications/resources/list_changed"}
    if uri == "t://{x}":
        server.add_resource(uri, lambda x: x, name="t")
        assert await told() == added
    server.resources[uri].disable()
    assert await told() == added
    server.resources[uri].remove()
    assert await told() == added
    for hand in hands:
        await hand.connection.aclose()


@pytest.mark.parametrize("uri", ["a://c", "nothing", 7])
async def test_only_what_is_there_can_be_subscribed_to(uri):
    found = await in_session(reading("x"), "2025-11-25", "resources/subscribe", uri=uri)
    assert found["error"]["code"] == (-32002 if uri == "a://c" else -32602)


async def test_a_session_watches_a_bounded_number_of_resources(server):
    server.add_resource("a://{x}", lambda x: x, name="t")
    hand = Hand(server.dispatcher, "2025-11-25")
    asked = [
        request(n, "resources/subscribe", {"uri": f"a://{n}"}) for n in range(1, 1_025)
    ]
    assert all("result" in found for found in await hand.ask(*asked))
    [again, more, long] = await hand.ask(
        request(2_000, "resources/subscribe", {"uri": "a://1"}),
        request(2_001, "resources/subscribe", {"uri": "a://more"}),
        request(2_002, "resources/subscribe", {"uri": "a://" + "x" * 9_000}),
    )
    assert "result" in again
    assert more["error"]["code"] == long["error"]["code"] == -32602
