"""Five real servers in one group: 500 calls at once while two of them go down.

One child is killed and the HTTP server started again, both as they work. Nothing is
lost and no answer goes astray: what may be sent twice succeeds by itself, and of the
rest the caller is told that it may have run, and decides.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import pytest
from mixed_calls import (
    BROKEN,
    GIT,
    PIPE,
    TIME,
    WEB,
    commit,
    everything,
    hour,
    long,
)

import mcpwire

pytestmark = pytest.mark.servers

PATIENCE_S = 150.0
# A server that is started again may take longer than the attempts that are the default.
PATIENT = mcpwire.Recovery(attempts=100, backoff_max=1.0)
EXITS = (sys.executable, ("-S", "-c", "raise SystemExit(3)"))


class Downfall:
    """Takes a server down as soon as all its long calls have begun, once."""

    def __init__(self, calls, *, by):
        self._missing = calls
        self._by = by
        self.fall = None

    def heard_from(self, number):
        # The call that is heard from ends with its server, and its callback with it.
        async def on_progress(*_):
            if number in self._missing:
                self._missing.discard(number)
                if not self._missing:
                    self.fall = asyncio.create_task(asyncio.to_thread(self._by))

        return on_progress


def mixed(repository, falls):
    """Return 500 calls: 400 of the everything servers, 75 times, 25 of a repository."""
    calls = [long(name, n, falls[name].heard_from(n)) for name in falls for n in LONG]
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
    """Return all five by name; one of them ends before it says anything."""
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
async def test_nothing_is_lost_where_two_of_five_go_down(
    five, web, connect, repository
):
    options = {"on_error": "skip", "timeout": PATIENCE_S, "recovery": PATIENT}
    async with mcpwire.Group(five, **options) as group:
        names_the_broken_one(group)
        await asks_while_two_go_down(group, web, connect, repository)
    await connect.gone()


def names_the_broken_one(group):
    assert group.report.ok == (PIPE, WEB, TIME, GIT)
    assert not group.report
    assert f"{BROKEN}: " in str(group.report)
    assert isinstance(group.report.failed[BROKEN], mcpwire.ConnectError)


async def asks_while_two_go_down(group, web, connect, repository):
    first = set(connect.processes()), web.process.pid
    falls = {
        PIPE: Downfall(set(LONG), by=connect.kill),
        WEB: Downfall(set(LONG), by=web.restart),
    }
    calls = mixed(repository, falls)
    async with asyncio.timeout(PATIENCE_S):
        texts = await asyncio.gather(*(call.perform(group) for call in calls))
    for call, text in zip(calls, texts, strict=True):
        assert call.expected in text, call
    for each in falls.values():
        await each.fall
    assert not first[0] & set(connect.processes())
    assert web.process.pid != first[1]
    lost = Counter(call.server for call in calls if call.lost)
    assert set(lost) <= {PIPE, WEB}
    assert lost[PIPE] >= len(LONG)
    assert lost[WEB] >= len(LONG)
    states = {name: each.state for name, each in group.status().items()}
    assert states == {**dict.fromkeys(group, "ready"), BROKEN: "failed"}
