"""Servers that die under a client, which goes on with the next one."""

import asyncio
import os
import signal

import pytest
from quick import quick
from scripted import scripted

import mcpwire

pytestmark = [pytest.mark.anyio, pytest.mark.pain("P04")]

BOUND_S = 30.0
AT_ONCE = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.01)

# Writes down each thing it does before it answers, and dies of every third.
LEDGER = """
handshake()
while True:
    m = recv()
    if "id" not in m: continue
    n = m["params"]["arguments"]["n"]
    with open(sys.argv[1], "a") as ledger: ledger.write(f"{n}\\n")
    if n % 3 == 0: os._exit(1)
    text(m, str(n))
"""


@pytest.mark.pain("P24")
async def test_no_side_effect_happens_twice_whatever_dies_when(tmp_path):
    ledger = tmp_path / "ledger"
    target = scripted(LEDGER, str(ledger))
    outcomes = []
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(target, recovery=AT_ONCE) as client,
    ):
        for n in range(1, 13):
            outcomes += await asyncio.gather(
                client.call_tool("x", {"n": n}), return_exceptions=True
            )
        assert client.stats.connections == 4 + (outcomes[-1] is None)
    died = [type(o) is mcpwire.ConnectionClosed and o.sent for o in outcomes]
    assert died == [n % 3 == 0 for n in range(1, 13)]
    assert ledger.read_text().split() == [str(n) for n in range(1, 13)]


# Not strict: the last attempt may have been sent, too.
async def test_what_may_be_repeated_is_and_ends_after_so_many_attempts(tmp_path):
    ledger = tmp_path / "ledger"
    target = scripted(LEDGER, str(ledger))
    recovery = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.01, attempts=3)
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(target, recovery=recovery) as client,
    ):
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x", {"n": 3}, idempotent=True)
        assert caught.value.sent is True
        assert 2 <= len(ledger.read_text().split()) <= 4
        await client.connect()  # who asks need not wait for its rest to end
        assert (await client.call_tool("x", {"n": 1})).text == "1"


async def test_fifty_calls_at_once_after_the_death_share_one_new_server():
    async with asyncio.timeout(BOUND_S), mcpwire.Client(quick()) as client:
        for life in range(1, 4):
            results = await asyncio.gather(
                *(client.call_tool("x", idempotent=True) for _ in range(50))
            )
            assert len({result.text for result in results}) == 50
            assert client.stats.connections == life
            pid = client._connection.channel.pid
            os.kill(pid, signal.SIGKILL)
            # It is gone before the next calls are written, so none of them can run.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222


@pytest.mark.pain("P21")
async def test_a_server_that_always_dies_is_not_started_in_a_storm(tmp_path):
    starts = tmp_path / "starts"
    target = scripted(
        "open(sys.argv[1], 'a').write('x')\nhandshake()\nrecv()\nos._exit(1)",
        str(starts),
    )
    recovery = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.02, attempts=3)
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(target, recovery=recovery) as client,
    ):
        ends = await asyncio.gather(
            *(client.call_tool("x") for _ in range(20)), return_exceptions=True
        )
        assert {type(end) for end in ends} == {mcpwire.ConnectionClosed}
        # Only those that were provably not sent are made once more.
        assert len(starts.read_text()) <= 1 + 2 * recovery.attempts
