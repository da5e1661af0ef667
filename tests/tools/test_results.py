"""Results of tools in the four forms, whole and cut."""

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
    trim_result,
)
from mcpwire.types import (
    UNSET,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    Resource,
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
    """Return a result of these texts."""
    return CallToolResult([TextContent(part) for part in parts])


@pytest.mark.system("V17")
def test_a_text_is_made_of_the_text_blocks_that_are_not_empty():
    result = CallToolResult(
        [TextContent("one"), IMAGE, TextContent(""), TextContent("two")]
    )
    assert flatten(result, marks=False) == "one\ntwo"


@pytest.mark.system("L-V10", "L-R10")
@pytest.mark.parametrize(("block", "mark"), MARKS, ids=lambda case: str(case)[:30])
def test_what_is_no_text_is_named(block, mark):
    assert describe_block(block) == mark
    assert flatten(CallToolResult([block]), marks=False) == ""
    if block is not NOTE:
        assert flatten(CallToolResult([TextContent("see"), block])) == f"see\n{mark}"


@pytest.mark.system("L-V10", "L-R10")
def test_the_text_of_an_embedded_resource_is_part_of_the_text():
    assert flatten(CallToolResult([NOTE])) == "[resource note://1]\na note"


@pytest.mark.system("L-V10")
def test_data_without_any_block_is_written_as_json():
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
def test_auto_is_one_text_or_nothing_or_the_blocks(result, flat):
    found = flatten(result, "auto")
    assert found == flat or json.loads(found) == json.loads(flat)


@pytest.mark.system("A73", "V17")
def test_each_form_makes_of_one_result_what_it_says():
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
def test_structured_prefers_the_data_to_the_text(result, flat):
    assert flatten(result, "structured") == flat


@pytest.mark.system("R10")
@pytest.mark.parametrize("form", FLAT_FORMS)
def test_a_result_that_failed_is_flattened_like_any_other(form):
    failed = CallToolResult([TextContent("no such file")], is_error=True)
    assert flatten(failed, form) == flatten(texts("no such file"), form)
    with pytest.raises(Exception, match="no such file"):
        failed.raise_for_error()


def test_an_unknown_form_and_a_bound_of_nothing_are_refused():
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
def test_a_text_is_cut_at_a_character_and_says_so(text, bound, cut):
    assert cut_text(text, bound) == cut


@given(st.text(alphabet="aä€😀\n", max_size=200), st.integers(1, 120))
def test_a_cut_text_is_within_its_bound_and_begins_as_the_whole(text, bound):
    found = cut_text(text, bound)
    assert len(found.encode()) <= max(bound, len(text.encode()) if found == text else 0)
    kept, _, marker = found.rpartition("\n[")
    if found != text and marker.endswith(" more bytes]"):
        assert text.startswith(kept)
        assert len(kept.encode()) + int(marker.split()[0]) == len(text.encode())
    else:
        assert text.startswith(found)


def test_forms_are_cut_each_in_its_way():
    long = texts("x" * 1000)
    assert len(flatten(long, max_bytes=100)) <= 100
    assert len(flatten(long, "auto", max_bytes=100)) <= 100
    data = CallToolResult(structured_content={"text": "x" * 1000})
    assert flatten(data, "structured", max_bytes=2000) == {"text": "x" * 1000}
    assert flatten(data, "structured", max_bytes=100).endswith("more bytes]")
    blocks = flatten(long, "blocks", max_bytes=200)
    assert [block["type"] for block in blocks] == ["text", "text"]


def test_a_result_that_fits_is_left_as_it_is():
    result = CallToolResult([TextContent("a"), IMAGE], structured_content={})
    assert trim_result(result, 1000) is result


def test_a_result_is_trimmed_behind_what_fits():
    picture = ImageContent("A" * 400, "image/png")
    result = CallToolResult([TextContent("one"), TextContent("x" * 400), picture])
    trimmed = trim_result(result, 200)
    first, second, said = trimmed.content
    assert first == TextContent("one")
    assert 0 < len(second.text) < 200
    missing = (
        400 - len(second.text) + len(json.dumps(encode(picture), separators=(",", ":")))
    )
    assert said.text == f"[{missing} more bytes of this result were left out]"
    assert len(result.content) == 3


def test_a_picture_that_is_too_large_is_left_out_whole():
    picture = ImageContent("A" * 400, "image/png")
    result = CallToolResult([picture, TextContent("after")], is_error=True)
    trimmed = trim_result(result, 100)
    assert len(trimmed.content) == 1
    assert trimmed.content[0].text.endswith("were left out]")
    assert trimmed.is_error


def test_data_is_kept_whole_or_not_at_all():
    data = {"x": "y" * 50}
    result = CallToolResult([TextContent("a")], structured_content=data)
    assert trim_result(result, 60).structured_content is UNSET
    assert trim_result(result, 200).structured_content == data


def test_an_empty_text_that_has_no_room_takes_nothing_with_it():
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


def test_what_is_nested_too_deeply_to_be_written_is_told_as_null():
    deep = None
    for _ in range(300):
        deep = [deep]
    result = CallToolResult(structured_content=deep)
    assert flatten(result) == "null"
    assert flatten(result, "structured") == deep
    assert trim_result(result, 1000) is result


# Resources and prompts as tools...


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
def test_a_server_has_those_that_it_can_do(capabilities, wanted, names):
    found = extra_tools(capabilities, frozenset(wanted))
    assert [tool.name for tool in found] == names


@pytest.mark.system("A74")
def test_a_list_is_data_and_text():
    result = EXTRAS["mcp_list_resources"].result([Resource("mem://ä", "ä")])
    assert result.structured_content == {"resources": [{"uri": "mem://ä", "name": "ä"}]}
    assert result.text == '{"resources": [{"uri": "mem://ä", "name": "ä"}]}'


@pytest.mark.system("A74")
def test_what_is_read_is_text_or_comes_whole():
    blob = BlobResourceContents("mem://b", "AAE=")
    result = EXTRAS["mcp_read_resource"].result(
        ReadResourceResult([TextResourceContents("mem://a", "hi"), blob])
    )
    assert [encode(block) for block in result.content] == [
        {"type": "text", "text": "hi"},
        {"type": "resource", "resource": {"uri": "mem://b", "blob": "AAE="}},
    ]


@pytest.mark.system("A74")
def test_a_prompt_is_its_messages():
    messages = [PromptMessage("user", TextContent("hi"))]
    result = EXTRAS["mcp_get_prompt"].result(GetPromptResult(messages))
    assert result.text == "hi"
    assert result.structured_content == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    }
