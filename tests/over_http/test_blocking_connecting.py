"""How the blocking engine connects, over TLS or not, and how that fails."""

import contextlib
import datetime as dt
import errno
import socket
import ssl
import threading
from time import monotonic

import pytest
import trustme
from blocking_exchanges import Answer, Doing, ask, echo, engine_for
from http_bytes import head, json_reply
from ports import kept_port
from raw_server import raw_server

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    RemoteProtocolError,
    RequestTimeout,
)
from mcpwire.sync._http import _connecting as connecting_module

ABORTED = RemoteProtocolError("aborted by the test")
AUTHORITY = trustme.CA()
NAMES = ("localhost", "127.0.0.1")
PAST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def unused():
    """Return a function that gives a port on which nobody listens."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(kept_port())


@pytest.fixture
def full():
    """The URL of a server whose queue is full: connecting to it never ends."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = []
        for _ in range(3):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            waiting.append(sock)
        yield f"http://127.0.0.1:{address[1]}/mcp"
        for sock in waiting:
            sock.close()


@pytest.fixture
def silent():
    """The URL of a server that accepts connections and says nothing."""
    with raw_server(lambda conn: conn.wait_closed(30)) as server:
        yield server.url.replace("http:", "https:")


def fails(url, **options):
    """Return how an exchange with that URL fails to connect."""
    with engine_for(url, **options) as engine:
        with pytest.raises(ConnectError) as caught:
            ask(engine)
        assert (engine.connections, engine.bytes_sent) == (0, 0)
        assert caught.value.target == url
        return caught.value


# Without TLS...


@pytest.mark.fault("F19")
def test_a_port_where_nobody_listens_refuses(unused):
    port = unused()
    error = fails(f"http://127.0.0.1:{port}/mcp")
    assert str(error) == f"cannot connect to '127.0.0.1:{port}': Connection refused"
    assert error.errno == errno.ECONNREFUSED


@pytest.mark.fault("F19")
@pytest.mark.parametrize(
    "problem",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        UnicodeError("label too long"),
    ],
)
def test_a_name_that_does_not_resolve_is_named(monkeypatch, problem):
    def resolve(*_, **__):
        raise problem

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    error = fails("http://nowhere.invalid/mcp")
    assert str(error).startswith("cannot resolve 'nowhere.invalid': ")
    assert error.__cause__ is not None


def test_a_name_that_leads_to_no_public_address_is_refused_where_it_must():
    with raw_server(echo) as server:
        url = f"http://localhost:{server.port}/mcp"
        assert "it has no public address" in str(fails(url, public_only=True))
        with engine_for(url) as engine:
            assert ask(engine, 1).json == 1


@pytest.mark.fault("F20")
def test_connecting_takes_no_longer_than_its_own_timeout(full):
    begun = monotonic()
    error = fails(full, connect_timeout=0.2)
    assert 0.2 <= monotonic() - begun < 10, "not the thirty seconds of the call"
    assert "connecting took longer than 0.2 s" in str(error)
    assert error.errno == errno.ETIMEDOUT


@pytest.mark.fault("F20")
def test_resolving_takes_no_longer_than_that_either(monkeypatch):
    resolved = threading.Event()

    def resolve(host, *_, **options):
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "no number")
        assert resolved.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    error = fails("http://slow.invalid/mcp", connect_timeout=0.1)
    assert "resolving the name took longer than 0.1 s" in str(error)
    resolved.set()


@pytest.mark.fault("F20")
def test_the_handshake_takes_no_longer_than_that_either(silent):
    error = fails(silent, connect_timeout=0.1)
    assert "the TLS handshake took longer than 0.1 s" in str(error)


def test_the_deadline_of_the_call_counts_as_well(full):
    with (
        engine_for(full, connect_timeout=None) as engine,
        pytest.raises(RequestTimeout),
    ):
        ask(engine, timeout=0.1)


@pytest.mark.parametrize("where", ["full", "silent"])
def test_an_abort_ends_connecting(request, where):
    with engine_for(request.getfixturevalue(where)) as engine:
        answer = Answer()
        doing = Doing(lambda: ask(engine, answer=answer))
        while not engine.abort(answer, ABORTED):
            assert doing.error is None
        with pytest.raises(RemoteProtocolError, match="aborted by the test"):
            doing.result()


def test_closing_ends_connecting(full):
    with engine_for(full) as engine:
        doing = Doing(lambda: ask(engine))
        while not engine._running:
            assert doing.error is None
        engine.close()
        with pytest.raises(ConnectionClosed, match="closed by this side") as caught:
            doing.result()
        assert not caught.value.sent


def addresses(*ports):
    """A resolver that knows every name under those addresses."""

    def resolve(host, port, *_, **options):
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "no number")
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", number))
            for number in ports
        ]

    return resolve


def test_an_address_that_is_silent_holds_the_next_one_up_for_a_moment(
    monkeypatch, full
):
    hung = int(full.split(":")[2].split("/")[0])
    with raw_server(echo) as server:
        monkeypatch.setattr(socket, "getaddrinfo", addresses(hung, server.port))
        begun = monotonic()
        with engine_for("http://two.invalid/mcp", connect_timeout=60) as engine:
            assert ask(engine, 1).json == 1
        assert 0.25 <= monotonic() - begun < 10


def test_an_address_that_refuses_does_not_hold_the_next_one_up(monkeypatch, unused):
    monkeypatch.setattr(connecting_module, "HEAD_START_S", 30.0)
    with raw_server(echo) as server:
        ports = (unused(), unused(), server.port)
        monkeypatch.setattr(socket, "getaddrinfo", addresses(*ports))
        with engine_for("http://three.invalid/mcp") as engine:
            assert ask(engine, 1).json == 1


def test_the_faster_of_two_addresses_wins_and_the_other_is_given_up(monkeypatch):
    monkeypatch.setattr(connecting_module, "HEAD_START_S", 0.0)
    with raw_server(echo) as server:
        monkeypatch.setattr(socket, "getaddrinfo", addresses(*[server.port] * 2))
        with engine_for("http://twice.invalid/mcp") as engine:
            assert ask(engine, 1).json == 1
            server.wait_until(lambda: len(server.open) == 1)


@pytest.mark.parametrize("ports", [0, 2])
def test_where_no_address_works_it_says_so_once(monkeypatch, ports, unused):
    found = [unused() for _ in range(ports)]
    monkeypatch.setattr(socket, "getaddrinfo", addresses(*found))
    error = fails("http://none.invalid/mcp")
    assert str(error) == "cannot connect to 'none.invalid': " + (
        "Connection refused" if ports else "it has no address"
    )


def test_small_requests_leave_at_once_and_dead_peers_are_noticed():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine, 1)
        sock = engine._idle[0].socket
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


# Over TLS...


def serving(cert=None, *, asks=False, newest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (cert or AUTHORITY.issue_cert(*NAMES)).configure_cert(context)
    if asks:
        AUTHORITY.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    if newest is not None:
        context.maximum_version = newest
    return context


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    return context


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_exchanges_over_tls_share_a_connection(newest):
    with (
        raw_server(echo, ssl_context=serving(newest=newest)) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        for number in range(20):
            assert ask(engine, number).json == number
        body = b'"' + b"x" * 3_000_000 + b'"'
        assert ask(engine, body=body).body == body
        assert ask(engine, "last").json == "last"
        assert server.connections == 1


def test_a_name_is_asked_for_without_the_dot_at_its_end(monkeypatch):
    context = serving(AUTHORITY.issue_cert("server.example"))
    with raw_server(echo, ssl_context=context) as server:
        monkeypatch.setattr(socket, "getaddrinfo", addresses(server.port))
        with engine_for("https://server.example./mcp", ssl=trusting()) as engine:
            assert ask(engine, 1).json == 1


@pytest.mark.fault("F19")
@pytest.mark.pain("P28")
@pytest.mark.parametrize(
    ("cert", "says"),
    [
        (
            AUTHORITY.issue_cert("other.example"),
            "IP address mismatch, certificate is not valid for '127.0.0.1'",
        ),
        (
            AUTHORITY.issue_cert(
                *NAMES, not_before=PAST - dt.timedelta(30), not_after=PAST
            ),
            "certificate has expired",
        ),
        (trustme.CA().issue_cert(*NAMES), "unable to get local issuer certificate"),
    ],
)
def test_a_server_that_cannot_be_trusted_is_told_why(cert, says):
    with raw_server(echo, ssl_context=serving(cert)) as server:
        error = fails(server.url, ssl=trusting())
        assert str(error) == f"TLS: cannot trust '127.0.0.1:{server.port}': {says}"
        assert isinstance(error.__cause__, ssl.SSLCertVerificationError)
        assert not server.requests


@pytest.mark.fault("F19")
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_our_certificate_says_so(newest):
    context = serving(asks=True, newest=newest)
    with (
        raw_server(echo, ssl_context=context) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        with pytest.raises(ConnectError, match=r"wants? a client certificate"):
            ask(engine)
        assert not server.requests


def test_a_server_without_tls_is_recognised():
    with raw_server(lambda conn: conn.send(b"HTTP/1.1 400 Bad\r\n\r\n")) as server:
        url = server.url.replace("http:", "https:")
        error = fails(url, ssl=trusting())
        assert "the server seems to speak plain HTTP there" in str(error)


def test_a_server_that_ends_the_handshake_fails_it():
    def script(conn):
        conn.read_some()

    with raw_server(script) as server:
        error = fails(server.url.replace("http:", "https:"), ssl=trusting())
        assert "the server closed the connection" in str(error)


@pytest.mark.fault("F22")
@pytest.mark.parametrize("notify", [True, False])
def test_a_body_up_to_the_end_needs_the_goodbye_of_tls(notify):
    """RFC 9112 section 9.8: without a closure alert it may have been cut short."""

    def script(conn):
        conn.receive()
        conn.send(head(200) + b"abc")
        conn.close(notify=notify)

    with (
        raw_server(script, ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        if notify:
            assert ask(engine).body == b"abc"
        else:
            with pytest.raises(ConnectionClosed, match="within the body"):
                ask(engine)


@pytest.mark.parametrize("notify", [True, False])
def test_a_tls_connection_that_ended_while_idle_is_replaced(notify):
    def script(conn):
        conn.send(json_reply(conn.receive().json))
        conn.close(notify=notify)

    with (
        raw_server(script, ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        for number in range(5):
            assert ask(engine, number).json == number
            assert engine._idle[0]._poll(30_000)
            # The goodbye is readable before the end is: neither may be a surprise.
            server.wait_until(lambda: not server.open)
        assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("outcome", "connections"),
    [(ssl.SSLWantReadError(2, "no data of the server's program"), 1), (b"unasked", 2)],
)
def test_tls_may_talk_to_itself_while_a_connection_is_idle(outcome, connections):
    def receive(buffer, size, flags):
        connection._receive, connection._poll = real
        if isinstance(outcome, OSError):
            raise outcome
        return len(outcome)

    with (
        raw_server(echo, ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        ask(engine)
        connection = engine._idle[0]
        real = connection._receive, connection._poll
        connection._receive, connection._poll = receive, lambda _: [(0, 1)]
        assert ask(engine, 1).json == 1
        assert server.connections == connections


@pytest.mark.parametrize("end", ["goodbye", "FIN", "RST"])
def test_a_server_that_dies_on_a_request_over_tls_gets_it_once(end):
    """Whether or not its system still acknowledges what it got."""

    def script(conn):
        conn.receive()
        if end == "RST":
            conn.reset()
        else:
            conn.close(notify=end == "goodbye")

    with raw_server(script, ssl_context=serving()) as server:
        for number in range(1, 31):
            with engine_for(server.url, ssl=trusting()) as engine:
                with pytest.raises(ConnectionClosed, match="before the resp") as caught:
                    ask(engine)
                assert caught.value.sent
                assert len(server.requests) == server.connections == number


def test_a_request_that_only_met_the_end_over_tls_is_sent_again():
    closed, closing = threading.Event(), threading.Event()

    def script(conn):
        conn.send(json_reply(conn.receive().json))
        if conn.number == 1:
            conn.wait_for(closing)
            conn.half_close()
            closed.set()
            assert conn.wait_closed()

    def close_now(data, flags):
        closing.set()
        assert closed.wait(30)
        first._poll(30_000)
        return len(data)  # as if it were on its way: no byte arrives

    with (
        raw_server(script, ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        ask(engine, "first")
        first = engine._idle[0]
        first._send = close_now
        assert ask(engine, "second").json == "second"
        assert server.connections == 2


def test_an_abort_ends_an_exchange_over_tls_at_once():
    def script(conn):
        conn.receive()
        assert conn.wait_closed()

    with (
        raw_server(script, ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        for number in range(1, 21):
            answer = Answer()
            doing = Doing(lambda answer=answer: ask(engine, answer=answer))
            server.wait_until(lambda n=number: len(server.requests) == n)
            begun = monotonic()
            assert engine.abort(answer, ABORTED)
            with pytest.raises(RemoteProtocolError, match="aborted by the test"):
                doing.result()
            assert monotonic() - begun < 10, "nor the thirty of anybody"
        server.wait_until(lambda: not server.open)


def test_a_large_body_over_tls_is_answered_before_it_is_read():
    def script(conn):
        conn.read_some()
        conn.send(json_reply("no", status=413))
        assert conn.wait_closed()

    with (
        raw_server(script, ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
    ):
        assert ask(engine, body=b"x" * 30_000_000).status == 413


def test_a_deadline_counts_over_tls():
    with (
        raw_server(lambda conn: conn.wait_closed(), ssl_context=serving()) as server,
        engine_for(server.url, ssl=trusting()) as engine,
        pytest.raises(RequestTimeout),
    ):
        ask(engine, timeout=0.1)
