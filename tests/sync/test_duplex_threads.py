"""Threads that share one blocking channel: the lead, and what an interrupt leaves."""

import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest
from blocking_channels import BOUND_S, Recorder, Threads, opened, tool, within
from scripted import ECHO_LOOP, SHUFFLE_LOOP
from waiting import until

from mcpwire.errors import ConnectionClosed, LocalProtocolError, RequestTimeout
from mcpwire.sync import _lead
from mcpwire.sync._duplex import BlockingDuplex


def call_often(channel, name, times):
    for number in range(times):
        text = f"{name}/{number}"
        assert tool(channel, text) == text


CALLS = int(os.environ.get("MCPWIRE_CALLS_PER_THREAD", "2000"))
"""Of each of 8 threads; 20,000 take about 15 seconds."""


@pytest.mark.pain("P12")
@pytest.mark.unchecked_wire("16,000 messages of one form; the check would be measured")
def test_answers_of_a_server_that_shuffles_them_reach_the_threads_that_asked():
    threads = Threads()
    with opened(SHUFFLE_LOOP) as channel:
        for name in range(8):
            threads.start(call_often, channel, name, CALLS)
        assert not threads.join(BOUND_S * CALLS / 500)
        assert channel.requests_sent == 8 * CALLS
        assert channel.stats.unknown == 0


FORGETS_EVERY_THIRD = """
while True:
    m = recv()
    if "id" in m and int(m["params"]["arguments"]["text"]) % 3:
        text(m, m["params"]["arguments"]["text"])
"""


def test_every_third_call_times_out_and_the_lead_always_passes_on():
    turns = iter(range(240))
    turn = threading.Lock()
    outcomes = []

    def work(channel):
        while True:
            with turn:
                number = next(turns, None)
            if number is None:
                return
            try:
                text = tool(
                    channel, str(number), seconds=BOUND_S if number % 3 else 0.02
                )
                outcomes.append((number, text))
            except RequestTimeout:
                outcomes.append((number, "timeout"))

    threads = Threads()
    with opened(FORGETS_EVERY_THIRD) as channel:
        for _ in range(8):
            threads.start(work, channel)
        assert not threads.join()
        assert not channel._peer.outstanding
        assert channel._leader == 0
    expected = [(n, str(n) if n % 3 else "timeout") for n in range(240)]
    assert sorted(outcomes) == expected


def test_each_thread_has_a_deadline_of_its_own():
    threads = Threads()
    ends = {}

    def wait(channel, seconds):
        started = time.monotonic()
        with pytest.raises(RequestTimeout) as caught:
            tool(channel, seconds=seconds)
        ends[seconds] = time.monotonic() - started
        assert caught.value.timeout == seconds

    def wait_on(channel):
        with pytest.raises(ConnectionClosed):
            tool(channel, seconds=4 * BOUND_S)

    with opened("while True: recv()") as channel:
        leader = threads.start(wait_on, channel)
        until(lambda: channel._leader == leader.ident)
        for seconds in (0.1, 0.3):
            threads.start(wait, channel, seconds)
        until(lambda: len(ends) == 2)
        assert leader.is_alive()
        channel.close()
        assert not threads.join()
    assert all(seconds <= ends[seconds] for seconds in ends)


def test_a_thread_that_sleeps_is_answered_while_another_leads_on():
    body = """
first = recv()
second = recv()
text(second, "second")
third = recv()
text(third, "third")
text(first, "first")
while True: recv()
"""
    threads = Threads()
    answered = []
    with opened(body) as channel:
        leader = threads.start(lambda: answered.append(tool(channel)))
        while channel._leader != leader.ident:
            assert leader.is_alive()
        answered.append(tool(channel))
        assert answered == ["second"]
        assert channel._leader == leader.ident
        answered.append(tool(channel))
        assert not threads.join()
    assert sorted(answered) == ["first", "second", "third"]


# Interrupts...


TELLS_WHEN_CANCELLED = """
while True:
    m = recv()
    if m.get("method") == "notifications/cancelled":
        send({"jsonrpc": "2.0", "method": "notifications/message", "params":
              {"level": "info", "data": [m["params"]["requestId"], time.monotonic()]}})
    elif m.get("method") == "ping":
        answer(m, {})
"""


def interrupt_main(after):
    """Send SIGINT to the main thread once something is true."""
    until(after)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    return time.monotonic()


def survives_its_time(channel):
    with pytest.raises(RequestTimeout):
        tool(channel, seconds=0.6)


@pytest.mark.pain("P09", "P12")
@pytest.mark.parametrize("role", ["leads", "sleeps"])
def test_ctrl_c_ends_its_own_call_only_and_the_server_is_told(role, monkeypatch):
    # Nobody looks up by himself meanwhile, and no other call's time is over.
    monkeypatch.setattr(_lead, "LONGEST_POLL_S", 2 * BOUND_S)
    inbound, threads = Recorder(), Threads()

    def waits_on(channel):
        with pytest.raises(ConnectionClosed, match="by this side"):
            tool(channel, seconds=2 * BOUND_S)

    with opened(TELLS_WHEN_CANCELLED, inbound) as channel:
        main = threading.get_ident()
        if role == "sleeps":
            with_lead = threads.start(waits_on, channel)
            while channel._leader != with_lead.ident:
                assert with_lead.is_alive()

        def waits():
            return channel._leader == main or main in channel._parked

        interrupter = threads.start(interrupt_main, waits)
        with pytest.raises(KeyboardInterrupt):
            tool(channel)
        interrupter.join(BOUND_S)
        interrupted_at = threads.results[0]
        assert channel.lost is None
        sent = [channel._written]
        assert sent == [channel._queued]
        for _ in range(2):
            assert channel.call("ping", None, deadline=within()) == {}
            sent.append(channel._written)
        # All that left with the first ping was the ping: the server had been told.
        assert sent[1] - sent[0] == sent[2] - sent[1]
        assert role == "leads" or with_lead.is_alive()
        channel.close()
        assert not threads.join()
    ((cancelled, at),) = [params["data"] for _, params in inbound.notes]
    assert cancelled == channel.requests_sent - 2
    assert at - interrupted_at < BOUND_S / 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_between_read_and_parse_ends_the_connection(error, monkeypatch):
    inbound, threads = Recorder(), Threads()
    with opened("recv(); text(recv(), 'x')\nwhile True: recv()", inbound) as channel:
        other = threads.start(lambda: tool(channel, "other"))
        while channel._leader != other.ident:
            assert other.is_alive()

        def interrupted(data):
            raise error

        monkeypatch.setattr(channel, "receive", interrupted)
        errors = []
        try:
            tool(channel)
        except BaseException as raised:  # noqa: BLE001 - the kind is looked at below
            errors.append(raised)
        errors += threads.join()
        # One of them was the thread that read.
        assert sorted(type(e).__name__ for e in errors) == sorted(
            ["ConnectionClosed", error.__name__]
        )
        closed = next(e for e in errors if isinstance(e, ConnectionClosed))
        assert "interrupt" in str(closed)
        assert closed.sent is True
        assert len(inbound.losses) == 1
        with pytest.raises(ConnectionClosed, match="interrupt") as caught:
            tool(channel)
        assert caught.value.sent is False


@pytest.mark.parametrize("role", ["leads", "sleeps"])
def test_a_signal_handler_cannot_call_while_its_own_thread_waits_and_is_told_so(role):
    body = """
while True:
    m = recv()
    if "id" in m:
        newest = m
    elif m["method"] == "notifications/go":
        text(newest, "at last")
"""
    refused, threads = [], Threads()

    def call(*_):
        try:
            tool(channel)
        except LocalProtocolError as error:
            refused.append(str(error))

    def send(channel, main):
        until(lambda: main in {channel._leader, *channel._parked})
        time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGUSR1)
        until(lambda: refused)
        channel.notify("notifications/go")

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, call)
    try:
        with opened(body) as channel:
            if role == "sleeps":
                leader = threads.start(survives_its_time, channel)
                while channel._leader != leader.ident:
                    assert leader.is_alive()
            threads.start(send, channel, main)
            assert tool(channel) == "at last"
            assert not threads.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(refused) == 1
    assert "already" in refused[0]


class Thrown(BaseException):
    """What the bombardment throws."""


def throw(thread):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(Thrown)
    )


def survive(channel, ended, counts):
    """Call until the connection is lost, whatever is thrown in."""
    sys.settrace(None)  # what is thrown into a tracer may leave its locks held
    while not ended.is_set():
        try:
            tool(channel, "x", seconds=20.0)
            counts["answered"] += 1
        except Thrown:
            counts["thrown"] += 1
        except ConnectionClosed:
            return
        except RequestTimeout:
            counts["hung"] += 1


@pytest.mark.unchecked_wire("what is thrown into the check is no matter of ours")
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_thrown_into_threads_the_others_never_hang(seed):
    chance = random.Random(seed)
    counts = dict.fromkeys(("answered", "thrown", "hung", "lost"), 0)
    until = time.monotonic() + 0.7
    latest = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        with opened(ECHO_LOOP) as channel:
            bombard(channel, chance, counts, until)
        if counts["answered"] <= 10 or counts["thrown"] <= 3:
            # On a busy machine it takes longer until enough has happened.
            until = min(time.monotonic() + 0.7, latest)
    assert counts["answered"] > 10
    assert counts["thrown"] > 3
    assert counts["hung"] == 0


def bombard(channel, chance, counts, until):
    ended, threads = threading.Event(), Threads()
    targets = [threads.start(survive, channel, ended, counts) for _ in range(4)]
    while channel.lost is None and time.monotonic() < until:
        # A few answers come between, however slow the machine is at the moment.
        goal, latest = counts["answered"] + chance.randrange(4), time.monotonic() + 0.05
        while counts["answered"] < goal and time.monotonic() < latest:
            time.sleep(chance.random() * 0.0005)
        throw(chance.choice(targets[:2]))
    ended.set()
    # Thrown into the last lines of `survive`, it may come out of it.
    assert {type(error) for error in threads.join()} <= {Thrown}
    if channel.lost is not None:
        counts["lost"] += 1
        assert "interrupt" in str(channel.lost)
    else:
        assert tool(channel, "still there") == "still there"


@pytest.mark.unchecked_wire("what is thrown into the check is no matter of ours")
def test_signals_in_the_main_thread_never_keep_the_others_waiting():
    class Alarm(Exception):
        pass

    def ring(_, frame):
        if left:  # another one soon, while the first is being dealt with
            signal.setitimer(signal.ITIMER_REAL, left.pop())
        while frame is not None:
            if frame.f_code is BlockingDuplex.call.__code__:
                raise Alarm
            frame = frame.f_back

    left = []
    chance = random.Random(1)
    counts = dict.fromkeys(("answered", "thrown", "hung"), 0)
    before = signal.signal(signal.SIGALRM, ring)
    until = time.monotonic() + 1.0
    latest = time.monotonic() + BOUND_S
    tracer = sys.gettrace()
    sys.settrace(None)
    gc.disable()  # an alarm inside a finaliser could be told to nobody
    try:
        while time.monotonic() < until:
            with opened(ECHO_LOOP) as channel:
                ended, threads = threading.Event(), Threads()
                for _ in range(3):
                    threads.start(survive, channel, ended, counts)
                while time.monotonic() < until and channel.lost is None:
                    left[:] = [0.0001] * chance.randrange(4)
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 + 0.001 * chance.random())
                    with suppress(Alarm, ConnectionClosed):
                        tool(channel, "main")
                ended.set()
                assert not threads.join()
            if counts["answered"] <= 10:
                until = min(time.monotonic() + 1.0, latest)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
        sys.settrace(tracer)
    assert counts["answered"] > 10
    assert counts["hung"] == 0
