"""``mcpwire gateway``: several servers behind one process."""

import asyncio
import json
import signal
import socket
import sys
from base64 import b64encode

import pytest
from cli_servers import MCPWIRE, TIMEOUT_S, serving
from ports import kept_port

import mcpwire
from mcpwire.cli.main import main

DEMO = [*MCPWIRE, "demo-server"]
COMMAND = " ".join(DEMO)
SERVER = {"command": DEMO[0], "args": DEMO[1:]}


@pytest.fixture
def config(tmp_path):
    """Return a function that writes a configuration of demo servers."""

    def write(*names):
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": dict.fromkeys(names, SERVER)}))
        return str(path)

    return write


def test_unknown_configuration_key_is_a_warning(config, capfd, tmp_path):
    path = config("one")
    document = json.loads((tmp_path / "mcp.json").read_text())
    document["mcpServers"]["one"]["colour"] = "red"
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["gateway", "--config", path, "--http", f":{port}"]) == 2
    warning, _ = capfd.readouterr().err.splitlines()
    assert warning.startswith(f"mcpwire: {path}: ")
    assert "colour" in warning


async def test_stdio_gateway_lists_tools_of_all_servers_and_traces(tmp_path):
    path = tmp_path / "trace.jsonl"
    words = ["-m", "mcpwire", "gateway", f"one={COMMAND}", f"two={COMMAND}"]
    words += ["--deny", "*two*", "--trace", str(path)]
    target = mcpwire.Stdio(sys.executable, words)
    async with mcpwire.Client(target) as client:
        tools = [tool.name for tool in await client.list_tools()]
        assert tools
        assert all(name.startswith("one_") for name in tools)
    methods = {json.loads(line)["method"] for line in path.read_text().splitlines()}
    assert "tools/list" in methods


URL = r"(http://127\.0\.0\.1:\d+)/here"


async def test_http_gateway_reloads_and_ends_on_sigterm(config):
    path = config("one")
    words = ["--config", path, "--http", ":0", "--path", "/here", "--watch"]
    words += ["--path-per-server", "--status", "/status", "--session-key-env", "KEYS"]
    with serving("gateway", *words, KEYS=b64encode(b"k" * 32).decode()) as it:
        base = (await asyncio.to_thread(it.line, URL))[1]
        async with mcpwire.Client(f"{base}/here", mode="2025-11-25") as client:
            one = {tool.name for tool in await client.list_tools()}
            assert len(client.session_id) > 200  # it is sealed
            config("one", "two")
            line = await asyncio.to_thread(it.line, "reloaded")
            assert line.string.strip().endswith("reloaded: added two")
            both = {tool.name for tool in await client.list_tools()}
            assert both - one == {name.replace("one_", "two_") for name in one}
        async with mcpwire.Client(f"{base}/here/two") as client:
            names = {f"one_{tool.name}" for tool in await client.list_tools()}
            assert names == one
        it.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(it.process.wait, TIMEOUT_S) in {0, 128 + 15, -15}


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    """Serve a demonstration that requires tokens; write a configuration with it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # no stored login
    monkeypatch.setenv("BROWSER", "true")
    with (
        kept_port() as port,
        serving("demo-server", "--http", f":{port}", "--auth") as it,
    ):
        url = it.line(r"serving (\S+) ")[1]
        servers = {"open": SERVER, "guarded": {"url": url, "auth": "oauth"}}
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        yield str(path)


async def test_http_gateway_does_not_open_a_browser(guarded):
    with serving("gateway", "--config", guarded, "--http", ":0") as it:
        url = (await asyncio.to_thread(it.line, r"serving (\S+) "))[1]
        async with mcpwire.Client(url) as client:
            names = [tool.name for tool in await client.list_tools()]
        assert names
        assert all(name.startswith("open_") for name in names)
        line = await asyncio.to_thread(it.line, "'guarded' could not be connected to")
        assert "a login is needed" in line.string


async def test_stdio_gateway_prints_the_login_url(guarded):
    words = ["-m", "mcpwire", "gateway", "--config", guarded]
    pipes = dict.fromkeys(("stdin", "stderr"), asyncio.subprocess.PIPE)
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, *words, **pipes, stdout=asyncio.subprocess.DEVNULL
    )
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
    gateway.stdin.write(json.dumps(request).encode() + b"\n")
    line = await gateway.stderr.readline()
    assert line.startswith(b"mcpwire: log in at http://")
    gateway.terminate()
    await gateway.communicate()


PARAMS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
