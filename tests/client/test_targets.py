"""Targets of a client beside URLs and command lines, and suggestions for texts."""

import sys
from pathlib import Path

import pytest

import mcpwire

SERVER = """
import mcpwire

server = mcpwire.Server("file")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

if __name__ == "__main__":
    server.run()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


def configured(**entries):
    return {"mcpServers": entries}


@pytest.mark.parametrize(
    "target_of",
    [
        lambda path: path,
        lambda path: [sys.executable, path],
        lambda path: (sys.executable, str(path)),
        lambda path: configured(
            one={"command": sys.executable, "args": [str(path)]},
            off={"command": "no-such-program", "enabled": False},
        ),
    ],
    ids=["path", "list", "tuple", "configuration"],
)
async def test_a_target_may_be_a_path_a_list_or_a_configuration(target_of, program):
    async with mcpwire.Client(target_of(program)) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}


async def test_a_group_takes_the_same_targets(program):
    servers = {"file": program, "words": [sys.executable, program]}
    async with mcpwire.Group(servers) as group:
        assert list(group) == ["file", "words"]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ([], "the command line is empty"),
        (Path("x.js"), "must be that of a Python file (.py), got 'x.js'"),
        (configured(a={"command": "x"}, b={"command": "y"}), "mcpServers has 2 that"),
        (configured(), "mcpServers has 0 that"),
        (
            configured(a={"command": "x", "timeout": 3, "denied_tools": ["b"]}),
            "server 'a': a client does not apply timeout, deny: use mcpwire.Group",
        ),
        ({"command": "x"}, "contains no servers"),
    ],
)
def test_an_invalid_target_is_refused(target, problem):
    with pytest.raises(ValueError) as caught:
        mcpwire.Client(target)
    assert problem in str(caught.value)
    with pytest.raises(ValueError, match="server 'a': ") as caught:
        mcpwire.Group({"a": target})
    assert problem in str(caught.value)


def test_a_configured_target_shows_no_secrets():
    url = "https://host.example/mcp?key=hush"
    entry = {"url": url, "headers": {"Authorization": "hush"}}
    assert "hush" not in repr(mcpwire.Member(configured(a=entry)))


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("server.py", "python server.py"),
        ("./no/such/server.js", "node ./no/such/server.js"),
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("localhost", "http://localhost"),
        ("127.0.0.1:80", "http://127.0.0.1:80"),
        ("mcp.example.com:8443", "https://mcp.example.com:8443"),
        ("mcp.example.com/mcp", "https://mcp.example.com/mcp"),
        ("no-such-program", None),
        ("no.such.program", None),
        ("no/such/program", None),
    ],
)
async def test_a_missing_command_suggests_another_target(target, meant):
    with pytest.raises(mcpwire.ConnectError) as caught:
        await mcpwire.Client(target).connect()
    hint = "" if meant is None else f"; did you mean {meant!r}?"
    assert str(caught.value) == f"cannot start {target!r}: command not found{hint}"


async def test_a_script_without_execute_bit_suggests_python(program):
    with pytest.raises(mcpwire.ConnectError, match=r"; did you mean 'python /.*\?$"):
        await mcpwire.Client(str(program)).connect()
