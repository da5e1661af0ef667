"""Official clients use five real servers through the gateway, one of them broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from child_python import finished
from real_servers import NODE_PACKAGES, PEERS, RealServer, node
from serving import serving_ours

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
GATEWAY = (sys.executable, "-m", "mcpwire", "gateway", "--config")
TIMEOUT_S = 90.0
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
ALIAS = "mcpgw://web/demo%3A%2F%2Fresource%2Fstatic%2Fdocument%2Fstructure.md"
EXPECTED = {
    "server": "mcpwire-gateway",
    "pipe": "Echo: one",
    "web": "Echo: two",
    "steps": [[1, 2, None], [2, 2, None]],
    "prompt": "What's weather in Ulm?",
    "last": [ALIAS, ALIAS],
}
"""Complete results, by request."""
PARTS = {
    "time": "T21:00:00+09:00",
    "git": "nothing to commit",
    "long": "Duration: 0.2 seconds, Steps: 2",
    "asked": "- Name: Bob",
    "read": "Resource 5:",
}
"""Parts of results, by request."""
TOOLS = {
    "pipe_echo",
    "web_echo",
    "time_get_current_time",
    "time_convert_time",
    "git_git_status",
}


@pytest.fixture
def configuration(real, warm, web, tmp_path):
    """Write the configuration of all five servers as desktop hosts do."""
    servers = {
        name: {"command": server.argv[0], "args": server.argv[1:], "env": server.env}
        for name, server in {
            "pipe": real("everything"),
            "time": warm("time"),
            "git": warm("git"),
            "broken": RealServer("", (sys.executable, "-S", "-c", "exit(3)")),
        }.items()
    }
    path = tmp_path / "mcp.json"
    servers["web"] = {"url": web.url}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return str(path)


@pytest.fixture
def served(configuration):
    """Serve the gateway on a port."""
    command = (*GATEWAY, configuration, "--http")
    with serving_ours(lambda port: (*command, f"127.0.0.1:{port}")) as url:
        yield url


PYTHON = (str(PEERS / "python-sdk/bin/python"), str(HERE / "python_client.py"))
TYPESCRIPT = (node(), str(HERE / "typescript_client.cjs"))


@pytest.mark.parametrize(
    ("client", "places"),
    [
        (PYTHON, ("http legacy", "http auto", "stdio auto")),
        (TYPESCRIPT, ("http legacy", "http auto")),
    ],
    ids=["python", "typescript"],
)
def test_an_official_client_uses_five_servers_as_one(
    client, places, configuration, served, repository
):
    words = {"time": NOON, "git": {"repo_path": str(repository)}}
    where = {"http": served, "stdio": (*GATEWAY, configuration, "--stdio")}
    jobs = [
        (name, mode, where[transport], words)
        for name in places
        for transport, mode in [name.split()]
    ]
    env = {**os.environ, "NODE_PATH": str(NODE_PACKAGES.parent)}
    options = {"env": env, "stdin": subprocess.DEVNULL, "timeout": TIMEOUT_S}
    done = finished(*map(str, client), json.dumps(jobs), **options)
    assert done.returncode == 0, done.stderr + done.stdout
    results = json.loads(done.stdout)
    assert results.keys() == set(places)
    for name, result in results.items():
        expected = {**EXPECTED, "version": ERAS[name.split()[1]]}
        assert {key: result[key] for key in expected} == expected
        assert {key: part in result[key] for key, part in PARTS.items()} == (
            dict.fromkeys(PARTS, True)
        )
        assert set(result["tools"]) >= TOOLS
        assert result["tools"] == sorted(result["tools"])
        assert not any(tool.startswith("broken") for tool in result["tools"])
