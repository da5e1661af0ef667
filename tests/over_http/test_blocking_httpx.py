"""The blocking httpx engine: time, aborts and interrupts, in any number of threads."""

import contextlib
import os
import signal
import threading
import time

import httpx
import pytest
from http2_server import AUTHORITY
from httpx_shells import BOUND_S, MARK, Fed, forget_proxies, request_to, shell
from raw_server import LAST_CHUNK, chunk, json_reply, raw_server, reply, sse_head

from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    LocalProtocolError,
    RequestTimeout,
)
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._http import httpx_engine

BOTH = pytest.mark.parametrize("client", [None, {}], ids=["own", "user"])
LARGE = b"x" * 30_000_000


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


def in_time(seconds):
    return Deadline(time.monotonic(), seconds)


class Phase:
    """A server that stops at one phase of an exchange, and says when it is there."""

    def __init__(self, name):
        self.name = name
        self.reached, self.closed = threading.Event(), threading.Event()

    @property
    def body(self):
        return LARGE if self.name == "writing" else b"{}"

    def script(self, conn):
        if self.name in {"shaking-hands", "writing"}:
            conn.read_some()
        else:
            conn.receive()
        if self.name == "body":
            conn.send(sse_head() + chunk(b"x"))
        self.reached.set()
        if self.name == "writing":
            conn.wait_for(self.closed)
        elif conn.wait_closed():
            self.closed.set()

    @contextlib.contextmanager
    def opened(self, client=None, **options):
        with raw_server(self.script) as server:
            url = server.url
            if self.name == "shaking-hands":
                url = url.replace("http:", "https:")
                client = client and {"verify": False}
            with shell("blocking", url, client=client, **options) as it:
                yield it


PHASES = ["shaking-hands", "writing", "head", "body"]


@BOTH
@pytest.mark.parametrize("name", PHASES)
def test_a_deadline_ends_an_exchange_at_any_phase(client, name):
    phase = Phase(name)
    with phase.opened(client) as it:
        began = time.monotonic()
        with pytest.raises(RequestTimeout):
            it.exchange(request_to(it.target, phase.body), None, in_time(0.3))
        assert 0.25 < time.monotonic() - began < 3
        assert phase.reached.is_set()
        if name == "writing":
            phase.closed.set()
        assert phase.closed.wait(5)


def test_a_deadline_that_has_passed_sends_nothing():
    with raw_server(lambda conn: conn.wait_closed()) as server:
        with shell("blocking", server.url) as it, pytest.raises(RequestTimeout):
            it.exchange(None, None, Deadline(time.monotonic() - 1, 0.5))
        assert server.connections == 0


def test_a_deadline_that_stands_still_is_waited_for():
    deadline = in_time(0.2)

    def script(conn):
        conn.receive()
        deadline.pause(time.monotonic())
        conn.wait(0.4)
        conn.send(json_reply("late"))
        conn.wait_closed()

    with raw_server(script) as server, shell("blocking", server.url) as it:
        assert it.exchange(None, None, deadline).body == b'"late"'


@pytest.mark.parametrize("client", [None, {}], ids=["own", "user"])
@pytest.mark.parametrize("name", PHASES[1:])
def test_an_abort_from_another_thread_ends_an_exchange_at_once(client, name):
    phase = Phase(name)
    fed, error = Fed(), CallCancelled("tools/call")
    outcome = []

    def abort():
        phase.reached.wait(5)
        outcome.append(it.engine.abort(fed, error))
        outcome.append(time.monotonic())

    with phase.opened(client) as it:
        thread = threading.Thread(target=abort)
        thread.start()
        with pytest.raises(CallCancelled) as caught:
            it.exchange(request_to(it.target, phase.body), fed)
        ended = time.monotonic()
        thread.join()
        assert caught.value is error
        assert outcome[0] is True
        assert ended - outcome[1] < 0.5
        assert not it.engine.abort(fed, error)
        phase.closed.set()


def test_an_abort_while_connecting_is_seen_when_that_is_done():
    phase = Phase("shaking-hands")
    fed, error = Fed(), CallCancelled("tools/call")

    def abort():
        phase.reached.wait(5)
        assert it.engine.abort(fed, error)

    with phase.opened(connect_timeout=0.3) as it:
        thread = threading.Thread(target=abort)
        thread.start()
        with pytest.raises(CallCancelled):
            it.exchange(None, fed)
        thread.join()


# While shaking hands Python itself leaves the socket to the garbage collector.
@pytest.mark.parametrize("name", PHASES[1:])
def test_an_interrupt_closes_the_connection_and_the_engine_goes_on(name):
    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    phase = Phase(name)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with phase.opened() as it:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Interrupt):
                it.exchange(request_to(it.target, phase.body))
            assert phase.reached.is_set()
            if name == "writing":
                phase.closed.set()
            assert phase.closed.wait(5)
            with pytest.raises((RequestTimeout, ConnectionClosed)):
                it.exchange(None, None, in_time(0.05))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_transport_without_connections_is_looked_at_between_its_chunks():
    class Trickle(httpx.SyncByteStream):
        def __iter__(self):
            while True:
                yield b"x"

    client = {
        "transport": httpx.MockTransport(
            lambda _: httpx.Response(200, stream=Trickle())
        )
    }
    with (
        shell("blocking", "http://host.example/", client=client) as it,
        pytest.raises(RequestTimeout),
    ):
        it.exchange(None, None, in_time(0.05))


# Threads...


class Threads:
    """Runs functions at the same time; what they raise fails the test."""

    def __init__(self):
        self.errors = []

    def run(self, *functions):
        threads = [threading.Thread(target=self._run, args=[f]) for f in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
            assert not thread.is_alive()
        if self.errors:
            raise self.errors[0]

    def _run(self, function):
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self.errors.append(error)


@BOTH
def test_each_thread_gets_its_own_answers(client):
    def script(conn):
        turn = 0
        while (request := conn.receive(timeout=None)) is not None:
            turn += 1
            if turn % 2:
                conn.send(reply(200, request.body))
            else:
                conn.send(sse_head() + chunk(request.body + MARK))
                conn.send(LAST_CHUNK)

    def calls(first):
        for number in range(first, first + 30):
            body = b"%d " % number
            fed = it.exchange(request_to(it.target, body), None, in_time(BOUND_S))
            assert fed.body.removesuffix(MARK) == body

    with raw_server(script) as server:
        with shell("blocking", server.url, client=client) as it:
            Threads().run(*(lambda n=n: calls(n * 1000) for n in range(8)))
        assert len(server.requests) == 240


def test_what_one_thread_left_another_reads_if_it_must():
    may_end = threading.Event()

    def script(conn):
        while conn.receive() is not None:
            conn.send(sse_head() + chunk(MARK))
            conn.wait_for(may_end)
            conn.send(LAST_CHUNK)

    with raw_server(script) as server, shell("blocking", server.url) as it:
        feds = []
        Threads().run(lambda: feds.append(it.exchange()))
        may_end.set()
        server.wait_until(lambda: server.requests)
        time.sleep(2 * 0.02)  # until it is nobody's
        it.exchange()
        assert feds[0].has_ended
        assert server.connections == 1


def test_no_more_than_some_answers_wait_to_be_read_to_their_end():
    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(MARK))
        conn.wait_closed()

    with raw_server(script) as server, shell("blocking", server.url) as it:
        started = threading.Barrier(12)

        def call():
            started.wait()
            it.exchange()

        Threads().run(*[call] * 12)
        server.wait_until(lambda: len(server.open) <= httpx_engine.PARKED)
        it.engine.close()
        server.wait_until(lambda: not server.open)


# ... and the end.


def test_closing_ends_the_exchanges_of_other_threads():
    phase = Phase("head")
    caught = []

    def call():
        try:
            it.exchange()
        except ConnectionClosed as error:
            caught.append(error)

    def close():
        phase.reached.wait(5)
        it.engine.close()

    with phase.opened() as it:
        Threads().run(call, close)
        assert caught[0].sent
        with pytest.raises(ConnectionClosed) as refused:
            it.exchange()
        assert not refused.value.sent


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_refuses_and_leaves_the_connections_to_its_parent():
    def script(conn):
        while conn.receive() is not None:
            conn.send(json_reply("ok"))

    with raw_server(script) as server, shell("blocking", server.url) as it:
        it.exchange()
        (stream,) = it.engine.streams
        number = stream.get_extra_info("socket").fileno()
        out, into = os.pipe()
        child = os.fork()
        if not child:
            report = b""
            try:
                try:
                    it.exchange()
                except LocalProtocolError:
                    report += b"refused"
                try:
                    os.fstat(number)
                except OSError:
                    report += b" closed"
            finally:
                os.write(into, report)
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert os.read(out, 100) == b"refused closed"
        for descriptor in (out, into):
            os.close(descriptor)
        it.exchange()
        assert server.connections == 1


def test_tls_may_be_woken_and_interrupted_too(tmp_path):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    reached = threading.Event()

    def script(conn):
        conn.receive()
        reached.set()
        conn.wait_closed()

    fed, error = Fed(), CallCancelled("tools/call")
    with (
        raw_server(script, ssl_context=context) as server,
        shell("blocking", server.url, ca_file=tmp_path / "ca.pem") as it,
    ):

        def abort():
            reached.wait(5)
            assert it.engine.abort(fed, error)

        def call():
            began = time.monotonic()
            with pytest.raises(CallCancelled):
                it.exchange(None, fed)
            assert time.monotonic() - began < 1

        Threads().run(call, abort)
        with pytest.raises(RequestTimeout):
            it.exchange(None, None, in_time(0.1))
        server.wait_until(lambda: not server.open)
