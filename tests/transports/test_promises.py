"""The close ladder, rung by rung, as the child sees it."""

import asyncio
import time

import pytest
from scripted import scripted

import mcpwire

pytestmark = pytest.mark.anyio

BOUND_S = 30.0

# After the handshake it tells on stderr what it sees of its end, in order.
WITNESS = """
def tell(word):
    os.write(2, word.encode() + b"\\n")
def terminated(*_):
    tell("term")
    {on_term}
signal.signal(signal.SIGTERM, terminated)
handshake()
sys.stdin.buffer.read()
tell("eof")
{on_eof}
"""
STAY = "while True: time.sleep(60)"

LADDER = [
    # What it does at the end of its input, and at SIGTERM; what it saw; its exit code;
    # the graces that ran out.
    ("sys.exit(3)", "pass", ["eof"], 3, 0),
    (STAY, "os._exit(43)", ["eof", "term"], 43, 1),
    (STAY, "pass", ["eof", "term"], -9, 2),
]


@pytest.mark.system("U38", "L-V13")
@pytest.mark.pain("P07")
@pytest.mark.rule("LIFE-12", "TR-STDIO-12")
@pytest.mark.parametrize(("on_eof", "on_term", "seen", "code", "graces"), LADDER)
async def test_closing_ends_the_input_then_asks_then_kills_and_waits_in_between(
    on_eof, on_term, seen, code, graces
):
    heard = []
    target = scripted(
        WITNESS.format(on_eof=on_eof, on_term=on_term), stderr=heard.append
    )
    grace = 0.3 if graces else BOUND_S
    limits = mcpwire.Limits(close_grace=grace, terminate_grace=grace)
    client = mcpwire.Client(target, limits=limits)
    async with asyncio.timeout(BOUND_S):
        await client.connect()
        channel = client._connection.channel
        started = time.monotonic()
        await client.aclose()
        taken = time.monotonic() - started
    assert b"".join(heard).decode().split() == seen
    assert channel.exit_code == code
    assert taken >= graces * 0.3
