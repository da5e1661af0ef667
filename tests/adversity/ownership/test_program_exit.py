"""Programs that end without closing: no output, and no server left behind."""

import os
import signal
from itertools import chain

import pytest
from mcp_server import scripted_mcp
from programs import BOUND_S, LEFT_S, is_running, run, seconds_until, start

pytestmark = pytest.mark.pain("P01")

EXIT_S = 1.0
"""Within which our server exits once its input has ended."""

STUBBORN = """
import threading
import mcpwire.sync
from mcpwire.testing.leaks import children

def stubborn():
    return scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
        "handshake()\\nwhile True: time.sleep(60)"  # does not mind the end of its input
    )

def tell(client):
    say(client._connection.channel.pid)
    return client

def blocking(**options):
    client = mcpwire.sync.Client(stubborn(), **options)
    client.connect()
    say(*children())
    return client
"""

LISTENING = """
stream = client.events()
stream.__enter__()
client.notify("notifications/x")
"""

ENDINGS = {
    "the loop is closed, the client kept": """
client = mcpwire.Client(stubborn())
asyncio.run(client.connect())
tell(client)
""",
    "the loop is not closed": """
warnings.simplefilter("ignore", ResourceWarning)
loop = asyncio.new_event_loop()
client = mcpwire.Client(stubborn())
loop.run_until_complete(client.connect())
tell(client)
""",
    "main returns with the client open": """
async def main():
    client = mcpwire.Client(stubborn())
    await client.connect()
    tell(client)
asyncio.run(main())
""",
    "main returns with calls in flight": """
async def main():
    client = mcpwire.Client(stubborn())
    await client.connect()
    tell(client)
    calls = [asyncio.create_task(client.call_tool("x")) for _ in range(10)]
    await asyncio.sleep(0)
    return calls
calls = asyncio.run(main())
""",
    "an async generator holds it": """
async def session():
    async with mcpwire.Client(stubborn(), limits=short) as client:
        yield client
async def main():
    generator = session()
    tell(await anext(generator))
    return generator
short = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
generator = asyncio.run(main())
""",
    "a reference cycle holds it": """
async def main():
    client = mcpwire.Client(stubborn(), on_notification=lambda _: client)
    await client.connect()
    client.me = client
    tell(client)
asyncio.run(main())
""",
    "a daemon thread runs its loop": """
connected = threading.Event()
client = mcpwire.Client(stubborn())
async def use():
    await client.connect()
    connected.set()
    await asyncio.Event().wait()
threading.Thread(target=lambda: asyncio.run(use()), daemon=True).start()
connected.wait(30)
tell(client)
""",
    "sys.exit in the middle": """
async def main():
    async with mcpwire.Client(stubborn(), limits=short) as client:
        tell(client)
        sys.exit(0)
short = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
asyncio.run(main())
""",
    "it is still connecting": """
async def main():
    up = asyncio.Event()
    def heard(data):
        say(int(data))
        up.set()
    target = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
        "print(os.getpid(), file=sys.stderr, flush=True)\\ntime.sleep(60)",
        stderr=heard)
    limits = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    client = mcpwire.Client(target, limits=limits)
    connecting = asyncio.create_task(client.connect())
    await up.wait()
    return connecting
connecting = asyncio.run(main())
""",
    "blocking, the client is kept": "client = blocking()\n",
    "blocking, it listens": "client = blocking()\n" + LISTENING,
    "blocking, with a reader of its own": (
        "client = blocking(background=True, keepalive=0.01)\n" + LISTENING
    ),
    "blocking, a cycle holds it": "client = blocking()\nclient.me = client\n",
    "blocking, a daemon thread calls": """
client = blocking()
def call():
    with contextlib.suppress(mcpwire.ConnectionClosed):  # it may see its server's end
        client.call_tool("x")
threading.Thread(target=call, daemon=True).start()
while client.stats.requests < 3: time.sleep(0.01)  # until the call is sent
""",
}


@pytest.mark.pain("P06")
@pytest.mark.fault("F41")
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_ending_program_is_silent_and_ends_its_server(ending):
    output, errors, code = run(STUBBORN + ending)
    assert (code, errors) == (0, "")
    pid = int(output)
    assert seconds_until(lambda: not is_running(pid)) < LEFT_S


def test_only_the_users_own_error_is_printed():
    output, errors, code = run(
        STUBBORN
        + """
short = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
async def main():
    async with mcpwire.Client(stubborn(), limits=short) as client:
        tell(client)
        raise KeyError("mine")
asyncio.run(main())
"""
    )
    assert code == 1
    assert errors.count("Traceback") == 1
    assert errors.endswith("KeyError: 'mine'\n")
    assert seconds_until(lambda: not is_running(int(output))) < LEFT_S


def test_developer_mode_reports_only_the_unclosed_client():
    output, errors, code = run(
        STUBBORN + ENDINGS["main returns with the client open"], python=("-X", "dev")
    )
    assert code == 0
    unclosed = [line for line in errors.splitlines() if "unclosed" in line]
    assert len(unclosed) == 1
    assert "unclosed <mcpwire.Client" in unclosed[0]
    assert "never retrieved" not in errors
    assert "Traceback" not in errors
    assert seconds_until(lambda: not is_running(int(output))) < LEFT_S


INTERRUPTED = (
    STUBBORN
    + """
async def main():
    limits = mcpwire.Limits(close_grace=30.0, terminate_grace=30.0)
    client = mcpwire.Client(stubborn(), limits=limits)
    await client.connect()
    tell(client)
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)
    say("closing")
    await closing
try:
    asyncio.run(main())
except KeyboardInterrupt:
    say("interrupted")
"""
)


@pytest.mark.pain("P07")
@pytest.mark.fault("F41")
def test_interrupt_during_closing_ends_and_reaps_the_server():
    with start(INTERRUPTED) as process:
        pid = int(process.stdout.readline())
        assert process.stdout.readline() == "closing\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=BOUND_S)
    assert (output, errors, process.returncode) == ("interrupted\n", "", 0)
    assert seconds_until(lambda: not is_running(pid)) < LEFT_S


SERVED = """
target = mcpwire.Stdio(sys.executable, ["-m", "mcpwire", "demo-server"])
async def main():
    async with mcpwire.Client(target, mode=sys.argv[1]) as client:
        say(client._connection.channel.pid)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.pain("P06")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["session", "stateless"])
def test_server_exits_within_a_second_of_its_clients_death(mode):
    quickest = BOUND_S
    for _ in range(12):  # a loaded machine may delay any one of them
        with start(SERVED, mode) as process:
            pid = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            quickest = min(quickest, seconds_until(lambda pid=pid: not is_running(pid)))
            process.communicate()
        if quickest < EXIT_S:
            break
    assert quickest < EXIT_S


KEPT = {
    "in this module": "client = made()\nkeep = lambda: client\n",
    "in a module that ends late": "import logging\nlogging.client = client = made()\n",
    "in a cycle": """
class Holder:
    pass
holder = Holder()
holder.client, holder.holder = made(), holder
client = holder.client
""",
}

CONNECTED = {
    "stdio, the loop is closed": ("echo()", "asyncio.run(client.connect())"),
    "stdio, the loop is not closed": (
        "echo()",
        "asyncio.new_event_loop().run_until_complete(client.connect())",
    ),
    "HTTP, the loop is closed": ("URL", "asyncio.run(client.connect())"),
    "HTTP, the loop is not closed": (
        "URL",
        """
loop = asyncio.new_event_loop()
loop.run_until_complete(client.connect())
loop.run_until_complete(asyncio.sleep(0.1))  # its stream is open, or not yet
""",
    ),
}


@pytest.mark.parametrize(
    ("kept", "connected"),
    [
        *(("in this module", connected) for connected in CONNECTED),
        *((kept, "HTTP, the loop is not closed") for kept in list(KEPT)[1:]),
    ],
)
def test_global_client_at_exit_only_warns_as_unclosed(kept, connected):
    target, connect = CONNECTED[connected]
    with scripted_mcp() as server:
        body = (
            f"URL = {server.url!r}\n"
            f"def made():\n    return mcpwire.Client({target})\n{KEPT[kept]}{connect}\n"
        )
        # Warnings of asyncio about its own objects.
        parts = ("event loop", "<socket", "transport")
        ignored = (("-W", f"ignore:unclosed {part}") for part in parts)
        options = ("-W", "default", *chain.from_iterable(ignored))
        output, errors, code = run(body, python=options)
    assert (output, code) == ("", 0)
    lines = errors.splitlines()
    assert all("ResourceWarning: unclosed <mcpwire.Client" in line for line in lines)
    assert len(lines) <= 1
