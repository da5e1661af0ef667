"""Fuzzes the server for a long time: `make fuzz`; the tests do it briefly."""

import argparse
import asyncio
import logging
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SERVER = HERE.parents[1] / "server"

sys.path[:0] = [str(HERE), str(SERVER), str(SERVER / "http")]

from wires import WIRES  # noqa: E402 - found through the line above

MIB = 2**20

SETTLED = 5
"""The fraction of the frames after which memory must be stable: caches are full."""

GROWTH = 24 * MIB
"""How much memory may still grow then: for the allocators' overhead."""


def print_line(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def run(name, frames, seed):
    """Send frames over one wire and print time and memory growth."""
    began = time.monotonic()
    async with WIRES[name](seed) as wire:
        await wire.attack(frames // SETTLED)
        before = wire.size
        await wire.attack(frames - frames // SETTLED)
        grown = wire.size - before
    seconds = time.monotonic() - began
    print_line(f"{name:18} {frames:7} frames {seconds:6.1f} s {grown / MIB:+7.1f} MiB")
    return grown < GROWTH


async def main(arguments):
    logging.getLogger("mcpwire").setLevel(logging.ERROR)
    in_bounds = [
        await run(name, arguments.frames, arguments.seed)
        for name in arguments.wire or WIRES
    ]
    if all(in_bounds):
        return 0
    print_line(f"memory grew by more than {GROWTH / MIB:g} MiB")
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000, help="over each wire")
    parser.add_argument("--seed", type=int, default=1, help="other frames for another")
    parser.add_argument("--wire", action="append", choices=WIRES)
    sys.exit(asyncio.run(main(parser.parse_args())))
