"""Cursors of merged lists: whole walks, and every text that is no cursor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidParams
from mcpwire.gateway.merging import mark_of, page_of

MARK = mark_of([b"a", b"b"])


def walk(items, size, mark=MARK):
    found, cursor = [], None
    while True:
        page, cursor = page_of(items, cursor, size=size, mark=mark)
        found.append(list(page))
        if cursor is None:
            return found


@given(st.lists(st.integers(), max_size=30), st.integers(1, 40))
def test_the_pages_together_are_the_list_and_each_but_the_last_is_full(items, size):
    pages = walk(items, size)
    assert [item for page in pages for item in page] == items
    assert all(len(page) == size for page in pages[:-1])
    assert len(pages) == 1 or pages[-1]


@pytest.mark.system("L-O11")
def test_a_cursor_works_again_as_long_as_the_list_is_the_same():
    _, cursor = page_of("abcd", None, size=2, mark=MARK)
    assert page_of("abcd", cursor, size=2, mark=mark_of([b"a", b"b"])) == ("cd", None)


def test_a_cursor_of_a_list_that_changed_is_refused():
    _, cursor = page_of("abcd", None, size=2, mark=MARK)
    with pytest.raises(InvalidParams, match="has changed since"):
        page_of("abcd", cursor, size=2, mark=mark_of([b"ab"]))


GOOD = page_of("abcd", None, size=2, mark=MARK)[1]
SHORT = page_of("abcdefgh", None, size=6, mark=MARK)[1]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "****",
        "é" * 20,
        GOOD[:-4],
        GOOD + "AAAA",
        f"{GOOD[:-1]}*",
        f"{GOOD} ",
        SHORT,
        5,
        ["a"],
        {},
        False,
    ],
)
def test_what_is_no_cursor_of_ours_is_invalid(cursor):
    with pytest.raises(InvalidParams, match=r"params\.cursor"):
        page_of("abcd", cursor, size=2, mark=MARK)


@given(st.binary(max_size=40))
def test_no_text_of_a_stranger_raises_anything_else(raw):
    for cursor in (raw.decode("latin-1"), raw.hex()):
        with pytest.raises(InvalidParams):
            page_of("abcd", cursor, size=2, mark=MARK)


@given(st.lists(st.binary(max_size=5), max_size=5), st.lists(st.binary(max_size=5)))
def test_marks_tell_lists_apart_wherever_their_items_end(one, other):
    assert (mark_of(one) == mark_of(other)) == (one == other)
