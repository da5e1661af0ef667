"""Aliases of resources: read back as they were made, and put into results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.gateway.merging import (
    alias_of,
    has_links,
    read_alias,
    with_links,
    with_uris,
)
from mcpwire.wire.uri_template import is_uri

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXT, TEXT)
def test_an_alias_is_a_uri_and_says_whose_it_is(server, uri):
    alias = alias_of(server, uri)
    assert read_alias(alias) == (server, uri)
    assert is_uri(alias)


@pytest.mark.system("L-O9")
def test_an_alias_is_a_uri_that_one_can_read():
    assert alias_of("files", "file:///a b") == "mcpgw://files/file%3A%2F%2F%2Fa%20b"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///a",
        "mcpgw:",
        "mcpgw://files",
        "mcpgw://files/%ff",
        "mcpgw://files/file:///a",
        "mcpgw://files/a%2fb",
        "mcpgw://a/b/c",
        "MCPGW://files/a",
    ],
)
def test_what_is_spelled_otherwise_is_no_alias(uri):
    assert read_alias(uri) is None


NAMES = {"a:b": "mcpgw://x/a%3Ab"}


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([{"uri": "a:b", "text": "1"}], [{"uri": "mcpgw://x/a%3Ab", "text": "1"}]),
        ([{"uri": "c:d"}, 5, {"uri": 5}, {}], None),
        ([], None),
        (None, None),
        ({"uri": "a:b"}, None),
    ],
)
def test_contents_are_called_what_clients_call_them(contents, expected):
    renamed, changed = with_uris(contents, NAMES)
    assert changed is (expected is not None)
    if expected is None:
        assert renamed is contents
    else:
        assert renamed == expected


LINK = {"type": "resource_link", "uri": "a:b", "name": "n"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a:b", "text": "1"}}
OTHER = {"type": "text", "text": "a:b"}


@pytest.mark.system("L-O9")
def test_links_and_embedded_resources_of_a_result_get_the_alias():
    assert has_links({"content": [OTHER, LINK]})
    assert has_links({"content": [EMBEDDED]})
    result = {"content": [LINK, EMBEDDED, OTHER, 5, {"type": "resource"}], "x": 1}
    changed = with_links(result, NAMES)
    assert changed == {
        "content": [
            {**LINK, "uri": "mcpgw://x/a%3Ab"},
            {"type": "resource", "resource": {"uri": "mcpgw://x/a%3Ab", "text": "1"}},
            OTHER,
            5,
            {"type": "resource"},
        ],
        "x": 1,
    }
    assert result["content"][0] is LINK


@pytest.mark.parametrize(
    "result", [{}, {"content": None}, {"content": []}, {"content": [OTHER]}]
)
def test_a_result_without_such_links_stays_what_it_is(result):
    assert with_links(result, NAMES) is result
    assert not has_links(result)
