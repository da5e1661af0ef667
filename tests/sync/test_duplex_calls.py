"""What a blocking channel does for one caller: calls, begun calls, waiting, time."""

import asyncio
import threading
import time

import pytest
from blocking_channels import BOUND_S, Recorder, Threads, opened, tool, within
from scripted import ECHO_LOOP
from waiting import until

from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    MethodNotFound,
    RequestTimeout,
    RPCError,
    TransportError,
)
from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync import _calls, _duplex, _lead
from mcpwire.sync._lead import Waiter
from mcpwire.transports.base import CallHandle

PROGRESS = """
def progress(request, number):
    send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
        "progressToken": request["params"]["_meta"]["progressToken"],
        "progress": number}})
"""


def log(data):
    return (
        f"send({{'jsonrpc': '2.0', 'method': 'notifications/message', "
        f"'params': {{'level': 'info', 'data': {data}}}}})\n"
    )


def test_a_call_returns_the_result_and_its_handle_knows_the_id():
    handle = CallHandle()
    with opened(ECHO_LOOP) as channel:
        assert tool(channel, "hi", handle=handle) == "hi"
        assert handle.request_id == 1
        assert channel.requests_sent == 1
        assert channel.bytes_sent > 50
        assert channel.stats.messages == 1
        assert channel.role == "client"
        assert "open, 0 calls" in repr(channel)
    assert "closed" in repr(channel)
    assert channel.exit_code == 0


def test_an_answer_may_be_an_error_or_break_the_rules():
    body = """
send({"jsonrpc": "2.0", "id": recv()["id"], "error": {"code": -32601, "message": "no"}})
send({"jsonrpc": "2.0", "id": recv()["id"], "result": 5})
text(recv(), "fine")
"""
    with opened(body) as channel:
        with pytest.raises(MethodNotFound) as caught:
            tool(channel)
        assert caught.value.method == "tools/call"
        with pytest.raises(InvalidMessage):
            tool(channel)
        assert tool(channel) == "fine"


def test_what_may_not_be_sent_is_refused_and_leaves_no_trace():
    with opened(ECHO_LOOP) as channel:
        with pytest.raises(LocalProtocolError, match="over HTTP only"):
            tool(channel, headers={"a": "b"})
        with pytest.raises(LocalProtocolError, match="over HTTP only"):
            channel.notify("notifications/x", headers={"a": "b"})
        with pytest.raises(LocalProtocolError, match="surrogate"):
            tool(channel, "\ud800")
        with pytest.raises(LocalProtocolError):
            channel.begin("x", {"a": {1, 2}}, deadline=None)
        assert tool(channel, "fine") == "fine"
        assert channel.requests_sent == 1


def test_inside_a_running_loop_it_works_and_blocks_it():
    async def main():
        return tool(channel, "hi")

    with opened(ECHO_LOOP) as channel:
        assert asyncio.run(main()) == "hi"


@pytest.mark.pain("P09")
@pytest.mark.fault("F15")
def test_a_late_answer_is_counted_and_reaches_no_other_call():
    body = """
late = recv()
told = recv()
assert told["params"] == {"requestId": late["id"], "reason": "timeout"}, told
text(late, "late")
text(recv(), "in time")
"""
    with opened(body) as channel:
        with pytest.raises(RequestTimeout) as caught:
            tool(channel, seconds=0.05)
        assert caught.value.method == "tools/call"
        assert caught.value.elapsed >= 0.05
        assert tool(channel) == "in time"
        assert channel.stats.late == 1


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by leaps, too: it is no matter how fast the machine is."""

    class Clock:
        leapt = 0.0

        def __call__(self):
            return time.monotonic() + self.leapt

        def within(self, seconds):
            return Deadline(self(), seconds)

    clock = Clock()
    for module in (_calls, _duplex, _lead):
        monkeypatch.setattr(module, "monotonic", clock)
    monkeypatch.setattr(_lead, "LONGEST_POLL_S", 0.02)  # so soon it is looked at
    return clock


READY = "answer(recv(), {})\n"
"""What a child says first whose start is not to count as the call's time."""


def is_ready(channel):
    channel.call("ping", None, deadline=within(BOUND_S))


def test_a_timeout_tells_of_noise():
    with opened(f"print('hello', flush=True)\n{READY}while True: recv()") as channel:
        is_ready(channel)
        with pytest.raises(RequestTimeout, match="hello"):
            tool(channel, seconds=0.3)


# Notifications...


def test_a_calls_notifications_run_in_its_own_thread_which_does_not_lead():
    body = PROGRESS + "m = recv()\nprogress(m, 1)\nprogress(m, 2)\nrecv()\ntext(m, 'x')"
    heard = []

    def hear(method, params):
        assert channel._leader == 0
        assert not channel._mutex.locked()
        heard.append((method, params["progress"], threading.get_ident()))
        if len(heard) == 2:
            channel.notify("notifications/roots/list_changed")

    with opened(body) as channel:
        assert tool(channel, on_notification=hear) == "x"
    own = threading.get_ident()
    assert heard == [("notifications/progress", n, own) for n in (1, 2)]


def test_a_call_may_be_made_from_another_calls_notification():
    body = PROGRESS + "m = recv()\nprogress(m, 1)\ntext(recv(), 'in')\ntext(m, 'out')"
    inner = []
    with opened(body) as channel:
        outer = tool(channel, on_notification=lambda *_: inner.append(tool(channel)))
    assert (inner, outer) == (["in"], "out")


def test_of_a_flood_of_notifications_the_oldest_are_dropped_and_counted():
    body = PROGRESS + (
        "m = recv()\n"
        "for number in range(100): progress(m, number)\n"
        "text(m, 'x')\nrecv()"
    )
    heard, threads = [], Threads()
    limits = Limits(notifications=10)
    with opened(body, limits=limits) as channel:

        def hear(_, params):
            if not heard:  # while this one is heard, another thread reads the rest
                waiter = Waiter()
                threads.start(channel.wait, waiter, BOUND_S)
                until = time.monotonic() + BOUND_S
                while channel.stats.messages < 101 and time.monotonic() < until:
                    time.sleep(0.001)
                waiter.set()
            heard.append(params["progress"])

        assert tool(channel, on_notification=hear) == "x"
        assert not threads.join()
        assert len(heard) + channel.dropped == 100
        assert heard[-10:] == list(range(90, 100))
        assert len(heard) < 100


def test_other_notifications_are_stored_by_who_hears_the_rest():
    inbound = Recorder()
    with opened("m = recv()\n" + log(1) + "text(m, 'x')", inbound) as channel:
        tool(channel)
    assert [params["data"] for _, params in inbound.notes] == [1]


# Begun calls and waiting...


def test_two_requests_can_be_open_beside_each_other():
    body = "a = recv()\nb = recv()\ntext(b, 'b')\ntext(a, 'a')\nrecv()"
    ends = []
    with opened(body) as channel:
        waiter = Waiter()

        def end(outcome):
            ends.append(outcome["content"][0]["text"])
            waiter.set()

        first = channel.begin("tools/call", {"name": "x"}, deadline=None, on_end=end)
        channel.begin("tools/call", {"name": "x"}, deadline=None, on_end=end)
        assert channel.wait(waiter, BOUND_S)
        assert ends[0] == "b"
        assert channel.finish(first)["content"][0]["text"] == "a"
        assert channel.finish(first)["content"][0]["text"] == "a"
    assert ends == ["b", "a"]


def test_a_begun_call_is_ended_by_whoever_reads_when_its_time_is_up():
    ends = []
    with opened("while True: recv()") as channel:
        pending = channel.begin(
            "tools/call", {"name": "x"}, deadline=within(0.1), on_end=ends.append
        )
        assert not channel.wait(Waiter(), 0.3)
        while not ends:
            assert not channel.wait(Waiter(), 0.05)
        assert [type(end) for end in ends] == [RequestTimeout]
        with pytest.raises(RequestTimeout):
            channel.finish(pending)


def test_a_begun_call_hears_its_notifications_while_anybody_reads():
    body = PROGRESS + "m = recv()\nprogress(m, 7)\ntext(recv(), 'other')\nrecv()"
    heard = []
    with opened(body) as channel:
        channel.begin(
            "tools/call",
            {"name": "x"},
            deadline=None,
            on_notification=lambda _, params: heard.append(params["progress"]),
        )
        assert tool(channel) == "other"
    assert heard == [7]


@pytest.mark.usefixtures("last_words_are_awaited")
def test_waiting_ends_with_its_time_with_what_is_set_or_with_the_connection():
    with opened("recv()\nsys.exit(0)") as channel:
        waiter = Waiter()
        started = time.monotonic()
        assert channel.wait(waiter, 0.05) is False
        assert time.monotonic() - started >= 0.05
        waiter.set()
        assert channel.wait(waiter, None) is True
        waiter.clear()
        channel.notify("notifications/roots/list_changed")
        assert channel.wait(waiter, None) is False
        assert channel.exit_code == 0
        assert channel.wait(waiter, None) is False


@pytest.mark.parametrize("first_leads", [True, False])
def test_a_waiter_is_woken_from_any_thread_whether_its_thread_leads_or_sleeps(
    first_leads,
):
    threads = Threads()
    with opened("while True: recv()") as channel:
        waiters = [Waiter(), Waiter()]
        for waiter in waiters:
            thread = threads.start(channel.wait, waiter, None)
            while channel._leader != thread.ident and thread.ident not in (
                channel._parked
            ):
                assert thread.is_alive()
        for waiter in waiters if first_leads else reversed(waiters):
            waiter.set()
        assert not threads.join()
    assert threads.results == [True, True]


def test_several_threads_may_wait_for_the_same():
    threads = Threads()
    with opened("m = recv()\nrecv()\ntext(m, 'x')\nrecv()") as channel:
        pending = channel.begin("tools/call", {"name": "x"}, deadline=None)
        for _ in range(4):
            threads.start(channel.finish, pending)
        while len(channel._parked) < 3:
            time.sleep(0.001)
        channel.notify("notifications/roots/list_changed")
        assert not threads.join()
    assert len(threads.results) == 4


# Cancelling...


@pytest.mark.pain("P09")
@pytest.mark.parametrize("leads", [True, False])
def test_a_call_can_be_cancelled_from_another_thread_and_the_server_is_told(leads):
    body = "a, b = recv(), recv()\ntold = recv()\ntext(a if a['id'] != told['params']"
    body += "['requestId'] else b, str(told['params']))\nrecv()"
    threads = Threads()
    handles = CallHandle(), CallHandle()
    with opened(body) as channel:
        ids = []
        for handle in handles:
            thread = threads.start(lambda h=handle: tool(channel, handle=h))
            ids.append(thread.ident)
            while thread.ident not in {channel._leader, *channel._parked}:
                assert thread.is_alive()
        assert channel._leader == ids[0]
        channel.cancel(handles[0 if leads else 1], "not wanted")
        errors = threads.join()
        channel.cancel(handles[0])
        channel.cancel(CallHandle())
    assert [type(error) for error in errors] == [CallCancelled]
    assert errors[0].reason == "not wanted"
    assert "not wanted" in threads.results[0]


def test_what_is_used_from_inside_itself_says_so_and_does_not_wait_for_itself():
    class Meddler(Recorder):
        def notification(self, *_):
            for use in (
                lambda: tool(channel),
                lambda: channel.notify("x"),
                lambda: channel.wait(Waiter(), None),
            ):
                with pytest.raises(LocalProtocolError, match="already"):
                    use()
            self.notes.append(True)

    inbound = Meddler()
    with opened("m = recv()\n" + log(1) + "text(m, 'x')\nrecv()", inbound) as channel:
        assert tool(channel) == "x"
    assert inbound.notes == [True]


# Deadlines that stand still, and that begin anew...


ASKS = """
m = recv()
send({"jsonrpc": "2.0", "id": "q", "method": "ping"})
got = recv()
text(m, json.dumps(got.get("result")))
while True: recv()
"""


def test_a_deadline_stands_still_while_a_handler_of_ours_is_busy(clock):
    inbound, threads = Recorder(), Threads()

    def answer_late():
        until(lambda: inbound.requests)
        clock.leapt += 2 * BOUND_S  # longer than the call's whole time
        time.sleep(0.1)  # and the leader looks at it
        inbound.requests[0][3]({"late": True})
        inbound.requests[0][3]({"late": "not twice"})

    with opened(READY + ASKS, inbound) as channel:
        is_ready(channel)
        threads.start(answer_late)
        deadline = clock.within(BOUND_S)
        params = {"name": "x", "arguments": {}}
        result = channel.call("tools/call", params, deadline=deadline)
        assert result["content"][0]["text"] == '{"late": true}'
        assert not threads.join()
        assert 0 < deadline.remaining(clock()) <= BOUND_S
        with pytest.raises(RequestTimeout):
            channel.call("tools/call", params, deadline=clock.within(0.05))


def test_a_deadline_runs_on_when_the_server_gives_its_question_up(clock):
    body = """
recv()
send({"jsonrpc": "2.0", "id": 5, "method": "ping"})
send({"jsonrpc": "2.0", "method": "notifications/cancelled",
      "params": {"requestId": 5}})
while True: recv()
"""
    inbound, threads = Recorder(), Threads()

    def let_time_pass():
        until(lambda: inbound.withdrawn)
        clock.leapt += 2 * BOUND_S

    with opened(READY + body, inbound) as channel:
        is_ready(channel)
        threads.start(let_time_pass)
        params = {"name": "x", "arguments": {}}
        with pytest.raises(RequestTimeout):
            channel.call("tools/call", params, deadline=clock.within(BOUND_S))
        assert not threads.join()
    assert inbound.withdrawn == [5]


@pytest.mark.parametrize(
    "answer", [{}, RPCError("no", code=-1), {"bad": {1}}, {"bad": "\ud800"}]
)
def test_what_the_server_asks_can_be_answered_at_once_by_who_reads(answer):
    inbound = Recorder({"ping": answer})
    with opened(ASKS, inbound) as channel:
        said = tool(channel)
    assert said == ("{}" if answer == {} else "null")


@pytest.mark.parametrize("resets", [True, False])
def test_progress_extends_a_deadline_where_that_is_asked_for(resets, clock):
    body = PROGRESS + (
        "m = recv()\n"
        "for number in range(8):\n    progress(m, number)\n    recv()\n"
        "text(m, 'x')\nrecv()"
    )

    def hear(*_):
        clock.leapt += 0.7 * BOUND_S
        channel.notify("notifications/x")  # for the next one

    with opened(body) as channel:
        channel.reset_on_progress = resets
        deadline = clock.within(BOUND_S)
        call = ("tools/call", {"name": "x"})
        options = {"deadline": deadline, "on_notification": hear}
        if resets:
            assert channel.call(*call, **options)
        else:
            with pytest.raises(RequestTimeout):
                channel.call(*call, **options)


# Writing...


@pytest.mark.pain("P13")
def test_both_pipes_full_at_once_is_no_deadlock():
    body = """
sys.stdout.close = None
size = 0
while True:
    data = os.read(0, 65536)
    size += len(data)
    raw(b" " * len(data) + b"\\n")   # floods stdout while it still reads
    if data.endswith(b"\\n"):
        break
text({"id": 1}, str(size))
"""
    with opened(body) as channel:
        assert int(tool(channel, "x" * 2**26, seconds=60)) > 2**26
        assert channel.bytes_sent > 2**26


@pytest.mark.fault("F07")
def test_what_waits_for_a_peer_that_does_not_read_is_bounded():
    limits = Limits(unwritten=2**20, close_grace=0.1, terminate_grace=0.1)
    with opened("time.sleep(60)", limits=limits) as channel:
        with pytest.raises(RequestTimeout):
            tool(channel, "x" * 2**20, seconds=0.1)
        with pytest.raises(TransportError, match="does not read"):
            tool(channel, "x" * 2**20)
        with pytest.raises(TransportError, match="does not read"):
            channel.notify("x", {"data": "x" * 2**20})
        assert channel.lost is None


def test_a_thread_that_leads_also_writes_what_another_left_unwritten():
    body = """
first = recv()
time.sleep(0.1)
second = recv()
text(second, str(len(second["params"]["arguments"]["text"])))
text(first, "first")
recv()
"""
    threads = Threads()
    with opened(body) as channel:
        leader = threads.start(tool, channel)
        while channel._leader != leader.ident:
            assert leader.is_alive()
        assert tool(channel, "x" * 2**21) == str(2**21)
        assert not threads.join()


def test_a_notification_that_fills_the_pipe_is_written_to_its_end():
    # It reads as soon as it has answered: starting takes a busy machine seconds.
    body = (
        "text(recv(), 'ready')\nn = recv()\n"
        "text(recv(), str(len(n['params']['data'])))\nrecv()"
    )
    with opened(body) as channel:
        assert tool(channel) == "ready"
        channel.notify("notifications/x", {"data": "x" * 2**21})
        assert channel._written == channel._queued
        assert tool(channel) == str(2**21)


def test_an_answer_of_ours_that_fills_the_pipe_is_written_to_its_end():
    body = """
send({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
n = recv()
text(recv(), str(len(n["result"]["data"])))
recv()
"""
    inbound = Recorder()
    with opened(body, inbound) as channel:
        while not inbound.requests:
            channel.wait(Waiter(), 0.1)
        inbound.requests[0][3]({"data": "x" * 2**21, "roots": []})
        assert channel._written == channel._queued
        assert tool(channel) == str(2**21)


@pytest.mark.fault("F11", "F10")
def test_messages_come_whole_however_they_are_cut():
    body = r"""
m = recv()
result = {"content": [{"type": "text", "text": "caf\u00e9 \u2028"}]}
answer = {"jsonrpc": "2.0", "id": m["id"], "result": result}
line = json.dumps(answer, ensure_ascii=False).encode() + b"\n"
raw(b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 2 + line[:10])
time.sleep(0.05)
for byte in line[10:]:
    raw(bytes([byte]))
recv()
"""
    inbound = Recorder()
    with opened(body, inbound) as channel:
        assert tool(channel) == "caf\u00e9 \u2028"
    assert len(inbound.notes) == 2


@pytest.mark.pain("P13")
def test_a_message_over_the_limit_ends_the_connection_and_says_so():
    limits = Limits(message=1000, close_grace=0.2)
    body = "m = recv()\n" + log(1) + "text(m, 'x' * 2000)\nrecv()"
    inbound = Recorder()
    with opened(body, inbound, limits=limits) as channel:
        with pytest.raises(ConnectionClosed, match="longer than 1000 bytes"):
            tool(channel)
        assert "1000 bytes" in str(channel.lost)
    assert len(inbound.notes) == 1
    assert len(inbound.losses) == 1
