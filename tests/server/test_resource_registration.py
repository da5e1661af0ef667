"""Resources: registering, listing, replacing and removing."""

import pytest
from single_request import code, contents, result

from mcpwire import Server


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
