"""What the types offer their users besides fields."""

from __future__ import annotations

import base64

import pytest

from mcpwire import types
from mcpwire.errors import InvalidMessage, LocalProtocolError, ToolError
from mcpwire.types import decode

BYTES = bytes(range(256))
BASE64 = base64.b64encode(BYTES).decode()


def test_text_of_a_result_is_its_text_blocks():
    result = types.CallToolResult(
        [
            types.TextContent("a"),
            types.ImageContent("", "image/png"),
            types.TextContent("b"),
            types.UnknownContent("x", {"type": "x", "text": "no"}),
        ]
    )
    assert result.text == "a\nb"
    assert types.CallToolResult().text == ""


@pytest.mark.rule("TOOL-15")
def test_raise_for_error_returns_a_successful_result():
    result = types.CallToolResult([types.TextContent("a")])
    assert result.raise_for_error() is result


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([types.TextContent("no such file")], "no such file"),
        ([], "the tool gave no reason"),
        ([types.TextContent("x" * 2_001)], f"{'x' * 2_000}... (1 characters more)"),
    ],
)
def test_raise_for_error_carries_text_and_result(content, message):
    result = types.CallToolResult(content, is_error=True)
    with pytest.raises(ToolError) as caught:
        result.raise_for_error()
    assert str(caught.value) == message
    assert caught.value.result is result


# --- bytes


@pytest.mark.parametrize(
    "value",
    [
        types.ImageContent(BASE64, "image/png"),
        types.AudioContent(BASE64, "audio/wav"),
        types.BlobResourceContents("x", BASE64),
    ],
)
def test_bytes_are_decoded_on_access(value):
    assert value.bytes == BYTES


@pytest.mark.parametrize(
    "text", ["a", "YQ", "YQ==YQ==", "Y Q==", "YQ==\n", "ä", "-_=="]
)
def test_invalid_base64_is_refused_on_access(text):
    """Our choice: a truncated picture is an error, not another picture."""
    image = decode(
        types.ImageContent, {"type": "image", "data": text, "mimeType": "image/png"}
    )
    with pytest.raises(InvalidMessage) as caught:
        _ = image.bytes
    assert caught.value.path == "ImageContent.data"
    assert caught.value.expected == "Base64"
    for value, path in (
        (types.AudioContent(text, "audio/wav"), "AudioContent.data"),
        (types.BlobResourceContents("x", text), "BlobResourceContents.blob"),
    ):
        with pytest.raises(InvalidMessage) as caught:
            _ = value.bytes
        assert caught.value.path == path


# --- resources and prompts

PARTS = [
    types.TextResourceContents("x", "ä"),
    types.BlobResourceContents("y", "/w=="),
    types.TextResourceContents("z", "b"),
]


def test_text_of_a_resource_is_its_text_parts():
    assert types.ReadResourceResult(PARTS).text == "ä\nb"
    assert types.ReadResourceResult([]).text == ""


def test_bytes_of_a_resource_are_all_parts():
    assert types.ReadResourceResult(PARTS).bytes == "ä".encode() + b"\xff" + b"b"


def test_text_of_a_prompt_message_without_text_is_empty():
    assert types.PromptMessage("user", types.TextContent("a")).text == "a"
    image = types.ImageContent("", "image/png")
    assert types.PromptMessage("user", image).text == ""


def test_text_of_a_sampling_result_is_its_text_blocks():
    blocks = [types.TextContent("a"), types.ToolUseContent("1", "add", {})]
    assert types.CreateMessageResult("assistant", blocks, "m").text == "a"
    assert types.CreateMessageResult("assistant", blocks[0], "m").text == "a"


# --- display names


@pytest.mark.rule("TOOL-23")
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"title": "T", "annotations": types.ToolAnnotations("A")}, "T"),
        ({"annotations": types.ToolAnnotations("A")}, "A"),
        ({"annotations": types.ToolAnnotations()}, "n"),
        ({}, "n"),
    ],
)
def test_tool_is_displayed_by_title_then_annotation_then_name(fields, name):
    """The order is required by the specification."""
    assert types.Tool("n", {"type": "object"}, **fields).display_name == name


@pytest.mark.parametrize(
    "value",
    [types.Resource("x", "n"), types.ResourceTemplate("x", "n"), types.Prompt("n")],
)
def test_other_types_are_displayed_by_title_then_name(value):
    assert value.display_name == "n"
    value.title = "T"
    assert value.display_name == "T"


# --- repr


def test_repr_shows_the_set_fields():
    result = types.CallToolResult([types.TextContent("3")], {"result": 3})
    assert repr(result) == (
        "CallToolResult(content=[TextContent(text='3')], "
        "structured_content={'result': 3})"
    )
    assert repr(types.CallToolResult()) == "CallToolResult()"
    assert repr(types.ServerCapabilities(types.ToolsCapability(list_changed=True))) == (
        "ServerCapabilities(tools=ToolsCapability(list_changed=True))"
    )


def test_repr_elides_long_data():
    image = types.ImageContent("A" * 10**6, "image/png")
    shown = repr(types.CallToolResult([image] * 1000))
    assert len(shown) < 1000
    assert "(1000000 characters)" in shown
    assert "1000 in all" in shown
    tool = types.Tool("a", {str(number): number for number in range(100)})
    assert "100 in all" in repr(tool)


def test_repr_is_one_line_without_control_characters():
    assert repr(types.TextContent("a\n\x1b[31m")) == r"TextContent(text='a\n\x1b[31m')"


def test_repr_does_not_descend_into_deep_json():
    """Regression: deep JSON must not end a log line in a RecursionError."""
    deep = {}
    for _ in range(5000):
        deep = {"a": [deep]}
    assert len(repr(types.Tool("a", deep))) < 100
    empty = types.Tool("a", {"a": {"b": {"c": {"d": {}}}}})
    assert repr(empty).endswith("{'a': {'b': {'c': {'d': {}}}}})")


@pytest.mark.parametrize("uri", ["file:///d", "a:", "x-1.y+z:b", "HTTPS://h", "a:b c"])
def test_link_may_have_any_uri_with_a_scheme(uri):
    assert types.ResourceLink(uri, "d").uri == uri


@pytest.mark.parametrize(
    "uri", ["d", "", ":", "/d", "1a:b", "a b:c", "ä:b", "+:b", "a/b:c", 5]
)
def test_link_without_a_scheme_is_refused_by_the_constructor(uri):
    with pytest.raises(LocalProtocolError) as caught:
        types.ResourceLink(uri, "file:///d")
    assert str(caught.value) == (
        "ResourceLink.uri must be a URI with a scheme (RFC 3986), such as "
        f"'file:///a.txt', got {uri!r}"
    )


def test_received_link_without_a_scheme_is_decoded():
    received = {"type": "resource_link", "uri": "d", "name": "file:///d"}
    assert types.decode(types.ResourceLink, received).uri == "d"
