"""Responses that are told by their bytes: which are, and how many are kept."""

import pytest

from mcpwire.wire.known_heads import (
    HEAD_BYTES,
    HEADS,
    RESPONSE_BYTES,
    STRANGERS,
    KnownHeads,
)


def response(number=0, body=b"abc"):
    start = b"HTTP/1.1 200 OK\r\nx: %06d\r\ncontent-length: %d\r\n\r\n"
    return start % (number, len(body)) + body


def fields(data):
    head = data.partition(b"\r\n\r\n")[0]
    lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
    return {name: value for name, _, value in lines}


def sight(known, data):
    """Look for a response; where it is new it is read and accepted, and learned."""
    found = known.find(data)
    if found is None:
        known.learn(len(data), fields(data), 5.0)
    return found is not None


def test_a_head_is_known_when_it_comes_for_the_third_time():
    known = KnownHeads()
    assert [sight(known, response()) for _ in range(4)] == [False, False, True, True]
    given = fields(response())
    assert known.find(response(body=b"xyz")) == (given, 5.0, b"xyz")
    assert known.find(memoryview(response())) == (given, 5.0, b"abc")


def test_more_heads_than_are_kept_make_room_for_themselves():
    known = KnownHeads()
    for number in range(HEADS):
        sight(known, response(number))
        sight(known, response(number))
    assert all(sight(known, response(number)) for number in range(HEADS))
    assert len(known._known) == HEADS
    assert [sight(known, response(HEADS)) for _ in range(3)] == [False, False, True]
    assert len(known._known) == 1


@pytest.mark.parametrize("strangers", [STRANGERS - 2, STRANGERS - 1])
def test_where_every_head_is_new_nothing_is_looked_for_any_more(strangers):
    known = KnownHeads()
    for _ in range(3):
        sight(known, response())
    for number in range(strangers):
        assert not sight(known, response(1 + number))
    again = [sight(known, response()) for _ in range(3)]
    assert again == [False, False, strangers < STRANGERS - 1]


def test_a_head_that_repeats_is_looked_for_however_many_others_come():
    known = KnownHeads()
    seen = []
    for number in range(4 * STRANGERS):
        sight(known, response(1 + number))
        seen.append(sight(known, response()))
    assert any(seen[-2 * HEADS :])


def test_neither_long_heads_nor_long_responses_are_kept():
    known = KnownHeads()
    room = HEAD_BYTES - len(response(body=b"").partition(b"\r\n\r\n")[0])
    for extra, is_kept in ((room - 5, True), (room - 4, False)):
        data = response().replace(b"\r\nx: ", b"\r\ny: %b\r\nx: " % (b"y" * extra))
        assert [sight(known, data) for _ in range(3)][-1] is is_kept
    start = len(response(body=b"x" * (RESPONSE_BYTES - 100))) - (RESPONSE_BYTES - 100)
    for size, is_kept in ((RESPONSE_BYTES, True), (RESPONSE_BYTES + 1, False)):
        data = response(7, b"x" * (size - start))
        assert len(data) == size
        assert [sight(known, data) for _ in range(3)][-1] is is_kept


@pytest.mark.parametrize("line_break", [b"\n", b"\r", b"\n\n", b"\r\r\n", b"\n\r\n"])
def test_a_head_with_a_line_break_that_not_all_see_alike_is_not_kept(line_break):
    known = KnownHeads()
    data = response().replace(b"\r\nx: ", line_break + b"x: ")
    told = fields(response())
    for _ in range(4):
        assert known.find(data) is None
        known.learn(len(data), told, 5.0)


def test_what_was_looked_for_and_not_read_to_its_end_is_not_learned_as_the_next():
    known = KnownHeads()
    long = response(1, b"x" * RESPONSE_BYTES)
    for _ in range(2):
        known.find(response())
        known.find(long)
        known.learn(len(long), fields(long), 5.0)
    assert known._known == {}
