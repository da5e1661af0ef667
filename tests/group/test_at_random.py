"""Random concurrent operations on a group mix up no results and leave no tasks."""

import asyncio
import contextlib
from random import Random

import pytest
from fakes import text
from group_servers import ScriptedServer
from loop_polling import until

import mcpwire
from mcpwire.group import Backoff, Group

NAMES = "abc"
EXPECTED = (
    mcpwire.UnknownServer,
    mcpwire.TransportError,
    mcpwire.RequestTimeout,
    mcpwire.LocalProtocolError,
    TimeoutError,
)


class Echo(ScriptedServer):
    """A server that echoes with its name and sometimes refuses to connect."""

    def __init__(self, name, chance):
        echo = lambda params, _: text(f"{name}:{params['arguments']['n']}")  # noqa: E731 - short
        super().__init__(name, **{"tools/call": echo})
        self.chance = chance
        self.channels = []

    def open_in_memory(self, client, limits):
        self.broken = self.chance.random() < 0.2
        channel = super().open_in_memory(client, limits)
        self.channels.append(channel)
        return channel


class RandomUser:
    """A task that performs random operations one after the other."""

    def __init__(self, group, servers, chance):
        self.group = group
        self.servers = servers
        self.chance = chance
        self.results = 0

    async def walk(self):
        steps = (
            *(self.call,) * 4,
            self.group.disconnect,
            self.group.connect,
            lambda name: self.group.connect(name, self.servers[name], replace=True),
            lambda name: self.group.connect_all(),
            self.kill,
            self.give_up,
            lambda name: self.group.disconnect_all(),
        )
        for _ in range(40):
            with contextlib.suppress(*EXPECTED):
                await self.chance.choice(steps)(self.chance.choice(NAMES))
            await asyncio.sleep(0)  # one loop iteration

    async def call(self, name):
        number = self.chance.random()
        result = await self.group.call_tool(name, "x", {"n": number})
        assert result.text == f"{name}:{number}"
        self.results += 1

    async def kill(self, name):
        self.servers[name].die()

    async def give_up(self, _):
        async with asyncio.timeout(self.chance.random() / 500):
            await self.group.connect_all()


@pytest.mark.system("A05", "L-A3")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("start", ["eager", "lazy"])
async def test_each_caller_gets_its_own_results_and_no_task_is_left(seed, start):
    chance = Random(seed)
    servers = {name: Echo(name, chance) for name in NAMES}
    group = Group(
        servers,
        start=start,
        idle=0.002 if seed % 2 else None,
        restart=Backoff(first=0.001, maximum=0.002) if seed % 3 else None,
        on_error="skip",
        concurrency=2,
    )
    async with contextlib.aclosing(group):
        group.events()
        users = [RandomUser(group, servers, chance) for _ in range(8)]
        await asyncio.gather(*(each.walk() for each in users))
        await group.connect_all()
        assert set(group) <= set(group.status()) == set(NAMES)
        await group.aclose()
        assert group._entries == {}
        assert group._background == set()
        channels = [
            channel for server in servers.values() for channel in server.channels
        ]
        await until(lambda: all(channel.lost for channel in channels))
    assert sum(each.results for each in users)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("mcpwire")]
