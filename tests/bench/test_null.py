"""The Python null server: exact answers in both eras, with any chunking of input."""

import json
import shlex
import socket
import subprocess
import time

import pytest

import mcpwire
from mcpwire.bench.null import LEGACY_VERSION, MODERN_VERSION, parse_request
from mcpwire.bench.null_process import null_command, null_http, null_process
from mcpwire.versions import LATEST, LATEST_SESSION

META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "null", "version": "1"}}
HELLO = [{"type": "text", "text": "hello"}]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": "echo", "description": "Return a fixed text", "inputSchema": SCHEMA}]
CACHE = {"ttlMs": 0, "cacheScope": "public"}
CAPABILITIES = {"capabilities": {"tools": {}}}


def request(method, params="", id="1"):
    return f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}\n'


def ask(text, *options):
    """Send the text, close the input, and return the messages of the answer."""
    command = null_command("--stdio", *options)
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, timeout=50, check=True
    )
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_null_server_answers_each_method_in_both_eras():
    params = '"protocolVersion" : "2025-03-26"'
    text = request("initialize", params) + request("initialize")
    for meta in ("", META):
        for method in ("ping", "tools/list", "tools/call", "nope"):
            text += request(method, meta)
    text += request("server/discover", META)
    info = {**CAPABILITIES, "serverInfo": STAMP["io.modelcontextprotocol/serverInfo"]}
    unknown = {"code": -32601, "message": "Method not found"}
    modern = {"resultType": "complete", "_meta": STAMP}
    expected = [
        {"protocolVersion": "2025-03-26", **info},
        {"protocolVersion": "2025-11-25", **info},
        {},
        {"tools": TOOLS},
        {"content": HELLO},
        None,
        modern,
        {**modern, **CACHE, "tools": TOOLS},
        {**modern, "content": HELLO},
        None,
        {**modern, **CACHE, **CAPABILITIES, "supportedVersions": ["2026-07-28"]},
    ]
    answers = ask(text)
    assert [each.pop("id") for each in answers] == [1] * len(expected)
    assert [each.get("result") for each in answers] == expected
    assert [each["error"] for each in answers if "error" in each] == [unknown] * 2
    [refused, listed] = ask(
        request("server/discover", META) + request("tools/list"), "--legacy"
    )
    assert (refused["error"], listed["result"]) == (unknown, {"tools": TOOLS})


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b'{"jsonrpc":"2.0","id":-7,"method":"ping"}', (b"-7", b"ping")),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping"}', (b'"a"', b"ping")),
        (b'{"id": "a\\"b", "method": "ping"}', (b'"a\\"b"', b"ping")),
        (
            b'{"method":"m","params":{"id":1,"method":"x"},"jsonrpc":"2.0","id":2}',
            (b"2", b"m"),
        ),
        (b'{"id":9007199254740993,"method":"m"}', (b"9007199254740993", b"m")),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
        (b"[1]", None),
        (b"noise", None),
        (b"", None),
    ],
)
def test_only_top_level_id_and_method_are_parsed(message, found):
    assert parse_request(message) == found


def test_protocol_versions_equal_those_of_the_package():
    assert LATEST_SESSION.name == LEGACY_VERSION
    assert LATEST.name == MODERN_VERSION


def test_single_bytes_and_joined_lines_are_answered():
    text = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    with subprocess.Popen(
        null_command("--stdio"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as child:
        for octet in text:
            child.stdin.write(bytes([octet]))
        answer = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
        assert child.stdout.read(len(answer)) == answer
        child.stdin.write(b"noise\n\n" + text * 3 + text[:9])
        child.stdin.close()
        assert child.stdout.read() == answer * 3
    assert child.returncode == 0


@pytest.mark.parametrize("options", [(), ("--sse",)])
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_client_can_call_it_over_http_in_both_eras(options, version):
    async with (
        null_http(*options, "--bytes", "100000") as server,
        mcpwire.Client(server.url, mode=version) as client,
    ):
        assert client.protocol_version == version
        result = await client.call_tool("echo", {"text": "x" * 200_000})
        assert result.text == "x" * 100_000
        assert [tool.name for tool in await client.list_tools()] == ["echo"]


async def test_legacy_option_makes_a_client_fall_back_to_a_session():
    async with null_http("--legacy") as server, mcpwire.Client(server.url) as client:
        assert client.protocol_version == "2025-11-25"
    command = shlex.join(null_command("--stdio", "--legacy"))
    async with mcpwire.Client(command) as client:
        assert client.protocol_version == "2025-11-25"


def test_request_other_than_post_with_a_length_is_refused():
    with null_process() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(b"GET /mcp HTTP/1.1\r\n\r\nDELETE /mcp HTTP/1.1\r\n\r\n")
            body = b'{"jsonrpc":"2.0","method":"x"}'
            peer.sendall(b"POST / HTTP/1.1\r\nContent-Length: 30\r\n\r\n" + body)
            peer.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            reply = b"".join(iter(lambda: peer.recv(4096), b""))
    statuses = [line for line in reply.split(b"\r\n") if line.startswith(b"HTTP")]
    assert [line.split()[1] for line in statuses] == [b"405", b"200", b"202", b"411"]
    assert server.process.returncode == 0


def test_record_contains_the_requests_of_a_client(tmp_path):
    file = tmp_path / "record"
    text = request("ping") + request("tools/call") * 5
    before = time.monotonic_ns()
    ask(text, "--record", str(file))
    ask(request("ping"), "--record", str(file))
    first, second = map(json.loads, file.read_text().splitlines())
    assert first["methods"] == {"ping": 1, "tools/call": 5}
    assert first["octets_in"] == 5 * len(request("tools/call"))
    assert before < first["first_ns"] == first["last_ns"] < time.monotonic_ns()
    assert first["reads"] == first["overlapping"] == 1
    assert second["methods"] == {"ping": 1}
    assert second["first_ns"] == 0


def test_record_is_written_on_sigterm_with_turnaround_times(tmp_path):
    file = tmp_path / "record"
    with null_process("--record", str(file)) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        body = request("tools/call").encode()
        message = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        with socket.create_connection(("127.0.0.1", port)) as peer:
            for _ in range(4):
                peer.sendall(message)
                while not peer.recv(4096).endswith(b"}"):
                    pass
            server.process.terminate()
            assert server.process.wait() == 0
    record = json.loads(file.read_text())
    assert record["methods"] == {"tools/call": 4}
    assert record["octets_in"] == 4 * len(message)
    assert (record["reads"], record["overlapping"]) == (4, 0)
    assert 0 < record["turnaround_ns"][0] <= record["turnaround_ns"][1]


def test_stall_delays_a_request_and_those_behind_it(tmp_path):
    started = time.monotonic()
    answers = ask(request("ping") * 3, "--stall", "0,0.2")
    assert len(answers) == 3
    assert time.monotonic() - started >= 0.2


def test_delay_costs_cpu_time_for_each_call(tmp_path):
    file = tmp_path / "record"
    text = request("tools/call") * 10 + request("ping") * 100
    ask(text, "--delay", "0.01", "--record", str(file))
    assert json.loads(file.read_text())["cpu_ns"] >= 10 * 0.01 * 1e9


def test_unknown_option_is_refused():
    command = null_command("--stdio", "--fast")
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (1, "null.py: unknown option '--fast'\n")
