"""Commands against servers at a URL: the same arguments, over HTTP."""

import json
import os
import ssl

import pytest
import trustme
from hosting import hosted
from raw_server import json_reply, raw_server, reply

from mcpwire.server.demo import demo_dispatcher

HUSH = "hush-hush"
LOG_IN = "`mcpwire auth login URL` logs in; --auth-env VARIABLE sends a token"
NO_ENDPOINT = "check that this is the URL of an MCP endpoint, including its path"
RESULT = {"resultType": "complete", "content": [{"type": "text", "text": "fine"}]}
OFFER = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


@pytest.fixture(params=["json", "sse", "legacy"])
def url(request):
    with hosted(demo_dispatcher(), request.param) as host:
        yield host.url


@pytest.fixture
def answering():
    opened = []

    def make(answer, **options):
        def script(conn):
            while conn.receive(None):
                conn.send(answer)

        opened.append(raw_server(script, **options))
        return opened[-1].__enter__()

    yield make
    for one in opened:
        one.__exit__(None, None, None)


def test_each_command_works_over_http(cli, url):
    assert "add(a: int, b: int = 0) -> {sum: int}" in cli("ls", url).out
    assert cli("call", url, "add", "a=2", "b=3") == (0, '{"sum":5}\n', "")
    assert cli("call", "add", "a=2", "--", url).out == '{"sum":2}\n'
    assert cli("read", url, "demo://greeting").out == "Hello from mcpwire."
    assert "greets Ada" in cli("prompt", url, "greet", "name=Ada").out
    assert cli("complete", url, "prompt:greet", "name", "A").out == "Ada\nAlan\n"
    assert cli("ping", url).out.startswith("answered after ")


def test_message_limit_applies_over_http(cli, url):
    done = cli("call", url, "echo", f"message={'x' * 20_000}", "--max-message", "10000")
    assert (done.code, done.out) == (6, "")
    assert "(Limits.message); to change the limit: --max-message BYTES" in done.err


def test_info_shows_the_url_and_the_negotiated_version(cli, url):
    out = cli("info", url).out
    assert f"\nurl           {url}\n" in out
    assert json.loads(cli("info", url, "--json").out)["protocolVersion"]


def test_progress_logs_and_elicitation_work_over_http(cli, url):
    words = ("slow", "steps=2", "seconds=0.02", "--progress", "--log-level", "debug")
    done = cli("call", url, *words)
    assert done.out == "2 steps in 0.02 seconds\n"
    assert "50%  1/2  step 1 of 2\n" in done.err
    assert "[debug] slow: step 2 is done\n" in done.err
    done = cli("call", url, "order", "--answer", '{"drink": "tea", "cups": 3}')
    assert done.out == "3 x tea, without sugar\n"


@pytest.mark.parametrize("mode", ["session", "stateless", "2025-06-18"])
def test_mode_option_selects_the_era(cli, mode):
    with hosted(demo_dispatcher()) as host:
        done = cli("call", host.url, "echo", "message=hi", "--mode", mode)
    assert (done.code, done.out) == (0, "hi\n")


@pytest.mark.attack("S23")
@pytest.mark.parametrize("mode", ["session", "stateless"])
def test_headers_go_with_each_request_and_are_not_logged(cli, monkeypatch, mode):
    monkeypatch.setenv("TOKEN", HUSH)
    words = ("--header-env", "Authorization=Bearer TOKEN", "-H", "X-Tenant: blue")
    with hosted(demo_dispatcher()) as host:
        url = f"{host.url}?key={HUSH}"
        done = cli("call", url, "echo", "message=hi", "--mode", mode, "-vv", *words)
        requests = list(host.requests)
    assert (done.code, done.out) == (0, "hi\n")
    assert len(requests) >= 3
    for request in requests:
        assert request.target == f"/mcp?key={HUSH}"
        assert request.headers["authorization"] == f"Bearer {HUSH}"
        assert request.headers["x-tenant"] == "blue"
    assert HUSH not in done.err


def test_verbose_shows_request_and_response_heads_in_order(cli):
    with hosted(demo_dispatcher()) as host:
        done = cli("call", host.url, "echo", "message=hi", "-v", "--no-check")
    lines = [line[11:] for line in done.err.splitlines()]
    assert lines[0] == f"opened {host.url}"
    starts = [line for line in lines if line.startswith(("> POST", "< HTTP", "-->"))]
    assert [line.split(" ")[0] for line in starts] == [">", "-->", "<"] * 2
    assert "> mcp-name: echo" in lines
    assert "< content-type: application/json" in lines


@pytest.mark.attack("S32")
def test_response_header_is_escaped_for_the_terminal(cli, answering):
    server = answering(reply(500, b"no", server="\x1b[2J\x9b31m"))
    done = cli("ping", server.url, "-v")
    assert done.code in {4, 6}
    assert "\x1b" not in done.err
    assert "\x9b" not in done.err


def test_timing_works_over_http(cli):
    with hosted(demo_dispatcher(), "sse") as host:
        words = ("slow", "steps=1", "seconds=0.01")
        done = cli("call", host.url, *words, "--timing", "--json")
    (points,) = (
        json.loads(line)["timing"]["milliseconds"]
        for line in done.err.splitlines()
        if "timing" in line
    )
    assert list(points) == ["queued", "first byte", "complete", "decoded"]
    assert list(points.values()) == sorted(points.values())
    assert points["queued"] >= 0


@pytest.mark.parametrize(
    ("answer", "code", "note"),
    [
        (reply(401, www_authenticate="Bearer"), 3, LOG_IN),
        (reply(403, www_authenticate='Bearer error="insufficient_scope"'), 3, LOG_IN),
        (reply(403), 4, None),
        (reply(404), 4, NO_ENDPOINT),
        (reply(405), 4, NO_ENDPOINT),
        (reply(500), 4, "--mode session connects without this probe"),
        (reply(307, location="https://other.example/mcp"), 4, None),
        (reply(307, location="/mcp/"), 4, "use that URL instead"),
        (reply(200, b"<html>", content_type="text/html"), 6, NO_ENDPOINT),
    ],
    ids=["401", "403-challenge", "403", "404", "405", "500", "307", "307-here", "page"],
)
def test_http_failure_has_its_exit_code_and_a_hint(cli, answering, answer, code, note):
    done = cli("ls", answering(answer).url)
    assert (done.code, done.out) == (code, "")
    assert done.err.count("\n") == 1
    if note is None:
        assert "; " not in done.err
    else:
        assert done.err.endswith(f"; {note}\n")


def test_refused_connection_is_a_connect_error(cli):
    done = cli("ls", "http://127.0.0.1:1/mcp")
    assert done.code == 4
    assert done.err.startswith("mcpwire: cannot connect to '127.0.0.1:1'")


@pytest.mark.parametrize("word", ["127.0.0.1:1/mcp", "localhost:1", "a.example/mcp"])
def test_target_without_a_url_scheme_gets_a_hint(cli, word):
    done = cli("ls", word)
    assert done.code == 4
    assert done.err.endswith("? A URL begins with http:// or https://\n")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate = authority.issue_cert("me@host.example")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    return authority, folder


def over_tls(authority, name="127.0.0.1", *, wants_certificate=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    if wants_certificate:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def answer_calls(conn):
    while request := conn.receive(None):
        result = OFFER if request.method == "server/discover" else RESULT
        message = {"jsonrpc": "2.0", "id": request.json["id"], "result": result}
        conn.send(json_reply(message))


@pytest.mark.pain("P28")
def test_ca_option_trusts_a_private_authority(cli, authority):
    authority, folder = authority
    with raw_server(answer_calls, ssl_context=over_tls(authority)) as server:
        words = ("call", server.url, "x", "--no-check")
        assert cli(*words, "--ca", f"{folder}/ca.pem").out == "fine\n"
        done = cli(*words)
        assert done.code == 4
        assert done.err.endswith(
            "; to trust your own certificate authority: --ca FILE\n"
        )
    with raw_server(answer_calls, ssl_context=over_tls(authority, "other.test")) as it:
        done = cli("call", it.url, "x", "--ca", f"{folder}/ca.pem")
        assert "IP address mismatch" in done.err
        assert "--ca FILE" not in done.err


@pytest.mark.pain("P28")
def test_cert_option_sends_the_client_certificate(cli, authority):
    authority, folder = authority
    with raw_server(
        answer_calls, ssl_context=over_tls(authority, wants_certificate=True)
    ) as server:
        words = ("call", server.url, "x", "--no-check", "--ca", f"{folder}/ca.pem")
        for files in (f"{folder}/cert.pem,{folder}/key.pem", f"{folder}/both.pem"):
            assert cli(*words, "--cert", files).out == "fine\n"
        assert cli(*words).code == 4


@pytest.mark.pain("P28")
@pytest.mark.parametrize("by", ["option", "environment"])
def test_requests_go_through_the_proxy(cli, monkeypatch, by):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with raw_server(answer_calls) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        words = ("call", "http://host.example/mcp", "x", "--no-check")
        if by == "option":
            done = cli(*words, "--proxy", address)
        else:
            monkeypatch.setenv("HTTP_PROXY", address)
            done = cli(*words)
        targets = {request.target for request in proxy.requests}
    assert done.out == "fine\n"
    assert targets == {"http://host.example/mcp"}
