"""Child processes: detecting, describing and enforcing their end."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time

import pytest
from scripted import ECHO_LOOP, pid_of, scripted

import mcpwire
from mcpwire.transports import process
from mcpwire.transports.process import StderrTail, describe_exit

BOUND_S = 30.0


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (None, "ended"),
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-9, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
    ],
)
def test_describe_exit_describes_code_or_signal(code, text):
    assert describe_exit(code) == text


def test_the_stderr_tail_keeps_the_end_within_its_limit():
    tail = StderrTail(10)
    for number in range(100):
        tail.feed(b"%d " % number)
    assert tail.text == " 97 98 99 "
    tail.feed(b"\xff")
    assert tail.text.endswith("\ufffd")


@pytest.fixture
def no_pidfd(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.parametrize("code", [0, 5])
async def test_without_pidfd_the_end_of_each_child_is_detected(no_pidfd, code):
    targets = [
        scripted(f"handshake()\nrecv()\nsys.exit({code})"),
        scripted("handshake()\n" + ECHO_LOOP),
    ]
    ends, stays = [mcpwire.Client(target) for target in targets]
    await asyncio.gather(ends.connect(), stays.connect())
    with pytest.raises(mcpwire.ConnectionClosed) as caught:
        await ends.call_tool("x")
    assert caught.value.exit_code == code
    assert (await stays.call_tool("x", {"text": "hi"})).text == "hi"
    await asyncio.gather(ends.aclose(), stays.aclose())


def test_without_pidfd_a_closed_loop_raises_no_error(no_pidfd):
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    asyncio.run(client.connect())
    os.kill(pid_of(client), signal.SIGKILL)
    with pytest.warns(ResourceWarning, match="unclosed"):
        client.__del__()


async def test_a_child_that_left_its_process_group_is_killed():
    target = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.setpgid(0, os.getpgid(os.getppid()))\n"
        "handshake()\nwhile True: time.sleep(60)"
    )
    limits = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)
    client = mcpwire.Client(target, limits=limits)
    await client.connect()
    pid = pid_of(client)
    await client.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_leaked_child_is_killed_by_its_owner_only():
    popen = subprocess.Popen(["sleep", "60"], process_group=0)
    process.kill_leaked(popen, os.getpid() + 1)  # as after a fork
    assert popen.poll() is None
    process.kill_leaked(popen, os.getpid())
    assert popen.poll() == -signal.SIGKILL
    process.kill_leaked(popen, os.getpid())


def test_a_group_with_foreign_zombies_only_is_not_running(tmp_path):
    program = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setpgid(0, 0); print(os.getpid(), flush=True); os._exit(0)\n"
        "sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        zombie = int(parent.stdout.readline())
        # The parent never reaps it; its pidfd shows when it has ended.
        ended = os.pidfd_open(zombie)
        assert select.select([ended], [], [], BOUND_S)[0]
        os.close(ended)
        assert not process.is_group_running(zombie)
        parent.stdin.close()
    assert not process.is_group_running(zombie)


async def test_a_failed_spawn_leaks_no_descriptor(monkeypatch):
    # The leak check of every test watches the descriptors.
    def fail(*args, **kwargs):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(mcpwire.ConnectError, match="Too many open files") as caught:
        await mcpwire.Client("anything").connect()
    assert caught.value.errno == 24


async def test_large_arguments_round_trip():
    async with mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP)) as client:
        texts = ["a" * (3 * 2**20), "b" * 100, "c" * (2 * 2**20)]
        results = await asyncio.gather(
            *(client.call_tool("x", {"text": text}) for text in texts)
        )
        assert [len(result.text) for result in results] == [len(t) for t in texts]


def test_a_target_is_shown_as_its_command_line():
    target = mcpwire.Stdio("run me", ["-a", "b c"], env={"SECRET": "hush"})
    assert str(target) == "'run me' -a 'b c'"
    assert "hush" not in repr(target)
    assert "SECRET" in repr(target)
    with pytest.raises(ValueError, match="list of arguments"):
        mcpwire.Stdio("x", "-a -b")


# The steps of closing, seen from the child...

# After the handshake the child writes the steps that it notices to stderr, in order.
CHILD = """
def tell(word):
    os.write(2, word.encode() + b"\\n")
def terminated(*_):
    tell("term")
    {on_term}
signal.signal(signal.SIGTERM, terminated)
handshake()
sys.stdin.buffer.read()
tell("eof")
{on_eof}
"""
STAY = "while True: time.sleep(60)"

CLOSING_STEPS = [
    # Its action at the end of its input, and at SIGTERM; the steps that it noticed; its
    # exit code; the number of grace periods that elapsed.
    ("sys.exit(3)", "pass", ["eof"], 3, 0),
    (STAY, "os._exit(43)", ["eof", "term"], 43, 1),
    (STAY, "pass", ["eof", "term"], -9, 2),
]


@pytest.mark.system("U38", "L-V13")
@pytest.mark.pain("P07")
@pytest.mark.rule("LIFE-12", "TR-STDIO-12")
@pytest.mark.parametrize(("on_eof", "on_term", "seen", "code", "graces"), CLOSING_STEPS)
async def test_closing_sends_eof_then_sigterm_then_sigkill(
    on_eof, on_term, seen, code, graces
):
    output = []
    target = scripted(
        CHILD.format(on_eof=on_eof, on_term=on_term), stderr=output.append
    )
    grace = 0.3 if graces else BOUND_S
    limits = mcpwire.Limits(close_grace=grace, terminate_grace=grace)
    client = mcpwire.Client(target, limits=limits)
    await client.connect()
    channel = client._connection.channel
    started = time.monotonic()
    await client.aclose()
    taken = time.monotonic() - started
    assert b"".join(output).decode().split() == seen
    assert channel.exit_code == code
    assert taken >= graces * 0.3
