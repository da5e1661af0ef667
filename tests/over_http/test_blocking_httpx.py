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
from mcpwire.sync._http import _httpx_exchange, httpx_engine

BOTH = pytest.mark.parametrize("client", [None, {}], ids=["own", "user"])
LARGE = b"x" * 30_000_000


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


def in_time(seconds):
    return Deadline(time.monotonic(), seconds)


@pytest.fixture
def looks_often(monkeypatch):
    """Let what waits notice soon that its deadline was moved."""
    monkeypatch.setattr(_httpx_exchange, "SLICE_S", 0.05)


@pytest.fixture
def looks_seldom(monkeypatch):
    """Let what waits notice nothing by itself: it is woken, or it hangs."""
    monkeypatch.setattr(_httpx_exchange, "SLICE_S", 2 * BOUND_S)


class Phase:
    """A server that stops at one phase of an exchange, and says when it is there."""

    def __init__(self, name):
        self.name = name
        self.reached, self.closed = threading.Event(), threading.Event()
        self.begins = lambda: None
        """What else is done when it is there."""

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
        self.begins()
        if self.name == "writing":
            conn.wait_for(self.closed)
        elif conn.wait_closed():
            self.closed.set()

    @contextlib.contextmanager
    def opened(self, client=None, **options):
        with raw_server(self.script) as server:
            self.server = server
            url = server.url
            if self.name == "shaking-hands":
                url = url.replace("http:", "https:")
                client = client and {"verify": False}
            with shell("blocking", url, client=client, **options) as it:
                yield it


PHASES = ["shaking-hands", "writing", "head", "body"]


@BOTH
@pytest.mark.parametrize("name", PHASES)
@pytest.mark.usefixtures("looks_often")
def test_a_deadline_ends_an_exchange_at_any_phase(client, name):
    phase = Phase(name)
    with phase.opened(client) as it:
        deadline = in_time(0.3)
        if name != "shaking-hands":  # which is told its time when it begins
            # The way there may take a loaded machine longer than that.
            deadline.pause(time.monotonic())
            phase.begins = lambda: deadline.resume(time.monotonic())
        began = time.monotonic()
        with pytest.raises(RequestTimeout):
            it.exchange(request_to(it.target, phase.body), None, deadline)
        assert 0.25 < time.monotonic() - began < 10
        assert phase.reached.wait(30)
        if name == "writing":
            phase.closed.set()
        assert phase.closed.wait(30)


def test_a_deadline_that_has_passed_sends_nothing():
    with raw_server(lambda conn: conn.wait_closed()) as server:
        with shell("blocking", server.url) as it, pytest.raises(RequestTimeout):
            it.exchange(None, None, Deadline(time.monotonic() - 1, 0.5))
        assert server.connections == 0


@pytest.mark.usefixtures("looks_often")
def test_a_deadline_that_stands_still_is_waited_for(monkeypatch):
    passed = [0]
    monkeypatch.setattr(
        _httpx_exchange, "monotonic", lambda: time.monotonic() + passed[0]
    )
    deadline = in_time(30)

    def script(conn):
        conn.receive()
        deadline.pause(time.monotonic())
        passed[0] = 3_600
        conn.wait(0.4)  # it looks several times
        conn.send(json_reply("late"))
        conn.wait_closed()

    with raw_server(script) as server, shell("blocking", server.url) as it:
        assert it.exchange(None, None, deadline).body == b'"late"'


@pytest.mark.parametrize("client", [None, {}], ids=["own", "user"])
@pytest.mark.parametrize("name", PHASES[1:])
@pytest.mark.usefixtures("looks_seldom")
def test_an_abort_from_another_thread_ends_an_exchange_at_once(client, name):
    phase = Phase(name)
    fed, error = Fed(), CallCancelled("tools/call")
    outcome = []

    def abort():
        phase.reached.wait(30)
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
        assert ended - outcome[1] < 10
        assert not it.engine.abort(fed, error)
        phase.closed.set()


def test_an_abort_while_connecting_is_seen_when_that_is_done():
    phase = Phase("shaking-hands")
    fed, error = Fed(), CallCancelled("tools/call")

    def abort():
        phase.reached.wait(30)
        assert it.engine.abort(fed, error)
        phase.server.close_connections()

    with phase.opened(connect_timeout=BOUND_S) as it:
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
    # Not before it is there, whatever time that takes.
    phase.begins = lambda: signal.setitimer(signal.ITIMER_REAL, 0.3)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with phase.opened() as it:
            with pytest.raises(Interrupt):
                it.exchange(request_to(it.target, phase.body))
            phase.begins = lambda: None
            if name == "writing":
                phase.closed.set()
            assert phase.closed.wait(30)
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


def test_what_one_thread_left_another_reads_if_it_must(monkeypatch):
    may_end, has_ended = threading.Event(), threading.Event()

    def script(conn):
        while conn.receive() is not None:
            conn.send(sse_head() + chunk(MARK))
            conn.wait_for(may_end)
            conn.send(LAST_CHUNK)
            has_ended.set()

    # Nobody waits for it that long, and what has come is read whatever time that takes.
    monkeypatch.setattr(_httpx_exchange, "FRESH_S", BOUND_S)
    with raw_server(script) as server, shell("blocking", server.url) as it:
        feds = []
        Threads().run(lambda: feds.append(it.exchange()))
        may_end.set()
        assert has_ended.wait(30)
        it.engine._parked[0]._parked_at -= 2 * BOUND_S  # by now it is nobody's
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
        phase.reached.wait(30)
        it.engine.close()

    with phase.opened() as it:
        Threads().run(call, close)
        assert caught[0].sent
        with pytest.raises(ConnectionClosed) as refused:
            it.exchange()
        assert not refused.value.sent


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("kept_for_long")
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


@pytest.mark.usefixtures("looks_seldom")
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
            reached.wait(30)
            assert it.engine.abort(fed, error)

        def call():
            began = time.monotonic()
            with pytest.raises(CallCancelled):
                it.exchange(None, fed)
            assert time.monotonic() - began < 10

        Threads().run(call, abort)
        with pytest.raises(RequestTimeout):
            it.exchange(None, None, in_time(0.1))
        server.wait_until(lambda: not server.open)
