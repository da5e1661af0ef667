"""What the types offer their users besides fields; the keys of `_meta`; skills."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcpwire.types._base as meta
from mcpwire import types
from mcpwire.errors import InvalidMessage, LocalProtocolError, ToolError
from mcpwire.types import (
    GetSkillResult,
    ListSkillsResult,
    ReadResourceDirectoryResult,
    Skill,
    SkillResource,
    decode,
    encode,
)
from mcpwire.types._base import TRACE_KEYS, is_meta_key

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


# `_meta`: its typed forms, and the syntax of its keys...


REQUEST = {
    meta.PROTOCOL_VERSION: "2026-07-28",
    meta.CLIENT_CAPABILITIES: {"elicitation": {}},
    meta.CLIENT_INFO: {"name": "a", "version": "1"},
    meta.LOG_LEVEL: "info",
    "progressToken": 0,
    "com.example/more": [1],
}


@pytest.mark.rule("META-06")
def test_request_meta_has_a_typed_form():
    typed = decode(types.RequestMetaObject, REQUEST)
    assert typed.protocol_version == "2026-07-28"
    assert typed.client_capabilities.elicitation == types.ElicitationCapability()
    assert typed.client_info == types.Implementation("a", "1")
    assert typed.progress_token == 0
    assert typed.extra == {"com.example/more": [1]}
    assert encode(typed) == REQUEST


@pytest.mark.rule("SUB-06")
@pytest.mark.parametrize("subscription", [5, "5", 0, ""])
def test_subscription_is_identified_by_its_request_id(subscription):
    value = {meta.SUBSCRIPTION_ID: subscription}
    for cls in (
        types.NotificationMetaObject,
        types.SubscriptionsListenResultMetaObject,
    ):
        typed = decode(cls, value)
        assert typed.subscription_id == subscription
        assert type(typed.subscription_id) is type(subscription)
        assert encode(typed) == value


@pytest.mark.rule("META-03")
def test_protocol_keys_are_valid_and_reserved():
    keys = [
        *(meta.PROTOCOL_VERSION, meta.CLIENT_CAPABILITIES, meta.CLIENT_INFO),
        *(meta.LOG_LEVEL, meta.SERVER_INFO, meta.SUBSCRIPTION_ID, meta.RELATED_TASK),
    ]
    assert all(is_meta_key(key) for key in (*keys, *meta.TRACE_KEYS))
    assert all(key.startswith("io.modelcontextprotocol/") for key in keys)


@pytest.mark.rule("META-01", "META-02")
@pytest.mark.parametrize(
    "key",
    [
        *("progressToken", "a", "A9", "a-b_c.d", "", "com.example/", "com.example/a"),
        *("c0m/a.b", "a-b.c--d/e", "io.modelcontextprotocol/clientInfo"),
    ],
)
def test_key_is_an_optional_prefix_and_a_name(key):
    assert is_meta_key(key)


@pytest.mark.rule("META-01", "META-02")
@pytest.mark.parametrize(
    "key",
    [
        *("/a", ".com/a", "com./a", "com..b/a", "1com/a", "-com/a", "com-/a"),
        *("com_b/a", "com/a/b", "a ", "-a", "a-", "_a", "a.", ".a", "com/.a"),
        *("ü", "a\n"),
        "a" * 50_000 + "!",
        "a." * 50_000 + "!",
    ],
    ids=lambda key: ascii(key)[:12],
)
def test_other_text_is_not_a_key(key):
    assert not is_meta_key(key)


@pytest.mark.rule("TRACE-02")
def test_trace_keys_carry_no_prefix():
    assert TRACE_KEYS == ("traceparent", "tracestate", "baggage")
    assert all(map(is_meta_key, TRACE_KEYS))


@given(st.text())
def test_any_text_is_a_key_or_not(text):
    assert is_meta_key(text) in {True, False}


# The types of the skills extension, which is in no revision's schema (SEP-2640)...


URI = "skill://pdf/SKILL.md"
FILE = {"uri": URI, "digest": "sha256:" + "0" * 64, "size": 3}
ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "pdf", "description": "Fills forms", "metadata": {"a": 1}},
    "resources": [FILE],
}


def test_entry_holds_what_the_server_sent():
    skill = decode(Skill, {**ENTRY, "x-more": 1})
    assert skill == Skill(
        URI,
        ENTRY["frontmatter"],
        [SkillResource(URI, FILE["digest"], 3)],
        extra={"x-more": 1},
    )
    assert (skill.name, skill.description) == ("pdf", "Fills forms")
    assert not skill.is_dynamic
    assert encode(skill) == {**ENTRY, "x-more": 1}


def test_dynamic_skill_has_no_file_list():
    skill = decode(Skill, {**ENTRY, "resources": "dynamic"})
    assert skill.resources == "dynamic"
    assert skill.is_dynamic
    assert encode(skill) == {**ENTRY, "resources": "dynamic"}


@pytest.mark.parametrize("frontmatter", [{}, {"name": None, "description": 7}])
def test_missing_frontmatter_members_are_empty(frontmatter):
    skill = decode(Skill, {**ENTRY, "frontmatter": frontmatter})
    assert (skill.name, skill.description) == ("", "")


@pytest.mark.parametrize(
    ("resources", "path", "expected", "got"),
    [
        ("static", "Skill.resources", "'dynamic' or array", "'static'"),
        (None, "Skill.resources", "'dynamic' or array", "null"),
        ({}, "Skill.resources", "'dynamic' or array", "object"),
        (["dynamic"], "Skill.resources[0]", "object", "str"),
        ([{**FILE, "size": "3"}], "Skill.resources[0].size", "int", "str"),
    ],
)
def test_invalid_files_are_refused_with_their_path(resources, path, expected, got):
    with pytest.raises(InvalidMessage) as caught:
        decode(Skill, {**ENTRY, "resources": resources})
    error = caught.value
    assert (error.path, error.expected, error.got) == (path, expected, got)


def test_entry_without_files_is_refused():
    without = {key: ENTRY[key] for key in ("uri", "frontmatter")}
    with pytest.raises(InvalidMessage, match=r"skills\[0\]\.resources"):
        decode(ListSkillsResult, {"skills": [without]})


def test_page_has_a_next_cursor_and_cache_hints():
    hints = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
    page = decode(ListSkillsResult, {"skills": [ENTRY], "nextCursor": "2", **hints})
    assert page.skills == [decode(Skill, ENTRY)]
    assert (page.next_cursor, page.ttl_ms, page.cache_scope) == ("2", 5, "public")
    one = decode(GetSkillResult, {"skill": ENTRY, **hints})
    assert (one.skill, one.ttl_ms) == (page.skills[0], 5)


def test_directory_lists_resources():
    child = {"uri": "skill://pdf/a", "name": "a", "mimeType": "inode/directory"}
    page = decode(ReadResourceDirectoryResult, {"resources": [child]})
    (found,) = page.resources
    assert (found.uri, found.mime_type) == ("skill://pdf/a", "inode/directory")
    assert page.next_cursor is None
