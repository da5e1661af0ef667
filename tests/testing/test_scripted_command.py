"""A script of a few lines is a real server with predefined helper functions."""

import io
import json
import os
import sys

import pytest

import mcpwire
from mcpwire.testing import ScriptedClient, child, scripted_command


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_script_negotiates_the_version_and_serves(version):
    target = scripted_command(
        """
        handshake(sys.argv[1])
        serve({
            "tools/call": lambda m: text(m["params"]["name"] + sys.argv[2]),
            "x/y": {"z": [1]},
        })
        """,
        version,
        "!",
    )
    async with mcpwire.Client(target) as client:
        assert client.protocol_version == version
        assert (await client.call_tool("hi")).text == "hi!"
        assert (await client.request("x/y"))["z"] == [1]
        with pytest.raises(mcpwire.MethodNotFound):
            await client.request("x/z")


async def test_script_sends_bytes_notifications_requests_and_errors():
    target = scripted_command(
        """
        handshake()
        request = recv()
        raw(b"noise\\n")
        notify("notifications/mine", {"a": 1})
        ask("q", "ping")
        assert recv()["id"] == "q"
        fail(request, -5, "no")
        os.write(2, b"bye")
        sys.exit(3)
        """
    )
    async with ScriptedClient(target) as client:
        await client.handshake()
        client.ask("x/y", id=1)
        received = [await client.receive() for _ in range(3)]
        assert [message.raw for message in received[:1]] == [b"noise"]
        assert received[1].params == {"a": 1}
        received[2].answer({})
        assert (await client.receive()).error == {"code": -5, "message": "no"}
        await client.closed()
    assert (client.exit_code, client.stderr_tail) == (3, "bye")


async def test_script_ends_with_its_input_and_takes_stdio_options(tmp_path):
    target = scripted_command(
        "handshake(); send({'cwd': os.getcwd(), 'x': os.environ['X']}); recv()",
        cwd=tmp_path,
        env={"X": "1"},
    )
    async with ScriptedClient(target) as client:
        await client.handshake()
        message = await client.receive()
        assert message.raw == {"cwd": str(tmp_path), "x": "1"}
    assert client.exit_code == 0


async def test_imports_option_makes_installed_packages_available(tmp_path):
    (tmp_path / "of_mine.py").write_text("name = 'mine'")
    script = "import orjson, of_mine; handshake(); send(of_mine.name); recv()"
    slim, full = (
        scripted_command(script, imports=imports, cwd=tmp_path)
        for imports in (False, True)
    )
    async with ScriptedClient(full) as client:
        await client.handshake()
        assert (await client.receive()).raw == "mine"
    with pytest.raises(mcpwire.ConnectError, match="orjson"):
        await mcpwire.Client(slim).connect()


def test_command_line_holds_only_the_lines_of_the_script():
    target = scripted_command("\n    a = 1\n    if a:\n        serve({})\n")
    assert target.args[-1] == "a = 1\nif a:\n    serve({})"
    assert len(str(target)) < 500


def test_script_helpers_can_run_in_this_process(monkeypatch):
    """The child's code, run in this process for coverage."""
    messages = [
        {"method": "server/discover", "id": 1},
        {"method": "notifications/other"},
        {"method": "initialize", "id": 2},
        {"method": "notifications/initialized"},
        {"method": "x/y", "id": 3},
        {"method": "x/z", "id": 4},
        {"id": 5, "result": {}},
    ]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in messages)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    reader, writer = os.pipe()
    monkeypatch.setattr(child, "STDOUT_FD", writer)
    script = "handshake()\nnotify('n'); ask(9, 'a')\nserve({'x/y': text(sys.argv[1])})"
    monkeypatch.setattr(sys, "argv", ["child.py", script, "hi"])
    with pytest.raises(SystemExit) as ended:
        child.run(sys.argv)
    assert ended.value.code == 0
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        sent = [json.loads(line) for line in file]
    assert [each.get("id") for each in sent] == [1, 2, None, 9, 3, 4]
    assert sent[4]["result"] == child.text("hi")


def test_stateless_handshake_is_one_response(monkeypatch):
    lines = (
        b'{"method": "initialize", "id": 1}\n{"method": "server/discover", "id": 2}\n'
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    sent = []
    monkeypatch.setattr(child, "send", sent.append)
    child.handshake("2026-07-28", {"prompts": {}})
    assert sent[0]["error"]["code"] == -32601
    assert sent[1]["result"]["supportedVersions"] == ["2026-07-28"]
    assert sent[1]["result"]["capabilities"] == {"prompts": {}}
