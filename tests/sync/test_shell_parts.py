"""The parts of the blocking shell by themselves, where a whole client is too much."""

import sys
import threading
from pathlib import Path

import pytest
from scripted import ECHO_LOOP, scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.errors import InternalError
from mcpwire.protocol.notices.interests import Filter
from mcpwire.sync._lead import Waiter
from mcpwire.sync._shell.callbacks import Delivery
from mcpwire.sync._shell.calls import PendingCall
from mcpwire.sync._shell.handlers import InboundThreads
from mcpwire.sync._shell.shared import EventBuffer, Interests, Listeners


class Answers:
    """Collects what is answered, from any thread."""

    def __init__(self):
        self.given = []

    def reply(self, answer):
        self.given.append(answer)


def no_more_threads(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


# Handlers...


def test_requests_beyond_the_backlog_are_refused_at_once():
    free, answers = threading.Event(), Answers()
    handlers = InboundThreads(limit=1, backlog=1)
    for id in range(3):
        handlers.start(id, lambda: free.wait(BOUND_S) and {}, answers.reply)
    assert [type(answer) for answer in answers.given] == [InternalError]
    assert len(handlers) == 2
    free.set()
    until(lambda: len(answers.given) == 3)
    until(lambda: len(handlers) == 0)


def test_a_request_that_waits_and_is_withdrawn_never_runs():
    free, answers, ran = threading.Event(), Answers(), []
    handlers = InboundThreads(limit=1, backlog=5)
    handlers.start(1, lambda: free.wait(BOUND_S) and {"first": 1}, answers.reply)
    handlers.start(2, lambda: ran.append(2), answers.reply)
    handlers.start(3, lambda: {"third": 3}, answers.reply)
    handlers.cancel(2)
    handlers.cancel(77)
    free.set()
    until(lambda: len(handlers) == 0)
    assert (ran, answers.given) == ([], [{"first": 1}, {"third": 3}])


def test_an_id_that_is_used_again_gets_its_own_answer_only():
    free, answers = threading.Event(), Answers()
    handlers = InboundThreads(limit=2, backlog=5)
    handlers.start(1, lambda: free.wait(BOUND_S) and {"old": 1}, answers.reply)
    handlers.cancel(1)
    handlers.start(1, lambda: {"new": 1}, answers.reply)
    until(lambda: answers.given == [{"new": 1}])
    free.set()
    until(lambda: len(handlers) == 0)
    assert answers.given == [{"new": 1}]


def test_where_no_thread_can_be_started_a_request_is_refused(monkeypatch, caplog):
    answers = Answers()
    handlers = InboundThreads(limit=2, backlog=5)
    with monkeypatch.context() as patch:
        no_more_threads(patch)
        handlers.start(1, dict, answers.reply)
    assert [type(answer) for answer in answers.given] == [InternalError]
    assert len(handlers) == 0
    assert "cannot be called" in caplog.text


# Callbacks...


class Queue:
    """Items that wait for a callback."""

    def __init__(self):
        self.items = []
        self.dropped = 0

    def put(self, *item):
        self.items.append(item)

    def pop(self):
        return self.items.pop(0)

    def clear(self):
        self.items.clear()

    def __bool__(self):
        return bool(self.items)


def test_where_no_thread_can_be_started_items_wait_for_the_next(monkeypatch, caplog):
    heard = []
    delivery = Delivery(heard.append, Queue())
    with monkeypatch.context() as patch:
        no_more_threads(patch)
        delivery.put(1)
    assert "cannot be called" in caplog.text
    delivery.put(2)
    until(lambda: heard == [1, 2])


def test_closing_forgets_what_waits_and_names_the_thread_that_runs():
    free, heard = threading.Event(), []

    def hear(item):
        heard.append(item)
        free.wait(BOUND_S)

    delivery = Delivery(hear, Queue())
    assert delivery.close() is None
    delivery.put(1)
    until(lambda: heard)
    delivery.put(2)
    thread = delivery.close()
    free.set()
    thread.join(BOUND_S)
    assert heard == [1]


# What threads share...


def test_a_buffer_is_emptied_by_many_threads_and_gives_each_event_once():
    buffer = EventBuffer(10_000, lambda _: False, room=10**9, size=lambda: 1)
    taken = []

    def take():
        while (event := buffer.take()) is not None:
            taken.append(event[1]["n"])

    for number in range(2_000):
        buffer.put("x/y", {"n": number})
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    assert sorted(taken) == list(range(2_000))
    buffer.put("x/y", {"n": 0})
    assert buffer.pop() == ("x/y", {"n": 0})
    buffer.put("x/y", None)
    buffer.clear()
    assert buffer.take() is None


def test_interests_are_counted_over_many_threads():
    interests = Interests()
    wanted = Filter(tools=True, uris=frozenset({"a:1"}))

    def change():
        for _ in range(500):
            interests.add(wanted)
            assert interests.current.tools
            interests.remove(wanted)

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    assert not interests.current
    with pytest.raises(ValueError, match="nobody wants"):
        interests.remove(wanted)


def test_listeners_are_kept_alive_by_nobody_else():
    class Listener:
        pass

    listeners, one, other = Listeners(), Listener(), Listener()
    listeners.add(one)
    listeners.add(other)
    assert set(listeners) == {one, other}
    listeners.discard(other)
    del one
    assert list(listeners) == []
    assert len(listeners) == 0


# Started calls...


class Unconnected:
    """A connection on which nothing is under way."""

    channel = None

    def cancel(self, handle, reason):
        pass


def test_a_started_call_that_fails_before_it_is_sent_raises_when_it_is_started():
    def call(handle):
        raise mcpwire.LocalProtocolError("not like that")

    with pytest.raises(mcpwire.LocalProtocolError, match="not like that"):
        PendingCall(Unconnected(), "tools/call", call).started()


def test_a_result_is_waited_for_no_longer_than_asked_and_any_number_of_times():
    free = threading.Event()

    def call(handle):
        handle.request_id = 7
        assert free.wait(BOUND_S)
        return "done"

    pending = PendingCall(Unconnected(), "x/y", call).started()
    assert (pending.request_id, pending.done) == (7, False)
    with pytest.raises(TimeoutError, match=r"x/y has not ended within 0\.01 s"):
        pending.result(timeout=0.01)
    free.set()
    assert [pending.result() for _ in range(2)] == ["done", "done"]
    assert repr(pending) == "<mcpwire.sync.PendingCall x/y 7 ended>"
    pending.cancel()
    assert pending.result() == "done"


def test_cancelling_between_two_requests_ends_the_wait_and_takes_back_what_comes():
    sent, cancelled = threading.Event(), []
    free = threading.Event()

    class Connection:
        channel = None

        def cancel(self, handle, reason):
            cancelled.append((handle.request_id, reason))

    def call(handle):
        handle.request_id = 1
        sent.set()
        assert free.wait(BOUND_S)
        handle.request_id = 2
        return "late"

    pending = PendingCall(Connection(), "x/y", call)
    assert sent.wait(BOUND_S)
    pending.cancel("enough")
    with pytest.raises(mcpwire.CallCancelled, match="enough"):
        pending.result(BOUND_S)
    free.set()
    until(lambda: cancelled == [(1, "enough"), (2, "enough")])
    with pytest.raises(mcpwire.CallCancelled):
        pending.result()


# Turns...


def test_connecting_while_another_thread_closes_waits_for_it_and_opens_anew():
    slow = scripted(
        "handshake()\n"
        "for line in iter(sys.stdin.buffer.readline, b''):\n"
        "    text(json.loads(line), 'x')\n"
        "time.sleep(0.3)"
    )
    client = mcpwire.sync.Client(slow)
    client.connect()
    first = client._connection.channel
    closing = threading.Thread(target=client.close)
    closing.start()
    until(lambda: "closing" in str(client))
    client.connect()
    assert not closing.is_alive() or first.exit_code == 0
    closing.join(BOUND_S)
    assert client.call_tool("x").text == "x"
    assert client.stats.connections == 2
    client.close()


def test_connecting_from_a_hook_of_the_connecting_thread_is_refused():
    refused = []

    def hook(event, data):
        if event == "agree":
            try:
                client.connect()
            except mcpwire.LocalProtocolError as error:
                refused.append(str(error))

    client = mcpwire.sync.Client(scripted("handshake()\n" + ECHO_LOOP), trace=hook)
    with client:
        assert refused == ["connecting is under way in this very thread"]


def test_a_lost_server_that_does_not_leave_does_not_hold_up_a_call_beyond_its_time():
    stubborn = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nhandshake()\n"
        "os.close(1)\nwhile True: time.sleep(9)"
    )
    limits = mcpwire.Limits(close_grace=0.4, terminate_grace=0.4)
    client = mcpwire.sync.Client(stubborn, limits=limits)
    client.connect()
    channel = client._connection.channel
    until(lambda: channel.wait(Waiter(), 0.01) or channel.lost)
    with pytest.raises(mcpwire.RequestTimeout, match="being opened again"):
        client.call_tool("x", timeout=0.2)
    client.close()


@pytest.mark.usefixtures("last_words_are_awaited")
def test_after_all_attempts_calls_fail_at_once_until_somebody_connects(tmp_path):
    flag = tmp_path / "flag"
    once = scripted(
        "import pathlib; flag = pathlib.Path(sys.argv[1])\n"
        "if flag.exists(): sys.exit(7)\n"
        "flag.touch(); handshake(); sys.exit(0)",
        str(flag),
    )
    quick = mcpwire.Recovery(attempts=2, backoff_initial=0.01, backoff_max=60)
    client = mcpwire.sync.Client(once, recovery=quick)
    client.connect()
    channel = client._connection.channel
    until(lambda: channel.wait(Waiter(), 0.01) or channel.lost)
    for _ in range(3):
        with pytest.raises(mcpwire.ConnectError) as caught:
            client.call_tool("x")
        assert caught.value.exit_code == 7
    flag.unlink()
    client.connect()
    assert client.stats.connections == 2
    client.close()


def test_closing_ends_a_call_that_waits_for_a_restart(tmp_path):
    flag = tmp_path / "flag"
    once = scripted(
        "import pathlib; flag = pathlib.Path(sys.argv[1])\n"
        "if flag.exists(): sys.exit(7)\n"
        "flag.touch(); handshake(); sys.exit(0)",
        str(flag),
    )
    slow = mcpwire.Recovery(attempts=50, backoff_initial=30, backoff_max=30)
    client = mcpwire.sync.Client(once, recovery=slow)
    client.connect()
    channel = client._connection.channel
    until(lambda: channel.wait(Waiter(), 0.01) or channel.lost)
    errors = []

    def wait():
        try:
            client.call_tool("x", timeout=BOUND_S)
        except mcpwire.MCPError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: client._connection._reviver._thread != 0)
    client.close()
    thread.join(BOUND_S)
    assert [type(error) for error in errors] == [mcpwire.ConnectionClosed]
