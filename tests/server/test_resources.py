"""Resources and templates: contents of reads, and unknown resources."""

import base64
import threading
from dataclasses import dataclass
from typing import Literal

import pytest
from single_request import code, contents, error, in_session, reading, result

from mcpwire import types
from mcpwire.server.authoring.injection import Depends
from mcpwire.server.authoring.results import File
from mcpwire.server.context import Context
from mcpwire.server.server import Server

BLOB = base64.b64encode(b"\x00\xff").decode()


@dataclass
class Point:
    x: int


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
async def test_any_value_is_converted_to_contents(server, case):
    value, members = VALUES[case]
    assert await contents(reading(value)) == [{"uri": "a://b", **members}]
    server.add_resource("a://b", value)
    assert await contents(server) == [{"uri": "a://b", **members}]


async def test_read_may_return_several_contents_with_own_uris():
    text = types.TextResourceContents(uri="a://b/1", text="x")
    blob = types.BlobResourceContents(uri="a://b/2", blob=BLOB, mime_type="image/png")
    assert await contents(reading([text, blob])) == [
        {"uri": "a://b/1", "mimeType": "text/plain", "text": "x"},
        {"uri": "a://b/2", "mimeType": "image/png", "blob": BLOB},
    ]


async def test_mime_type_option_is_used_in_list_and_read():
    server = reading("<p>", mime_type="text/html")
    assert (await contents(server))[0]["mimeType"] == "text/html"
    [listed] = (await result(server, "resources/list"))["resources"]
    assert listed == {"uri": "a://b", "name": "b", "mimeType": "text/html"}


async def test_sync_function_runs_in_a_thread_unless_disabled():
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
    assert {name for name, ran in threads.items() if ran is here} == {"here", "async"}


async def test_resource_function_takes_context_and_dependencies(server):
    def prefix():
        return "hello "

    @server.resource("greet://{name}")
    async def greet(name: str, context: Context, before: str = Depends(prefix)) -> str:
        return f"{before}{name} from {context.client_info['name']}"

    assert (await contents(server, "greet://Ada"))[0]["text"] == "hello Ada from hand"


async def test_template_values_are_converted_to_parameter_types(server):
    @server.resource("item://{shelf}/{ids*}{?deep,limit}")
    def item(
        shelf: Literal["a", "b"], ids: list[int], *, deep: bool = False, limit: int = 9
    ) -> dict:
        return {"shelf": shelf, "ids": ids, "deep": deep, "limit": limit}

    [found] = await contents(server, "item://a/7/8?deep=true")
    assert found["text"] == '{"shelf":"a","ids":[7,8],"deep":true,"limit":9}'
    assert found["uri"] == "item://a/7/8?deep=true"


@pytest.mark.rule("RES-06")
@pytest.mark.parametrize("uri", ["item://c/7", "item://a/x", "item://a/7?deep=maybe"])
async def test_template_value_of_the_wrong_type_is_not_found(server, uri):
    @server.resource("item://{shelf}/{id}{?deep}")
    def item(shelf: Literal["a", "b"], id: int, *, deep: bool = False) -> str:
        return "x"

    found = await error(server, "resources/read", uri=uri)
    assert (found["code"], found["data"]) == (-32602, {"uri": uri})


async def test_fixed_uri_precedes_templates_in_registration_order(server):
    server.add_resource("a://{x}", lambda x: f"first {x}", name="first")
    server.add_resource("a://{y}", lambda y: f"second {y}", name="second")
    server.add_resource("a://b", "itself")
    assert (await contents(server, "a://b"))[0]["text"] == "itself"
    assert (await contents(server, "a://c"))[0]["text"] == "first c"


async def test_template_refusing_a_value_falls_through_to_the_next(server):
    @server.resource("a://{number}")
    def by_number(number: int) -> str:
        return f"number {number}"

    @server.resource("a://{name}")
    def by_name(name: str) -> str:
        return f"name {name}"

    assert (await contents(server, "a://7"))[0]["text"] == "number 7"
    assert (await contents(server, "a://x"))[0]["text"] == "name x"


@pytest.mark.rule("RES-14")
async def test_templates_are_listed_under_their_own_name(server):
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
async def test_path_traversal_is_refused_unless_unchecked(server):
    server.add_resource("file:///{path*}", lambda path: path, name="safe")
    server.add_resource(
        "any:///{path*}", lambda path: path, name="any", unchecked=["path"]
    )
    assert await code(server, "resources/read", uri="file:///a/../../etc") == -32602
    assert await code(server, "resources/read", uri="file:///a%2F..%2Fb") == -32602
    assert (await contents(server, "any:///a/../b"))[0]["text"] == "a/../b"


@pytest.mark.rule("RES-06")
async def test_function_returning_none_means_not_found(server):
    server.add_resource("a://{x}", lambda x: None, name="none")
    found = await error(server, "resources/read", uri="a://b")
    assert (found["code"], found["data"]) == (-32602, {"uri": "a://b"})


@pytest.mark.rule("RES-06")
async def test_result_without_contents_is_not_found():
    found = reading(types.ReadResourceResult(contents=[]))
    assert await code(found, "resources/read", uri="a://b") == -32602


async def test_long_uri_is_not_echoed_in_the_error():
    found = await error(reading("x"), "resources/read", uri="a://" + "x" * 5_000)
    assert "data" not in found
    assert len(found["message"]) < 200


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize(
    "uri", ["nothing", "", "a b", "/etc/passwd", None, 7, ["a://b"]]
)
async def test_value_that_is_not_a_uri_is_refused(uri):
    found = await error(reading("x"), "resources/read", uri=uri)
    problem = f"is not a URI: {uri!r}" if type(uri) is str else "must be a string"
    assert (found["code"], found["message"]) == (-32602, f"params.uri {problem}")


async def test_handles_replace_and_remove_resources(server):
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
    with pytest.raises(KeyError, match="unknown resource 'a://b'"):
        server.resources["a://b"]


async def test_resource_list_shows_all_registered_fields(server):
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


async def test_name_and_media_type_default_from_uri_and_value(server):
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


PUBLIC = {"cache_scope": "public", "scopes": ["s"]}


@pytest.mark.parametrize(
    ("uri", "target", "options", "kind", "problem"),
    [
        ("b", none, {}, ValueError, "'b' is not a URI: it needs a scheme"),
        ("a://é", none, {}, ValueError, "is not a URI"),
        ("a://}", none, {}, ValueError, "'}' must be percent-encoded"),
        ("a://{x}{y}", two, {}, ValueError, "a sign must stand"),
        ("a://{x}", one, {"unchecked": ["y"]}, ValueError, "'y'"),
        ("a://b", one, {}, TypeError, "has no variables"),
        ("a://{y}", one, {}, TypeError, "no parameter 'y'"),
        ("a://{x}", two, {}, TypeError, "needs a default for 'y'"),
        ("a://{x}{?y}", two, {}, TypeError, "default for 'y'"),
        ("a://{x}", "text", {}, TypeError, "needs a function"),
        ("a://{x}", one, {"size": 3}, ValueError, "has no size"),
        ("a://b", object(), {}, TypeError, "JSON"),
        ("a://b", lambda: "x", {}, ValueError, "a name"),
        ("a://b", "x", {"ttl_ms": -1}, ValueError, "ttl_ms"),
        ("a://b", "x", {"ttl_ms": 0.5}, ValueError, "ttl_ms"),
        ("a://b", "x", {"cache_scope": "all"}, ValueError, "cache_scope"),
        ("a://b", "x", PUBLIC, ValueError, "cannot be cached as public"),
    ],
)
def test_invalid_resource_is_refused_at_registration(
    uri, target, options, kind, problem
):
    server = Server("s")
    with pytest.raises(kind) as caught:
        server.add_resource(uri, target, **options)
    assert problem in str(caught.value)
    assert len(server.resources) == 0
