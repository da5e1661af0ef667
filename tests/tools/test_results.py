"""Results of tools in the four forms, complete and truncated."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.tools.results import (
    EXTRAS,
    FLAT_FORMS,
    cut_text,
    describe_block,
    extra_tools,
    flatten,
    json_text,
    trim_result,
)
from mcpwire.types import (
    UNSET,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
    UnknownContent,
    encode,
)
from mcpwire.types.lifecycle import PromptsCapability, ResourcesCapability

IMAGE = ImageContent("AAECAw==", "image/png")
SOUND = AudioContent("AAEC", "audio/wav")
LINK = ResourceLink("file:///a.txt", "a", mime_type="text/plain")
NAMED_LINK = ResourceLink("file:///b", "b", title="The b")
NOTE = EmbeddedResource(TextResourceContents("note://1", "a note"))
BLOB = EmbeddedResource(BlobResourceContents("blob://1", "AAE=", "image/gif"))
BARE_BLOB = EmbeddedResource(BlobResourceContents("blob://2", "AAE="))
NEW = UnknownContent("hologram", {"type": "hologram"})

MARKS = [
    (IMAGE, "[image image/png, 4 bytes]"),
    (SOUND, "[audio audio/wav, 3 bytes]"),
    (LINK, "[resource file:///a.txt (text/plain): a]"),
    (NAMED_LINK, "[resource file:///b: The b]"),
    (NOTE, "[resource note://1, 6 bytes]"),
    (BLOB, "[resource blob://1 image/gif, 2 bytes]"),
    (BARE_BLOB, "[resource blob://2 application/octet-stream, 2 bytes]"),
    (NEW, "[hologram content]"),
]


def texts(*parts):
    return CallToolResult([TextContent(part) for part in parts])


@pytest.mark.system("V17")
def test_text_form_joins_nonempty_text_blocks():
    result = CallToolResult(
        [TextContent("one"), IMAGE, TextContent(""), TextContent("two")]
    )
    assert flatten(result, marks=False) == "one\ntwo"


@pytest.mark.system("L-V10", "L-R10")
@pytest.mark.parametrize(("block", "mark"), MARKS, ids=lambda case: str(case)[:30])
def test_non_text_blocks_are_described(block, mark):
    assert describe_block(block) == mark
    assert flatten(CallToolResult([block]), marks=False) == ""
    if block is not NOTE:
        assert flatten(CallToolResult([TextContent("see"), block])) == f"see\n{mark}"


@pytest.mark.system("L-V10", "L-R10")
def test_text_form_includes_embedded_resource_text():
    assert flatten(CallToolResult([NOTE])) == "[resource note://1]\na note"


@pytest.mark.system("L-V10")
def test_structured_content_without_blocks_becomes_json():
    result = CallToolResult(structured_content={"sum": 5})
    assert flatten(result) == flatten(result, "auto") == '{"sum":5}'
    assert flatten(CallToolResult(structured_content=None)) == "null"


@pytest.mark.system("A73")
@pytest.mark.parametrize(
    ("result", "flat"),
    [
        (texts("alone"), "alone"),
        (texts(""), ""),
        (CallToolResult(), ""),
        (
            texts("one", "two"),
            '[{"type":"text","text":"one"},{"type":"text","text":"two"}]',
        ),
        (
            CallToolResult([IMAGE]),
            '[{"type":"image","data":"AAECAw==","mimeType":"image/png"}]',
        ),
    ],
    ids=["one text", "one empty text", "none", "two texts", "an image"],
)
def test_auto_form_is_one_text_or_the_blocks(result, flat):
    found = flatten(result, "auto")
    assert found == flat or json.loads(found) == json.loads(flat)


@pytest.mark.system("A73", "V17")
def test_each_form_of_one_result():
    result = CallToolResult([TextContent("a"), IMAGE], structured_content={"sum": 5})
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "AAECAw==", "mimeType": "image/png"},
    ]
    expected = {
        "text": "a\n[image image/png, 4 bytes]",
        "structured": {"sum": 5},
        "blocks": blocks,
    }
    for form, flat in expected.items():
        assert flatten(result, form) == flat
    assert json.loads(flatten(result, "auto")) == blocks
    assert {*expected, "auto"} == set(FLAT_FORMS)


@pytest.mark.system("R10")
@pytest.mark.parametrize(
    ("result", "flat"),
    [
        (CallToolResult([TextContent("5")], structured_content={"sum": 5}), {"sum": 5}),
        (CallToolResult([TextContent("null")], structured_content=None), None),
        (texts("a", "b"), "a\nb"),
    ],
    ids=["data", "null is data", "no data"],
)
def test_structured_form_prefers_the_data_to_the_text(result, flat):
    assert flatten(result, "structured") == flat


@pytest.mark.system("R10")
@pytest.mark.parametrize("form", FLAT_FORMS)
def test_error_result_is_flattened_like_any_other(form):
    failed = CallToolResult([TextContent("no such file")], is_error=True)
    assert flatten(failed, form) == flatten(texts("no such file"), form)
    with pytest.raises(Exception, match="no such file"):
        failed.raise_for_error()


def test_unknown_form_and_nonpositive_limit_are_refused():
    with pytest.raises(ValueError, match="form must be 'text', 'auto'"):
        flatten(texts("a"), "prose")
    for call in (lambda: flatten(texts("a"), max_bytes=0), lambda: cut_text("a", -1)):
        with pytest.raises(ValueError, match="max_bytes must be at least 1"):
            call()


@pytest.mark.parametrize(
    ("text", "bound", "cut"),
    [
        ("short", 5, "short"),
        ("x" * 100, 30, "x" * 13 + "\n[87 more bytes]"),
        ("ä" * 50, 30, "ä" * 6 + "\n[88 more bytes]"),
        ("x" * 100, 5, "xxxxx"),
        ("ä" * 50, 5, "ää"),
    ],
)
def test_text_is_truncated_at_a_character_with_a_marker(text, bound, cut):
    assert cut_text(text, bound) == cut


@given(st.text(alphabet="aä€😀\n", max_size=200), st.integers(1, 120))
def test_truncated_text_is_a_prefix_within_the_limit(text, bound):
    found = cut_text(text, bound)
    assert len(found.encode()) <= max(bound, len(text.encode()) if found == text else 0)
    kept, _, marker = found.rpartition("\n[")
    if found != text and marker.endswith(" more bytes]"):
        assert text.startswith(kept)
        assert len(kept.encode()) + int(marker.split()[0]) == len(text.encode())
    else:
        assert text.startswith(found)


def test_each_form_is_truncated():
    long = texts("x" * 1000)
    assert len(flatten(long, max_bytes=100)) <= 100
    assert len(flatten(long, "auto", max_bytes=100)) <= 100
    data = CallToolResult(structured_content={"text": "x" * 1000})
    assert flatten(data, "structured", max_bytes=2000) == {"text": "x" * 1000}
    assert flatten(data, "structured", max_bytes=100).endswith("more bytes]")
    blocks = flatten(long, "blocks", max_bytes=200)
    assert [block["type"] for block in blocks] == ["text", "text"]


def test_result_within_the_limit_is_unchanged():
    result = CallToolResult([TextContent("a"), IMAGE], structured_content={})
    assert trim_result(result, 1000) is result


def test_result_is_trimmed_after_the_limit():
    image = ImageContent("A" * 400, "image/png")
    result = CallToolResult([TextContent("one"), TextContent("x" * 400), image])
    trimmed = trim_result(result, 200)
    first, second, notice = trimmed.content
    assert first == TextContent("one")
    assert 0 < len(second.text) < 200
    missing = (
        400 - len(second.text) + len(json.dumps(encode(image), separators=(",", ":")))
    )
    assert notice.text == f"[{missing} more bytes of this result were left out]"
    assert len(result.content) == 3


def test_oversized_image_is_omitted():
    image = ImageContent("A" * 400, "image/png")
    result = CallToolResult([image, TextContent("after")], is_error=True)
    trimmed = trim_result(result, 100)
    assert len(trimmed.content) == 1
    assert trimmed.content[0].text.endswith("were left out]")
    assert trimmed.is_error


def test_structured_content_is_kept_whole_or_dropped():
    data = {"x": "y" * 50}
    result = CallToolResult([TextContent("a")], structured_content=data)
    assert trim_result(result, 60).structured_content is UNSET
    assert trim_result(result, 200).structured_content == data


def test_empty_text_does_not_count_as_missing():
    result = CallToolResult([TextContent(""), TextContent("x" * 100)])
    trimmed = trim_result(result, 10)
    assert [block.text for block in trimmed.content] == [
        "",
        "",
        "[100 more bytes of this result were left out]",
    ]
    assert trim_result(CallToolResult([TextContent("")]), 1).content == [
        TextContent("")
    ]


def test_too_deeply_nested_data_is_flattened_to_null():
    deep = None
    for _ in range(300):
        deep = [deep]
    result = CallToolResult(structured_content=deep)
    assert flatten(result) == "null"
    assert flatten(result, "structured") == deep
    assert trim_result(result, 1000) is result


BOTH = frozenset({"resources", "prompts"})
ALL = ServerCapabilities(resources=ResourcesCapability(), prompts=PromptsCapability())


@pytest.mark.system("A74")
@pytest.mark.parametrize(
    ("capabilities", "wanted", "names"),
    [
        (ALL, BOTH, list(EXTRAS)),
        (ALL, {"resources"}, ["mcp_list_resources", "mcp_read_resource"]),
        (ALL, {"prompts"}, ["mcp_list_prompts", "mcp_get_prompt"]),
        (ALL, (), []),
        (ServerCapabilities(), BOTH, []),
        (
            ServerCapabilities(prompts=PromptsCapability()),
            BOTH,
            ["mcp_list_prompts", "mcp_get_prompt"],
        ),
        (None, BOTH, []),
    ],
)
def test_extra_tools_depend_on_server_capabilities(capabilities, wanted, names):
    found = extra_tools(capabilities, frozenset(wanted))
    assert [tool.name for tool in found] == names


@pytest.mark.system("A74")
def test_list_result_is_structured_content_and_text():
    items = [{"uri": "mem://ä", "name": "ä"}]
    assert EXTRAS["mcp_list_resources"].result(items) == {
        "content": [{"type": "text", "text": json_text({"resources": items})}],
        "structuredContent": {"resources": items},
    }


TEXT = {"type": "text", "text": "hi"}


@pytest.mark.system("A74")
def test_read_result_is_text_or_an_embedded_resource():
    blob = {"uri": "mem://b", "blob": "AAE="}
    contents = [{"uri": "mem://a", "text": "hi"}, blob, 5]
    result = EXTRAS["mcp_read_resource"].result({"contents": contents})
    assert result == {"content": [TEXT, {"type": "resource", "resource": blob}]}
    assert EXTRAS["mcp_read_resource"].result({"contents": 5}) == {"content": []}


@pytest.mark.system("A74")
def test_prompt_result_contains_its_messages():
    messages = [{"role": "user", "content": TEXT}]
    assert EXTRAS["mcp_get_prompt"].result({"messages": messages}) == {
        "content": [TEXT],
        "structuredContent": {"messages": messages},
    }
