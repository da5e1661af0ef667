"""Pages of lists: cursors are opaque, survive changes and cannot be forged."""

import base64
import json

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire.errors import InvalidParams
from mcpwire.server.components import check_page_size, page_of


@attrs.define
class Item:
    key: str


def items(keys):
    return [Item(key) for key in keys]


def page(found, cursor=None, size=2, name="thing"):
    chosen, following = page_of(found, cursor, size=size, name=name)
    return [item.key for item in chosen], following.get("nextCursor")


def walk(found, size):
    pages, cursor = [], None
    while True:
        keys, cursor = page(found, cursor, size)
        pages.append(keys)
        if cursor is None:
            return pages


def test_page_without_a_size_holds_all_items():
    assert page(items("abc"), size=None) == (["a", "b", "c"], None)


def test_cursor_of_a_smaller_page_is_valid_without_a_size():
    _, cursor = page(items("abc"), size=1)
    assert page(items("abc"), cursor, size=None) == (["b", "c"], None)


@pytest.mark.rule("PAGE-06")
@pytest.mark.case("F05")
@pytest.mark.parametrize(
    ("now", "rest"),
    [
        ("abcd", "cd"),
        ("xabcd", "cd"),  # one added in front
        ("bcd", "cd"),  # one in front removed
        ("acd", "cd"),  # the last item of the page removed
        ("abd", "d"),  # the next item removed
        ("abxcd", "xcd"),  # one added between
        ("cdab", ""),  # another order
        ("ab", ""),  # the rest removed
    ],
)
def test_cursor_continues_after_items_are_added_or_removed(now, rest):
    _, cursor = page(items("abcd"))
    assert page(items(now), cursor, size=9) == (list(rest), None)


@pytest.mark.rule("PAGE-06")
def test_cursor_whose_neighbours_were_removed_is_refused():
    _, cursor = page(items("abcd"))
    with pytest.raises(InvalidParams):
        page(items("ad"), cursor)


def forged(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


INVALID = {
    "empty": "",
    "no text": 7,
    "a list": ["a"],
    "no Base64": "%%%",
    "another alphabet": "+/+/",
    "half of Base64": "abcde",
    "a non-ASCII letter": "é",
    "half a surrogate pair": "\ud800",
    "no JSON": base64.urlsafe_b64encode(b"{").decode(),
    "no UTF-8": base64.urlsafe_b64encode(b'["thing","\xff","b"]').decode(),
    "too deep": base64.urlsafe_b64encode(b"[" * 3_000).decode(),
    "an object": forged({"thing": "a"}),
    "too short": forged(["thing", "a"]),
    "too long": forged(["thing", "a", "b", "c"]),
    "numbers for keys": forged(["thing", 1, 2]),
    "of another list": forged(["other", "a", "b"]),
    "of unknown items": forged(["thing", "x", "y"]),
    "huge": "A" * 1_000_000,
}


@pytest.mark.rule("PAGE-06")
@pytest.mark.case("F05")
@pytest.mark.parametrize("case", INVALID)
def test_cursor_that_was_never_issued_is_refused(case):
    with pytest.raises(InvalidParams, match=r"unknown params\.cursor"):
        page(items("abc"), INVALID[case])


@pytest.mark.rule("PAGE-06")
def test_cursor_for_an_empty_list_is_refused():
    with pytest.raises(InvalidParams):
        page([], forged(["", "a", "b"]))


def test_page_of_plain_values_takes_a_name_and_a_key():
    options = {"size": 2, "name": "words", "key": str}
    words, following = page_of(["a", "bb", "ccc"], None, **options)
    assert words == ["a", "bb"]
    cursor = following["nextCursor"]
    assert page_of(["a", "bb", "ccc"], cursor, **options) == (["ccc"], {})
    with pytest.raises(InvalidParams):
        page_of(["a", "bb", "ccc"], cursor, **{**options, "name": "others"})


@pytest.mark.case("F05")
@example([], 5)
@example(list("abcd"), 2)
@given(st.lists(st.text(), unique=True, max_size=12), st.integers(1, 5))
def test_pages_together_are_the_whole_list_in_order(keys, size):
    starts = range(0, len(keys) or 1, size)
    assert walk(items(keys), size) == [keys[at : at + size] for at in starts]


@pytest.mark.parametrize("size", [None, 1, 1000])
def test_a_page_size_is_positive_or_none(size):
    assert check_page_size(size) is size


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "5"])
def test_invalid_page_size_is_refused(size):
    with pytest.raises(ValueError, match="page_size must be an integer above 0"):
        check_page_size(size)
