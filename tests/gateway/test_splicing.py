"""Splicing: blocks inserted before a result's content, and tokens read from it."""

from typing import Any

import pytest

from mcpwire.gateway.splicing import (
    NOTIFICATIONS,
    PendingBatch,
    can_splice,
    check_tag,
    closing,
    opening,
    splice,
    token_of,
    tokens_in,
)

TOKEN = "0f9d3c1e-5a6b-4c7d-8e9f-0123456789ab"
OTHER = "11111111-2222-4333-8444-555555555555"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


RESULT = {"content": [text("original")], "isError": False}


@pytest.mark.system("O06")
@pytest.mark.parametrize(
    "result",
    [
        RESULT,
        {"_meta": {}},
        {"_meta": None},
        {"_meta": {NOTIFICATIONS: 1}},
        {"_meta": {NOTIFICATIONS: {"token": 7}}},
    ],
)
def test_result_without_a_meta_entry_has_no_token(result):
    assert token_of(result) is None


@pytest.mark.system("O07")
@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        pytest.param(opening(TOKEN) + "x" + closing(TOKEN), [TOKEN], id="round-trip"),
        pytest.param("no such thing", [], id="none"),
        pytest.param(
            f"{opening(OTHER)}{closing(OTHER)} between {opening(TOKEN)}",
            [OTHER, TOKEN],
            id="several-in-order",
        ),
        pytest.param(opening(TOKEN.upper()), [], id="upper-case"),
        pytest.param(closing(TOKEN), [], id="a-closing-alone"),
        pytest.param(opening("opaque"), [], id="no-uuid"),
        pytest.param(opening(TOKEN, "other"), [], id="another-tag"),
    ],
)
def test_tokens_in_a_text_are_found_in_order(given, tokens):
    assert tokens_in(given) == tokens


@pytest.mark.system("O07")
def test_custom_tag_is_used_to_splice_and_to_find_tokens():
    batch = PendingBatch(TOKEN, [[text("a")]])
    spliced = splice(RESULT, batch, tag=check_tag("news"))
    assert tokens_in(spliced["content"][0]["text"], "news") == [TOKEN]
    assert {"content": [text("original")], "isError": False} == RESULT


@pytest.mark.parametrize("tag", ["", "A", "a b", "-a", 1, None, "<a"])
def test_invalid_tag_is_refused(tag):
    with pytest.raises(ValueError, match="a tag must be"):
        check_tag(tag)


@pytest.mark.system("O03")
@pytest.mark.parametrize(
    ("result", "can"),
    [
        (RESULT, True),
        ({"content": [], "resultType": "complete"}, True),
        ({"content": [], "resultType": "input_required"}, False),
        ({"task": {"taskId": "1"}}, False),
        ({"content": None}, False),
    ],
)
def test_only_a_complete_result_with_content_can_be_spliced(result, can):
    assert can_splice(result) is can
