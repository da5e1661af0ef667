"""How authorization documents are fetched, and the possible results and errors."""

import asyncio
import ssl
import threading

import certificates
import httpx
import pytest
from engine_calls import Hours
from fake_network import BOUND_S, LOGIN_ADDRESS, SERVER_ADDRESS, Fetches
from fetches import (
    ANSWER,
    GET,
    HUSH,
    LOGIN,
    POST,
    REGISTER,
    SERVER,
    SHORT,
    SMALL,
    failure,
    local_server,
    login_server,
    named_context,
    sending,
    step,
    target,
)
from raw_server import raw_server, reply

import mcpwire
from mcpwire._package import __version__
from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    DiscoveryError,
    RegistrationError,
    TokenError,
    UrlRefused,
)
from mcpwire.errors import LocalProtocolError
from mcpwire.limits import Limits
from mcpwire.transports.oauth.fetch import Fetcher


def test_a_get_sends_only_the_needed_header_fields(internet):
    with local_server(internet) as server:
        answer = Fetches(target(server.url)).fetch(
            step(
                f"{server.origin}/x?a=%2Fb",
                headers=(("accept", "a/b"), ("mcp-protocol-version", "2025-06-18")),
            )
        )
    assert answer.status == 200
    assert answer.body == b'{"ok": true}'
    assert answer.fields == {"content-length": "12", "content-type": "application/json"}
    assert (
        server.requests[0].raw.lower()
        == (
            f"get /x?a=%2fb http/1.1\r\nhost: 127.0.0.1:{server.port}\r\n"
            f"user-agent: mcpwire/{__version__}\r\naccept: a/b\r\n"
            "accept-encoding: identity\r\nmcp-protocol-version: 2025-06-18\r\n\r\n"
        ).encode()
    )


@pytest.mark.parametrize(
    ("body", "kind_of_body", "expected"),
    [
        (
            {"form": (("a", "b c&=\u00e9"), ("a", "+"))},
            "application/x-www-form-urlencoded",
            b"a=b+c%26%3D%C3%A9&a=%2B",
        ),
        ({"document": {"a": ["b"]}}, "application/json", b'{"a":["b"]}'),
    ],
)
def test_a_post_sends_its_content_type(internet, body, kind_of_body, expected):
    with local_server(internet) as server:
        Fetches(target(server.url)).fetch(step(f"{server.origin}/x", **body))
    request = server.requests[0]
    assert (request.verb, request.target) == ("POST", "/x")
    assert request.headers["content-type"] == kind_of_body
    assert request.headers["accept"] == "application/json"
    assert request.body == expected


@pytest.mark.fault("F38")
@pytest.mark.case("G06")
@pytest.mark.parametrize(
    "sent",
    [
        reply(200, b"<html>", content_type="text/html"),
        reply(404, b"no"),
        reply(500, b"{}", retry_after=3),
        reply(429),
        reply(204),
        reply(304),
        reply(200, b"\x00\xff"),
    ],
)
def test_any_status_and_any_body_is_returned(internet, sent):
    with local_server(internet, sending(sent)) as server:
        answer = Fetches(target(server.url)).fetch(step(f"{server.origin}/x"))
    head, _, body = sent.partition(b"\r\n\r\n")
    assert answer.status == int(head.split(b" ")[1])
    assert answer.body == body


def test_connections_and_cookies_are_not_reused(internet):
    script = sending(reply(200, b"{}", set_cookie="a=b; Path=/"))
    with local_server(internet, script) as server:
        fetches = Fetches(target(server.url))
        for _ in range(2):
            fetches.fetch(step(f"{server.origin}/x"))
    assert [request.connection for request in server.requests] == [1, 2]
    assert "cookie" not in server.requests[1].headers


def test_the_http_client_of_the_user_is_not_used(internet):
    def add(request):
        request.headers["authorization"] = HUSH

    with (
        local_server(internet) as server,
        httpx.Client(auth=("user", HUSH), event_hooks={"request": [add]}) as client,
    ):
        fetches = Fetches(target(server.url, http_client=client))
        fetches.fetch(step(f"{server.origin}/x"))
    assert "authorization" not in server.requests[0].headers


def test_an_invalid_header_value_raises_a_protocol_error(internet):
    with local_server(internet) as server:
        fetches = Fetches(target(server.url))
        request = step(f"{server.origin}/x", headers=(("dpop", f"{HUSH}\r\nx: y"),))
        failure(fetches, request, LocalProtocolError)
    assert server.connections == 0


TYPES = [
    pytest.param(GET, DiscoveryError, id="get"),
    pytest.param(POST, TokenError, id="form"),
    pytest.param(REGISTER, RegistrationError, id="json"),
]


@pytest.mark.system("U52")
@pytest.mark.fault("F38")
@pytest.mark.case("G06")
@pytest.mark.attack("S05")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("options", "expected"), TYPES)
def test_an_oversized_document_is_refused(internet, options, expected, is_chunked):
    body = b"x" * 1_001
    sent = reply(200, body)
    if is_chunked:  # and it has no end
        sent = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n" + body
    with local_server(internet, sending(sent)) as server:
        error = failure(
            Fetches(target(server.url), SMALL),
            step(f"{server.origin}/x?code={HUSH}", **options),
            expected,
        )
    assert str(error) == (
        f"the answer of the token endpoint at '{server.origin}/x?***' is over the "
        "limit of 1000 bytes"
    )


@pytest.mark.fault("F38")
def test_a_document_of_exactly_the_limit_is_accepted(internet):
    with local_server(internet, sending(reply(200, b"x" * 1_000))) as server:
        fetches = Fetches(target(server.url), SMALL)
        assert len(fetches.fetch(step(f"{server.origin}/x")).body) == 1_000


@pytest.mark.fault("F38")
@pytest.mark.case("G06")
@pytest.mark.parametrize("size", [1_001, 1_000_000])
def test_an_oversized_error_body_is_truncated(internet, size):
    with local_server(internet, sending(reply(404, b"x" * size))) as server:
        answer = Fetches(target(server.url), SMALL).fetch(step(f"{server.origin}/"))
    assert answer.status == 404
    assert len(answer.body) == 1_000


@pytest.mark.fault("F38")
@pytest.mark.parametrize(("options", "expected"), TYPES)
@pytest.mark.parametrize(
    "sent",
    [
        b"hush-hush no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nhush-hush\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-encoding: gzip\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
    ids=["no head", "no field", "encoded", "large head"],
)
def test_an_unreadable_response_raises_a_typed_error(internet, sent, options, expected):
    with local_server(internet, sending(sent)) as server:
        error = failure(
            Fetches(target(server.url)),
            step(f"{server.origin}/x?code={HUSH}", **options),
            expected,
        )
    assert "cannot be used" in str(error)


@pytest.mark.fault("F38")
@pytest.mark.parametrize("options", [GET, POST], ids=["get", "form"])
@pytest.mark.parametrize(
    "sent",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"],
)
def test_a_truncated_response_is_a_temporary_error(internet, sent, options):
    def script(conn):
        conn.receive()
        conn.send(sent)

    with local_server(internet, script) as server:
        error = failure(
            Fetches(target(server.url)),
            step(f"{server.origin}/x?code={HUSH}", **options),
            AuthTemporarilyUnavailable,
        )
    assert error.status is None
    assert "did not answer" in str(error)


def slow_body(conn):
    conn.receive()
    conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    for _ in range(100):
        conn.send(b"x")
        conn.wait(0.05)


def silent(conn):
    conn.receive()
    conn.wait(BOUND_S)


@pytest.mark.fault("F38")
@pytest.mark.case("G06")
@pytest.mark.attack("S05")
@pytest.mark.parametrize("script", [silent, slow_body])
def test_the_timeout_covers_the_whole_fetch(internet, script):
    with local_server(internet, script) as server:
        error = failure(
            Fetches(target(server.url), SHORT),
            step(f"{server.origin}/x?code={HUSH}", **POST),
            AuthTemporarilyUnavailable,
        )
    assert str(error) == (
        f"the token endpoint at '{server.origin}/x?***' did not answer within 0.4 s"
    )


@pytest.mark.fault("F38")
def test_the_timeout_covers_name_resolution(internet, monkeypatch):
    internet.names[LOGIN] = [[LOGIN_ADDRESS]]
    internet.is_slow.set()
    fetches = Fetches(target(), SHORT)
    fetch = fetches.fetcher.fetch

    async def given_up(request):
        try:
            return await fetch(request)
        finally:  # the loop waits for its resolver's thread where it ends
            internet.goes_on.set()

    monkeypatch.setattr(fetches.fetcher, "fetch", given_up)
    failure(fetches, step(f"https://{LOGIN}/x"), AuthTemporarilyUnavailable)
    assert internet.connects == []


@pytest.mark.fault("F38")
def test_redirects_share_the_timeout_of_one_fetch(internet, monkeypatch):
    hours = Hours(monkeypatch)

    def script(conn):
        conn.receive()
        hours.pass_by(15.0)
        conn.send(reply(302, location="/again"))

    with local_server(internet, script) as server:
        failure(
            Fetches(target(server.url), Limits(oauth_timeout=25.0)),
            step(f"{server.origin}/x", **GET),
            AuthTemporarilyUnavailable,
        )
    assert len(server.requests) == 2


def test_the_client_certificate_is_sent_to_the_server_host_only(internet, tmp_path):
    authority, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    certificates.AUTHORITY.cert_pem.write_to_path(authority)
    certificates.SERVERS["good"].private_key_and_cert_chain_pem.write_to_path(own)
    context = named_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    certificates.AUTHORITY.configure_trust(context)
    shown = {}

    def script(conn):
        while (request := conn.receive(timeout=None)) is not None:
            shown[request.headers["host"]] = conn.sock.getpeercert()
            conn.send(ANSWER)

    internet.names |= {SERVER: [[SERVER_ADDRESS]], LOGIN: [[LOGIN_ADDRESS]]}
    with raw_server(script, ssl_context=context) as server:
        internet.hosts = {SERVER_ADDRESS: server.port, LOGIN_ADDRESS: server.port}
        fetches = Fetches(
            mcpwire.Http(
                f"https://{SERVER}/mcp", ca_file=authority, client_cert=str(own)
            )
        )
        for host in (SERVER, LOGIN, SERVER):
            fetches.fetch(step(f"https://{host}/x"))
    assert shown[SERVER]
    assert shown[LOGIN] in (None, {})


def test_a_missing_ca_file_is_named_in_the_error(internet, tmp_path):
    authority = tmp_path / "ca.pem"
    certificates.AUTHORITY.cert_pem.write_to_path(authority)
    http = mcpwire.Http(f"https://{SERVER}/mcp", ca_file=authority)
    authority.unlink()
    request = step(f"https://{SERVER}/x")
    error = failure(Fetches(http), request, (AuthTemporarilyUnavailable, ValueError))
    assert "ca_file" in str(error)


@pytest.mark.attack("S05")
@pytest.mark.parametrize("is_given", [True, False])
def test_a_proxy_resolves_names_and_address_literals_are_refused(
    internet, monkeypatch, is_given
):
    def script(conn):
        conn.receive()
        conn.send(ANSWER)

    internet.names[SERVER] = [["10.0.0.1"]]
    with local_server(internet, script) as proxy:
        options = {"proxy": proxy.origin} if is_given else {}
        if not is_given:
            monkeypatch.setenv("http_proxy", proxy.origin)
            monkeypatch.setenv("https_proxy", proxy.origin)
        there = target(f"http://{SERVER}/mcp", allow_insecure=True, **options)
        fetches = Fetches(there)
        assert fetches.fetch(step(f"http://{LOGIN}/x?y")).status == 200
        for inside in ("10.0.0.1", "169.254.169.254", "[fd00::1]", "100.64.0.1"):
            failure(fetches, step(f"https://{inside}/x"), UrlRefused)
    assert proxy.requests[0].target == f"http://{LOGIN}/x?y"
    assert proxy.requests[0].headers["host"] == LOGIN
    assert internet.asked == []
    assert internet.connects == ["127.0.0.1"]


@pytest.mark.fault("F39")
def test_a_cancelled_fetch_closes_its_connection():
    closed = threading.Event()

    def script(conn):
        conn.receive()
        if conn.wait_closed():
            closed.set()

    async def main(server):
        fetcher = Fetcher(target(server.url), Limits())
        task = asyncio.create_task(fetcher.fetch(step(f"{server.origin}/x")))
        await asyncio.to_thread(server.wait_until, lambda: server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with raw_server(script) as server:
        asyncio.run(main(server))
        assert closed.wait(BOUND_S)


@pytest.mark.fault("F39")
def test_a_fetch_can_be_cancelled_at_any_loop_iteration(internet):
    async def main(shown):
        for turns in range(40):
            fetcher = Fetcher(shown, Limits())
            task = asyncio.create_task(
                fetcher.fetch(step(f"https://{LOGIN}/x", **POST))
            )
            for _ in range(turns):
                await asyncio.sleep(0)  # one turn
            task.cancel()
            if not (await asyncio.wait([task], timeout=BOUND_S))[0]:
                pytest.fail(f"cancelled after {turns} turns it goes on")
            # The same fetcher stays usable.
            if not turns % 10:
                request = step(f"https://{LOGIN}/x", **POST)
                assert (await fetcher.fetch(request)).status == 200

    with login_server(internet) as server:
        asyncio.run(main(target()))
        server.wait_until(lambda: not server.open)
