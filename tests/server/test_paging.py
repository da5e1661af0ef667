"""Pages of lists: cursors that are opaque, stand change and cannot be made up."""

import base64
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidParams
from mcpwire.server.components import check_page_size, page_of


@attrs.define
class Item:
    key: str


def items(keys):
    return [Item(key) for key in keys]


def page(found, cursor=None, size=2, name="thing"):
    """Return the keys of a page, and the next cursor."""
    chosen, following = page_of(found, cursor, size=size, name=name)
    return [item.key for item in chosen], following


def walk(found, size):
    """Return the pages from the first to the last."""
    pages, cursor = [], None
    while True:
        keys, cursor = page(found, cursor, size)
        pages.append(keys)
        if cursor is None:
            return pages


@pytest.mark.case("F05")
def test_the_pages_of_a_list_are_the_list():
    assert walk(items("abcde"), 2) == [["a", "b"], ["c", "d"], ["e"]]
    assert walk(items("abcd"), 2) == [["a", "b"], ["c", "d"]]
    assert walk(items("ab"), 5) == [["a", "b"]]
    assert walk([], 5) == [[]]


def test_without_a_size_everything_is_one_page():
    assert page(items("abc"), size=None) == (["a", "b", "c"], None)


def test_a_cursor_of_smaller_pages_holds_without_a_size():
    _, cursor = page(items("abc"), size=1)
    assert page(items("abc"), cursor, size=None) == (["b", "c"], None)


@pytest.mark.rule("PAGE-06")
@pytest.mark.case("F05")
@pytest.mark.parametrize(
    ("now", "rest"),
    [
        ("abcd", "cd"),
        ("xabcd", "cd"),  # one came in front
        ("bcd", "cd"),  # one in front went
        ("acd", "cd"),  # the last that was given went
        ("abd", "d"),  # the next went
        ("abxcd", "xcd"),  # one came between
        ("cdab", ""),  # another order
        ("ab", ""),  # the rest went
    ],
)
def test_a_cursor_goes_on_where_it_stopped_whatever_came_or_went(now, rest):
    _, cursor = page(items("abcd"))
    assert page(items(now), cursor, size=9) == (list(rest), None)


@pytest.mark.rule("PAGE-06")
def test_a_cursor_whose_place_is_gone_is_refused():
    _, cursor = page(items("abcd"))
    with pytest.raises(InvalidParams):
        page(items("ad"), cursor)


def made_up(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


INVALID = {
    "empty": "",
    "no text": 7,
    "a list": ["a"],
    "no Base64": "%%%",
    "another alphabet": "+/+/",
    "half of Base64": "abcde",
    "letters that are none": "é",
    "half a surrogate pair": "\ud800",
    "no JSON": base64.urlsafe_b64encode(b"{").decode(),
    "no UTF-8": base64.urlsafe_b64encode(b'["thing","\xff","b"]').decode(),
    "too deep": base64.urlsafe_b64encode(b"[" * 3_000).decode(),
    "an object": made_up({"thing": "a"}),
    "too short": made_up(["thing", "a"]),
    "too long": made_up(["thing", "a", "b", "c"]),
    "numbers for keys": made_up(["thing", 1, 2]),
    "of another list": made_up(["other", "a", "b"]),
    "of unknown items": made_up(["thing", "x", "y"]),
    "huge": "A" * 1_000_000,
}


@pytest.mark.rule("PAGE-06")
@pytest.mark.case("F05")
@pytest.mark.parametrize("case", INVALID)
def test_a_cursor_that_was_never_given_out_is_refused(case):
    with pytest.raises(InvalidParams, match=r"unknown params\.cursor"):
        page(items("abc"), INVALID[case])


@pytest.mark.rule("PAGE-06")
def test_nothing_was_given_out_for_an_empty_list():
    with pytest.raises(InvalidParams):
        page([], made_up(["", "a", "b"]))


def test_a_list_of_other_values_is_told_its_name_and_key():
    words, cursor = page_of(["a", "bb", "ccc"], None, size=2, name="words", key=str)
    assert words == ["a", "bb"]
    assert page_of(["a", "bb", "ccc"], cursor, size=2, name="words", key=str) == (
        ["ccc"],
        None,
    )
    with pytest.raises(InvalidParams):
        page_of(["a", "bb", "ccc"], cursor, size=2, name="others", key=str)


@given(st.lists(st.text(), unique=True, max_size=12), st.integers(1, 5))
def test_any_keys_come_once_each_in_their_order(keys, size):
    pages = walk(items(keys), size)
    assert [key for each in pages for key in each] == keys
    assert all(len(each) == size for each in pages[:-1])


@pytest.mark.parametrize("size", [None, 1, 1000])
def test_a_page_size_is_positive_or_none(size):
    assert check_page_size(size) is size


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "5"])
def test_another_page_size_is_refused(size):
    with pytest.raises(ValueError, match="page_size must be an integer above 0"):
        check_page_size(size)
