"""Five real servers in one group: 500 calls at once while two of them go down.

One child is killed and the HTTP server restarted, both during calls. No call is lost
and no result is mixed up: calls that may be repeated are retried automatically, and
the others raise that they may have run, so that the caller decides.
"""

import asyncio
import sys
from collections import Counter

import pytest
from mixed_calls import BROKEN, GIT, PIPE, TIME, WEB, commit, everything, hour, long

import mcpwire

pytestmark = pytest.mark.servers

TIMEOUT_S = 150.0
# A restarted server may take longer than the default number of attempts.
MANY_ATTEMPTS = mcpwire.Recovery(attempts=100, backoff_max=1.0)
EXITS = (sys.executable, ("-S", "-c", "raise SystemExit(3)"))


class KillOnce:
    """Kills a server once, as soon as all its long calls have begun."""

    def __init__(self, calls, *, by):
        self._missing = calls
        self._by = by
        self.kill_task = None

    def callback_of(self, number):
        # The call ends with its server, and its callback with it.
        async def on_progress(*_):
            if number in self._missing:
                self._missing.discard(number)
                if not self._missing:
                    self.kill_task = asyncio.create_task(asyncio.to_thread(self._by))

        return on_progress


def mixed(repository, kills):
    """Return 500 calls: 400 of the everything servers, 75 times, 25 of a repository."""
    calls = [long(name, n, kills[name].callback_of(n)) for name in kills for n in LONG]
    for number in range(49):
        calls += everything(PIPE, number) + everything(WEB, number)
    calls += [hour(number) for number in range(75)]
    calls += [commit(repository, number) for number in range(25)]
    assert len(calls) == 500
    return calls


LONG = (1, 2, 3, 4)


def target(server):
    return mcpwire.Stdio(server.argv[0], server.argv[1:], env=server.env)


@pytest.fixture
def five(real, warm, web, connect):
    """Return all five by name; one of them exits without any output."""
    return {
        PIPE: connect.target(real("everything")),
        WEB: mcpwire.Http(web.url),
        TIME: target(warm("time")),
        GIT: target(warm("git")),
        BROKEN: mcpwire.Stdio(*EXITS),
    }


@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
@pytest.mark.timeout(180)
async def test_all_calls_succeed_though_two_of_five_servers_die(
    five, web, connect, repository
):
    options = {"on_error": "skip", "timeout": TIMEOUT_S, "recovery": MANY_ATTEMPTS}
    async with mcpwire.Group(five, **options) as group:
        check_report(group)
        await call_while_two_go_down(group, web, connect, repository)
    await connect.gone()


def check_report(group):
    assert group.report.ok == (PIPE, WEB, TIME, GIT)
    assert not group.report
    assert f"{BROKEN}: " in str(group.report)
    assert isinstance(group.report.failed[BROKEN], mcpwire.ConnectError)


async def call_while_two_go_down(group, web, connect, repository):
    first = set(connect.processes()), web.process.pid
    kills = {
        PIPE: KillOnce(set(LONG), by=connect.kill),
        WEB: KillOnce(set(LONG), by=web.restart),
    }
    calls = mixed(repository, kills)
    async with asyncio.timeout(TIMEOUT_S):
        texts = await asyncio.gather(*(call.perform(group) for call in calls))
    for call, text in zip(calls, texts, strict=True):
        assert call.expected in text, call
    for each in kills.values():
        await each.kill_task
    assert not first[0] & set(connect.processes())
    assert web.process.pid != first[1]
    lost = Counter(call.server for call in calls if call.lost)
    assert set(lost) <= {PIPE, WEB}
    assert lost[PIPE] >= len(LONG)
    assert lost[WEB] >= len(LONG)
    states = {name: each.state for name, each in group.status().items()}
    assert states == {**dict.fromkeys(group, "ready"), BROKEN: "failed"}
