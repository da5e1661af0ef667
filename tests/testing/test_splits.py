"""Bytes are cut at the given places without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.testing import ScriptedServer, at_random
from mcpwire.testing.wire import cut

DATA = b"0123456789"


@pytest.mark.parametrize(
    ("split", "parts"),
    [
        (None, [DATA]),
        (1, [bytes([byte]) for byte in DATA]),
        (4, [b"0123", b"4567", b"89"]),
        (100, [DATA]),
        ([], [DATA]),
        ([3], [b"012", b"3456789"]),
        ([7, 3, 3], [b"012", b"3456", b"789"]),
        ([-1], [b"012345678", b"9"]),
        ([0, 10, 99, -10, -99], [DATA]),
        (lambda data: [data[:2], b"", data[2:]], [b"01", b"23456789"]),
    ],
)
def test_bytes_are_cut_into_the_requested_parts(split, parts):
    assert cut(DATA, split) == parts


def test_empty_bytes_give_no_parts():
    assert cut(b"", None) == cut(b"", 1) == cut(b"", [0]) == []


@pytest.mark.parametrize("size", [0, -1])
def test_parts_below_one_byte_are_refused(size):
    with pytest.raises(ValueError, match="at least one byte"):
        cut(DATA, size)
    with pytest.raises(ValueError, match="at least one byte"):
        at_random(1, longest=size)
    with pytest.raises(ValueError, match="at least one byte"):
        ScriptedServer(split=size)


def test_split_function_that_loses_bytes_is_refused():
    with pytest.raises(ValueError, match="not the bytes"):
        cut(DATA, lambda data: [data[1:]])


@given(st.binary(max_size=200), st.integers(), st.integers(1, 20))
def test_seeded_split_repeats_and_keeps_all_bytes(data, seed, longest):
    first, second = (cut(data, at_random(seed, longest)) for _ in range(2))
    assert first == second
    assert b"".join(first) == data
    assert all(1 <= len(part) <= longest for part in first)


def test_random_split_differs_between_messages():
    split = at_random(7, 4)
    assert cut(DATA * 9, split) != cut(DATA * 9, split)
