"""A blocking channel to a server object, whose loop is in a thread and ends with it."""

import asyncio
import os
import threading
import time

import pytest
from blocking_channels import (
    BOUND_S,
    QUICK,
    Recorder,
    Threads,
    descriptors,
    tool,
    within,
)
from fakes import SILENCE, FakeServer, text
from waiting import until

from mcpwire.errors import ConnectionClosed, LocalProtocolError, RequestTimeout
from mcpwire.limits import Limits
from mcpwire.sync import _memory, _relay
from mcpwire.sync._lead import Waiter
from mcpwire.sync._memory import BlockingMemory
from mcpwire.versions import LATEST_SESSION


def echo(params, _):
    return text(params["arguments"]["text"])


@pytest.fixture
def opened():
    channels = []

    def open_channel(methods=None, inbound=None, *, limits=QUICK, server=None):
        server = server or FakeServer(methods or {"tools/call": echo})
        channel = BlockingMemory.open(server, inbound or Recorder(), limits=limits)
        channel.revision = LATEST_SESSION
        channels.append(channel)
        return channel

    yield open_channel
    for channel in channels:
        channel.close()


def hosts():
    return [thread for thread in threading.enumerate() if thread.name == _memory.NAME]


def test_calls_are_performed_and_large_ones_too(opened):
    channel = opened()
    assert tool(channel, "hi") == "hi"
    large = "x" * 2**22
    assert tool(channel, large) == large
    assert "memory" in repr(channel)


def test_the_thread_and_the_loop_are_gone_after_closing(opened):
    before = descriptors()
    for _ in range(20):
        channel = opened()
        assert tool(channel, "hi") == "hi"
        assert len(hosts()) == 1
        channel.close()
        until(lambda: not hosts())
    assert descriptors() == before
    with pytest.raises(ConnectionClosed, match="by this side"):
        tool(channel)


def test_threads_share_one_server(opened):
    channel, threads = opened(), Threads()

    def call(name):
        for number in range(100):
            assert tool(channel, f"{name}/{number}") == f"{name}/{number}"

    for name in range(4):
        threads.start(call, name)
    assert not threads.join()


def test_the_server_is_told_of_a_call_that_times_out(opened):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    channel = opened(server=server)
    with pytest.raises(RequestTimeout):
        tool(channel, seconds=0.05)
    assert channel.call("ping", None, deadline=within()) == {}
    assert server.requests("notifications/cancelled") == [
        {"requestId": 1, "reason": "timeout"}
    ]


def test_what_the_server_starts_is_heard(opened):
    def ask(_, server):
        server.notify("notifications/message", level="info", data=1)
        server.send({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        return text("x")

    inbound = Recorder({"ping": {}})
    channel = opened({"tools/call": ask}, inbound)
    assert tool(channel) == "x"
    assert channel.call("ping", None, deadline=within()) == {}
    assert inbound.notes[0][1]["data"] == 1
    assert inbound.requests[0][:2] == (7, "ping")


def test_a_server_that_hangs_up_ends_the_connection(opened):
    def hang_up(_, server):
        asyncio.get_running_loop().create_task(server.channel.aclose())
        return SILENCE

    inbound = Recorder()
    channel = opened({"tools/call": hang_up}, inbound)
    with pytest.raises(ConnectionClosed, match="the peer closed it"):
        tool(channel)
    assert len(inbound.losses) == 1


def test_what_a_server_object_raises_comes_out_of_opening():
    class Broken:
        def open_in_memory(self, client, limits):
            raise RuntimeError("no")

    before = descriptors()
    with pytest.raises(RuntimeError, match="no"):
        BlockingMemory.open(Broken(), Recorder())
    until(lambda: not hosts())
    assert descriptors() == before


def test_a_server_that_blocks_its_loop_delays_closing_but_not_for_ever(opened):
    released = threading.Event()

    def block(*_):
        released.wait(BOUND_S)
        return text("x")

    channel = opened({"tools/call": block})
    with pytest.raises(RequestTimeout):
        tool(channel, seconds=0.05)
    started = time.monotonic()
    channel.close()
    assert time.monotonic() - started < BOUND_S / 3
    released.set()
    for host in hosts():
        host.join(BOUND_S)
        assert not host.is_alive()


def test_tasks_that_do_not_want_to_end_are_left_behind(opened, monkeypatch):
    monkeypatch.setattr(_relay, "CLEANING_UP_S", 0.05)
    ended = []

    async def stay():
        try:
            await asyncio.sleep(BOUND_S)
        except asyncio.CancelledError:
            ended.append(True)
            raise

    def start(_, server):
        server.task = asyncio.get_running_loop().create_task(stay())
        return text("x")

    channel = opened({"tools/call": start})
    assert tool(channel) == "x"
    channel.close()
    assert ended == [True]
    until(lambda: not hosts())


def test_what_nobody_reads_is_bounded(opened):
    def flood(_, server):
        for _ in range(64):
            server.notify("notifications/x", data="x" * 2**16)
        return text("x")

    inbound = Recorder()
    channel = opened({"tools/call": flood}, inbound, limits=Limits(unwritten=2**20))
    (host,) = hosts()
    params = {"name": "x", "arguments": {}}
    pending = channel.begin("tools/call", params, deadline=within())
    host.join(BOUND_S)  # meanwhile nobody reads
    with pytest.raises(ConnectionClosed):
        channel.finish(pending)


def test_what_is_abandoned_ends_by_itself(opened):
    channel = opened()
    assert tool(channel, "hi") == "hi"
    (host,) = hosts()
    channel.abandon()
    host.join(BOUND_S)
    assert not host.is_alive()


@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_refuses_and_lets_go(opened):
    channel = opened()
    assert tool(channel, "hi") == "hi"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            tool(channel, "hi")
        except LocalProtocolError:
            code = 0
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert tool(channel, "still") == "still"
    channel.close()
    until(lambda: not hosts())


def test_an_interrupt_while_opening_leaves_nothing(monkeypatch):
    def interrupted(host):
        host._thread.start()
        raise KeyboardInterrupt

    before = descriptors()
    monkeypatch.setattr(_memory.Host, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        BlockingMemory.open(FakeServer(), Recorder(), limits=QUICK)
    until(lambda: not hosts())
    assert descriptors() == before


def test_an_interrupt_before_the_thread_leaves_nothing(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    before = descriptors()
    monkeypatch.setattr(_memory.Host, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        BlockingMemory.open(FakeServer(), Recorder(), limits=QUICK)
    assert descriptors() == before


def test_waiting_works_as_over_pipes(opened):
    channel = opened()
    assert channel.wait(Waiter(), 0.05) is False
