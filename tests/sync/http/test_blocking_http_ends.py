"""Forgotten, forked or left open at exit: nothing of a blocking client stays behind."""

import os
import subprocess
import sys
import time

import pytest
from interrupts import Interrupts
from legacy_server import legacy_server
from mcp_server import scripted_mcp
from running import Running, ours
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync


def nothing(_):
    return None


def has_stream(server, client):
    server.wait_until(lambda: server.streams)


def pauses(server, client):
    """The server's stream is let go of for long."""
    server.wait_until(lambda: server.streams)
    channel = client._connection.channel
    server.on["GET"] = lambda _, conn: conn.close() or True
    server.close_streams()
    until(channel._shell.paused)


def subscribed(server, client):
    client.subscribe("file:///a")
    server.wait_until(lambda: server.streams)


LONG = mcpwire.Recovery(backoff_initial=30, backoff_max=60)

STATES = [
    ("session", has_stream, {"on_notification": nothing}),
    ("session", pauses, {"on_notification": nothing, "recovery": LONG}),
    ("session", nothing, {"background": True, "keepalive": 30}),
    ("stateless", subscribed, {}),
    ("stateless", subscribed, {"background": True}),
]


@pytest.mark.pain("P12")
@pytest.mark.parametrize(
    ("era", "prepare", "options"), STATES, ids=["get", "pause", "keepalive", "l", "lb"]
)
def test_a_forgotten_client_leaves_no_thread_and_no_connection(era, prepare, options):
    with scripted_mcp(era) as server:
        client = mcpwire.sync.Client(server.url, **options)
        client.connect()
        if prepare is not nothing:
            prepare(server, client)
        with pytest.warns(ResourceWarning, match="unclosed"):
            del client
        until(lambda: not ours())
        server.wait_until(lambda: not server.raw.open)


@pytest.mark.system("L-U10")
@pytest.mark.pain("P12")
@pytest.mark.parametrize(
    ("era", "prepare", "options"), STATES, ids=["get", "pause", "keepalive", "l", "lb"]
)
@pytest.mark.usefixtures("patient_close")
def test_closing_leaves_no_thread_and_takes_no_time(era, prepare, options):
    with scripted_mcp(era) as server:
        with mcpwire.sync.Client(server.url, **options) as client:
            if prepare is not nothing:
                prepare(server, client)
            started = time.monotonic()
        assert time.monotonic() - started < 10
        until(lambda: not ours())


AT_EXIT = {
    "idle": "",
    "events": "events = client.events()",
    "subscribed": "client.subscribe('file:///a')",
    "calling": """
import threading
def call():
    while True:
        client.call_tool("echo")
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
client.call_tool("echo")""",
    "started": "call = client.start_call('slow', {'seconds': 30})",
}


@pytest.mark.pain("P12")
@pytest.mark.parametrize("how", AT_EXIT)
def test_a_program_may_end_with_an_open_client(how):
    with scripted_mcp("stateless" if how == "subscribed" else "session") as server:
        program = (
            "import mcpwire.sync\n"
            f"client = mcpwire.sync.Client({server.url!r}, background=True)\n"
            f"client.connect()\n{AT_EXIT[how]}\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        server.release()
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_forked_process_refuses_at_once_and_the_parent_goes_on(era):
    with scripted_mcp(era) as server:
        client = mcpwire.sync.Client(
            server.url, on_notification=nothing, background=True
        )
        client.connect()
        server.wait_until(lambda: server.streams)
        slow = Running(client.call_tool, "slow", {"seconds": 30})
        server.wait_until(lambda: "tools/call" in server.verbs())
        uses = [
            lambda: client.call_tool("echo"),
            lambda: client.start_call("echo"),
            lambda: client.notify("notifications/x"),
            lambda: client.subscribe("file:///a"),
            lambda: next(client.events()),
            client.connect,
            client.close,
        ]
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:  # pragma: no cover - another process
            try:
                said = [refusal(use) for use in uses]
                os.write(writes, "".join(said).encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as said:
            assert said.read() == "." * len(uses)
        os.waitpid(pid, 0)
        assert client.call_tool("echo", {"text": "here"}).text == "here"
        server.release()
        assert slow.result().text == "slow"
        client.close()
        server.wait_until(lambda: not server.streams)


def refusal(use):  # pragma: no cover - runs in the forked process
    started = time.monotonic()
    try:
        use()
    except mcpwire.LocalProtocolError as error:
        if "forked" in str(error) and time.monotonic() - started < 10:
            return "."
        return f"[{error}]"
    except BaseException as error:  # noqa: BLE001 - for the parent to show
        return f"[{error!r}]"
    return "[it was taken]"


@pytest.mark.fault("F42")
@pytest.mark.pain("P12")
def test_an_interrupt_while_the_older_transport_is_opened_leaves_no_thread():
    with legacy_server() as server:

        def connect(*moments):
            target = mcpwire.Http(server.url)
            target.memory.legacy = True
            client = mcpwire.sync.Client(target)
            interrupts = Interrupts(*moments)
            try:
                with interrupts:
                    client.connect()
            except KeyboardInterrupt:
                pass
            client.close()
            until(lambda: not ours())
            return interrupts.passed

        passed = connect(10**9)
        for moment in range(1, passed, 23):
            connect(moment)


def test_50_calls_over_the_older_transport_end_as_the_client_is_closed():
    def accept(_, conn):
        conn.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        return True

    with legacy_server() as server:
        client = mcpwire.sync.Client(server.url)
        client.connect()
        server.on["tools/call"] = accept
        calls = [Running(client.call_tool, "slow") for _ in range(50)]
        server.wait_until(
            lambda: (
                [request.method for request in server.requests].count("tools/call")
                == 50
            )
        )
        started = time.monotonic()
        client.close()
        assert time.monotonic() - started < 10
        assert {type(call.error()) for call in calls} == {mcpwire.ConnectionClosed}
        until(lambda: not ours())
