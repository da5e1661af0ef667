"""Each fault changes the bytes of a stream deterministically."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.testing import (
    ByteOrderMark,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    HangUp,
    Lose,
    Noise,
    Split,
    Stall,
    Swap,
)
from mcpwire.testing.faults import END, Chain, Pause

STREAM = b"one\ntwo\nthree\nrest"


def chain_output(faults, *chunks, toward="client", seed=0):
    """Return the whole output of a chain."""
    chain = Chain(faults, toward, seed)
    items = chain.start()
    for chunk in chunks:
        items += chain.feed(chunk)
    return items + chain.finish()


def merged(items):
    """Return the items with adjacent bytes joined, since only order matters."""
    result = []
    for item in items:
        if isinstance(item, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += item
        elif item != b"":
            result.append(item)
    return result


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], [STREAM, END]),
        ([Drop(message=2)], [b"one\nthree\nrest", END]),
        ([Drop()], [b"rest", END]),
        ([Drop(message=(1, 3))], [b"two\nrest", END]),
        ([Duplicate(message=1)], [b"one\none\ntwo\nthree\nrest", END]),
        (
            [Duplicate(message=3, times=3)],
            [b"one\ntwo\n" + b"three\n" * 3 + b"rest", END],
        ),
        ([Noise(message=2, data=b"x\n")], [b"one\nx\ntwo\nthree\nrest", END]),
        ([Noise(data=b"-")], [b"-one\n-two\n-three\nrest", END]),
        ([ByteOrderMark()], [b"\xef\xbb\xbf" + STREAM, END]),
        ([Swap(message=1)], [b"two\none\nthree\nrest", END]),
        ([Swap(message=3)], [b"one\ntwo\nthree\nrest", END]),
        ([Corrupt(at=0)], [b"\x90ne\ntwo\nthree\nrest", END]),
        ([Corrupt(at=4, value=0x54)], [b"one\nTwo\nthree\nrest", END]),
        ([Corrupt(at=99)], [STREAM, END]),
        ([Lose(at=3)], [b"onetwo\nthree\nrest", END]),
        ([Lose(at=0, count=99)], [END]),
        ([Lose(at=16, count=99)], [b"one\ntwo\nthree\nre", END]),
        ([Delay(seconds=2, message=2)], [b"one\n", Pause(2), b"two\nthree\nrest", END]),
        ([HangUp()], [END, STREAM, END]),
        ([HangUp(after_bytes=5)], [b"one\nt", END, b"wo\nthree\nrest", END]),
        ([HangUp(after_bytes=99)], [STREAM, END]),
        ([HangUp(after_message=2)], [b"one\ntwo\n", END, b"three\nrest", END]),
        ([Stall()], [Pause(inf), STREAM, END]),
        ([Stall(after_message=1, seconds=3)], [b"one\n", Pause(3), STREAM[4:], END]),
        ([Stall(after_bytes=1)], [b"o", Pause(inf), STREAM[1:], END]),
        ([Drop(message=1), Duplicate(message=1)], [b"two\ntwo\nthree\nrest", END]),
        ([Lose(at=3), Drop(message=1)], [b"three\nrest", END]),
        ([HangUp(), Noise(message=1, data=b"x")], [END, b"x" + STREAM, END]),
    ],
    ids=repr,
)
def test_fault_changes_the_given_part_of_the_stream(faults, expected):
    assert merged(chain_output(faults, STREAM)) == expected
    single = [STREAM[i : i + 1] for i in range(len(STREAM))]
    assert merged(chain_output(faults, *single)) == expected


def test_swapped_message_without_a_successor_is_sent():
    assert merged(chain_output([Swap(message=1)], b"one\n")) == [b"one\n", END]


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        (Split(), [b"a", b"b", b"\n", b"c", b"d"]),
        (Split(size=2), [b"ab", b"\nc", b"d"]),
        (Split(at=1), [b"a", b"b\ncd"]),
        (Split(at=(1, -1)), [b"a", b"b\nc", b"d"]),
        (Split(size=4, gap=0.5), [b"ab\nc", Pause(0.5), b"d", Pause(0.5)]),
    ],
    ids=repr,
)
def test_bytes_are_split_at_the_given_places(fault, parts):
    assert chain_output([fault], b"ab\ncd") == [*parts, END]


def test_faults_apply_only_in_their_direction():
    fault = Drop(toward="server")
    assert merged(chain_output([fault], STREAM)) == [STREAM, END]
    assert merged(chain_output([fault], STREAM, toward="server")) == [b"rest", END]


@given(st.integers(), st.lists(st.binary(max_size=20), max_size=8))
def test_seeded_faults_repeat_and_split_keeps_all_bytes(seed, chunks):
    faults = [Drop(chance=0.5), Duplicate(chance=0.5), Split(longest=3)]
    assert chain_output(faults, *chunks, seed=seed) == chain_output(
        faults, *chunks, seed=seed
    )
    split_stream = merged(chain_output([Split(longest=3)], *chunks, seed=seed))
    assert split_stream == merged([b"".join(chunks), END])


def test_random_choices_of_a_fault_do_not_depend_on_those_after_it():
    split, lines = Split(longest=3, gap=1.0), b"\n" * 40
    alone = merged(chain_output([split], lines, seed=1))
    assert merged(chain_output([split, Drop(message=99)], lines, seed=1)) == alone


def test_different_seeds_drop_different_messages():
    lines = b"x\n" * 64
    dropped = {
        len(merged(chain_output([Drop(chance=0.5)], lines, seed=seed))[0])
        for seed in range(9)
    }
    assert len(dropped) > 1
    assert all(0 < size < len(lines) for size in dropped)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Drop(toward="me"), "toward must be"),
        (lambda: Drop(chance=0), "chance must be"),
        (lambda: Drop(chance=1.1), "chance must be"),
        (lambda: Split(size=0), "size must be above zero"),
        (lambda: Split(gap=-1), "gap must not be negative"),
        (lambda: Corrupt(at=-1), "at must not be negative"),
        (lambda: Corrupt(at=0, value=256), "value"),
        (lambda: Corrupt(at=0, value=-1), "value"),
        (lambda: Noise(data="text"), "data"),
        (lambda: Delay(seconds=0), "seconds must be above zero"),
        (lambda: Delay(seconds=61), "seconds"),
        (lambda: Duplicate(times=0), "times must be above zero"),
        (lambda: Stall(seconds=float("nan")), "seconds must be above zero"),
        (lambda: HangUp(after_bytes=1, after_message=1), "exclude each other"),
    ],
)
def test_invalid_fault_options_are_refused(make, says):
    with pytest.raises((ValueError, TypeError), match=says):
        make()
