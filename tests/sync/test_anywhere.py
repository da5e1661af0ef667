"""A blocking client works in any thread and inside a running loop; not after a fork."""

import asyncio
import os
import random
import sys
import threading
from pathlib import Path

import pytest
from fakes import FakeServer, text
from scripted import ECHO_LOOP, scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S

import mcpwire
import mcpwire.sync
from mcpwire.server.demo import demo_dispatcher

SHUFFLING = """
import random
handshake()
random.seed(1)
while True:
    m = recv()
    waiting = [m]
    import select
    while select.select([0], [], [], 0)[0] and len(waiting) < 8:
        waiting.append(recv())
    random.shuffle(waiting)
    for m in waiting:
        text(m, str(m["params"]["arguments"]["text"]))
"""


def echo():
    return scripted("handshake()\n" + ECHO_LOOP)


@pytest.mark.system("L-U3")
@pytest.mark.pain("P12")
def test_eight_threads_share_one_client_and_none_gets_anothers_answer():
    wrong = []

    def work(client, thread):
        for number in range(100):
            said = f"{thread}.{number}"
            if client.call_tool("x", {"text": said}).text != said:
                wrong.append(said)

    with mcpwire.sync.Client(scripted(SHUFFLING)) as client:
        threads = [threading.Thread(target=work, args=(client, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert not any(thread.is_alive() for thread in threads)
        assert client.stats.requests == 802
    assert wrong == []


@pytest.mark.pain("P12")
@pytest.mark.parametrize("background", [False, True])
def test_threads_with_deadlines_of_their_own_do_not_take_each_others(background):
    target = scripted(
        "handshake()\nwhile True:\n    m = recv()\n"
        "    if m['method'] == 'tools/call' and m['params']['name'] != 'hang':\n"
        "        text(m, m['params']['name'])"
    )
    outcomes = {}

    def work(client, name, timeout):
        try:
            outcomes[name] = client.call_tool(name, timeout=timeout).text
        except mcpwire.RequestTimeout as error:
            outcomes[name] = error.timeout

    with mcpwire.sync.Client(target, background=background) as client:
        threads = [
            threading.Thread(target=work, args=(client, "hang", 0.2)),
            *(
                threading.Thread(target=work, args=(client, str(n), 30 + n))
                for n in range(4)
            ),
        ]
        random.shuffle(threads)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
    assert outcomes == {"hang": 0.2, **{str(n): str(n) for n in range(4)}}


@pytest.mark.system("R04")
@pytest.mark.pain("P11", "P12")
def test_inside_a_running_loop_it_works_and_blocks_it():
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)  # a turn of the loop

    async def main():
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)  # a turn of the loop
        with mcpwire.sync.Client(echo()) as client:
            before = len(ticks)
            assert client.call_tool("x", {"text": "hi"}).text == "hi"
            assert len(ticks) == before
        ticking.cancel()

    asyncio.run(main())


@pytest.mark.pain("P11")
def test_loops_that_come_and_go_do_not_matter_to_it():
    client = mcpwire.sync.Client(echo())

    async def use(said):
        await asyncio.to_thread(client.connect)
        return client.call_tool("x", {"text": said}).text

    assert asyncio.run(use("one")) == "one"
    assert asyncio.run(use("two")) == "two"
    client.close()
    assert client.stats.connections == 1


@pytest.mark.pain("P11")
@pytest.mark.fault("F43")
def test_after_a_fork_every_use_is_refused_and_the_parents_session_goes_on():
    client = mcpwire.sync.Client(echo(), background=True)
    client.connect()
    uses = [
        client.connect,
        client.close,
        client.ping,
        lambda: client.call_tool("x"),
        lambda: client.start_call("x").result(),
        lambda: list(client.iter_tools()),
        lambda: next(client.events()),
        lambda: client.notify("x/y"),
    ]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - measured in its parent
        told = "lost"
        try:
            told = ",".join(refusal(use) for use in uses)
        finally:
            os.write(write, told.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    assert told == ",".join(["refused"] * len(uses))
    assert client.call_tool("x", {"text": "hi"}).text == "hi"
    client.close()


def refusal(use):  # pragma: no cover - runs in the forked process
    try:
        use()
    except mcpwire.LocalProtocolError as error:
        return "refused" if "forked" in str(error) else str(error)
    except BaseException as error:  # noqa: BLE001 - to be reported
        return repr(error)
    return "worked"


def test_a_client_never_connected_works_after_a_fork():
    client = mcpwire.sync.Client(echo())
    pid = os.fork()
    if pid == 0:  # pragma: no cover - measured in its parent
        code = 1
        try:
            with client:
                code = 0 if client.call_tool("x", {"text": "a"}).text == "a" else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with client:
        assert client.call_tool("x", {"text": "b"}).text == "b"


def test_servers_in_memory_are_reached_through_the_same_bytes():
    with mcpwire.sync.Client(demo_dispatcher()) as client:
        assert client.protocol_version == "2026-07-28"
        assert client.call_tool("echo", {"message": "hi"}).text == "hi"
        assert [tool.name for tool in client.iter_tools()] == ["echo", "add", "slow"]
    with mcpwire.sync.Client(demo_dispatcher(), mode="session") as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).structured_content == {
            "sum": 5
        }


def test_a_forgotten_iteration_needs_nobody_to_end_it():
    with mcpwire.sync.Client(demo_dispatcher()) as client:
        for tool in client.iter_tools():
            assert tool.name == "echo"
            break


@pytest.mark.system("R13")
def test_a_server_in_memory_may_be_a_fake(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: text("ok")})
    with mcpwire.sync.Client(server) as client:
        assert client.call_tool("x").text == "ok"
        assert client.server_info.name == "fake"
