"""A blocking client in running loops, in forked processes, at exit, and collected."""

import asyncio
import contextlib
import copy
import gc
import os
import pickle
import weakref

import pytest
from child_python import finished
from echoing import command
from fakes import FakeServer
from mcp_server import scripted_mcp
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, collect, echoed, own_threads, until

import mcpwire
import mcpwire.sync
from mcpwire.testing import leaks


@pytest.mark.system("R04")
@pytest.mark.pain("P11", "P12")
def test_a_client_inside_a_running_loop_blocks_that_loop(echo):
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)  # one loop iteration

    async def main():
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)  # one loop iteration
        with mcpwire.sync.Client(echo.target) as client:
            before = len(ticks)
            assert echoed(client, "hi") == "hi"
            assert len(ticks) == before
        ticking.cancel()

    asyncio.run(main())
    until(lambda: not own_threads())


@pytest.mark.pain("P11", "P12")
def test_one_client_works_across_notebook_cells(echo):
    """Each cell is a task of one event loop, also the last one."""
    loop = asyncio.new_event_loop()

    async def cell(work):
        return work()

    client = mcpwire.sync.Client(echo.target)
    loop.run_until_complete(cell(client.connect))
    for number in range(3):
        name = str(number)
        assert loop.run_until_complete(
            cell(lambda name=name: echoed(client, name))
        ) == (name)
        assert echoed(client, "outside") == "outside"
    loop.run_until_complete(cell(client.close))
    loop.close()
    assert client.stats.connections == 1
    until(lambda: not own_threads())


def test_a_loop_and_other_threads_share_a_client(echo, threads):
    async def main():
        assert echoed(client, "in the loop") == "in the loop"
        assert await asyncio.to_thread(echoed, client, "beside") == "beside"

    with mcpwire.sync.Client(echo.target) as client:
        beside = [threads.submit(echoed, client, str(n)) for n in range(4)]
        asyncio.run(main())
        assert [each.result(BOUND_S) for each in beside] == list("0123")


@pytest.mark.pain("P11")
def test_a_client_works_across_event_loops(echo):
    client = mcpwire.sync.Client(echo.target)

    async def use(name):
        await asyncio.to_thread(client.connect)
        return echoed(client, name)

    assert asyncio.run(use("one")) == "one"
    assert asyncio.run(use("two")) == "two"
    client.close()
    assert client.stats.connections == 1


@pytest.mark.fault("F44")
@pytest.mark.parametrize("background", [False, True])
def test_repeated_connecting_and_closing_leaks_no_resources(echo, background):
    client = mcpwire.sync.Client(echo.target, background=background)
    with client:
        assert echoed(client, "warm") == "warm"
    watch = leaks.ResourceSnapshot(ignore=["raw_server"])
    count = 20 if echo.name == "stdio" or background else 200
    for _ in range(count):
        with client:
            assert echoed(client, "hi") == "hi"
    assert [line for line in watch.settle(BOUND_S) if "thread" not in line] == []
    assert own_threads() == []
    assert client.stats.connections == count + 1


@pytest.mark.fault("F44")
def test_use_after_closing_leaves_no_thread():
    with mcpwire.sync.Client(
        scripted("handshake()\nrecv()"), background=True
    ) as client:
        events, call = client.events(), client.start_call("slow")
    for use in (events.close, call.result, client.ping):
        with contextlib.suppress(mcpwire.MCPError):
            use()
        assert own_threads() == []


def all_uses(client):
    """Return all uses of a client."""
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
    """Return how a use ended."""
    try:
        use()
    except mcpwire.LocalProtocolError as error:
        return "refused" if "fork" in str(error) else str(error)
    except BaseException as error:  # noqa: BLE001 - to be reported
        return repr(error)
    return "worked"


@pytest.mark.pain("P11")
@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("background", [False, True])
def test_after_a_fork_the_child_refuses_use_and_the_parent_works(
    echo, background, threads
):
    client = mcpwire.sync.Client(echo.target, background=background)
    client.connect()
    slow = threads.submit(client.call_tool, "slow")
    until(lambda: echo.slow == 1)
    uses = all_uses(client)
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
    assert echoed(client, "hi") == "hi"
    client.close()
    assert type(slow.exception(BOUND_S)) is mcpwire.ConnectionClosed


def test_a_client_never_connected_works_after_a_fork():
    client = mcpwire.sync.Client(scripted("handshake()\n" + ECHO_LOOP))
    pid = os.fork()
    if pid == 0:  # pragma: no cover - measured in its parent
        code = 1
        try:
            with client:
                code = 0 if echoed(client, "a") == "a" else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with client:
        assert echoed(client, "b") == "b"


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
def test_a_program_exits_in_any_state_of_its_client(echo, how, background):
    lines = "".join(f"    {line}\n" for line in AT_EXIT[how].splitlines())
    words = command(EXIT + lines, echo.name, echo.address, str(background))
    done = finished(*words, timeout=BOUND_S)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.fault("F41")
@pytest.mark.pain("P12")
@pytest.mark.parametrize("background", [False, True])
def test_a_garbage_collected_client_releases_all_resources(echo, background):
    watch = leaks.ResourceSnapshot()
    client = mcpwire.sync.Client(echo.target, background=background)
    client.connect()
    assert echoed(client, "hi") == "hi"
    holder = [client]
    del client
    with pytest.warns(ResourceWarning, match="unclosed <mcpwire.sync.Client"):
        collect(holder)
    until(lambda: not own_threads())
    assert [line for line in watch.settle(BOUND_S) if "thread" not in line] == []


@pytest.mark.fault("F41")
def test_connecting_leaves_no_reference_cycle(echo):
    """Otherwise the collector may finalise its sockets first, each with a warning."""
    client = mcpwire.sync.Client(echo.target)
    gc.disable()
    try:
        client.connect()
        assert echoed(client, "hi") == "hi"
        with pytest.warns(ResourceWarning, match="unclosed <mcpwire.sync.Client"):
            del client
    finally:
        gc.enable()
    until(lambda: not own_threads())


STATES = {
    "stream": ("session", {"on_notification": lambda _: None}),
    "keepalive": ("session", {"background": True, "keepalive": 30}),
    "subscribed": ("stateless", {}),
    "subscribed, read": ("stateless", {"background": True}),
}


@pytest.mark.system("L-U10")
@pytest.mark.pain("P12")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_closed_or_collected_client_leaves_no_thread(state, is_closed):
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
                collect(holder)
        until(lambda: not own_threads())
        server.wait_until(lambda: not server.raw.open)


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_client_can_not_be_copied(use):
    with mcpwire.sync.Client(FakeServer()) as client:
        with pytest.raises(TypeError, match="'Client' cannot be copied or pickled"):
            use(client)
        assert client.is_connected


def test_a_failed_construction_causes_no_warning():
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
    assert echoed(client, "hi") == "hi"
    del generator
    gc.collect()
    assert not client.is_connected


def test_a_closed_client_has_no_other_references(echo):
    client = mcpwire.sync.Client(echo.target)
    with client:
        assert echoed(client, "hi") == "hi"
    known = weakref.ref(client)
    del client
    gc.collect()
    assert known() is None
