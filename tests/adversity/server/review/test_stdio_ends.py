"""A server on stdio ends in time, whatever its lifespan does."""

import json
import subprocess
import sys
import time

import pytest
from by_hand import modern

from mcpwire.server import lifespan, stdio

PATIENCE = 30
PROMPT = 1.0

# What is to end in a second may wait for most of it, and a loaded machine needs more
# than the rest: so here it waits for less, and what it usually waits for is added up.
SHORTENED = """
from mcpwire.server import lifespan as lives, stdio
stdio.ANSWER_GRACE_S = stdio.CANCEL_GRACE_S = stdio.END_BY_S = 0.05
lives.EXIT_GRACE_S = 0.05
"""

PROGRAM = """
import asyncio
from contextlib import asynccontextmanager
from mcpwire import Server

@asynccontextmanager
async def lifespan(server):
    {begin}
    yield
    {end}

server = Server("ends", "1", lifespan=lifespan)

@server.tool
async def tool() -> str:
    return "done"

server.run()
"""

HANG = "await asyncio.Event().wait()"
STUBBORN = """
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
"""
TIDY = "await asyncio.sleep(0.05); print('tidied up')"


def attempt(begin, end, *, is_answered, before=""):
    """Return how long it took from the end of input, and what was printed."""
    program = before + PROGRAM.format(begin=begin, end=end)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:
        try:
            calls = [
                modern(1, "tools/call", {"name": "tool"}),
                modern(2, "server/discover"),
            ]
            data = b"".join(json.dumps(call).encode() + b"\n" for call in calls)
            process.stdin.write(data)
            process.stdin.flush()
            for _ in calls[0 if is_answered else 1 :]:
                assert process.stdout.readline()
            began = time.monotonic()
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
            return time.monotonic() - began, process.stderr.read().decode()
        finally:
            process.kill()


@pytest.mark.timeout(180)
@pytest.mark.rule("TR-STDIO-13")
@pytest.mark.parametrize(
    ("begin", "end"),
    [(HANG, "pass"), ("pass", HANG), ("pass", STUBBORN)],
    ids=["begins for ever", "ends for ever", "cannot be cancelled"],
)
def test_a_lifespan_that_hangs_does_not_hold_up_its_exit(begin, end):
    """At best of twelve attempts: others may keep the machine from any one of them."""
    assert stdio.END_BY_S + lifespan.EXIT_GRACE_S < PROMPT
    taken = []
    for _ in range(12):
        seconds, err = attempt(
            begin, end, is_answered=begin == "pass", before=SHORTENED
        )
        taken.append(seconds)
        assert "Traceback" not in err
        if seconds < PROMPT:
            break
    assert min(taken) < PROMPT


@pytest.mark.timeout(180)
def test_a_lifespan_has_time_to_end():
    """It is half a second, for which others may keep the machine from it."""
    for _ in range(12):
        _, err = attempt("pass", TIDY, is_answered=True)
        if err:
            break
    assert err == "tidied up\n"
