"""Failures of stdio servers before the handshake is done."""

import asyncio
import json
import os
import signal

import pytest
from clocks import on_a_clock_by_hand
from programs import is_running
from scripted import scripted

import mcpwire

BOUND_S = 30.0


async def connect_error(target, expected=mcpwire.MCPError, **options):
    client = mcpwire.Client(target, **options)
    with pytest.raises(expected) as caught:
        async with asyncio.timeout(BOUND_S):
            await client.connect()
    assert not client.is_connected
    await client.aclose()  # after a timeout the child may still be exiting
    return caught.value


@pytest.mark.system("A10")
@pytest.mark.fault("F02")
@pytest.mark.pain("P02", "P03")
@pytest.mark.parametrize("mode", ["auto", "session", "stateless"])
@pytest.mark.parametrize(
    ("end", "code", "cause"),
    [
        ("sys.exit(0)", 0, "exited with code 0"),
        ("sys.exit(127)", 127, "exited with code 127"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "SIGKILL"),
    ],
)
@on_a_clock_by_hand
async def test_a_child_that_exits_first_fails_with_its_exit_code(
    end, code, cause, mode
):
    """The clock stands still: the exit is the event, and no timer is needed."""
    target = scripted(f"print('bye', file=sys.stderr, flush=True); {end}")
    error = await connect_error(target, mcpwire.ConnectError, mode=mode)
    assert error.exit_code == code
    assert error.stderr_tail == "bye\n"
    assert cause in str(error)
    assert "'bye'" in str(error)


@pytest.mark.rule("VER-11")
async def test_child_that_crashes_on_the_probe_is_restarted_without_it():
    target = scripted(
        "m = recv()\n"
        "if m['method'] != 'initialize': sys.exit(3)\n"
        "answer(m, {'protocolVersion': '2024-11-05', 'capabilities': {'tools': {}},"
        " 'serverInfo': {'name': 'old', 'version': '1'}})\n"
        "while True: recv()"
    )
    async with mcpwire.Client(target) as client:
        assert client.protocol_version == "2024-11-05"
        events = [step.event for step in client.negotiation.steps]
    assert "the connection ended" in events


@pytest.mark.system("A03", "L-R6", "L-V3")
@pytest.mark.fault("F03")
@pytest.mark.pain("P15")
@pytest.mark.rule("LIFE-14")
async def test_silent_child_times_out_with_its_noise_and_stderr():
    target = scripted(
        "raw(b'Welcome to my server!\\n'); print('hm', file=sys.stderr, flush=True)\n"
        "while True: recv()"
    )
    options = {"connect_timeout": 1.0, "probe_timeout": 0.1}
    for _ in range(8):  # on a loaded machine it may print nothing within a second
        error = await connect_error(target, mcpwire.RequestTimeout, **options)
        assert error.timeout == 1.0
        assert error.elapsed >= 1.0
        if "hm" in str(error):
            break
    assert "Welcome to my server!" in str(error)
    assert "hm" in str(error)


@pytest.mark.pain("P15")
async def test_noise_is_quoted_when_the_child_exits():
    target = scripted("raw(b'Usage: server FILE\\n'); sys.exit(2)")
    error = await connect_error(target, mcpwire.ConnectError)
    assert error.noise == ("Usage: server FILE",)
    assert "Usage: server FILE" in str(error)


async def test_echoing_program_fails_the_handshake():
    error = await connect_error("cat", mcpwire.NegotiationError)
    assert "refused the handshake" in str(error)
    assert "initialize" in str(error)


@pytest.mark.system("A13")
@pytest.mark.attack("S20")
async def test_child_inherits_no_secret_and_no_descriptor(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("BASH_FUNC_x%%", "() { :; }")
    monkeypatch.setenv("LANG", "() { :; }")
    inheritable = os.dup(0)
    os.set_inheritable(inheritable, True)
    try:
        target = scripted(
            "handshake()\nm = recv()\n"
            "text(m, json.dumps([sorted(os.environ), os.listdir('/proc/self/fd')]))\n"
            "recv()",
            env={"EXTRA": "1"},
        )
        async with mcpwire.Client(target) as client:
            result = await client.call_tool("env")
    finally:
        os.close(inheritable)
    names, descriptors = json.loads(result.text)
    assert "AWS_SECRET_ACCESS_KEY" not in names
    assert "LANG" not in names
    assert "EXTRA" in names
    assert "PATH" in names
    # 0, 1, 2 and the descriptor that lists the folder.
    assert len(descriptors) == 4


async def test_missing_inherited_variable_is_a_connect_error(monkeypatch):
    monkeypatch.setenv("TOKEN_OF_MINE", "t")
    target = mcpwire.Stdio("true", inherit_env=["TOKEN_OF_MINE"])
    assert target.environment()["TOKEN_OF_MINE"] == "t"
    missing = mcpwire.Stdio("true", inherit_env=["NO_SUCH_VARIABLE"])
    error = await connect_error(missing, mcpwire.ConnectError)
    assert "NO_SUCH_VARIABLE" in str(error)
    everything = mcpwire.Stdio("true", inherit_env=True)
    assert everything.environment()["TOKEN_OF_MINE"] == "t"


@pytest.mark.system("U28")
async def test_slow_server_may_answer_after_the_probe_timeout():
    # It fixes its era at the first message and then refuses `initialize`.
    target = scripted(
        "first = recv(); second = recv()\n"
        "assert first['method'] == 'server/discover', first\n"
        "assert second['method'] == 'initialize', second\n"
        "send({'jsonrpc': '2.0', 'id': second['id'], 'error': {'code': -32022,"
        " 'message': 'no', 'data': {'supported': ['2026-07-28'], 'requested': 'x'}}})\n"
        "answer(first, {'resultType': 'complete', 'supportedVersions': ['2026-07-28'],"
        " 'capabilities': {}, 'ttlMs': 0, 'cacheScope': 'private'})\n"
        "while True: recv()"
    )
    async with mcpwire.Client(target, probe_timeout=0.05) as client:
        assert client.protocol_version == "2026-07-28"


@pytest.mark.system("A02")
@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"connect_timeout": -1}, "connect_timeout"),
        ({"probe_timeout": True}, "probe_timeout"),
        ({"max_timeout": "1"}, "max_timeout"),
        ({"mode": "modern-ish"}, "mode"),
    ],
)
async def test_bad_options_are_refused_by_name_at_construction(options, rule):
    with pytest.raises(ValueError, match=rule):
        mcpwire.Client("cat", **options)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("", "empty"),
        ("echo 'oops", "cannot split"),
        ("https://user:secret@example.com/mcp?token=t", "URL"),
        (42, "42"),
    ],
)
async def test_invalid_target_is_refused_at_construction(target, text):
    with pytest.raises(ValueError, match=text) as caught:
        mcpwire.Client(target)
    assert "secret" not in str(caught.value)
    assert "token=t" not in str(caught.value)


# A child that never answers, and exits once a file exists or it is killed.
STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid, go = sys.argv[1:]
with open(pid, "w") as file:
    file.write(str(os.getpid()))
while not os.path.exists(go):
    time.sleep(0.01)
"""


@pytest.fixture
def stubborn(tmp_path):
    """Return a client of it, its pid file, and the file that lets it exit."""
    pid, go = tmp_path / "pid", tmp_path / "go"
    grace = 60.0  # the test must not wait for it
    client = mcpwire.Client(
        scripted(STUBBORN + "handshake()\nrecv()", str(pid), str(go)),
        limits=mcpwire.Limits(close_grace=grace, terminate_grace=grace),
        connect_timeout=1.0,
        probe_timeout=0.1,
    )
    return client, pid, go


@pytest.mark.fault("F02")
async def test_next_connect_waits_for_the_previous_child(stubborn):
    client, pid, go = stubborn
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    first = int(pid.read_text())
    assert is_running(first)
    pid.unlink()
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    go.touch()
    await client.aclose()  # waits for the child's end
    assert not is_running(first)
    assert not pid.exists()  # the second attempt has waited for the first child


async def test_child_that_did_not_exit_in_time_ends_with_the_loop(stubborn):
    client, pid, _ = stubborn

    async def time_out():
        with pytest.raises(mcpwire.RequestTimeout):
            await client.connect()

    await asyncio.to_thread(asyncio.run, time_out())
    assert not is_running(int(pid.read_text()))
