"""A blocking client in running loops, forked processes, at exit, forgotten."""

import asyncio
import contextlib
import copy
import gc
import os
import pickle
import subprocess
import threading
import weakref

import pytest
from echoing import command
from fakes import FakeServer
from mcp_server import scripted_mcp
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.testing import leaks


def said(client, name):
    """Have the server say something again."""
    return client.call_tool("echo", {"text": name}, timeout=BOUND_S).text


def ours():
    """Return the names of the threads that mcpwire has started."""
    return [t.name for t in threading.enumerate() if t.name.startswith("mcpwire")]


# In a running loop...


@pytest.mark.system("R04")
@pytest.mark.pain("P11", "P12")
def test_inside_a_running_loop_it_works_and_blocks_it(echo):
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)  # a turn of the loop

    async def main():
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)  # a turn of the loop
        with mcpwire.sync.Client(echo.target) as client:
            before = len(ticks)
            assert said(client, "hi") == "hi"
            assert len(ticks) == before
        ticking.cancel()

    asyncio.run(main())
    until(lambda: not ours())


@pytest.mark.pain("P11", "P12")
def test_a_notebook_uses_one_client_from_cell_to_cell(echo):
    """Each cell is a task of one loop that runs all the time; so is the last one."""
    loop = asyncio.new_event_loop()

    async def cell(work):
        return work()

    client = mcpwire.sync.Client(echo.target)
    loop.run_until_complete(cell(client.connect))
    for number in range(3):
        name = str(number)
        assert loop.run_until_complete(cell(lambda name=name: said(client, name))) == (
            name
        )
        assert said(client, "outside") == "outside"
    loop.run_until_complete(cell(client.close))
    loop.close()
    assert client.stats.connections == 1
    until(lambda: not ours())


def test_a_call_in_a_running_loop_and_in_a_thread_beside_it_share_a_client(
    echo, threads
):
    async def main():
        assert said(client, "in the loop") == "in the loop"
        assert await asyncio.to_thread(said, client, "beside") == "beside"

    with mcpwire.sync.Client(echo.target) as client:
        beside = [threads.submit(said, client, str(n)) for n in range(4)]
        asyncio.run(main())
        assert [each.result(BOUND_S) for each in beside] == list("0123")


@pytest.mark.pain("P11")
def test_loops_that_come_and_go_do_not_matter_to_it(echo):
    client = mcpwire.sync.Client(echo.target)

    async def use(name):
        await asyncio.to_thread(client.connect)
        return said(client, name)

    assert asyncio.run(use("one")) == "one"
    assert asyncio.run(use("two")) == "two"
    client.close()
    assert client.stats.connections == 1


# Again and again...


@pytest.mark.fault("F44")
@pytest.mark.parametrize("background", [False, True])
def test_nothing_is_left_of_connecting_and_closing_many_times(echo, background):
    client = mcpwire.sync.Client(echo.target, background=background)
    with client:
        assert said(client, "warm") == "warm"
    watch = leaks.ResourceSnapshot(ignore=["raw_server"])
    count = 20 if echo.name == "stdio" or background else 200
    for _ in range(count):
        with client:
            assert said(client, "hi") == "hi"
    assert [line for line in watch.settle(BOUND_S) if "thread" not in line] == []
    assert ours() == []
    assert client.stats.connections == count + 1


@pytest.mark.fault("F44")
def test_what_is_used_after_closing_leaves_no_thread():
    with mcpwire.sync.Client(
        scripted("handshake()\nrecv()"), background=True
    ) as client:
        events, call = client.events(), client.start_call("slow")
    for use in (events.close, call.result, client.ping):
        with contextlib.suppress(mcpwire.MCPError):
            use()
        assert ours() == []


# After a fork...


def use_all(client):
    """Return what may be done with a client."""
    return [
        client.connect,
        client.close,
        client.ping,
        lambda: client.call_tool("echo"),
        lambda: client.start_call("echo"),
        lambda: list(client.iter_tools()),
        lambda: next(client.events()),
        lambda: client.subscribe("file:///a"),
        lambda: client.notify("x/y"),
    ]


def refusal(use):  # pragma: no cover - runs in the forked process
    """Say how a use ended."""
    try:
        use()
    except mcpwire.LocalProtocolError as error:
        return "refused" if "forked" in str(error) else str(error)
    except BaseException as error:  # noqa: BLE001 - to be reported
        return repr(error)
    return "worked"


@pytest.mark.pain("P11")
@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("background", [False, True])
def test_after_a_fork_every_use_is_refused_and_the_parents_session_goes_on(
    echo, background, threads
):
    client = mcpwire.sync.Client(echo.target, background=background)
    client.connect()
    slow = threads.submit(client.call_tool, "slow")
    until(lambda: echo.slow == 1)
    uses = use_all(client)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - measured in its parent
        try:
            os.write(write, ",".join(refusal(use) for use in uses).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == ",".join(["refused"] * len(uses))
    os.waitpid(pid, 0)
    assert said(client, "hi") == "hi"
    client.close()
    assert type(slow.exception(BOUND_S)) is mcpwire.ConnectionClosed


def test_a_client_never_connected_works_after_a_fork():
    client = mcpwire.sync.Client(scripted("handshake()\n" + ECHO_LOOP))
    pid = os.fork()
    if pid == 0:  # pragma: no cover - measured in its parent
        code = 1
        try:
            with client:
                code = 0 if said(client, "a") == "a" else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with client:
        assert said(client, "b") == "b"


# At the interpreter's exit...

EXIT = """
import threading
import mcpwire.sync
from echoing import reachable

with reachable(sys.argv[1], sys.argv[2]) as target:
    client = mcpwire.sync.Client(target, background=sys.argv[3] == "True")
    client.connect()
    assert client.call_tool("echo", {"text": "hi"}).text == "hi"
"""

AT_EXIT = {
    "closed": "client.close()",
    "left open": "",
    "with events": "events = client.events()",
    "calling": """
def call():
    try:
        while True:
            client.call_tool("echo", {"text": "x"})
    except mcpwire.ConnectionClosed:
        pass
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
client.call_tool("echo", {"text": "x"})""",
    "started": "call = client.start_call('slow')",
    "blocking the loop": """
connected, stuck = threading.Event(), threading.Event()
def block(event, data):
    if connected.is_set():
        stuck.set()
        threading.Event().wait()
client.close()
client = mcpwire.sync.Client(target, background=True, trace=block)
client.connect()
connected.set()
threading.Thread(target=client.ping, daemon=True).start()
stuck.wait()""",
    "closed at exit": "import atexit; atexit.register(client.close)",
}


@pytest.mark.pain("P12")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("how", AT_EXIT)
@pytest.mark.grounds(2, "echo", "background")
def test_a_program_ends_whatever_its_client_is_doing(echo, how, background):
    lines = "".join(f"    {line}\n" for line in AT_EXIT[how].splitlines())
    done = subprocess.run(
        command(EXIT + lines, echo.name, echo.address, str(background)),
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Forgotten...


@pytest.mark.fault("F41")
@pytest.mark.pain("P12")
@pytest.mark.parametrize("background", [False, True])
def test_a_forgotten_client_lets_go_of_everything_with_a_warning(echo, background):
    watch = leaks.ResourceSnapshot()
    client = mcpwire.sync.Client(echo.target, background=background)
    client.connect()
    assert said(client, "hi") == "hi"
    holder = [client]
    del client
    with pytest.warns(ResourceWarning, match="unclosed <mcpwire.sync.Client"):
        forget(holder)
    until(lambda: not ours())
    assert [line for line in watch.settle(BOUND_S) if "thread" not in line] == []


@pytest.mark.fault("F41")
def test_what_connecting_met_does_not_hold_a_client(echo):
    """Else the collector may finalise its sockets first, each with a warning."""
    client = mcpwire.sync.Client(echo.target)
    gc.disable()
    try:
        client.connect()
        assert said(client, "hi") == "hi"
        with pytest.warns(ResourceWarning, match="unclosed <mcpwire.sync.Client"):
            del client
    finally:
        gc.enable()
    until(lambda: not ours())


def nothing(_):
    """Hear something."""


def forget(holder):
    """Collect what nobody has any more."""
    holder.clear()
    gc.collect()


STATES = {
    "stream": ("session", {"on_notification": nothing}),
    "keepalive": ("session", {"background": True, "keepalive": 30}),
    "subscribed": ("stateless", {}),
    "subscribed, read": ("stateless", {"background": True}),
}


@pytest.mark.system("L-U10")
@pytest.mark.pain("P12")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_closed", [True, False])
def test_closed_or_forgotten_it_leaves_no_thread_and_no_connection(state, is_closed):
    era, options = STATES[state]
    with scripted_mcp(era) as server:
        client = mcpwire.sync.Client(server.url, **options)
        client.connect()
        if state != "keepalive":
            if era == "stateless":
                client.subscribe("file:///a")
            server.wait_until(lambda: server.streams)
        if is_closed:
            client.close()
        else:
            holder = [client]
            del client
            with pytest.warns(ResourceWarning, match="unclosed"):
                forget(holder)
        until(lambda: not ours())
        server.wait_until(lambda: not server.raw.open)


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_client_can_not_be_copied(use):
    with mcpwire.sync.Client(FakeServer()) as client:
        with pytest.raises(TypeError, match="'Client' cannot be copied or pickled"):
            use(client)
        assert client.is_connected


def test_a_client_whose_construction_failed_is_forgotten_in_silence():
    with pytest.raises(ValueError, match="timeout"):
        mcpwire.sync.Client("cat", timeout=0)
    gc.collect()


@pytest.mark.pain("P01")
def test_a_generator_left_open_closes_from_where_it_is_finalised(echo):
    def session():
        with mcpwire.sync.Client(echo.target) as client:
            yield client

    generator = session()
    client = next(generator)
    assert said(client, "hi") == "hi"
    del generator
    gc.collect()
    assert not client.is_connected


def test_a_closed_client_is_not_held_by_anything(echo):
    client = mcpwire.sync.Client(echo.target)
    with client:
        assert said(client, "hi") == "hi"
    known = weakref.ref(client)
    del client
    gc.collect()
    assert known() is None
