"""How failures are reported: at once, with one of a few classes, with their cause."""

import asyncio
import signal
import sys

import pytest
from clocks import on_a_clock_by_hand
from scripted import scripted
from shell_server import quick

import mcpwire

IN_FLIGHT = 100


# At once...

ENDS = {
    "aborted": ("os.abort()", -signal.SIGABRT, "SIGABRT"),
    "killed": ("os.kill(os.getpid(), 9)", -signal.SIGKILL, "SIGKILL"),
    "exit 0": ("os._exit(0)", 0, "code 0"),
    "exit 7": ("os._exit(7)", 7, "code 7"),
}


@pytest.mark.system("V24")
@pytest.mark.pain("P02", "P03")
@pytest.mark.fault("F04", "F05")
@pytest.mark.parametrize(("end", "code", "cause"), ENDS.values(), ids=ENDS.keys())
@on_a_clock_by_hand
async def test_every_call_in_flight_fails_when_the_server_exits(end, code, cause):
    """The clock stands still: the exit is the event, and no timer is needed."""
    await assert_calls_in_flight_fail(end, code, cause)


async def assert_calls_in_flight_fail(end, code, cause):
    target = scripted(
        "handshake()\nprint('last words', file=sys.stderr, flush=True)\n"
        f"for _ in range({IN_FLIGHT}): recv()\n{end}"
    )
    async with mcpwire.Client(
        target,
        limits=mcpwire.Limits(close_grace=0.1, terminate_grace=0.1),
        timeout=None,
        recovery=mcpwire.Recovery(restart=False),
    ) as client:
        calls = (client.call_tool("x") for _ in range(IN_FLIGHT))
        ends = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(mcpwire.ConnectionClosed) as again:
            await client.call_tool("again")
    assert {type(end) for end in ends} == {mcpwire.ConnectionClosed}
    assert len({id(end) for end in ends}) == IN_FLIGHT
    assert {end.exit_code for end in ends} == {code}
    assert {end.stderr_tail for end in ends} == {"last words\n"}
    assert len({id(end.stderr_tail) for end in ends}) == 1
    assert all(cause in str(end) and "last words" in str(end) for end in ends)
    assert all(end.sent for end in ends)
    assert again.value.sent is False


@pytest.mark.pain("P02", "P03")
@pytest.mark.fault("F05")
async def test_calls_in_flight_fail_when_the_server_closes_its_output():
    await assert_calls_in_flight_fail("os.close(1); time.sleep(60)", None, "output")


@pytest.mark.pain("P02")
@pytest.mark.fault("F06")
async def test_calls_in_flight_fail_when_the_server_closes_its_input():
    # The first call is sent before, the second finds the pipe closed.
    target = scripted(
        "handshake()\nrecv()\nos.close(0)\n"
        "send({'jsonrpc': '2.0', 'method': 'x/y'})\ntime.sleep(60)"
    )
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()
    limits = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    async with mcpwire.Client(
        target,
        limits=limits,
        timeout=None,
        recovery=mcpwire.Recovery(restart=False),
        on_notification=lambda _: loop.call_soon_threadsafe(closed.set),
    ) as client:
        first = asyncio.ensure_future(client.call_tool("x"))
        await closed.wait()
        ends = await asyncio.gather(
            first, client.call_tool("y"), return_exceptions=True
        )
    assert [type(end) for end in ends] == [mcpwire.ConnectionClosed] * 2
    assert "input" in str(ends[0]) or "SIG" in str(ends[0])
    assert [end.sent for end in ends] == [True, False]


@pytest.mark.pain("P07")
@on_a_clock_by_hand
async def test_closing_a_well_behaved_server_needs_no_timer():
    client = mcpwire.Client(quick())
    await client.connect()
    await client.aclose()


# With one of a few classes...


def answering(members):
    """Return a server that answers its first call with these members, as JSON text."""
    return scripted(
        "handshake()\nm = recv()\n"
        f'raw((\'{{"jsonrpc":"2.0","id":%d,{members}}}\\n\' % m[\'id\']).encode())\n'
        "recv()"
    )


def dying(how):
    return scripted(f"handshake()\nrecv()\n{how}\ntime.sleep(60)")


SHORT = mcpwire.Limits(message=1000, close_grace=0.1, terminate_grace=0.1)
CALLING = {
    "error": (answering('"error":{"code":1,"message":"no"}'), mcpwire.RPCError),
    "error, empty": (answering('"error":{"code":1,"message":""}'), mcpwire.RPCError),
    "error, no text": (answering('"error":{"code":1}'), mcpwire.MCPError),
    "error, no object": (answering('"error":null'), mcpwire.MCPError),
    "both": (
        answering('"result":{},"error":{"code":1,"message":""}'),
        mcpwire.MCPError,
    ),
    "neither": (answering('"x":1'), mcpwire.MCPError),
    "no object": (answering('"result":[]'), mcpwire.InvalidMessage),
    "wrong": (answering('"result":{"content":7}'), mcpwire.InvalidMessage),
    "too large": (answering(f'"result":"{"a" * 2000}"'), mcpwire.ConnectionClosed),
    "silence": (scripted("handshake()\nwhile True: recv()"), mcpwire.RequestTimeout),
    "exit": (dying("os._exit(0)"), mcpwire.ConnectionClosed),
    "signal": (dying("os.kill(os.getpid(), 15)"), mcpwire.ConnectionClosed),
    "closed output": (dying("os.close(1)"), mcpwire.ConnectionClosed),
}


def assert_clear_error(error, expected):
    assert isinstance(error, expected)
    assert isinstance(error, mcpwire.MCPError)
    assert not isinstance(error, BaseExceptionGroup)
    assert str(error).strip()
    assert "\n" not in str(error)
    assert "None" not in str(error)
    while error is not None:  # and no cause is a group
        assert not isinstance(error, BaseExceptionGroup)
        error = error.__cause__ or error.__context__


@pytest.mark.pain("P03")
@pytest.mark.parametrize(("target", "expected"), CALLING.values(), ids=CALLING.keys())
async def test_call_failure_has_one_class_and_a_message(target, expected):
    async with mcpwire.Client(
        target, limits=SHORT, timeout=0.3 if expected is mcpwire.RequestTimeout else 30
    ) as client:
        outcome = await asyncio.gather(client.call_tool("x"), return_exceptions=True)
    assert_clear_error(outcome[0], expected)


CONNECTING = {
    "missing": (
        *("no-such-command-at-all --flag", mcpwire.ConnectError, FileNotFoundError),
        ("'no-such-command-at-all'", "not found"),
    ),
    "a folder": (
        *(mcpwire.Stdio("/tmp"), mcpwire.ConnectError, PermissionError),
        ("/tmp",),
    ),
    "missing folder": (
        mcpwire.Stdio(sys.executable, cwd="/no/such/folder"),
        *(mcpwire.ConnectError, FileNotFoundError, ("/no/such/folder",)),
    ),
    "a NUL byte": (
        mcpwire.Stdio(sys.executable, ["\0"]),
        *(mcpwire.ConnectError, ValueError, ("null",)),
    ),
    "exit": (scripted("os._exit(1)"), mcpwire.ConnectError, None, ()),
    "silence": (scripted("while True: recv()"), mcpwire.RequestTimeout, None, ()),
    "noise": (
        *(scripted("raw(b'x\\n' * 1000)\nos._exit(0)"), mcpwire.ConnectError),
        *(None, ()),
    ),
    "one long line": (scripted("raw(b'x' * 5000)"), mcpwire.MCPError, None, ()),
    "old": (scripted("handshake('2023-01-01')"), mcpwire.NegotiationError, None, ()),
}


@pytest.mark.system("A10", "A11")
@pytest.mark.fault("F01")
@pytest.mark.pain("P03")
@pytest.mark.parametrize(
    ("target", "expected", "cause", "words"), CONNECTING.values(), ids=CONNECTING.keys()
)
async def test_connect_failure_has_one_class_and_a_message(
    target, expected, cause, words
):
    seconds = 0.5 if expected is mcpwire.RequestTimeout else None
    client = mcpwire.Client(
        target, limits=SHORT, connect_timeout=seconds, probe_timeout=0.1
    )
    outcome = await asyncio.gather(client.connect(), return_exceptions=True)
    assert_clear_error(outcome[0], expected)
    assert all(word in str(outcome[0]) for word in words)
    if cause is not None:
        assert isinstance(outcome[0].__cause__, cause)
        assert outcome[0].errno == getattr(outcome[0].__cause__, "errno", None)
    assert not client.is_connected
    await client.aclose()  # after a timeout the child may still be exiting
