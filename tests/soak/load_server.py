"""The server under load: over HTTP, in a separate process.

    python load_server.py [IDLE]

It prints its URL, and ends with its input. `meet` blocks calls until `part` releases
all of them, so that many run concurrently; `census` counts the objects.
"""

import asyncio
import contextlib
import ctypes
import gc
import signal
import sys
import threading

import mcpwire
from mcpwire.server.http.sessions import HttpSession

server = mcpwire.Server("load", "1")


class Meeting:
    """The number of waiting calls, and their event."""

    def __init__(self) -> None:
        self.waiting = 0
        self.over = asyncio.Event()


meeting = Meeting()


@server.tool
async def echo(text: str) -> str:
    """Answer with the text."""
    return text


@server.tool
async def meet(text: str) -> str:
    """Answer with the text when `part` is called."""
    meeting.waiting += 1
    try:
        await meeting.over.wait()
    finally:
        meeting.waiting -= 1
    return text


@server.tool
async def part() -> int:
    """Release all waiting calls; return their number."""
    count = meeting.waiting
    meeting.over.set()
    meeting.over = asyncio.Event()
    return count


@server.tool
async def waiting() -> int:
    """Return the number of waiting calls."""
    return meeting.waiting


def give_back() -> None:
    """Return free memory to the system, if the allocator supports it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


@server.tool
async def census() -> dict[str, int]:
    """Count what could grow."""
    gc.collect()
    give_back()
    everything = gc.get_objects()
    return {
        "objects": len(everything),
        "sessions": sum(type(each) is HttpSession for each in everything),
        "tasks": len(asyncio.all_tasks()),
    }


def end_with_the_input() -> None:
    """Stop serving at the end of standard input."""
    sys.stdin.read()
    signal.raise_signal(signal.SIGTERM)


def announce(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    threading.Thread(target=end_with_the_input, daemon=True).start()
    idle = float(sys.argv[1]) if sys.argv[1:] else 1_800.0
    server.run(http="127.0.0.1:0", announce=announce, session_idle=idle, quiet=True)
