"""What can go wrong before a stdio server has agreed to anything."""

import asyncio
import errno
import json
import os
import signal
import sys

import pytest
from clocks import on_a_clock_by_hand
from programs import is_running
from scripted import scripted

import mcpwire

BOUND_S = 30.0


async def failure(target, expected=mcpwire.MCPError, **options):
    """Connect in vain, within a bound, and return the error."""
    client = mcpwire.Client(target, **options)
    with pytest.raises(expected) as caught:
        async with asyncio.timeout(BOUND_S):
            await client.connect()
    assert not client.is_connected
    await client.aclose()  # where the limit has passed, the child may still be leaving
    return caught.value


@pytest.mark.system("A10")
@pytest.mark.fault("F01")
async def test_a_missing_command_is_named_with_its_errno():
    error = await failure("no-such-command-at-all --flag", mcpwire.ConnectError)
    assert error.errno == errno.ENOENT
    assert "no-such-command-at-all" in str(error)
    assert "not found" in str(error)
    assert isinstance(error.__cause__, FileNotFoundError)


@pytest.mark.fault("F01")
async def test_a_file_that_may_not_be_executed_is_refused(tmp_path):
    path = tmp_path / "server.txt"
    path.write_text("hello")
    error = await failure(mcpwire.Stdio(path), mcpwire.ConnectError)
    assert error.errno == errno.EACCES
    assert str(path) in str(error)


@pytest.mark.system("A11")
@pytest.mark.fault("F01")
async def test_a_missing_working_directory_is_named():
    target = mcpwire.Stdio(sys.executable, cwd="/no/such/folder")
    error = await failure(target, mcpwire.ConnectError)
    assert "/no/such/folder" in str(error)


@pytest.mark.fault("F01")
async def test_an_argument_with_a_nul_byte_is_a_connect_error():
    error = await failure(mcpwire.Stdio(sys.executable, ["\0"]), mcpwire.ConnectError)
    assert "null" in str(error)


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
    """The clock stands still: its end is the event, and no time is waited for."""
    target = scripted(f"print('bye', file=sys.stderr, flush=True); {end}")
    error = await failure(target, mcpwire.ConnectError, mode=mode)
    assert error.exit_code == code
    assert error.stderr_tail == "bye\n"
    assert cause in str(error)
    assert "'bye'" in str(error)


@pytest.mark.rule("VER-11")
async def test_a_child_that_crashes_on_the_probe_is_started_again_without_it():
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
async def test_a_silent_child_times_out_and_its_noise_and_stderr_are_quoted():
    target = scripted(
        "raw(b'Welcome to my server!\\n'); print('hm', file=sys.stderr, flush=True)\n"
        "while True: recv()"
    )
    options = {"connect_timeout": 1.0, "probe_timeout": 0.1}
    for _ in range(8):  # on a loaded machine it may not say anything in a second
        error = await failure(target, mcpwire.RequestTimeout, **options)
        assert error.timeout == 1.0
        assert error.elapsed >= 1.0
        if "hm" in str(error):
            break
    assert "Welcome to my server!" in str(error)
    assert "hm" in str(error)


@pytest.mark.pain("P15")
async def test_noise_is_quoted_when_the_child_gives_up():
    target = scripted("raw(b'Usage: server FILE\\n'); sys.exit(2)")
    error = await failure(target, mcpwire.ConnectError)
    assert error.noise == ("Usage: server FILE",)
    assert "Usage: server FILE" in str(error)


async def test_a_program_that_echoes_is_no_server():
    error = await failure("cat", mcpwire.NegotiationError)
    assert "refused the handshake" in str(error)
    assert "initialize" in str(error)


@pytest.mark.system("A13")
@pytest.mark.attack("S20")
async def test_the_child_gets_no_secret_of_ours_and_no_descriptor(monkeypatch):
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
    # 0, 1, 2 and the one that lists the folder.
    assert len(descriptors) == 4


async def test_a_variable_to_be_inherited_must_exist(monkeypatch):
    monkeypatch.setenv("TOKEN_OF_MINE", "t")
    target = mcpwire.Stdio("true", inherit_env=["TOKEN_OF_MINE"])
    assert target.environment()["TOKEN_OF_MINE"] == "t"
    missing = mcpwire.Stdio("true", inherit_env=["NO_SUCH_VARIABLE"])
    error = await failure(missing, mcpwire.ConnectError)
    assert "NO_SUCH_VARIABLE" in str(error)
    everything = mcpwire.Stdio("true", inherit_env=True)
    assert everything.environment()["TOKEN_OF_MINE"] == "t"


@pytest.mark.system("U28")
async def test_a_server_that_starts_slowly_still_agrees_after_the_probe_timeout():
    # It locks its era at the first message it reads and refuses `initialize` then.
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
async def test_what_is_no_target_is_refused_at_construction(target, text):
    with pytest.raises(ValueError, match=text) as caught:
        mcpwire.Client(target)
    assert "secret" not in str(caught.value)
    assert "token=t" not in str(caught.value)


# A child that agrees to nothing, and leaves when it is told to, or killed.
STAYS = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid, go = sys.argv[1:]
with open(pid, "w") as file:
    file.write(str(os.getpid()))
while not os.path.exists(go):
    time.sleep(0.01)
"""


@pytest.fixture
def stays(tmp_path):
    """Return a client of it, where its id is found, and what lets it leave."""
    pid, go = tmp_path / "pid", tmp_path / "go"
    grace = 60.0  # it must not be waited for
    client = mcpwire.Client(
        scripted(STAYS + "handshake()\nrecv()", str(pid), str(go)),
        limits=mcpwire.Limits(close_grace=grace, terminate_grace=grace),
        connect_timeout=1.0,
        probe_timeout=0.1,
    )
    return client, pid, go


@pytest.mark.fault("F02")
async def test_connecting_outlasts_no_limit_and_the_next_child_waits_for_the_last(
    stays,
):
    client, pid, go = stays
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    first = int(pid.read_text())
    assert is_running(first)
    pid.unlink()
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    go.touch()
    await client.aclose()  # waits for its end
    assert not is_running(first)
    assert not pid.exists()  # the second attempt has waited for the first child


async def test_a_child_that_did_not_leave_in_time_ends_with_the_loop(stays):
    client, pid, _ = stays

    async def give_up():
        with pytest.raises(mcpwire.RequestTimeout):
            await client.connect()

    await asyncio.to_thread(asyncio.run, give_up())
    assert not is_running(int(pid.read_text()))
