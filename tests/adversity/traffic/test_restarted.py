"""Servers that crash under a client, which continues with a restarted one."""

import asyncio
import os
import signal

import pytest
from scripted import pid_of, scripted
from shell_server import quick

import mcpwire

pytestmark = pytest.mark.pain("P04")


async def test_50_calls_after_a_server_crash_share_one_restart():
    async with mcpwire.Client(quick()) as client:
        for life in range(1, 4):
            results = await asyncio.gather(
                *(client.call_tool("x", idempotent=True) for _ in range(50))
            )
            assert len({result.text for result in results}) == 50
            assert client.stats.connections == life
            pid = pid_of(client)
            os.kill(pid, signal.SIGKILL)
            # It has exited before the next calls are written, so none of them can run.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222


@pytest.mark.pain("P21")
async def test_crashing_server_is_restarted_a_limited_number_of_times(tmp_path):
    starts = tmp_path / "starts"
    target = scripted(
        "open(sys.argv[1], 'a').write('x')\nhandshake()\nrecv()\nos._exit(1)",
        str(starts),
    )
    recovery = mcpwire.Recovery(backoff_initial=0.01, backoff_max=0.02, attempts=3)
    async with mcpwire.Client(target, recovery=recovery) as client:
        ends = await asyncio.gather(
            *(client.call_tool("x") for _ in range(20)), return_exceptions=True
        )
        assert {type(end) for end in ends} == {mcpwire.ConnectionClosed}
        # Only calls that were provably not sent are repeated.
        assert len(starts.read_text()) <= 1 + 2 * recovery.attempts
