"""How documents of authorization are fetched: from where, and what may come of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import traceback

import certificates
import httpx
import pytest
from net import BOUND_S, LOGIN_ADDRESS, SERVER_ADDRESS, Shell
from raw_server import json_reply, raw_server, reply

import mcpwire
from mcpwire._version import __version__
from mcpwire.auth.config import EnterpriseManaged, OAuth
from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    DiscoveryError,
    RegistrationError,
    TokenError,
    UrlRefused,
)
from mcpwire.auth.steps import Fetch
from mcpwire.errors import LocalProtocolError
from mcpwire.limits import Limits
from mcpwire.sync._oauth.fetching import BlockingFetcher
from mcpwire.transports.oauth.fetching import Fetcher

HUSH = "hush-hush"
SERVER = "mcp.example"
LOGIN = "login.example"
NAMED = certificates.AUTHORITY.issue_cert(SERVER, LOGIN)
ANSWER = json_reply({"ok": True})
SHORT = Limits(oauth_timeout=0.4)
SMALL = Limits(oauth_document=1_000)

INSIDE = (
    "127.0.0.1",
    "::1",
    "::ffff:127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "fd00:ec2::254",
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "100.64.0.1",
    "168.63.129.16",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "192.0.2.1",
)
SPELLED = (
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "0",
    "2852039166",
    "0xA9.0xFE.0xA9.0xFE",
    "[::1]",
    "[::ffff:a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "localhost",
    "a.localhost.",
    "10.1",
    "100.100.100.200",
)
# What is asked for, and with what body.
FIELDS = {
    "the resource metadata": {"may_redirect": True},
    "the authorization server's metadata": {"may_redirect": True},
    "the token endpoint": {"form": (("refresh_token", HUSH),)},
    "the registration endpoint": {"document": {"client_name": HUSH}},
    "the revocation endpoint": {"form": (("token", HUSH),)},
}
GET = {"may_redirect": True}
POST = {"form": (("refresh_token", HUSH),)}
REGISTER = {"document": {"client_name": HUSH}}


def step(url, **options):
    return Fetch("the token endpoint", url, **options)


def serve(conn):
    while conn.receive(timeout=None) is not None:
        conn.send(ANSWER)


def sending(data):
    def script(conn):
        while conn.receive(timeout=None) is not None:
            conn.send(data)

    return script


def named_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    NAMED.configure_cert(context)
    return context


def target(url=f"https://{SERVER}/mcp", **options):
    if url.startswith("https:"):
        options.setdefault("ssl", certificates.client_context())
    return mcpwire.Http(url, **options)


@contextlib.contextmanager
def login_server(internet, script=serve):
    """Serve both names, each at an address of its own."""
    internet.names |= {SERVER: [[SERVER_ADDRESS]], LOGIN: [[LOGIN_ADDRESS]]}
    with raw_server(script, ssl_context=named_context()) as server:
        internet.hosts = {SERVER_ADDRESS: server.port, LOGIN_ADDRESS: server.port}
        yield server


@contextlib.contextmanager
def local_server(internet, script=serve, **options):
    """Serve on this machine, where http will do."""
    with raw_server(script, **options) as server:
        internet.hosts["127.0.0.1"] = server.port
        yield server


def failure(shell, wanted, expected):
    with pytest.raises(expected) as caught:
        shell.fetch(wanted)
    assert HUSH not in "".join(traceback.format_exception_only(caught.value))
    # The lines of this very test would be in a whole one.
    chain = caught.value
    while chain is not None:
        assert HUSH not in str(chain) + repr(chain)
        chain = chain.__cause__
    return caught.value


# --- requests and answers ---------------------------------------------------------


def test_a_document_is_asked_for_with_what_it_takes_and_no_more(kind, internet):
    with local_server(internet) as server:
        answer = Shell(kind, target(server.url)).fetch(
            step(
                f"{server.origin}/x?a=%2Fb",
                headers=(("accept", "a/b"), ("mcp-protocol-version", "2025-06-18")),
            )
        )
    assert answer.status == 200
    assert answer.body == b'{"ok": true}'
    assert answer.fields == {
        "content-length": "12",
        "content-type": "application/json",
    }
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
def test_what_is_posted_says_what_it_is(kind, internet, body, kind_of_body, expected):
    with local_server(internet) as server:
        Shell(kind, target(server.url)).fetch(step(f"{server.origin}/x", **body))
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
def test_any_status_and_any_body_is_an_answer(kind, internet, sent):
    with local_server(internet, sending(sent)) as server:
        answer = Shell(kind, target(server.url)).fetch(step(f"{server.origin}/x"))
    head, _, body = sent.partition(b"\r\n\r\n")
    assert answer.status == int(head.split(b" ")[1])
    assert answer.body == body


def test_nothing_is_kept_between_two_requests(kind, internet):
    script = sending(reply(200, b"{}", set_cookie="a=b; Path=/"))
    with local_server(internet, script) as server:
        shell = Shell(kind, target(server.url))
        for _ in range(2):
            shell.fetch(step(f"{server.origin}/x"))
    assert [request.connection for request in server.requests] == [1, 2]
    assert "cookie" not in server.requests[1].headers


def test_the_users_own_client_is_not_asked(kind, internet):
    def add(request):
        request.headers["authorization"] = HUSH

    with (
        local_server(internet) as server,
        httpx.Client(auth=("user", HUSH), event_hooks={"request": [add]}) as client,
    ):
        shell = Shell(kind, target(server.url, http_client=client))
        shell.fetch(step(f"{server.origin}/x"))
    assert "authorization" not in server.requests[0].headers


def test_a_header_that_is_none_is_a_mistake_of_ours(kind, internet):
    with local_server(internet) as server:
        shell = Shell(kind, target(server.url))
        wanted = step(f"{server.origin}/x", headers=(("dpop", f"{HUSH}\r\nx: y"),))
        failure(shell, wanted, LocalProtocolError)
    assert server.connections == 0


# --- to the address that was checked ----------------------------------------------


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-04")
def test_the_connection_goes_to_the_checked_address_in_the_hosts_name(kind, internet):
    with login_server(internet) as server:
        answer = Shell(kind, target()).fetch(step(f"https://{LOGIN}/token", **POST))
    assert answer.status == 200
    assert internet.asked == [LOGIN]
    assert internet.connects == [LOGIN_ADDRESS]
    assert server.requests[0].headers["host"] == LOGIN
    assert not server.handshake_errors


@pytest.mark.attack("S05")
def test_the_certificate_must_be_the_names(kind, internet):
    with login_server(internet) as server:
        internet.names["other.example"] = [[LOGIN_ADDRESS]]
        error = failure(
            Shell(kind, target()),
            step("https://other.example/token?code=hush-hush", **POST),
            AuthTemporarilyUnavailable,
        )
    assert "TLS: cannot trust 'other.example'" in str(error)
    assert server.requests == []


@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("what", FIELDS)
def test_nobody_connects_to_what_is_inside_whatever_names_lead_there(
    kind, internet, what
):
    internet.names[SERVER] = [[SERVER_ADDRESS]]
    shell = Shell(kind, target())
    for number, address in enumerate(INSIDE):
        host = f"a{number}.example"
        internet.names[host] = [[address]]
        wanted = Fetch(what, f"https://{host}/x?code={HUSH}", **FIELDS[what])
        error = failure(shell, wanted, UrlRefused)
        assert str(error).startswith(f"the host '{host}' of {what} is refused")
    assert internet.connects == []


@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("what", FIELDS)
def test_nobody_connects_to_what_is_inside_however_it_is_spelled(kind, internet, what):
    internet.names[SERVER] = [[SERVER_ADDRESS]]
    shell = Shell(kind, target())
    addresses = [f"[{each}]" if ":" in each else each for each in INSIDE]
    for host in (*SPELLED, *addresses):
        for scheme in ("https", "http"):
            wanted = Fetch(what, f"{scheme}://{host}/x?code={HUSH}", **FIELDS[what])
            failure(shell, wanted, UrlRefused)
    assert internet.connects == []


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-04")
@pytest.mark.parametrize("host", [SERVER, LOGIN])
@pytest.mark.parametrize("later", ["10.0.0.1", "127.0.0.1", "169.254.169.254"])
def test_a_name_that_leads_inside_a_moment_later_gets_nobody_there(
    kind, internet, host, later
):
    with login_server(internet):
        public = SERVER_ADDRESS if host == SERVER else LOGIN_ADDRESS
        internet.names[host] = [[public], [later]]
        shell = Shell(kind, target())
        shell.fetch(step(f"https://{host}/token", **POST))
        assert internet.connects == [public]
        # The answer of before does not stand for the next question.
        failure(shell, step(f"https://{host}/token", **POST), UrlRefused)
    assert internet.connects == [public]


@pytest.mark.attack("S05")
def test_a_name_that_leads_inside_too_is_refused(kind, internet):
    with login_server(internet):
        internet.names[LOGIN] = [[LOGIN_ADDRESS, "10.0.0.1"]]
        failure(Shell(kind, target()), step(f"https://{LOGIN}/t", **POST), UrlRefused)
    assert internet.connects == []


@pytest.mark.attack("S05", "S30")
def test_a_loopback_name_that_leads_elsewhere_is_refused(kind, internet):
    internet.names["localhost"] = [[SERVER_ADDRESS]]
    shell = Shell(kind, target("http://localhost:8000/mcp"))
    failure(shell, step("http://localhost:9000/token", **POST), UrlRefused)
    assert internet.connects == []


def test_a_server_inside_may_have_its_login_there(kind, internet):
    with login_server(internet) as server:
        internet.names |= {SERVER: [["10.0.0.1"]], LOGIN: [["10.0.0.2"]]}
        internet.hosts = dict.fromkeys(["10.0.0.1", "10.0.0.2"], server.port)
        shell = Shell(kind, target())
        for host in (LOGIN, SERVER, LOGIN):
            assert shell.fetch(step(f"https://{host}/x")).status == 200
        assert internet.asked == [LOGIN, SERVER, SERVER, LOGIN]
        internet.names[LOGIN] = [["127.0.0.1"]]
        failure(shell, step(f"https://{LOGIN}/x"), UrlRefused)
    assert internet.connects == ["10.0.0.2", "10.0.0.1", "10.0.0.2"]


def test_what_a_server_without_a_name_here_is_in_is_no_network_of_ours(kind, internet):
    internet.names[LOGIN] = [["10.0.0.2"]]
    failure(Shell(kind, target()), step(f"https://{LOGIN}/x"), UrlRefused)
    assert internet.connects == []


def test_who_the_user_names_may_be_inside_and_nobody_else(kind, internet):
    grant = EnterpriseManaged(
        client_id="a",
        issuer="https://other.example",
        idp_client_id="b",
        idp_token_endpoint=f"https://{LOGIN}/idp",
        id_token=HUSH,
    )
    with login_server(internet) as server:
        internet.names[LOGIN] = [["10.0.0.2"]]
        internet.names["a.example"] = [["10.0.0.2"]]
        internet.hosts["10.0.0.2"] = server.port
        shell = Shell(kind, target(auth=grant))
        assert shell.fetch(step(f"https://{LOGIN}/idp", **POST)).status == 200
        failure(shell, step("https://a.example/x"), UrlRefused)
        failure(shell, step("https://10.0.0.2/x"), UrlRefused)
    assert internet.connects == ["10.0.0.2"]


def test_an_issuer_of_the_users_own_may_be_this_machine(kind, internet):
    with local_server(internet) as server:
        grant = OAuth(client_id="a", issuer=server.origin)
        shell = Shell(kind, target(auth=grant))
        assert shell.fetch(step(f"{server.origin}/token", **POST)).status == 200


# --- several addresses ------------------------------------------------------------


def test_the_next_address_is_tried_and_the_good_one_remembered(kind, internet):
    with login_server(internet) as server:
        internet.names[LOGIN] = [["151.101.1.70", "2a04:4e42::1", LOGIN_ADDRESS]]
        shell = Shell(kind, target())
        for _ in range(2):
            assert shell.fetch(step(f"https://{LOGIN}/x", **POST)).status == 200
    assert internet.connects == [
        *("151.101.1.70", "2a04:4e42::1", LOGIN_ADDRESS),
        LOGIN_ADDRESS,
    ]
    assert len(server.requests) == 2


def test_without_any_that_answers_the_last_failure_is_told(kind, internet):
    internet.names[LOGIN] = [["151.101.1.70", "151.101.1.71"]]
    error = failure(
        Shell(kind, target()),
        step(f"https://{LOGIN}/token?x={HUSH}", **POST),
        AuthTemporarilyUnavailable,
    )
    assert str(error) == (
        f"the token endpoint at 'https://{LOGIN}/token?***' gives no answer: cannot "
        f"connect to '{LOGIN}': Connection refused"
    )
    assert len(internet.connects) == 2


@pytest.mark.parametrize("addresses", [None, []])
def test_a_name_without_addresses_gives_no_answer(kind, internet, addresses):
    if addresses is not None:
        internet.names[LOGIN] = [addresses]
    error = failure(
        Shell(kind, target()), step(f"https://{LOGIN}/x"), AuthTemporarilyUnavailable
    )
    assert f"'{LOGIN}'" in str(error)


# --- redirects --------------------------------------------------------------------

STATUSES = (301, 302, 303, 307, 308)
ELSEWHERE = {
    "other port": "http://127.0.0.1:{other}/stolen",
    "other host": "http://localhost:{other}/stolen",
    "other scheme": "https://127.0.0.1:{port}/stolen",
    "inside": "http://169.254.169.254/stolen",
    "userinfo": "http://127.0.0.1:{port}@127.0.0.1:{other}/stolen",
    "relative to the scheme": "//127.0.0.1:{other}/stolen",
    "fragment": "/stolen#x",
    "no URL": "http://[/stolen",
}


@pytest.mark.attack("S02")
@pytest.mark.case("G06")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("options", [GET, POST, REGISTER], ids=["get", "form", "json"])
def test_no_redirect_leads_away(kind, internet, status, options):
    places = iter(ELSEWHERE.values())

    def script(conn):
        conn.receive()
        place = next(places).format(other=other.port, port=server.port)
        conn.send(reply(status, location=place))

    with raw_server(serve) as other, raw_server(script) as server:
        internet.hosts["127.0.0.1"] = server.port
        shell = Shell(kind, target(server.url))
        for place in ELSEWHERE.values():
            wanted = step(f"{server.origin}/token?x={HUSH}", **options)
            if options is GET:
                assert shell.fetch(wanted).status == status
                continue
            error = failure(shell, wanted, UrlRefused)
            where = place.format(other=other.port, port=server.port)
            assert where.rpartition("@")[2].partition("#")[0] in str(error)
    assert len(server.requests) == len(internet.connects) == len(ELSEWHERE)
    assert (other.connections, other.requests) == (0, [])
    assert "/stolen" not in {request.target for request in server.requests}


@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("options", [POST, REGISTER], ids=["form", "json"])
def test_what_holds_credentials_is_not_redirected_even_at_home(
    kind, internet, status, options
):
    moved = sending(reply(status, location=f"/there?x={HUSH}"))
    with local_server(internet, moved) as server:
        error = failure(
            Shell(kind, target(server.url)),
            step(f"{server.origin}/token", **options),
            UrlRefused,
        )
    assert error.url == "/there?***"
    assert error.rule == "a request with credentials is never redirected"
    assert len(server.requests) == 1


@pytest.mark.case("G06")
@pytest.mark.rule("SEC-05")
@pytest.mark.parametrize("status", STATUSES)
def test_metadata_may_be_elsewhere_at_its_origin(kind, internet, status):
    def script(conn):
        while (request := conn.receive(timeout=None)) is not None:
            hop = int(request.target[1:])
            conn.send(ANSWER if hop == 3 else reply(status, location=f"/{hop + 1}"))

    with local_server(internet, script) as server:
        shell = Shell(kind, target(server.url))
        assert shell.fetch(step(f"{server.origin}/0", **GET)).status == 200
        assert [each.target for each in server.requests] == ["/0", "/1", "/2", "/3"]
        assert {each.verb for each in server.requests} == {"GET"}
        # One more is too many, and whoever asked says whether any is welcome.
        assert shell.fetch(step(f"{server.origin}/-1", **GET)).status == status
        assert shell.fetch(step(f"{server.origin}/2")).status == status
    assert len(server.requests) == 9


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-05")
def test_the_addresses_are_checked_at_each_hop(kind, internet):
    with login_server(internet, sending(reply(302, location="/there"))) as server:
        internet.names[LOGIN] = [[LOGIN_ADDRESS], ["169.254.169.254"]]
        failure(Shell(kind, target()), step(f"https://{LOGIN}/x", **GET), UrlRefused)
    assert len(server.requests) == 1
    assert internet.connects == [LOGIN_ADDRESS]


def test_a_redirect_to_nowhere_is_an_answer(kind, internet):
    with local_server(internet, sending(reply(302))) as server:
        shell = Shell(kind, target(server.url))
        for options in (GET, POST):
            wanted = step(f"{server.origin}/x", **options)
            assert shell.fetch(wanted).status == 302


# --- what may come of it ----------------------------------------------------------

TYPES = [
    pytest.param(GET, DiscoveryError, id="get"),
    pytest.param(POST, TokenError, id="form"),
    pytest.param(REGISTER, RegistrationError, id="json"),
]


@pytest.mark.fault("F38")
@pytest.mark.case("G06")
@pytest.mark.attack("S05")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("options", "expected"), TYPES)
def test_a_document_that_is_too_large_is_none(
    kind, internet, options, expected, is_chunked
):
    body = b"x" * 1_001
    sent = reply(200, body)
    if is_chunked:  # and it has no end
        sent = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n" + body
    with local_server(internet, sending(sent)) as server:
        error = failure(
            Shell(kind, target(server.url), SMALL),
            step(f"{server.origin}/x?code={HUSH}", **options),
            expected,
        )
    assert str(error) == (
        f"the answer of the token endpoint at '{server.origin}/x?***' is over the "
        "limit of 1000 bytes"
    )


@pytest.mark.fault("F38")
def test_a_document_may_be_as_large_as_that(kind, internet):
    with local_server(internet, sending(reply(200, b"x" * 1_000))) as server:
        shell = Shell(kind, target(server.url), SMALL)
        assert len(shell.fetch(step(f"{server.origin}/x")).body) == 1_000


@pytest.mark.fault("F38")
@pytest.mark.case("G06")
@pytest.mark.parametrize("size", [1_001, 1_000_000])
def test_of_a_refusal_that_is_too_large_only_the_beginning_is_read(
    kind, internet, size
):
    with local_server(internet, sending(reply(404, b"x" * size))) as server:
        answer = Shell(kind, target(server.url), SMALL).fetch(step(f"{server.origin}/"))
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
def test_an_answer_that_cannot_be_read_is_none(kind, internet, sent, options, expected):
    with local_server(internet, sending(sent)) as server:
        error = failure(
            Shell(kind, target(server.url)),
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
def test_a_connection_that_ends_early_gives_no_answer(kind, internet, sent, options):
    def script(conn):
        conn.receive()
        conn.send(sent)

    with local_server(internet, script) as server:
        error = failure(
            Shell(kind, target(server.url)),
            step(f"{server.origin}/x?code={HUSH}", **options),
            AuthTemporarilyUnavailable,
        )
    assert error.status is None
    assert "gives no answer" in str(error)


def dripping(conn):
    conn.receive()
    conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n")
    for _ in range(100):
        conn.send(b"x: y\r\n")
        conn.wait(0.05)


def dripping_body(conn):
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
@pytest.mark.parametrize("script", [silent, dripping, dripping_body])
def test_the_whole_of_a_fetch_takes_no_longer_than_it_may(kind, internet, script):
    with local_server(internet, script) as server:
        error = failure(
            Shell(kind, target(server.url), SHORT),
            step(f"{server.origin}/x?code={HUSH}", **POST),
            AuthTemporarilyUnavailable,
        )
    assert str(error) == (
        f"the token endpoint at '{server.origin}/x?***' did not answer within 0.4 s"
    )


@pytest.mark.fault("F38")
def test_a_slow_resolver_counts_too(kind, internet):
    internet.names[LOGIN] = [[LOGIN_ADDRESS]]
    internet.is_slow.set()
    # The loop waits for its resolver's thread where it ends.
    threading.Timer(0.8, internet.goes_on.set).start()
    failure(
        Shell(kind, target(), SHORT),
        step(f"https://{LOGIN}/x"),
        AuthTemporarilyUnavailable,
    )
    assert internet.connects == []


@pytest.mark.fault("F38")
def test_redirects_share_the_time_of_one_fetch(kind, internet):
    def script(conn):
        conn.receive()
        conn.wait(0.25)
        conn.send(reply(302, location="/again"))

    with local_server(internet, script) as server:
        failure(
            Shell(kind, target(server.url), SHORT),
            step(f"{server.origin}/x", **GET),
            AuthTemporarilyUnavailable,
        )
    assert len(server.requests) == 2


# --- TLS and proxies --------------------------------------------------------------


def test_our_certificate_is_for_the_servers_own_host(kind, internet, tmp_path):
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
        shell = Shell(
            kind,
            mcpwire.Http(
                f"https://{SERVER}/mcp", ca_file=authority, client_cert=str(own)
            ),
        )
        for host in (SERVER, LOGIN, SERVER):
            shell.fetch(step(f"https://{host}/x"))
    assert shown[SERVER]
    assert shown[LOGIN] in (None, {})


def test_a_file_of_tls_that_has_gone_gives_no_answer(kind, internet, tmp_path):
    authority = tmp_path / "ca.pem"
    certificates.AUTHORITY.cert_pem.write_to_path(authority)
    http = mcpwire.Http(f"https://{SERVER}/mcp", ca_file=authority)
    authority.unlink()
    wanted = step(f"https://{SERVER}/x")
    error = failure(Shell(kind, http), wanted, (AuthTemporarilyUnavailable, ValueError))
    assert "ca_file" in str(error)


@pytest.mark.attack("S05")
def test_through_a_proxy_names_are_the_proxys_and_literals_are_still_refused(
    kind, internet, monkeypatch
):
    def script(conn):
        conn.receive()
        conn.send(ANSWER)

    internet.names[SERVER] = [["10.0.0.1"]]
    with local_server(internet, script) as proxy:
        monkeypatch.setenv("http_proxy", proxy.origin)
        monkeypatch.setenv("https_proxy", proxy.origin)
        shell = Shell(kind, target(f"http://{SERVER}/mcp", allow_insecure=True))
        assert shell.fetch(step(f"http://{LOGIN}/x?y")).status == 200
        failure(shell, step("https://10.0.0.1/x"), UrlRefused)
    assert proxy.requests[0].target == f"http://{LOGIN}/x?y"
    assert proxy.requests[0].headers["host"] == LOGIN
    assert internet.asked == []
    assert internet.connects == ["127.0.0.1"]


# --- the end ----------------------------------------------------------------------


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
        await fetcher.aclose()

    with raw_server(script) as server:
        asyncio.run(main(server))
        assert closed.wait(BOUND_S)


@pytest.mark.fault("F39")
def test_closing_ends_a_fetch_in_another_thread():
    with raw_server(silent) as server:
        fetcher = BlockingFetcher(target(server.url), Limits())
        closer = threading.Thread(
            target=lambda: (server.wait_until(lambda: server.requests), fetcher.close())
        )
        closer.start()
        with pytest.raises(AuthTemporarilyUnavailable):
            fetcher.fetch(step(f"{server.origin}/x"))
        closer.join(BOUND_S)
        with pytest.raises(AuthTemporarilyUnavailable):
            fetcher.fetch(step(f"{server.origin}/x"))
    assert len(server.requests) == 1


@pytest.mark.fault("F39")
def test_closing_ends_a_wait_for_the_resolver(internet):
    internet.names[LOGIN] = [[LOGIN_ADDRESS]]
    internet.is_slow.set()
    fetcher = BlockingFetcher(target(), Limits())
    threading.Timer(0.1, fetcher.close).start()
    with pytest.raises(AuthTemporarilyUnavailable):
        fetcher.fetch(step(f"https://{LOGIN}/x"))
