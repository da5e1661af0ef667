"""Which hosts and addresses documents are fetched from, and which are refused."""

import pytest
from fake_network import LOGIN_ADDRESS, SERVER_ADDRESS, Fetches
from fetches import (
    ANSWER,
    GET,
    HUSH,
    LOGIN,
    POST,
    REGISTER,
    SERVER,
    failure,
    local_server,
    login_server,
    sending,
    serve,
    step,
    target,
)
from raw_server import raw_server, reply

from mcpwire.auth.config import EnterpriseManaged, OAuth
from mcpwire.auth.errors import AuthTemporarilyUnavailable, UrlRefused

# One of each kind; `UrlPolicy` defines the kinds.
INSIDE = (
    *("127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1", "fd00:ec2::254", "169.254.169.254"),
    *("64:ff9b::a9fe:a9fe", "100.64.0.1", "168.63.129.16", "0.0.0.0", "224.0.0.1"),
)


# --- to the address that was checked ----------------------------------------------


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-04")
def test_the_checked_address_is_used_with_the_host_name(internet):
    with login_server(internet) as server:
        answer = Fetches(target()).fetch(step(f"https://{LOGIN}/token", **POST))
    assert answer.status == 200
    assert internet.asked == [LOGIN]
    assert internet.connects == [LOGIN_ADDRESS]
    assert server.requests[0].headers["host"] == LOGIN
    assert not server.handshake_errors


@pytest.mark.attack("S05")
def test_the_certificate_must_match_the_host_name(internet):
    with login_server(internet) as server:
        internet.names["other.example"] = [[LOGIN_ADDRESS]]
        error = failure(
            Fetches(target()),
            step("https://other.example/token?code=hush-hush", **POST),
            AuthTemporarilyUnavailable,
        )
    assert "TLS: cannot trust 'other.example'" in str(error)
    assert server.requests == []


@pytest.mark.attack("S05")
@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("options", [GET, POST, REGISTER], ids=["get", "form", "json"])
def test_internal_names_and_addresses_are_refused(internet, options):
    internet.names[SERVER] = [[SERVER_ADDRESS]]
    fetches = Fetches(target())
    for number, address in enumerate(INSIDE):
        host = f"a{number}.example"
        internet.names[host] = [[address]]
        error = failure(
            fetches, step(f"https://{host}/x?code={HUSH}", **options), UrlRefused
        )
        assert str(error).startswith(f"the host '{host}' of the token endpoint is refu")
        literal = f"[{address}]" if ":" in address else address
        for scheme in ("https", "http"):
            request = step(f"{scheme}://{literal}/x?code={HUSH}", **options)
            failure(fetches, request, UrlRefused)
    assert internet.connects == []


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-04")
@pytest.mark.parametrize("host", [SERVER, LOGIN])
@pytest.mark.parametrize("later", ["10.0.0.1", "127.0.0.1", "169.254.169.254"])
def test_dns_rebinding_to_an_internal_address_is_refused(internet, host, later):
    with login_server(internet):
        public = SERVER_ADDRESS if host == SERVER else LOGIN_ADDRESS
        internet.names[host] = [[public], [later]]
        fetches = Fetches(target())
        fetches.fetch(step(f"https://{host}/token", **POST))
        assert internet.connects == [public]
        # An earlier resolution is not reused for the next request.
        failure(fetches, step(f"https://{host}/token", **POST), UrlRefused)
    assert internet.connects == [public]


@pytest.mark.attack("S05")
def test_a_name_with_one_internal_address_is_refused(internet):
    with login_server(internet):
        internet.names[LOGIN] = [[LOGIN_ADDRESS, "10.0.0.1"]]
        failure(Fetches(target()), step(f"https://{LOGIN}/t", **POST), UrlRefused)
    assert internet.connects == []


@pytest.mark.attack("S05", "S30")
def test_localhost_with_a_public_address_is_refused(internet):
    internet.names["localhost"] = [[SERVER_ADDRESS]]
    fetches = Fetches(target("http://localhost:8000/mcp"))
    failure(fetches, step("http://localhost:9000/token", **POST), UrlRefused)
    assert internet.connects == []


def test_an_internal_server_may_have_an_internal_login(internet):
    with login_server(internet) as server:
        internet.names |= {SERVER: [["10.0.0.1"]], LOGIN: [["10.0.0.2"]]}
        internet.hosts = dict.fromkeys(["10.0.0.1", "10.0.0.2"], server.port)
        fetches = Fetches(target())
        for host in (LOGIN, SERVER, LOGIN):
            assert fetches.fetch(step(f"https://{host}/x")).status == 200
        assert internet.asked == [LOGIN, SERVER, SERVER, LOGIN]
        internet.names[LOGIN] = [["127.0.0.1"]]
        failure(fetches, step(f"https://{LOGIN}/x"), UrlRefused)
    assert internet.connects == ["10.0.0.2", "10.0.0.1", "10.0.0.2"]


def test_an_unresolvable_server_allows_no_internal_login(internet):
    internet.names[LOGIN] = [["10.0.0.2"]]
    failure(Fetches(target()), step(f"https://{LOGIN}/x"), UrlRefused)
    assert internet.connects == []


def test_only_a_configured_host_may_be_internal(internet):
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
        fetches = Fetches(target(auth=grant))
        assert fetches.fetch(step(f"https://{LOGIN}/idp", **POST)).status == 200
        failure(fetches, step("https://a.example/x"), UrlRefused)
        failure(fetches, step("https://10.0.0.2/x"), UrlRefused)
    assert internet.connects == ["10.0.0.2"]


def test_a_configured_issuer_may_be_loopback(internet):
    with local_server(internet) as server:
        grant = OAuth(client_id="a", issuer=server.origin)
        fetches = Fetches(target(auth=grant))
        assert fetches.fetch(step(f"{server.origin}/token", **POST)).status == 200


# --- several addresses ------------------------------------------------------------


def test_the_working_address_is_remembered(internet):
    with login_server(internet) as server:
        internet.names[LOGIN] = [["151.101.1.70", "2a04:4e42::1", LOGIN_ADDRESS]]
        fetches = Fetches(target())
        for _ in range(2):
            assert fetches.fetch(step(f"https://{LOGIN}/x", **POST)).status == 200
    assert internet.connects == [
        *("151.101.1.70", "2a04:4e42::1", LOGIN_ADDRESS),
        LOGIN_ADDRESS,
    ]
    assert len(server.requests) == 2


def test_the_error_names_the_failure_of_the_last_address(internet):
    internet.names[LOGIN] = [["151.101.1.70", "151.101.1.71"]]
    error = failure(
        Fetches(target()),
        step(f"https://{LOGIN}/token?x={HUSH}", **POST),
        AuthTemporarilyUnavailable,
    )
    assert str(error) == (
        f"the token endpoint at 'https://{LOGIN}/token?***' did not answer: cannot "
        f"connect to '{LOGIN}': Connection refused"
    )
    assert len(internet.connects) == 2


@pytest.mark.parametrize("addresses", [None, []])
def test_a_name_without_addresses_is_a_temporary_error(internet, addresses):
    if addresses is not None:
        internet.names[LOGIN] = [addresses]
    error = failure(
        Fetches(target()), step(f"https://{LOGIN}/x"), AuthTemporarilyUnavailable
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


@pytest.mark.system("U46")
@pytest.mark.attack("S02")
@pytest.mark.case("G06")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("options", [GET, POST, REGISTER], ids=["get", "form", "json"])
def test_redirects_to_other_origins_are_not_followed(internet, status, options):
    places = iter(ELSEWHERE.values())

    def script(conn):
        conn.receive()
        place = next(places).format(other=other.port, port=server.port)
        conn.send(reply(status, location=place))

    with raw_server(serve) as other, raw_server(script) as server:
        internet.hosts["127.0.0.1"] = server.port
        fetches = Fetches(target(server.url))
        for place in ELSEWHERE.values():
            request = step(f"{server.origin}/token?x={HUSH}", **options)
            if options is GET:
                assert fetches.fetch(request).status == status
                continue
            error = failure(fetches, request, UrlRefused)
            where = place.format(other=other.port, port=server.port)
            assert where.rpartition("@")[2].partition("#")[0] in str(error)
    assert len(server.requests) == len(internet.connects) == len(ELSEWHERE)
    assert (other.connections, other.requests) == (0, [])
    assert "/stolen" not in {request.target for request in server.requests}


@pytest.mark.attack("S02")
@pytest.mark.case("G07")
def test_https_is_never_redirected_to_http(internet):
    moved = sending(reply(307, location=f"http://{LOGIN}/there"))
    with login_server(internet, moved) as server:
        fetches = Fetches(target())
        assert fetches.fetch(step(f"https://{LOGIN}/x", **GET)).status == 307
        error = failure(fetches, step(f"https://{LOGIN}/x", **POST), UrlRefused)
    assert f"redirects to 'http://{LOGIN}/there'" in str(error)
    assert len(server.requests) == len(internet.connects) == 2


@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("options", [POST, REGISTER], ids=["form", "json"])
def test_requests_with_credentials_are_never_redirected(internet, status, options):
    moved = sending(reply(status, location=f"/there?x={HUSH}"))
    with local_server(internet, moved) as server:
        error = failure(
            Fetches(target(server.url)),
            step(f"{server.origin}/token", **options),
            UrlRefused,
        )
    assert error.url == "/there?***"
    assert error.rule == "a request with credentials is never redirected"
    assert len(server.requests) == 1


@pytest.mark.case("G06")
@pytest.mark.rule("SEC-05")
@pytest.mark.parametrize("status", STATUSES)
def test_metadata_redirects_within_the_origin_are_followed(internet, status):
    def script(conn):
        while (request := conn.receive(timeout=None)) is not None:
            hop = int(request.target[1:])
            conn.send(ANSWER if hop == 3 else reply(status, location=f"/{hop + 1}"))

    with local_server(internet, script) as server:
        fetches = Fetches(target(server.url))
        assert fetches.fetch(step(f"{server.origin}/0", **GET)).status == 200
        assert [each.target for each in server.requests] == ["/0", "/1", "/2", "/3"]
        assert {each.verb for each in server.requests} == {"GET"}
        # One more is too many, and the caller decides whether any is followed.
        assert fetches.fetch(step(f"{server.origin}/-1", **GET)).status == status
        assert fetches.fetch(step(f"{server.origin}/2")).status == status
    assert len(server.requests) == 9


@pytest.mark.attack("S05")
@pytest.mark.rule("SEC-05")
def test_the_addresses_are_checked_at_each_hop(internet):
    with login_server(internet, sending(reply(302, location="/there"))) as server:
        internet.names[LOGIN] = [[LOGIN_ADDRESS], ["169.254.169.254"]]
        failure(Fetches(target()), step(f"https://{LOGIN}/x", **GET), UrlRefused)
    assert len(server.requests) == 1
    assert internet.connects == [LOGIN_ADDRESS]


def test_a_redirect_without_location_is_returned(internet):
    with local_server(internet, sending(reply(302))) as server:
        fetches = Fetches(target(server.url))
        for options in (GET, POST):
            request = step(f"{server.origin}/x", **options)
            assert fetches.fetch(request).status == 302
