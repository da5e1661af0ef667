"""A server on stdio ends in time, even when its lifespan hangs."""

import pytest
from raw_client import modern
from wires import child, send

from mcpwire.server import lifespan, stdio

TIMEOUT_S = 30

# The test adds up the timeouts, so they may be shorter here.
SHORTENED = """
from mcpwire.server import lifespan as lives, stdio
stdio.ANSWER_GRACE_S = stdio.CANCEL_GRACE_S = stdio.LIFESPAN_TIMEOUT_S = 0.05
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
LONG_GRACE = "from mcpwire.server import lifespan as lives; lives.EXIT_GRACE_S = 20"
TIDY = "await asyncio.sleep(0.05); print('tidied up')"


def run_server(begin, end, *, is_answered, before=""):
    """Run the server until its input ends; return its stderr."""
    program = before + PROGRAM.format(begin=begin, end=end)
    call = modern(1, "tools/call", {"name": "tool"})
    with child(program) as process:
        send(process, call, modern(2, "server/discover"))
        for _ in range(2 if is_answered else 1):
            assert process.stdout.readline()
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
        return process.stderr.read().decode()


@pytest.mark.timeout(180)
@pytest.mark.rule("TR-STDIO-13")
@pytest.mark.parametrize(
    ("begin", "end"),
    [(HANG, "pass"), ("pass", HANG), ("pass", STUBBORN)],
    ids=["begins for ever", "ends for ever", "cannot be cancelled"],
)
def test_hanging_lifespan_does_not_block_the_exit(begin, end):
    assert stdio.LIFESPAN_TIMEOUT_S + lifespan.EXIT_GRACE_S < 1.0  # the promise
    err = run_server(begin, end, is_answered=begin == "pass", before=SHORTENED)
    assert "Traceback" not in err


@pytest.mark.timeout(180)
def test_lifespan_gets_time_to_end():
    err = run_server("pass", TIDY, is_answered=True, before=LONG_GRACE)
    assert err == "tidied up\n"
