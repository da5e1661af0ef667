"""Closing a blocking channel: the ladder, from any thread, in any state."""

import gc
import os
import signal
import subprocess
import sys
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
from waiting import until

from mcpwire.errors import ConnectionClosed, LocalProtocolError
from mcpwire.limits import Limits
from mcpwire.sync._stdio import BlockingStdio

PATIENT = Limits(close_grace=60.0, terminate_grace=60.0)
"""For a child that ends by itself, however long a loaded machine takes for it."""

AT_ONCE_S = 10.0
"""In less, no grace of sixty seconds was waited out, nor a child that sleeps so."""

DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def is_gone(pid):
    """Tell whether a process is gone; a zombie of a foreign parent counts as gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - may vanish meanwhile
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.pain("P07")
def test_a_well_behaved_child_is_closed_at_once():
    with opened(ECHO_LOOP, limits=PATIENT) as channel:
        tool(channel)
        started = time.monotonic()
        channel.close()
        assert time.monotonic() - started < AT_ONCE_S
        assert channel.exit_code == 0
        channel.close()


def test_after_closing_every_use_says_that_it_is_closed_by_us():
    inbound = Recorder()
    with opened(ECHO_LOOP, inbound) as channel:
        channel.close()
        for use in (
            lambda: tool(channel),
            lambda: channel.notify("notifications/x"),
            lambda: channel.begin("ping", None, deadline=None),
        ):
            with pytest.raises(ConnectionClosed, match="by this side") as caught:
                use()
            assert caught.value.sent is False
    assert inbound.losses == []


@pytest.mark.pain("P07")
@pytest.mark.parametrize("deaf", ["", DEAF])
def test_the_ladder_ends_a_child_that_does_not_go_by_itself(deaf):
    body = deaf + "text(recv(), 'x')\nwhile True: time.sleep(60)"
    terminate_grace = QUICK.terminate_grace if deaf else PATIENT.terminate_grace
    limits = Limits(close_grace=QUICK.close_grace, terminate_grace=terminate_grace)
    with opened(body, limits=limits) as channel:
        tool(channel)
        started = time.monotonic()
        channel.close()
        elapsed = time.monotonic() - started
        assert QUICK.close_grace <= elapsed < AT_ONCE_S
        assert channel.exit_code == (-signal.SIGKILL if deaf else -signal.SIGTERM)


@pytest.mark.fault("F08")
@pytest.mark.pain("P07")
def test_a_child_that_floods_its_output_and_stderr_can_be_closed():
    body = (
        DEAF + "text(recv(), 'x')\n"
        'line = b\'{"jsonrpc":"2.0","method":"notifications/x"}\\n\' * 1000\n'
        "while True: raw(line); os.write(2, b'e' * 10000)"
    )
    with opened(body) as channel:
        tool(channel)
        started = time.monotonic()
        channel.close()
        assert time.monotonic() - started < AT_ONCE_S


@pytest.mark.pain("P07")
def test_a_child_with_much_to_say_at_its_end_is_listened_to_and_exits_by_itself():
    body = "text(recv(), 'x')\nsys.stdin.read()\nraw(b'x' * 2**20)\n"
    body += "os.write(2, b'y' * 2**20 + b'bye')\nsys.exit(4)"
    with opened(body, limits=PATIENT) as channel:
        tool(channel)
        channel.close()
        assert channel.exit_code == 4
        assert channel.stderr_tail.endswith("bye")


@pytest.mark.fault("F09")
@pytest.mark.pain("P06", "P07")
def test_a_grandchild_that_ignores_everything_is_gone_after_closing(tmp_path):
    pid_file = tmp_path / "pid"
    body = DEAF + (
        "if os.fork() == 0:\n"
        f"    open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
        "    os.write(1, b'\\n')\n"
        "    while True: time.sleep(60)\n" + ECHO_LOOP
    )
    with opened(body) as channel:
        tool(channel)
        while not pid_file.exists() or not pid_file.read_text():
            time.sleep(0.001)
        started = time.monotonic()
        channel.close()
        assert time.monotonic() - started < AT_ONCE_S
    assert is_gone(channel.pid)
    until(lambda: is_gone(int(pid_file.read_text())))  # killed, it takes its turn


@pytest.mark.fault("F41")
def test_calls_that_run_fail_when_another_thread_closes():
    threads = Threads()
    with opened("while True: recv()") as channel:
        for _ in range(5):
            threads.start(tool, channel)
        until(lambda: len(channel._parked) == 4 and channel._leader)
        until(lambda: channel._written == channel._queued)
        channel.close()
        errors = threads.join()
    assert {type(error) for error in errors} == {ConnectionClosed}
    assert len(errors) == 5
    assert {error.sent for error in errors} == {True}
    assert all("closed by this side" in str(error) for error in errors)


@pytest.mark.fault("F41")
def test_threads_that_close_at_once_all_return_when_the_child_is_gone():
    threads = Threads()
    with opened(DEAF + "text(recv(), 'x')\ntime.sleep(60)") as channel:
        tool(channel)

        def close():
            channel.close()
            return is_gone(channel.pid)

        for _ in range(6):
            threads.start(close)
        assert not threads.join()
    assert threads.results == [True] * 6


@pytest.mark.pain("P07")
@pytest.mark.parametrize("again", [False, True])
def test_ctrl_c_while_closing_still_reaps_the_child(again):
    main = threading.main_thread().ident

    def interrupt():
        while channel._leader != main:
            time.sleep(0.001)
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)
        if again:
            signal.pthread_kill(main, signal.SIGINT)

    def close():
        channel.close()
        threads.join()  # the second interrupt may come a little later

    threads = Threads()
    with opened(DEAF + "text(recv(), 'x')\ntime.sleep(60)", limits=PATIENT) as channel:
        tool(channel)
        threads.start(interrupt)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            close()
        assert time.monotonic() - started < AT_ONCE_S
        assert not threads.join()
    assert is_gone(channel.pid)


@pytest.mark.parametrize("role", ["leads", "sleeps"])
def test_a_signal_handler_may_close_while_its_thread_waits(role):
    def close(*_):
        channel.close()

    def send():
        while main not in {channel._leader, *channel._parked}:
            time.sleep(0.001)
        time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGUSR1)

    def wait():
        with pytest.raises(ConnectionClosed, match="by this side"):
            tool(channel)

    before = signal.signal(signal.SIGUSR1, close)
    main, threads = threading.main_thread().ident, Threads()
    try:
        with opened("while True: recv()") as channel:
            if role == "sleeps":
                leader = threads.start(wait)
                while channel._leader != leader.ident:
                    assert leader.is_alive()
            threads.start(send)
            wait()
            assert not threads.join()
            assert is_gone(channel.pid)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_closing_from_inside_the_mutex_is_refused():
    class Closer(Recorder):
        def notification(self, *_):
            with pytest.raises(LocalProtocolError, match="already"):
                channel.close()
            self.notes.append(True)

    inbound = Closer()
    body = "m = recv()\nsend({'jsonrpc': '2.0', 'method': 'x'})\ntext(m, 'x')\nrecv()"
    with opened(body, inbound) as channel:
        assert tool(channel) == "x"
    assert inbound.notes == [True]


@pytest.mark.fault("F41")
def test_what_is_abandoned_is_killed_at_once_and_its_reader_ends():
    threads = Threads()
    channel = BlockingStdio.open(
        scripted(DEAF + "while True: time.sleep(60)"), Recorder(), limits=PATIENT
    )
    threads.start(tool, channel)
    while not channel._leader:
        time.sleep(0.001)
    started = time.monotonic()
    channel.abandon()
    assert time.monotonic() - started < AT_ONCE_S
    until(lambda: is_gone(channel.pid))
    assert [type(error) for error in threads.join()] == [ConnectionClosed]
    channel.abandon()
    channel.close()


@pytest.mark.pain("P06")
def test_a_child_nobody_closed_is_killed_with_its_owner():
    channel = BlockingStdio.open(
        scripted(DEAF + "while True: time.sleep(60)"), Recorder()
    )
    pid, fds = channel.pid, (channel._read_fd, channel._write_fd)
    fds += (channel._nudge_fd, channel._nudged_fd, channel._child.pidfd)
    fds += (channel._child.stderr_fd,)
    del channel
    gc.collect()
    until(lambda: is_gone(pid))
    for fd in fds:  # a channel without its client's finaliser leaves them
        os.close(fd)


@pytest.mark.system("L-R8")
@pytest.mark.pain("P06")
def test_at_the_interpreters_exit_children_are_killed():
    program = """
import sys
sys.path[:0] = sys.argv[1:]
from blocking_channels import Recorder
from scripted import scripted
from mcpwire.sync._stdio import BlockingStdio
body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\nwhile True: time.sleep(60)"
channel = BlockingStdio.open(scripted(body), Recorder())
print(channel.pid)
"""
    paths = [path for path in sys.path if "tests" in path]
    done = subprocess.run(
        [sys.executable, "-c", program, *paths],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    until(lambda: is_gone(int(done.stdout)))


# A fork...


def in_child(function):
    """Run something in a forked process; return what it wrote, and its exit code."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, function().encode())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    said = b""
    while data := os.read(read, 65536):
        said += data
    os.close(read)
    os.waitpid(pid, 0)
    return said.decode()


@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_after_a_fork_every_use_raises_in_the_child_and_the_parent_goes_on():
    threads = Threads()
    with opened(ECHO_LOOP) as channel:
        pending = channel.begin("tools/call", {"name": "x"}, deadline=None)
        threads.start(tool, channel, "from a thread")
        threads.join()

        def use_it():
            from mcpwire.sync._lead import Waiter
            from mcpwire.transports.base import CallHandle

            said = []
            for use in (
                lambda: tool(channel),
                lambda: channel.notify("x"),
                lambda: channel.begin("x", None, deadline=None),
                lambda: channel.finish(pending),
                lambda: channel.wait(Waiter(), None),
                lambda: channel.cancel(CallHandle()),
            ):
                try:
                    use()
                except LocalProtocolError as error:
                    said.append("forked" in str(error))
            channel.close()
            gc.collect()
            return f"{said} {descriptors()}"

        before = descriptors()
        said, _, left = in_child(use_it).rpartition(" ")
        assert said == str([True] * 6)
        assert int(left) < before  # it let go of its copies
        assert tool(channel, "still") == "still"
        assert channel.lost is None


@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_end_of_a_forked_process_ends_nothing_of_its_parents():
    program = """
import os, sys
sys.path[:0] = sys.argv[1:]
from blocking_channels import Recorder, opened, tool
from scripted import ECHO_LOOP
with opened(ECHO_LOOP) as channel:
    if os.fork() == 0:
        sys.exit(0)  # with all that runs at an interpreter's end
    os.wait()
    print(tool(channel, "alive"))
"""
    paths = [path for path in sys.path if "tests" in path]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *paths],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("alive\n", "")


@pytest.mark.fault("F43")
def test_what_is_executed_inherits_no_descriptor():
    with opened(ECHO_LOOP) as channel:
        child = channel._child
        for fd in (
            channel._read_fd,
            channel._write_fd,
            channel._nudge_fd,
            channel._nudged_fd,
            child.stderr_fd,
            child.pidfd,
        ):
            assert not os.get_inheritable(fd)


@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_another_thread_reads_harms_neither():
    threads = Threads()
    body = "m = recv()\nrecv()\ntext(m, 'x')\nrecv()"
    with opened(body) as channel:
        reader = threads.start(tool, channel)
        while channel._leader != reader.ident:
            assert reader.is_alive()

        def use_it():
            try:
                tool(channel)
            except LocalProtocolError as error:
                return str(error)

        assert "forked" in in_child(use_it)
        channel.notify("notifications/x")
        assert not threads.join()
    assert threads.results == ["x"]
