"""Resources and templates: what reading gives, what is not there, and for whom."""

import asyncio
import base64
import threading
from dataclasses import dataclass
from typing import Literal

import pytest
from by_hand import CLIENT_KEY, Hand, modern, request
from single import answer, code, error, in_session, over_http, result, sees

import mcpwire
from mcpwire import types
from mcpwire.server.app import Server
from mcpwire.server.asking.context import Context
from mcpwire.server.auth.challenges import ScopeRequired
from mcpwire.server.authoring.content import File
from mcpwire.server.authoring.injection import Depends

pytestmark = pytest.mark.anyio

BLOB = base64.b64encode(b"\x00\xff").decode()


@dataclass
class Point:
    x: int


def reading(value, **options):
    """Return a server whose one resource is made by a function that returns that."""
    server = Server("s")
    server.add_resource("a://b", lambda: value, name="b", **options)
    return server


async def contents(server, uri="a://b"):
    return (await result(server, "resources/read", uri=uri))["contents"]


# What reading gives...

VALUES = {
    "a text": ("x", {"mimeType": "text/plain", "text": "x"}),
    "an empty text": ("", {"mimeType": "text/plain", "text": ""}),
    "bytes": (b"\x00\xff", {"mimeType": "application/octet-stream", "blob": BLOB}),
    "an object": ({"x": 1}, {"mimeType": "application/json", "text": '{"x":1}'}),
    "a list": ([1, 2], {"mimeType": "application/json", "text": "[1,2]"}),
    "an empty list": ([], {"mimeType": "application/json", "text": "[]"}),
    "a dataclass": (Point(1), {"mimeType": "application/json", "text": '{"x":1}'}),
    "a file": (
        File(b"# x", mime_type="text/markdown"),
        {"mimeType": "text/markdown", "text": "# x"},
    ),
}


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("case", VALUES)
async def test_any_value_becomes_contents(case):
    value, members = VALUES[case]
    assert await contents(reading(value)) == [{"uri": "a://b", **members}]
    server = Server("s")
    server.add_resource("a://b", value)
    assert await contents(server) == [{"uri": "a://b", **members}]


async def test_contents_may_be_several_with_uris_of_their_own():
    text = types.TextResourceContents(uri="a://b/1", text="x")
    blob = types.BlobResourceContents(uri="a://b/2", blob=BLOB, mime_type="image/png")
    assert await contents(reading([text, blob])) == [
        {"uri": "a://b/1", "mimeType": "text/plain", "text": "x"},
        {"uri": "a://b/2", "mimeType": "image/png", "blob": BLOB},
    ]


async def test_a_media_type_may_be_given():
    server = reading("<p>", mime_type="text/html")
    assert (await contents(server))[0]["mimeType"] == "text/html"
    [listed] = (await result(server, "resources/list"))["resources"]
    assert listed == {"uri": "a://b", "name": "b", "mimeType": "text/html"}


async def test_a_plain_function_runs_in_a_thread_unless_told_otherwise():
    server, threads = Server("s"), {}

    def note(name):
        threads[name] = threading.current_thread()
        return "x"

    server.add_resource("a://plain", lambda: note("plain"), name="plain")
    server.add_resource("a://here", lambda: note("here"), name="here", thread=False)

    @server.resource("a://async")
    async def _async() -> str:
        return note("async")

    for uri in ("a://plain", "a://here", "a://async"):
        await contents(server, uri)
    here = threading.current_thread()
    assert [threads[n] is here for n in ("plain", "here", "async")] == [
        False,
        True,
        True,
    ]


def test_an_async_function_needs_no_thread():
    async def function():
        """Do nothing."""

    with pytest.raises(ValueError, match="thread=True is for plain functions"):
        Server("s").add_resource("a://b", function, thread=True)


async def test_a_function_may_take_the_context_and_dependencies():
    server = Server("s")

    def prefix():
        return "hello "

    @server.resource("greet://{name}")
    async def greet(name: str, context: Context, before: str = Depends(prefix)) -> str:
        return f"{before}{name} from {context.client_info['name']}"

    assert (await contents(server, "greet://Ada"))[0]["text"] == "hello Ada from hand"


async def test_a_question_of_a_resource_makes_a_round():
    server = Server("s")

    @server.resource("a://b")
    async def read(context: Context) -> str:
        answered = await context.elicit("Who?", {"type": "object", "properties": {}})
        return answered.action

    client = mcpwire.Client(
        server, elicitation=lambda _: mcpwire.types.ElicitResult("decline")
    )
    async with client:
        assert (await client.read_resource("a://b")).text == "decline"


# Templates...


async def test_values_of_a_template_are_what_the_function_asks_for():
    server = Server("s")

    @server.resource("item://{shelf}/{id}{?deep,limit}")
    def item(
        shelf: Literal["a", "b"], id: int, *, deep: bool = False, limit: int = 9
    ) -> dict:
        return {"shelf": shelf, "id": id, "deep": deep, "limit": limit}

    [found] = await contents(server, "item://a/7?deep=true")
    assert found["text"] == '{"shelf":"a","id":7,"deep":true,"limit":9}'
    assert found["uri"] == "item://a/7?deep=true"


@pytest.mark.rule("RES-06")
@pytest.mark.parametrize("uri", ["item://c/7", "item://a/x", "item://a/7?deep=maybe"])
async def test_a_value_of_another_type_is_that_of_no_resource(uri):
    server = Server("s")

    @server.resource("item://{shelf}/{id}{?deep}")
    def item(shelf: Literal["a", "b"], id: int, *, deep: bool = False) -> str:
        return "x"

    found = await error(server, "resources/read", uri=uri)
    assert (found["code"], found["data"]) == (-32602, {"uri": uri})


async def test_what_was_registered_by_its_uri_goes_before_templates_in_their_order():
    server = Server("s")
    server.add_resource("a://{x}", lambda x: f"first {x}", name="first")
    server.add_resource("a://{y}", lambda y: f"second {y}", name="second")
    server.add_resource("a://b", "itself")
    assert [(await contents(server, uri))[0]["text"] for uri in ("a://b", "a://c")] == [
        "itself",
        "first c",
    ]


async def test_a_template_that_does_not_take_a_value_leaves_it_to_the_next():
    server = Server("s")

    @server.resource("a://{number}")
    def by_number(number: int) -> str:
        return f"number {number}"

    @server.resource("a://{name}")
    def by_name(name: str) -> str:
        return f"name {name}"

    assert (await contents(server, "a://7"))[0]["text"] == "number 7"
    assert (await contents(server, "a://x"))[0]["text"] == "name x"


@pytest.mark.rule("RES-14")
async def test_templates_are_listed_under_their_own_name():
    server = Server("s")

    @server.resource("a://{x}", title="T", mime_type="text/csv", meta={"k": 1})
    def table(x: str) -> str:
        """Return a table."""
        return x

    listed = await result(server, "resources/templates/list")
    assert listed["resourceTemplates"] == [
        {
            "uriTemplate": "a://{x}",
            "name": "table",
            "title": "T",
            "description": "Return a table.",
            "mimeType": "text/csv",
            "_meta": {"k": 1},
        }
    ]
    assert (await result(server, "resources/list"))["resources"] == []
    old = await in_session(server, "2024-11-05", "resources/templates/list")
    [shown] = old["result"]["resourceTemplates"]
    assert "title" not in shown


@pytest.mark.rule("RES-08", "RES-09")
@pytest.mark.attack("S19")
async def test_values_lead_nowhere_unless_that_is_wanted():
    server = Server("s")
    server.add_resource("file:///{path*}", lambda path: path, name="safe")
    server.add_resource(
        "any:///{path*}", lambda path: path, name="any", unchecked=["path"]
    )
    assert await code(server, "resources/read", uri="file:///a/../../etc") == -32602
    assert await code(server, "resources/read", uri="file:///a%2F..%2Fb") == -32602
    assert (await contents(server, "any:///a/../b"))[0]["text"] == "a/../b"


# What is not there...

UNKNOWN = "a://nothing/at%20all"


@pytest.mark.rule("RES-04", "RES-05", "RES-06")
async def test_what_is_not_there_is_an_error_of_its_era():
    server = reading("x")
    now = await error(server, "resources/read", uri=UNKNOWN)
    then = (await in_session(server, "2025-11-25", "resources/read", uri=UNKNOWN))[
        "error"
    ]
    assert (now["code"], then["code"]) == (-32602, -32002)
    assert now["data"] == then["data"] == {"uri": UNKNOWN}


@pytest.mark.rule("RES-06")
async def test_a_function_says_with_none_that_there_is_nothing():
    server = Server("s")
    server.add_resource("a://{x}", lambda x: None, name="none")
    found = await error(server, "resources/read", uri="a://b")
    assert (found["code"], found["data"]) == (-32602, {"uri": "a://b"})


@pytest.mark.rule("RES-06")
async def test_no_contents_at_all_are_none():
    found = reading(types.ReadResourceResult(contents=[]))
    assert await code(found, "resources/read", uri="a://b") == -32602


async def test_a_long_uri_is_not_sent_back():
    found = await error(reading("x"), "resources/read", uri="a://" + "x" * 5_000)
    assert "data" not in found
    assert len(found["message"]) < 200


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("uri", ["nothing", "", "a b", "/etc/passwd"])
async def test_what_is_no_uri_is_refused_as_such(uri):
    found = await error(reading("x"), "resources/read", uri=uri)
    assert (found["code"], found["message"]) == (
        -32602,
        f"params.uri is no URI: {uri!r}",
    )


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("uri", [None, 7, ["a://b"]])
async def test_a_uri_is_a_text(uri):
    found = await error(reading("x"), "resources/read", uri=uri)
    assert (found["code"], found["message"]) == (-32602, "params.uri must be a string")


@pytest.mark.rule("RES-04")
async def test_what_a_function_raises_stays_with_us():
    def fail():
        raise ValueError("the password")

    server = Server("s")
    server.add_resource("a://b", fail)
    found = await error(server, "resources/read", uri="a://b")
    assert (found["code"], found["message"]) == (-32603, "the handler failed")


# For whom...


@pytest.mark.rule("RES-02", "RES-08", "CACHE-13")
async def test_what_somebody_does_not_see_is_not_there():
    server = Server("s")
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
async def test_scopes_are_needed_over_http():
    server = Server("s")
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


@pytest.mark.rule("PAGE-06")
@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list"])
async def test_a_cursor_that_was_never_given_out_is_refused(method):
    server = Server("s", page_size=1)
    server.add_resource("a://{x}", lambda x: x, name="t")
    for cursor in ("", "made up"):
        assert await code(server, method, cursor=cursor) == -32602


# Subscriptions...


@pytest.mark.rule("RES-03")
@pytest.mark.case("F06")
async def test_who_subscribed_hears_of_changes_until_they_unsubscribe():
    server = Server("s")
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


@pytest.mark.parametrize("uri", ["a://c", "nothing", 7])
async def test_only_what_is_there_can_be_subscribed_to(uri):
    found = await in_session(reading("x"), "2025-11-25", "resources/subscribe", uri=uri)
    assert found["error"]["code"] == (-32002 if uri == "a://c" else -32602)


async def test_a_session_watches_a_bounded_number_of_resources():
    server = Server("s")
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


# Registering...


async def test_handles_change_what_is_there():
    server = Server("s")
    handle = server.add_resource("a://b", "old", title="T")
    template = server.add_resource("t://{x}", lambda x: f"old {x}", name="t")
    handle.replace("new")
    template.replace(lambda x: f"new {x}", description="D")
    assert [(await contents(server, uri))[0]["text"] for uri in ("a://b", "t://1")] == [
        "new",
        "new 1",
    ]
    [listed] = (await result(server, "resources/list"))["resources"]
    assert listed["title"] == "T"
    assert server.resources["t://{x}"].component.definition["description"] == "D"
    server.resources["a://b"].remove()
    assert await code(server, "resources/read", uri="a://b") == -32602
    assert "a://b" not in server.resources
    assert "t://{x}" in server.resources
    assert len(server.resources) == 1
    with pytest.raises(KeyError, match="there is no resource 'a://b'"):
        server.resources["a://b"]


async def test_the_list_shows_all_that_was_said():
    server = Server("s")

    @server.resource(
        "a://b",
        name="n",
        title="T",
        description="D",
        mime_type="text/csv",
        size=3,
        annotations={"audience": ["user"], "priority": 0.5},
        icons=["https://example.com/i.png"],
        meta={"k": "v"},
    )
    def function() -> str:
        """Say something else."""
        return "x"

    assert (await result(server, "resources/list"))["resources"] == [
        {
            "uri": "a://b",
            "name": "n",
            "title": "T",
            "description": "D",
            "mimeType": "text/csv",
            "size": 3,
            "annotations": {"audience": ["user"], "priority": 0.5},
            "icons": [{"src": "https://example.com/i.png"}],
            "_meta": {"k": "v"},
        }
    ]


async def test_a_value_says_by_itself_what_it_is():
    server = Server("s")
    server.add_resource("a://b/c.bin", b"\x00")
    server.add_resource("urn:x", {"a": 1})
    listed = (await result(server, "resources/list"))["resources"]
    assert [(each["name"], each["mimeType"]) for each in listed] == [
        ("c.bin", "application/octet-stream"),
        ("urn:x", "application/json"),
    ]


def one(x: str) -> str:
    return x


def two(x: str, y: str) -> str:
    return x + y


def none() -> str:
    return "x"


REFUSED = {
    "no scheme": ("b", none, {}, ValueError, "'b' is no URI: it needs a scheme"),
    "letters of other alphabets": ("a://é", none, {}, ValueError, "is no URI"),
    "a brace too many": ("a://}", none, {}, ValueError, "'}' must be percent-encoded"),
    "variables side by side": ("a://{x}{y}", two, {}, ValueError, "a sign must stand"),
    "no such variable": ("a://{x}", one, {"unchecked": ["y"]}, ValueError, "'y'"),
    "a parameter without a variable": ("a://b", one, {}, TypeError, "has no variables"),
    "a variable without a parameter": (
        "a://{y}",
        one,
        {},
        TypeError,
        "no parameter 'y'",
    ),
    "one without a value": ("a://{x}", two, {}, TypeError, "needs a default for 'y'"),
    "one that may be left out": ("a://{x}{?y}", two, {}, TypeError, "default for 'y'"),
    "a template of a value": ("a://{x}", "text", {}, TypeError, "needs a function"),
    "a template with a size": ("a://{x}", one, {"size": 3}, ValueError, "has no size"),
    "a value of no form": ("a://b", object(), {}, TypeError, "JSON"),
    "a function without a name": ("a://b", lambda: "x", {}, ValueError, "a name"),
    "a time before now": ("a://b", "x", {"ttl_ms": -1}, ValueError, "ttl_ms"),
    "no time": ("a://b", "x", {"ttl_ms": 0.5}, ValueError, "ttl_ms"),
    "an unknown scope": (
        "a://b",
        "x",
        {"cache_scope": "all"},
        ValueError,
        "cache_scope",
    ),
    "public and not": (
        "a://b",
        "x",
        {"cache_scope": "public", "scopes": ["s"]},
        ValueError,
        "cannot be cached as public",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_served_is_refused_when_it_is_registered(case):
    uri, target, options, kind, problem = REFUSED[case]
    server = Server("s")
    with pytest.raises(kind) as caught:
        server.add_resource(uri, target, **options)
    assert problem in str(caught.value)
    assert len(server.resources) == 0


async def test_a_mounted_servers_resources_keep_their_uris():
    inner, outer = Server("inner"), Server("outer")
    inner.add_resource("a://b", "inner")

    @inner.resource("t://{x}")
    async def read(x: str, context: Context) -> str:
        return f"{context.server.name} {x}"

    outer.mount(inner, prefix="in")
    assert (await contents(outer, "a://b"))[0]["text"] == "inner"
    assert (await contents(outer, "t://1"))[0]["text"] == "inner 1"


@pytest.mark.rule("RES-01")
async def test_the_capability_is_there_once_there_is_a_resource():
    server = Server("s")
    before = await answer(server, "resources/list")
    assert before["error"]["code"] == -32601
    server.add_resource("a://{x}", lambda x: x, name="t")
    described = await result(server, "server/discover")
    assert described["capabilities"]["resources"] == {
        "subscribe": True,
        "listChanged": True,
    }
    assert (await result(server, "resources/list"))["resources"] == []
