"""Who calls writes its request outside the mutex: what others do meanwhile."""

import os
import sys
import threading
import time
from contextlib import contextmanager
from threading import get_ident

import pytest
from blocking_channels import BOUND_S, Recorder, Threads, opened, tool, within
from scripted import ECHO_LOOP

from mcpwire.errors import ConnectionClosed, LocalProtocolError, TransportError
from mcpwire.sync import _calls, _duplex, _lead, _pipes


@contextmanager
def writing_held_up(channel, monkeypatch, *, act=None):
    """Keep one thread's write until the block is through; give how many were made."""
    entered, go_on = threading.Event(), threading.Event()
    writes, write, fd = [], os.write, channel._write_fd

    def held_up(to, data):
        if to == fd:
            writes.append(bytes(data))
            if len(writes) == 1:
                entered.set()
                assert go_on.wait(BOUND_S)
                if act is not None:
                    return act(to, data)
        return write(to, data)

    monkeypatch.setattr(os, "write", held_up)
    threads = Threads()
    try:
        first = threads.start(tool, channel, "first")
        assert entered.wait(BOUND_S)
        assert channel._writer == first.ident
        yield threads, writes
    finally:
        go_on.set()
        threads.join()
        monkeypatch.undo()


def wait_until(is_so):
    until = time.monotonic() + BOUND_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)  # between looks


def test_what_others_send_while_one_thread_writes_leaves_in_one_write(monkeypatch):
    with opened(ECHO_LOOP) as channel:
        with writing_held_up(channel, monkeypatch) as (threads, writes):
            for name in ("a", "b", "c"):
                threads.start(tool, channel, name)
            wait_until(lambda: len(channel._peer.outstanding) == 4)
            wait_until(lambda: len(channel._parked) == 3)
        assert sorted(threads.results) == ["a", "b", "c", "first"]
        assert [data.count(b"\n") for data in writes] == [1, 3]
        assert channel._written == channel._queued


def test_a_large_request_and_small_ones_are_lined_up_in_their_order(monkeypatch):
    large = "x" * 2**21
    with opened(ECHO_LOOP) as channel:
        with writing_held_up(channel, monkeypatch) as (threads, writes):
            for number, text in enumerate(("a", large, "b"), start=2):
                threads.start(tool, channel, text)
                wait_until(lambda n=number: len(channel._peer.outstanding) == n)
        assert sorted(map(len, threads.results)) == [1, 1, 5, 2**21]
        assert b"".join(writes).count(b"\n") >= 1
        assert channel._written == channel._queued


class Gate:
    """The mutex of a channel; whoever has written is held up before it enters again."""

    def __init__(self, channel, act):
        self._channel, self._act = channel, act
        self._mutex = channel._mutex
        self.acquire, self.release = self._mutex.acquire, self._mutex.release
        self.locked = self._mutex.locked

    def __enter__(self):
        channel = self._channel
        if self._act and channel._shared and not channel._writer:
            act, self._act = self._act, None
            act()
        return self._mutex.__enter__()

    def __exit__(self, *raised):
        return self._mutex.__exit__(*raised)


@pytest.mark.parametrize("kind", ["notification", "request"])
def test_nothing_overtakes_what_waits_for_a_thread_that_is_just_through(
    monkeypatch, kind
):
    with opened(ECHO_LOOP) as channel:
        with writing_held_up(channel, monkeypatch) as (threads, writes):

            def meanwhile():
                queued = channel._queued
                if kind == "request":
                    threads.start(tool, channel, "later")
                else:
                    threads.start(channel.notify, "notifications/later", {})
                wait_until(lambda: channel._queued > queued and not channel._holder)

            threads.start(tool, channel, "sooner")
            wait_until(lambda: len(channel._parked) == 1)
            channel._mutex = Gate(channel, meanwhile)
        written = b"".join(writes)
        assert 0 < written.index(b"sooner") < written.index(b"later")
        assert channel._written == channel._queued


def test_a_notification_waits_for_the_thread_that_writes(monkeypatch):
    body = "a = recv()\nn = recv()\ntext(a, n['method'])\nrecv()"
    with opened(body) as channel:
        with writing_held_up(channel, monkeypatch) as (threads, _):
            notifying = threads.start(channel.notify, "notifications/x", {})
            wait_until(lambda: channel._drains)
            assert notifying.is_alive()
        assert "notifications/x" in threads.results
        assert not channel._drains


def test_a_connection_closed_meanwhile_is_closed_by_the_thread_that_writes(monkeypatch):
    with opened(ECHO_LOOP) as channel:
        fd = channel._write_fd
        with writing_held_up(channel, monkeypatch) as (threads, _):
            closing = threads.start(channel.close)
            wait_until(lambda: channel._to_close == fd)
            os.fstat(fd)  # its number is not used anew while somebody writes to it
        closing.join(BOUND_S)
        assert channel._to_close == -1
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        (error,) = threads.errors
        assert isinstance(error, ConnectionClosed)
        assert error.sent is True


def test_a_call_that_is_being_written_when_all_is_lost_may_have_run(monkeypatch):
    with opened(ECHO_LOOP) as channel:
        with writing_held_up(channel, monkeypatch) as (threads, _):
            channel.give_up(TransportError("lost by a test"))
        (error,) = threads.errors
        assert isinstance(error, ConnectionClosed)
        assert error.sent is True


@pytest.mark.parametrize("is_lined_up", [False, True])
def test_a_write_that_fails_ends_the_calls_that_wait_for_it(monkeypatch, is_lined_up):
    def broken(*_):
        raise BrokenPipeError(32, "Broken pipe")

    with opened("while True: recv()") as channel:
        held_up = writing_held_up(channel, monkeypatch, act=broken)
        with held_up as (threads, writes):
            if is_lined_up:
                threads.start(tool, channel, "second")
                wait_until(lambda: len(channel._peer.outstanding) == 2)
        assert {type(error) for error in threads.errors} == {ConnectionClosed}
        assert len(threads.errors) == 1 + is_lined_up
        assert "Broken pipe" in str(threads.errors[0])
        assert len(writes) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_write_ends_the_connection_for_all(monkeypatch, error):
    def interrupted(*_):
        raise error

    inbound = Recorder()
    with opened(ECHO_LOOP, inbound) as channel:
        held_up = writing_held_up(channel, monkeypatch, act=interrupted)
        with held_up as (threads, _):
            threads.start(tool, channel, "second")
            wait_until(lambda: len(channel._peer.outstanding) == 2)
        assert sorted(type(each).__name__ for each in threads.errors) == sorted(
            ["ConnectionClosed", error.__name__]
        )
        assert "interrupt" in str(channel.lost)
        assert channel._writer == 0
        assert len(inbound.losses) == 1


def test_an_interrupt_after_a_write_leaves_what_others_lined_up_to_them(monkeypatch):
    """Torn out between its own request and those of others, it still writes them."""

    def interrupted(ident):
        if channel._shared:
            raise KeyboardInterrupt
        return go_on(ident)

    with opened(ECHO_LOOP) as channel:
        go_on = channel._go_on_writing
        monkeypatch.setattr(channel, "_go_on_writing", interrupted)
        with writing_held_up(channel, monkeypatch) as (threads, _):
            threads.start(tool, channel, "second")
            wait_until(lambda: len(channel._peer.outstanding) == 2)
        assert threads.results == ["second"]
        assert [type(each) for each in threads.errors] == [KeyboardInterrupt]
        assert channel.lost is None
        assert tool(channel, "third") == "third"


def test_what_runs_in_the_middle_of_a_write_cannot_call_or_close(monkeypatch):
    refused = []

    def handler(to, data):
        for act in (lambda: tool(channel), channel.close):
            with pytest.raises(LocalProtocolError, match="already") as caught:
                act()
            refused.append(caught.value)
        return write(to, data)

    write = os.write
    with opened(ECHO_LOOP) as channel:
        with writing_held_up(channel, monkeypatch, act=handler) as (threads, _):
            pass
        assert threads.results == ["first"]
        assert len(refused) == 2


def test_what_runs_between_polling_and_reading_cannot_close(monkeypatch):
    refused, read = [], os.read

    def handler(fd, size):
        if fd == channel._read_fd and not refused:
            with pytest.raises(LocalProtocolError, match="already") as caught:
                channel.close()
            refused.append(caught.value)
        return read(fd, size)

    with opened(ECHO_LOOP) as channel:
        monkeypatch.setattr(os, "read", handler)
        assert tool(channel, "one") == "one"
        monkeypatch.undo()
        assert len(refused) == 1
        assert tool(channel, "two") == "two"


@pytest.mark.unchecked_wire("messages of one form; the check would be measured")
def test_messages_of_all_sizes_by_many_threads_arrive_whole():
    sizes = (1, 100, 20_000, 70_000, 300_000)

    def call(channel, name):
        for number in range(15):
            text = f"{name}/{number}/" + "x" * sizes[(name + number) % len(sizes)]
            assert tool(channel, text) == text

    threads = Threads()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with opened(ECHO_LOOP) as channel:
            for name in range(6):
                threads.start(call, channel, name)
            assert not threads.join()
            assert channel._written == channel._queued
            assert channel.call("ping", None, deadline=within()) is not None
    finally:
        sys.setswitchinterval(before)


class Torn(BaseException):
    """What is thrown into a thread."""


class Turns:
    """Throws at one of the functions that a call calls, before it or behind it."""

    def __init__(self, *, is_before):
        self.left = 0
        self.is_before = is_before
        self.thread = threading.get_ident()

    def wrapped(self, function):
        def wrapper(*args):
            if threading.get_ident() != self.thread or not self.left:
                return function(*args)
            self.left -= 1
            if self.left == 0 and self.is_before:
                raise Torn
            outcome = function(*args)
            if self.left == 0:
                raise Torn
            return outcome

        return wrapper

    def patch(self, monkeypatch):
        for module in (_lead, _duplex, _pipes, _calls):
            for name in ("get_ident", "monotonic"):
                if hasattr(module, name):
                    found = self.wrapped(getattr(module, name))
                    monkeypatch.setattr(module, name, found)
        monkeypatch.setattr(os, "write", self.wrapped(os.write))
        monkeypatch.setattr(os, "read", self.wrapped(os.read))


@pytest.mark.unchecked_wire("what is thrown into the check is no matter of ours")
@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("others", [0, 2])
def test_torn_out_of_any_function_a_call_leaves_nothing_held(
    others, is_before, monkeypatch
):
    def call_on(channel, is_over):
        while not is_over.is_set():
            try:
                tool(channel, "other")
            except ConnectionClosed:
                return

    turns, point, is_torn, me = Turns(is_before=is_before), 0, True, get_ident()
    turns.patch(monkeypatch)
    while is_torn:
        threads, is_over = Threads(), threading.Event()
        with opened(ECHO_LOOP) as channel:
            for _ in range(others):
                threads.start(call_on, channel, is_over)
            while is_torn and channel.lost is None:
                point = turns.left = point + 1
                try:
                    tool(channel, "torn")
                    is_torn = turns.left == 0
                except (Torn, ConnectionClosed):
                    is_torn = True
                turns.left = 0
                assert me not in {channel._writer, channel._leader, *channel._parked}
            if channel.lost is None:
                assert tool(channel, "after") == "after"
            else:
                assert "interrupt" in str(channel.lost)
            is_over.set()
            assert not threads.join()
            assert not channel._mutex.locked()
            assert (channel._leader, channel._writer) == (0, 0)
    # Where there are others they may read, and write, for this thread.
    assert point > (1 if others else 4)
