"""Promises of roku-plugin-mcp for blocking calls, kept by the blocking client."""

import asyncio
import json
import threading

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
import mcpwire.sync
from mcpwire.tools import flatten
from mcpwire.tools.names import NamePolicy

BOUND_S = 20
THREADS, CALLS = 5, 20


@pytest.mark.system("R04", "L-R2")
def test_calls_of_many_threads_start_no_extra_thread():
    before, seen, wrong = set(threading.enumerate()), set(), []

    def work(client, thread):
        for number in range(CALLS):
            message = f"{thread}.{number}"
            if client.call_tool("x", {"text": message}).text != message:
                wrong.append(message)
            seen.update(threading.enumerate())

    target = scripted("handshake()\n" + ECHO_LOOP)
    with mcpwire.sync.Client(target) as client:
        seen.update(threading.enumerate())
        threads = [
            threading.Thread(target=work, args=(client, number))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert not any(thread.is_alive() for thread in threads)
        assert client.stats.requests == THREADS * CALLS + 2
    assert wrong == []
    assert seen - before == set(threads)


@pytest.mark.system("R02", "R05")
def test_connect_failures_have_a_class_and_attributes():
    with pytest.raises(mcpwire.ConnectError) as spawn:
        mcpwire.sync.Client("no-such-command-at-all").connect()
    assert spawn.value.errno is not None
    assert "no-such-command-at-all" in str(spawn.value)
    with pytest.raises(mcpwire.ConnectError) as handshake:
        mcpwire.sync.Client(scripted("sys.exit(3)")).connect()
    assert handshake.value.exit_code == 3
    with pytest.raises(mcpwire.NegotiationError):
        mcpwire.sync.Client(scripted("handshake('1999-01-01')")).connect()


FILES = """
handshake()
while True:
    m = recv()
    if m.get("method") == "tools/list":
        path = {"type": "object", "properties": {"path": {}}, "required": ["path"]}
        answer(m, {"tools": [
            {"name": "read_file", "description": "Reads a file.", "inputSchema": path,
             "annotations": {"readOnlyHint": True}},
            {"name": "write_file", "inputSchema": path},
        ]})
    elif "id" in m:
        failed = m["params"]["name"] == "write_file"
        structured = {} if failed else {"structuredContent": {"size": 2}}
        content = [{"type": "text", "text": "read only" if failed else "hi"}]
        answer(m, {"content": content, "isError": failed, **structured})
"""


@pytest.mark.system("R01", "R06", "R07", "R09", "R10", "R11", "R12")
def test_blocking_group_from_a_file_works_inside_a_running_loop(tmp_path):
    program = scripted(FILES)
    file = tmp_path / "mcp.toml"
    file.write_text(
        "[[servers]]\n"
        'name = "my-server"\n'
        f"command = {json.dumps(program.command)}\n"
        f"args = {json.dumps(list(program.args))}\n"
        "[[servers]]\n"
        'name = "broken"\n'
        'command = "no-such-command-at-all"\n',
        encoding="utf-8",
    )
    names = NamePolicy(charset="A-Za-z0-9_")

    async def host():
        with mcpwire.sync.Group.from_config(file, on_error="skip") as group:
            assert list(group.report.failed) == ["broken"]
            tools = group.tools(names=names, trusted=True)
            assert tools.names == (
                *("mcp__my_server__read_file", "mcp__my_server__write_file"),
            )
            reading, writing = tools.catalog()
            assert (reading.server, reading.tool) == ("my-server", "read_file")
            assert (reading.description, reading.required) == (
                *("Reads a file.", ("path",)),
            )
            assert set(reading.tags) >= {"mcp", "my-server"}
            assert reading.side_effects.kind == "read_only"
            assert writing.side_effects.kind != "read_only"
            assert reading.risk == "low"
            assert writing.risk != "low"
            result = tools.call(reading.name, {"path": "a"})
            assert flatten(result, "structured") == {"size": 2}
            failed = tools.call(writing.name, {"path": "a"})
            assert (failed.is_error, flatten(failed, "text")) == (True, "read only")
            with pytest.raises(mcpwire.ToolError, match="read only"):
                failed.raise_for_error()

    asyncio.run(host())
