"""`tap`, `replay`, `replay client` and `--record`: tapes on the command line."""

import contextlib
import json
import shlex
import signal
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import httpx
import pytest
from cli_servers import MCPWIRE, TIMEOUT_S, serving
from hosting import hosted
from raw_server import head, raw_server, reply, sse_head

from mcpwire.server.demo import demo_dispatcher
from mcpwire.testing import Recorder
from mcpwire.testing.tap import HttpTap
from mcpwire.testing.tape import read_messages, read_tape

DEMO = shlex.join((*MCPWIRE, "demo-server"))
ADD = ("add", "a=2", "b=3")


def python(script):
    return (sys.executable, "-I", "-S", "-c", script)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tape.jsonl"


@pytest.fixture
def tape(cli, path):
    """Return the tape of one call of the built-in server."""
    assert cli("call", "--record", str(path), DEMO, *ADD).code == 0
    return path


def sent(path, side):
    return b"".join(part.data for part in read_tape(path) if part.side == side)


# --- tap, over stdio


def test_tap_passes_all_bytes_on_and_records_them(child, path):
    octets = b"{}\n\xff\xfe\r\nno end"
    script = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
    done = subprocess.run(
        [*MCPWIRE, "tap", "-o", str(path), "--", *python(script)],
        input=octets,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert (done.stdout, done.stderr) == (octets[::-1], b"")
    assert sent(path, "client") == octets
    assert sent(path, "server") == octets[::-1]
    assert [part.side for part in read_tape(path) if part.is_end] == [
        "client",
        "server",
    ]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_tap_exits_as_the_server_does(child, path, script, code):
    done = child("tap", "-o", str(path), "--", *python(script))
    assert (done.code, done.out, done.err) == (code, "", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_tap_passes_signals_on(path, name):
    script = (
        "import signal, sys\n"
        f"signal.signal(signal.{name}, lambda *_: sys.exit(3))\n"
        "print('ready', flush=True)\n"
        "signal.pause()"
    )
    words = [*MCPWIRE, "tap", "-o", str(path), "--", *python(script)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, start_new_session=True, **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(TIMEOUT_S) == 3


def test_output_of_an_exited_server_waits_for_a_slow_client(path):
    size = 150_000  # more than the pipe of the client holds
    script = f"print('x' * {size})"
    words = [*MCPWIRE, "tap", "-o", str(path), "--", *python(script)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)  # longer than output may stay open after the exit
        assert len(process.stdout.read()) == size + 1
        assert process.wait(TIMEOUT_S) == 0


def test_tap_has_the_environment_of_its_client_and_names_its_file(child, tmp_path):
    script = "import os; print(os.environ['COLOR'])"
    done = child("tap", "--", *python(script), env={"COLOR": "red"}, cwd=tmp_path)
    assert (done.code, done.out) == (0, "red\n")
    (file,) = tmp_path.glob("tape-*.jsonl")
    assert done.err == f"mcpwire: recording to {file.name}\n"


def test_values_of_variables_are_masked(child, path):
    script = "print('the key is hunter2')"
    words = ("tap", "-o", str(path), "--mask-env", "KEY", "--", *python(script))
    done = child(*words, env={"KEY": "hunter2"})
    assert done.out == "the key is hunter2\n"
    assert sent(path, "server") == b"the key is ***\n"


@pytest.mark.parametrize(
    ("line", "code", "problem"),
    [
        ("tap -o /no/such/x true", 2, "cannot write '/no/such/x': no such file"),
        ("tap -o {path} --mask-env UNSET_VARIABLE true", 2, "is not set"),
        ("tap -o {path} http://127.0.0.1:1/mcp", 2, "needs --http [HOST]:PORT"),
        ("tap -o {path} --http :0 true", 2, "--http needs a server at a URL"),
        ("tap -o {path} /no/such/server", 4, "cannot start '/no/such/server'"),
        ("replay /no/such/tape", 2, "cannot read the tape: [Errno 2]"),
        ("replay client true /no/such/tape", 2, "cannot read the tape: [Errno 2]"),
        ("replay client true {empty}", 2, "the tape has no answers to compare"),
        ("replay client /no/such/server {tape}", 4, "command not found"),
        ("ls --record /no/such/x true", 2, "cannot write '/no/such/x'"),
    ],
)
def test_bad_input_is_refused(child, tape, line, code, problem):
    empty = tape.with_name("empty")
    empty.write_text('{"tape":1}\n{"at":0,"from":"client","end":true}\n')
    words = line.format(path=tape.with_name("new"), tape=tape, empty=empty)
    done = child(*shlex.split(words))
    assert done.code == code
    assert problem in done.err


# --- tap, over HTTP


@contextlib.contextmanager
def tapping(path, url):
    """Yield the URL of a tap; the tape is complete at the end."""
    with serving("tap", "-o", str(path), "--http", ":0", url) as process:
        yield process.line("serving (http://[^ ]+)")[1].strip()


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("kind", ["json", "sse"])
def test_tap_records_a_server_over_http(cli, path, kind, mode):
    with hosted(demo_dispatcher(), kind) as host:
        with tapping(path, host.url) as url:
            assert cli("call", "--mode", mode, url, *ADD).out == '{"sum":5}\n'
            slow = cli("call", "--mode", mode, url, "slow", "steps=2", "seconds=0.01")
            assert slow.code == 0
        assert cli("replay", "client", host.url, str(path)).out == "0 differences\n"
    calls = [
        message.content["params"]["name"]
        for message in read_messages(read_tape(path))
        if message.side == "client" and message.content.get("method") == "tools/call"
    ]
    assert calls == ["add", "slow"]
    line = shlex.join((*MCPWIRE, "replay", str(path)))
    assert cli("call", "--mode", mode, line, *ADD).out == '{"sum":5}\n'


def test_tap_passes_heads_and_bodies_on(path):
    body = b'{"jsonrpc": "2.0",\n"id":1}\xff'

    def script(conn):
        conn.receive()
        conn.send(reply(200, body, x_answer="a", set_cookie="c=1", date="today"))

    with raw_server(script) as server, tapping(path, f"{server.url}?key=k") as url:
        response = httpx.post(
            url,
            content=b"\x00\xff",
            headers={"X-Ask": "b", "Authorization": "Bearer t", "Accept": "x/y"},
        )
    assert (response.status_code, response.content) == (200, body)
    assert response.headers["x-answer"] == "a"
    assert response.headers["set-cookie"] == "c=1"
    assert response.headers.get_list("date") == ["today"]
    (request,) = server.requests
    assert request.body == b"\x00\xff"
    assert request.target == "/mcp?key=k"
    expected = {"x-ask": "b", "authorization": "Bearer t", "accept": "x/y"}
    assert expected.items() <= request.headers.items()
    assert request.headers["host"] == urlsplit(server.url).netloc
    assert b"".join(part.data for part in read_tape(path)) == b"\x00\xff" + body
    heads = "".join(part.head for part in read_tape(path))
    assert "authorization: ***" in heads
    assert "set-cookie: ***" in heads
    assert "key=k" not in heads


def test_tap_refuses_other_host_names_and_reports_a_lost_server(path):
    with raw_server(lambda _: None) as server:
        gone = server.url
    with tapping(path, gone) as url:
        for host in ("attacker.example", "[::1"):
            response = httpx.post(url, headers={"Host": host})
            assert (response.status_code, response.text) == (
                403,
                "only requests to this machine are passed on\n",
            )
        response = httpx.post(url, content=b"{}")
    assert response.status_code == 502
    assert "ConnectError" in response.text


async def test_tap_waits_for_a_slow_server_without_a_time_limit(path, monkeypatch):
    timeouts = []

    async def answer(_, request):
        timeouts.append(request.extensions["timeout"])
        raise httpx.ConnectError("no server")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    with Recorder(path) as recorder:
        tap = HttpTap("http://server.example/mcp", recorder)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(tap)) as client:
            await tap.start()
            response = await client.post("http://127.0.0.1/mcp", content=b"{}")
            await tap.aclose()
    assert response.status_code == 502
    assert set(timeouts[0].values()) == {None}


def test_response_that_breaks_off_breaks_off_for_the_client(path):
    def script(conn):
        conn.receive()
        conn.send(head(200, content_length=100) + b"first part\n")

    with (
        raw_server(script) as server,
        tapping(path, server.url) as url,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        httpx.post(url, content=b"{}")
    assert sent(path, "server") == b"first part\n"
    assert read_tape(path)[-1].is_end


def test_client_that_leaves_ends_the_request_at_the_server(path):
    ended = threading.Event()

    def script(conn):
        conn.receive()
        conn.send(sse_head())
        if not conn.receive(None):
            ended.set()

    with raw_server(script) as server, tapping(path, server.url) as url:
        with httpx.stream("GET", url) as response:
            assert response.status_code == 200  # before any event
        assert ended.wait(TIMEOUT_S)


# --- replay


def test_replay_plays_the_server_of_a_recorded_session(cli, tape):
    line = shlex.join((*MCPWIRE, "replay", str(tape)))
    assert cli("call", line, *ADD).out == '{"sum":5}\n'
    assert cli("call", line, "add", "a=4").code == 8


def test_replay_reports_requests_that_are_not_on_the_tape(child, tape):
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}}
    lines = ["not JSON", json.dumps([{"id": 0}, request])]
    done = child("replay", str(tape), given="\n".join(lines).encode())
    assert done.code == 9
    assert json.loads(done.out)["error"]["code"] == -32603
    assert (
        done.err
        == f"mcpwire: not on the tape: {json.dumps(request).replace(' ', '')}\n"
    )


def test_exact_replay_requires_the_recorded_bytes(child, tape):
    octets = sent(tape, "client")
    done = child("replay", "--exact", str(tape), given=octets)
    assert (done.code, done.out.encode(), done.err) == (0, sent(tape, "server"), "")
    done = child("replay", "--exact", str(tape), given=octets[:-2])
    assert done.code == 9
    assert "of the tape: expected" in done.err


def test_exact_replay_of_a_tape_over_http_is_a_usage_error(child, path):
    part = {"at": 0, "from": "client", "exchange": 1, "head": "POST / HTTP/1.1"}
    path.write_text(f'{{"tape":1}}\n{json.dumps(part)}\n')
    done = child("replay", "--exact", str(path))
    assert (done.code, done.out) == (2, "")
    assert "only a tape of a server over stdio" in done.err


def test_replay_client_compares_the_answers(cli, tape):
    assert cli("replay", "client", str(tape), "--", *shlex.split(DEMO)).code == 0
    text = tape.read_text().replace('\\"sum\\":5', '\\"sum\\":6')
    tape.write_text(text)
    done = cli("replay", "client", DEMO, str(tape))
    assert done.code == 9
    *lines, count = done.out.splitlines()
    assert count == f"{len(lines)} difference{'s' if len(lines) > 1 else ''}"
    assert any("structuredContent.sum: expected 6, got 5" in line for line in lines)
    done = cli("replay", "client", "--json", DEMO, str(tape))
    found = {each["path"]: each["actual"] for each in json.loads(done.out)}
    assert found["result.structuredContent.sum"] == 5
    ignored = (f"--ignore={each}" for each in found)
    assert cli("replay", "client", *ignored, DEMO, str(tape)).code == 0
