"""What can go wrong with a child, seen by a blocking channel."""

import os
import resource
import signal
import threading
import time

import pytest
from blocking_channels import (
    BOUND_S,
    QUICK,
    Recorder,
    Threads,
    descriptors,
    opened,
    tool,
)
from scripted import ECHO_LOOP, scripted

from mcpwire.errors import ConnectError, ConnectionClosed, RequestTimeout
from mcpwire.limits import Limits
from mcpwire.sync import _child
from mcpwire.sync._lead import Waiter
from mcpwire.sync._stdio import BlockingStdio
from mcpwire.transports.stdio.target import Stdio

PROMPT_S = 0.25
"""Within what a call must fail once its answer can no longer come."""

ATTEMPTS = 12
"""Others may keep the machine from any one of them; the first prompt one will do."""

LAST_WORDS = """
print('last words', file=sys.stderr, flush=True)
for _ in range(50): recv()
send({'jsonrpc': '2.0', 'method': 'notifications/message',
      'params': {'level': 'info', 'data': 'all here'}})
while True: time.sleep(60)
"""


def kill_with_50_in_flight():
    """Return how the calls ended, how the next one did, and the seconds it took."""
    inbound, threads = Recorder(), Threads()
    with opened(LAST_WORDS, inbound) as channel:
        for _ in range(50):
            threads.start(tool, channel)
        until = time.monotonic() + BOUND_S
        while not inbound.notes and time.monotonic() < until:
            time.sleep(0.001)
        started = time.monotonic()
        os.kill(channel.pid, signal.SIGKILL)
        errors = threads.join()
        elapsed = time.monotonic() - started
        with pytest.raises(ConnectionClosed) as caught:
            tool(channel)
    assert len(inbound.losses) == 1
    return errors, caught.value, elapsed


@pytest.mark.fault("F04")
@pytest.mark.pain("P02")
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("last_words_are_awaited")
def test_all_calls_in_flight_fail_at_once_when_the_child_is_killed(capsys):
    quickest = BOUND_S
    for _ in range(ATTEMPTS):
        errors, again, elapsed = kill_with_50_in_flight()
        assert {type(error) for error in errors} == {ConnectionClosed}
        assert len({id(error) for error in errors}) == 50
        assert {error.exit_code for error in errors} == {-signal.SIGKILL}
        assert {error.stderr_tail for error in errors} == {"last words\n"}
        assert {error.sent for error in errors} == {True}
        assert "SIGKILL" in str(errors[0])
        assert "last words" in str(errors[0])
        assert again.sent is False
        assert again.exit_code == -signal.SIGKILL
        quickest = min(quickest, elapsed)
        if quickest < PROMPT_S:
            break
    capsys.readouterr()
    assert quickest < PROMPT_S


@pytest.mark.fault("F04", "F05")
@pytest.mark.pain("P02")
@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.close(1)", None)]
)
def test_a_call_fails_when_the_child_ends_instead_of_answering(end, code, request):
    if code is not None:  # else nothing more is ever said
        request.getfixturevalue("last_words_are_awaited")
    with opened(f"recv()\n{end}\ntime.sleep(60)") as channel:
        started = time.monotonic()
        with pytest.raises(ConnectionClosed) as caught:
            tool(channel)
        assert time.monotonic() - started < BOUND_S / 3
        assert caught.value.exit_code == code
        assert caught.value.sent is True
        expected = "closed its output" if code is None else f"exited with code {code}"
        assert expected in str(caught.value)
        pid = channel.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.fault("F06")
def test_a_child_that_closes_its_input_ends_the_connection():
    body = "os.close(0)\nsend({'jsonrpc': '2.0', 'method': 'x'})\ntime.sleep(60)"
    inbound = Recorder()
    with opened(body, inbound) as channel:
        while not inbound.notes:
            channel.wait(Waiter(), 0.01)
        with pytest.raises(ConnectionClosed, match="closed its input") as caught:
            tool(channel)
        assert caught.value.sent is False
        with pytest.raises(ConnectionClosed) as caught:
            tool(channel)
        assert caught.value.sent is False


@pytest.mark.fault("F06")
@pytest.mark.usefixtures("last_words_are_awaited")
def test_what_the_child_says_after_it_closed_its_input_is_still_heard():
    body = """
m = recv()
os.close(0)
send({'jsonrpc': '2.0', 'method': 'x'})
time.sleep(0.03)
text(m, 'x' * 300000)
sys.exit(3)
"""
    inbound, threads = Recorder(), Threads()
    with opened(body, inbound) as channel:
        threads.start(tool, channel)
        until = time.monotonic() + BOUND_S
        while not inbound.notes and time.monotonic() < until:
            time.sleep(0.001)
        with pytest.raises(ConnectionClosed) as caught:
            tool(channel)
        assert caught.value.sent is False
        assert caught.value.exit_code == 3
        assert not threads.join()
    assert threads.results == ["x" * 300_000]


def test_a_child_that_was_gone_before_the_call_provably_did_not_run_it():
    with opened("sys.exit(5)") as channel:
        os.waitid(os.P_PID, channel.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ConnectionClosed, match="exited with code 5") as caught:
            tool(channel)
        assert caught.value.sent is False


def test_a_look_without_waiting_tells_that_an_idle_child_has_gone():
    with opened("sys.exit(5)") as channel:
        os.waitid(os.P_PID, channel.pid, os.WEXITED | os.WNOWAIT)
        assert channel.lost is None
        channel.wait(Waiter(), 0)
        assert "exited with code 5" in str(channel.lost)


GRANDCHILD_HOLDS = """
if os.fork() == 0:
    time.sleep(60)
recv()
raw(b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"last"}]}}')
sys.exit(9)
"""


@pytest.mark.fault("F09")
def test_an_exit_is_seen_though_a_grandchild_holds_the_pipes():
    with opened(GRANDCHILD_HOLDS) as channel:
        # The last line lacks its newline and counts all the same.
        assert tool(channel) == "last"
        assert "exited with code 9" in str(channel.lost)
    silent = GRANDCHILD_HOLDS.replace("raw(", "bytes(")
    with (
        opened(silent) as channel,
        pytest.raises(ConnectionClosed, match="exited with code 9"),
    ):
        tool(channel)


@pytest.mark.fault("F09")
def test_without_pidfd_an_exit_is_seen_all_the_same(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    silent = GRANDCHILD_HOLDS.replace("raw(", "bytes(")
    with (
        opened(silent) as channel,
        pytest.raises(ConnectionClosed, match="exited with code 9"),
    ):
        tool(channel)
    with opened("while True: recv()") as channel, pytest.raises(RequestTimeout):
        tool(channel, seconds=0.3)


@pytest.mark.fault("F07")
def test_a_child_that_does_not_read_blocks_neither_other_threads_nor_closing():
    threads = Threads()
    with opened("time.sleep(60)") as channel:
        threads.start(tool, channel, "x" * 2**20)
        started = time.monotonic()
        with pytest.raises(RequestTimeout):
            tool(channel, seconds=0.1)
        assert time.monotonic() - started < BOUND_S / 3
    assert [type(error) for error in threads.join()] == [ConnectionClosed]


@pytest.mark.pain("P16")
def test_a_full_stderr_keeps_no_child_from_answering():
    body = """
while True:
    m = recv()
    os.write(2, b'e' * 10_000_000)
    os.write(2, b' the end')
    text(m, 'x')
"""
    limits = Limits(stderr_tail=100, close_grace=0.2)
    with opened(body, limits=limits) as channel:
        assert tool(channel) == "x"
        assert channel.stderr_tail == "e" * 92 + " the end"
        assert tool(channel) == "x"


def test_stderr_can_be_a_function_which_runs_outside_the_mutex(caplog):
    heard = []

    def hear(data):
        assert not channel._mutex.locked()
        heard.append(data)
        if b"bad" in data:
            raise RuntimeError("from the hook")

    body = """
for word in (b"good", b"bad"):
    m = recv()
    os.write(2, word)
    time.sleep(0.05)
    text(m, 'x')
recv()
os.write(2, b"bye")
os.close(2)
text({"id": 3}, 'x')
recv()
"""
    with opened(body, stderr=hear) as channel:
        assert [tool(channel) for _ in range(3)] == ["x"] * 3
    assert b"".join(heard) == b"goodbadbye"
    assert "from the hook" in caplog.text
    assert channel.stderr_tail == "goodbadbye"


def test_stderr_can_be_inherited(capfd):
    with opened("os.write(2, b'seen'); text(recv(), 'x')", stderr="inherit") as channel:
        assert tool(channel) == "x"
        assert channel.stderr_tail == ""
    assert capfd.readouterr().err == "seen"


@pytest.mark.fault("F10")
def test_half_a_line_that_waits_costs_nothing_and_then_arrives():
    body = r"""
m = recv()
line = json.dumps({"jsonrpc": "2.0", "id": m["id"],
                   "result": {"content": [{"type": "text", "text": "x"}]}}) + "\n"
raw(line[:20].encode())
time.sleep(1.0)
raw(line[20:].encode())
recv()
"""
    with opened(body) as channel:
        polls, poll = [], channel._poll
        channel._poll = lambda seconds: polls.append(seconds) or poll(seconds)
        assert tool(channel) == "x"
        assert 2 <= len(polls) < 20


# Not enough of something...


@pytest.mark.parametrize(
    ("command", "why"),
    [("/nowhere/to/be/found", "command not found"), ("/", "Permission denied")],
)
def test_a_command_that_cannot_be_started_is_named(command, why):
    with pytest.raises(ConnectError, match=why) as caught:
        BlockingStdio.open(Stdio(command), Recorder())
    assert caught.value.target == command
    assert caught.value.errno


@pytest.mark.fault("F47")
def test_without_descriptors_opening_fails_cleanly_and_open_channels_go_on():
    with opened(ECHO_LOOP) as channel:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = descriptors()
        try:
            for more in range(12):
                resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, hard))
                try:
                    other = BlockingStdio.open(
                        scripted(ECHO_LOOP), Recorder(), limits=QUICK
                    )
                except (ConnectError, OSError) as error:
                    assert error.errno == 24  # noqa: PT017 - either outcome is right
                else:
                    other.close()
                assert tool(channel, "on") == "on"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.fault("F47")
def test_pipes_of_4_kib_carry_large_messages():
    import fcntl

    with opened(ECHO_LOOP) as channel:
        for fd in (channel._read_fd, channel._write_fd):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)
        assert tool(channel, "x" * 300_000) == "x" * 300_000


def test_a_system_without_poll_is_named(monkeypatch):
    monkeypatch.delattr(_child.select, "poll")
    with pytest.raises(ConnectError, match=r"needs poll\(\)"):
        BlockingStdio.open(scripted(ECHO_LOOP), Recorder())


ONE_ANSWER = """read line
echo '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}'
read line"""


@pytest.mark.pain("P12")
def test_200_opens_and_closes_leave_nothing():
    def once():
        target = Stdio("sh", ["-c", ONE_ANSWER])  # a shell starts faster than Python
        channel = BlockingStdio.open(target, Recorder())
        assert tool(channel) == "x"
        channel.close()
        return descriptors(), threading.active_count()

    before = once()
    assert {once() for _ in range(200)} == {before}
