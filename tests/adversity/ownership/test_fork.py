"""A forked process cannot use, disturb or end the parent's connections."""

import json

import pytest
from programs import run

pytestmark = pytest.mark.fault("F43")

# The parent connects, forks; `IN_CHILD` runs in the child; then the parent continues.
FORKING = """
import atexit
exec(sys.argv[1])  # defines in_child(client)

async def main():
    async with asyncio.timeout(40), mcpwire.Client(echo(), timeout=30) as client:
        assert (await client.call_tool("x", {"text": "before"})).text == "before"
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                in_child(client)
                if sys.argv[2] != "at once":
                    atexit._run_exitfuncs()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        say("child:", os.waitstatus_to_exitcode(status))
        for text in map(str, range(50)):
            assert (await client.call_tool("x", {"text": text})).text == text
        say("requests:", client.stats.requests, client.stats.connections)
        child = client._connection.channel
    say("server:", child.exit_code)

asyncio.run(main())
"""

USING = """
def in_child(client):
    async def use():
        for name, args in [("call_tool", ("x",)), ("list_tools", ()), ("ping", ()),
                           ("connect", ()), ("notify", ("x/y",)), ("aclose", ())]:
            try:
                await asyncio.wait_for(getattr(client, name)(*args), 30)
            except mcpwire.LocalProtocolError as error:
                say(name, "refused:", error)
    asyncio.run(use())
"""

FORGETTING = """
def in_child(client):
    client.__del__()
    client._connection.abandon()
    gc.collect()
"""

ITS_OWN = """
def in_child(client):
    async def use():
        async with mcpwire.Client(echo()) as own:
            say("own:", (await own.call_tool("x", {"text": "mine"})).text)
    asyncio.run(use())
"""


def lines(output):
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


@pytest.mark.parametrize(
    ("child_code", "exit_path"),
    [
        ("def in_child(client): pass", "at once"),
        ("def in_child(client): pass", "through exit functions"),
        (FORGETTING, "at once"),
        (ITS_OWN, "at once"),
    ],
    ids=["nothing", "exit functions", "forgetting", "connecting another"],
)
def test_parent_session_survives_any_use_in_a_forked_process(child_code, exit_path):
    fork(child_code, exit_path)


def fork(child_code, exit_path):
    """Run the program; return its output after the parent's session continued."""
    output, errors, code = run(FORKING, child_code, exit_path)
    assert (code, errors) == (0, "")
    values = lines(output)
    assert values["child"] == "0"
    assert (
        values["requests"] == "53 1"
    )  # two of the handshake, one before the fork, fifty after
    assert values["server"] == "0"  # it saw the end of its input and exited by itself
    return output


def test_every_use_in_a_forked_process_raises():
    output = fork(USING, "through exit functions")
    refused = [line for line in output.splitlines() if " refused: " in line]
    assert [line.split()[0] for line in refused] == [
        *("call_tool", "list_tools", "ping", "connect", "notify", "aclose")
    ]
    assert all(
        "after a fork" in line or "another event loop" in line for line in refused
    )


# Also between two runs of a loop, when the loop is not running.
BETWEEN_RUNS = """
import warnings
loop = asyncio.new_event_loop()
client = mcpwire.Client(echo(), timeout=30)
loop.run_until_complete(client.connect())
server = client._connection.channel.pid
pid = os.fork()
if pid == 0:
    if sys.argv[1] == "forget":
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            del client
            gc.collect()
    sys.exit(0)
_, status = os.waitpid(pid, 0)
say("child:", os.waitstatus_to_exitcode(status))
result = loop.run_until_complete(client.call_tool("x", {"text": "still here"}))
say("answer:", result.text)
loop.run_until_complete(client.aclose())
loop.close()
"""


@pytest.mark.parametrize("how", ["forget", "exit"])
def test_fork_between_loop_runs_keeps_the_parents_server(how):
    output, errors, code = run(BETWEEN_RUNS, how)
    assert (code, errors) == (0, "")
    assert lines(output) == {"child": "0", "answer": "still here"}


# While the forked process lives it must not hold the server's input open.
OUTLIVED = """
async def main():
    target = scripted(
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(9))\\n"
        "handshake()\\n" + ECHO_LOOP
    )
    client = mcpwire.Client(target, limits=mcpwire.Limits(close_grace=30.0))
    await client.connect()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)  # until the parent is through
        os._exit(0)
    channel = client._connection.channel
    started = time.monotonic()
    await client.aclose()
    say("server:", channel.exit_code)
    say("prompt:", time.monotonic() - started < 10)
    os.close(write)
    os.waitpid(pid, 0)

asyncio.run(main())
"""


def test_long_lived_forked_process_does_not_hold_the_server_open():
    output, errors, code = run(OUTLIVED)
    assert (code, errors) == (0, "")
    assert lines(output) == {"server": "0", "prompt": "True"}


DAEMONISING = """
async def main():
    client = mcpwire.Client(echo())
    await client.connect()
    say("server:", client._connection.channel.pid)
    return client

client = asyncio.run(main())
if os.fork() == 0:
    os.setsid()
    async def again():
        async with asyncio.timeout(40), client:
            say("daemon:", (await client.call_tool("x", {"text": "served"})).text)
    asyncio.run(again())
    os._exit(0)
os.wait()
del client
"""


def test_daemon_reconnects_with_its_parents_client():
    output, errors, code = run(DAEMONISING)
    assert (code, errors) == (0, "")
    assert lines(output)["daemon"] == "served"


EXECUTING = """
async def main():
    async with asyncio.timeout(40), mcpwire.Client(echo()) as client:
        await client.call_tool("x")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c",
            "import json, os; print(json.dumps(os.listdir('/proc/self/fd')))",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            close_fds=False,
        )
        listed, _ = await process.communicate()
        pid = os.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-S", "-c",
                "import json, os; print(json.dumps(os.listdir('/proc/self/fd')))"])
        os.waitpid(pid, 0)
        print(listed.decode(), end="", flush=True)
asyncio.run(main())
"""


@pytest.mark.attack("S20")
def test_no_descriptor_survives_an_exec():
    output, errors, code = run(EXECUTING)
    assert (code, errors) == (0, "")
    # 0, 1, 2 and the descriptor that lists the folder.
    assert [len(json.loads(line)) for line in output.splitlines()] == [4, 4]
