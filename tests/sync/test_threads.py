"""Threads share one client: they connect, call and close in any order."""

import asyncio
import threading
from concurrent.futures import wait

import pytest
from fakes import SILENCE, FakeServer, text
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, echoed, own_threads, until

import mcpwire
import mcpwire.sync

CALLS = 2_000
MANY_CALLS = 20_000
"""With `--all-grounds`, as in `make verify`."""


@pytest.mark.system("L-U3", "L-R2", "R04")
@pytest.mark.pain("P12", "P29")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.grounds(5, "echo")
def test_eight_threads_get_their_own_results_of_one_client(
    echo, background, request, threads
):
    count = MANY_CALLS if request.config.getoption("--all-grounds") else CALLS
    if background:
        count //= 10

    thread_counts = set()

    def work(thread):
        wrong = []
        for number in range(count // 8):
            message = f"{thread}.{number}"
            answer = echoed(client, message)
            if answer != message:
                wrong.append((message, answer))
        thread_counts.add(len(own_threads()))
        return wrong

    with mcpwire.sync.Client(echo.target, background=background) as client:
        before = client.stats.requests
        running = [threads.submit(work, number) for number in range(8)]
        assert [each.result() for each in running] == [[]] * 8
        assert thread_counts == {int(background)}
        assert client.stats.requests - before == count
        assert client.stats.connections == 1


@pytest.mark.pain("P12")
@pytest.mark.parametrize("background", [False, True])
def test_threads_have_separate_timeouts(echo, background, threads):
    def slow():
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            client.call_tool("slow", timeout=0.2)
        return caught.value.timeout

    def quick(number):
        message = str(number)
        return client.call_tool("echo", {"text": message}, timeout=30 + number).text

    with mcpwire.sync.Client(echo.target, background=background) as client:
        running = [
            threads.submit(slow),
            *(threads.submit(quick, number) for number in range(4)),
            threads.submit(slow),
        ]
        assert [each.result(BOUND_S) for each in running] == [0.2, *"0123", 0.2]


@pytest.mark.pain("P01", "P11")
def test_one_thread_connects_another_uses_and_a_third_closes(echo, threads):
    client = mcpwire.sync.Client(echo.target)
    threads.submit(client.connect).result(BOUND_S)
    assert threads.submit(echoed, client, "hi").result(BOUND_S) == "hi"
    threads.submit(client.close).result(BOUND_S)
    client.close()
    assert not client.is_connected


@pytest.mark.fault("F41")
def test_concurrent_connects_and_closes_are_shared(echo, threads):
    client = mcpwire.sync.Client(echo.target)
    for done in [threads.submit(client.connect) for _ in range(8)]:
        done.result(BOUND_S)
    assert client.stats.connections == 1
    assert echoed(client, "hi") == "hi"
    for done in [threads.submit(client.close) for _ in range(8)]:
        done.result(BOUND_S)
    assert not client.is_connected


def test_all_waiting_connects_get_the_failure(threads):
    target = scripted("recv(); time.sleep(0.2); sys.exit(3)")
    client = mcpwire.sync.Client(target, mode="session")
    failures = [
        done.exception(BOUND_S)
        for done in [threads.submit(client.connect) for _ in range(4)]
    ]
    assert {type(error) for error in failures} == {mcpwire.ConnectError}
    assert {error.exit_code for error in failures} == {3}


@pytest.mark.fault("F41")
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.05, 0.2])
def test_closing_during_connect_ends_it_with_a_typed_error(threads, delay):
    client = mcpwire.sync.Client(scripted("while True: recv()"))
    connecting = [threads.submit(client.connect) for _ in range(3)]
    until(lambda: "connecting" in str(client))
    threading.Event().wait(delay)
    client.close()

    def close_again():  # for a thread that has not started yet
        client.close()
        return all(each.done() for each in connecting)

    until(close_again)
    for done in connecting:
        error = done.exception(BOUND_S)
        assert type(error) is mcpwire.ConnectionClosed
        assert "closed while connecting" in str(error)
    assert not client.is_connected


@pytest.mark.fault("F41")
@pytest.mark.parametrize("background", [False, True])
def test_connect_during_close_opens_a_new_connection(background, threads):
    slow_to_end = "import atexit; atexit.register(time.sleep, 0.3)\nhandshake()\n"
    client = mcpwire.sync.Client(
        scripted(slow_to_end + ECHO_LOOP), background=background
    )
    client.connect()
    closing = threads.submit(client.close)
    until(lambda: "closing" in str(client))
    client.connect()
    closing.result(BOUND_S)
    assert echoed(client, "hi") == "hi"
    assert len(own_threads()) == background
    client.close()
    assert len(own_threads()) == 0


@pytest.mark.fault("F41")
def test_reconnecting_waits_for_the_loop_of_a_failed_connect(threads):
    cancelled, may_end = threading.Event(), threading.Event()

    async def linger():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            may_end.wait(BOUND_S)

    class FailsOnce(FakeServer):
        lingering = None

        def open_in_memory(self, client, limits):
            if self.lingering is None:
                self.lingering = asyncio.get_running_loop().create_task(linger())
                raise mcpwire.ConnectError("not yet", target="x")
            return super().open_in_memory(client, limits)

    client = mcpwire.sync.Client(FailsOnce(), background=True)
    with pytest.raises(mcpwire.ConnectError, match="not yet"):
        client.connect()
    assert cancelled.wait(BOUND_S)  # its loop is being closed
    connecting = threads.submit(client.connect)
    assert not wait([connecting], timeout=0.05).done
    may_end.set()
    connecting.result(BOUND_S)
    client.close()


@pytest.mark.fault("F41")
@pytest.mark.pain("P05")
def test_closing_during_calls_fails_each_of_them(echo, threads):
    client = mcpwire.sync.Client(echo.target)
    client.connect()
    calls = [threads.submit(client.call_tool, "slow") for _ in range(8)]
    until(lambda: echo.slow == 8)
    client.close()
    errors = [call.exception(BOUND_S) for call in calls]
    assert {type(error) for error in errors} == {mcpwire.ConnectionClosed}
    assert {error.sent for error in errors} == {True}
    assert not client.is_connected
    with client:
        assert echoed(client, "again") == "again"


@pytest.mark.pain("P05", "P29")
def test_threads_get_their_own_results_from_a_dying_server(threads):
    dying = scripted(
        "handshake()\nfor _ in range(40):\n    m = recv()\n"
        "    text(m, m['params']['arguments']['text'])"
    )
    again = mcpwire.Recovery(attempts=50, backoff_initial=0.001, backoff_max=0.002)

    def work(thread):
        answers = 0
        for number in range(40):
            name = f"{thread}.{number}"
            try:
                assert echoed(client, name) == name
                answers += 1
            except mcpwire.TransportError:
                continue
        return answers

    with mcpwire.sync.Client(dying, recovery=again) as client:
        running = [threads.submit(work, number) for number in range(8)]
        answers = [each.result(BOUND_S) for each in running]
        assert sum(answers) > 200
        assert client.stats.connections > 5


@pytest.mark.parametrize("turns", range(4))
def test_a_response_is_delivered_in_any_loop_iteration(turns, threads):
    """The loop may stop for its thread in the iteration of another's response."""

    def call(params, server):
        waiting.append(server.current["id"])
        if len(waiting) == 2:
            send_later(0, server, waiting[0])
            send_later(turns, server, waiting[1])
        return SILENCE

    def send_later(turns, server, id):
        if turns < 0:
            server.send({"jsonrpc": "2.0", "id": id, "result": text("done")})
        else:
            asyncio.get_running_loop().call_soon(send_later, turns - 1, server, id)

    waiting = []
    with mcpwire.sync.Client(FakeServer({"tools/call": call})) as client:
        first = threads.submit(client.call_tool, "x")
        until(lambda: waiting)
        second = threads.submit(client.call_tool, "x")
        assert first.result(BOUND_S).text == second.result(BOUND_S).text == "done"
