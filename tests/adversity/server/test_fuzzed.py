"""After fuzzed frames the next call is answered (the slow run: soak)."""

import pytest
from frames import ALONE, IN_SESSION, Fuzzer
from wires import WIRES

FRAMES = 1_000


def test_the_same_seed_makes_the_same_frames():
    one, other = (Fuzzer(IN_SESSION + ALONE) for _ in range(2))
    assert [one.frame() for _ in range(100)] == [other.frame() for _ in range(100)]


@pytest.mark.attack("S12")
@pytest.mark.parametrize("wire", WIRES)
async def test_call_after_fuzzed_frames_is_answered(wire):
    async with WIRES[wire](seed=7) as attacked:
        await attacked.attack(FRAMES)
