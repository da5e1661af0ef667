"""A short load run, and its detection of crossed responses and growth."""

import asyncio
import json
import sys

import load
import pytest
from load_client import Caller, Crossed

LITTLE = load.Plan(sessions=20, calls=2, rounds=20)

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is read as Linux gives it"
)


@on_linux
@pytest.mark.attack("S10")
def test_small_load_leaks_nothing_and_crosses_no_response(monkeypatch):
    monkeypatch.setattr(load, "SETTLE_S", 0.2)
    printed = []
    assert asyncio.run(load.load(LITTLE, printed.append)) == []
    assert sum("none crossed" in line for line in printed) == 2
    assert [line.partition(":")[0] for line in printed[-3:]] == [
        "before",
        "after",
        "once more",
    ]


@pytest.mark.parametrize("field", ["sessions", "tasks", "objects", "memory"])
def test_growth_over_its_limit_is_reported_with_its_figures(field):
    before = load.Count(0, 3, 30_000, 30_000_000)
    for limits in load.allowed(LITTLE.sessions):
        limit = getattr(limits, field)
        more = {**vars(before), field: getattr(before, field) + limit}
        assert load.grown(before, load.Count(**more), limits) == []
        more[field] += 1
        (line,) = load.grown(before, load.Count(**more), limits)
        assert line.startswith(f"{field}: ")


async def http_server(*results):
    """Serve HTTP; answer each request with the next of these results."""
    waiting = list(results)

    async def serve(reader, writer):
        while waiting:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].split()[0])
            await reader.readexactly(size)
            body = json.dumps({"jsonrpc": "2.0", **waiting.pop(0)}).encode()
            fields = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n" + fields % len(body) + body)
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def response(id, text):
    return {"id": id, "result": {"structuredContent": {"result": text}}}


@pytest.mark.parametrize(
    "answer", [response(1, "mine"), response("0", "mine"), response(0, "his")]
)
def test_response_with_another_id_or_secret_is_crossed(answer):
    async def call():
        async with await http_server(answer) as server:
            port = server.sockets[0].getsockname()[1]
            caller = Caller(f"http://127.0.0.1:{port}/mcp", is_later=True)
            async with caller:
                with pytest.raises(Crossed):
                    await caller.check_secret("echo", "mine")

    asyncio.run(call())


def test_exit_code_of_the_command_reports_growth(monkeypatch, capsys):
    found = []

    async def done(plan, _say):
        plans.append(plan)
        return found

    plans = []
    monkeypatch.setattr(load, "load", done)
    monkeypatch.setattr(load, "reaped", lambda *_: done(None, None))
    monkeypatch.setattr(load, "make_room", lambda _: None)
    monkeypatch.setattr(load.Path, "exists", lambda _: True)
    assert load.main(["--full", "--rounds", "7"]) == 0
    assert plans[0] == load.Plan(load.FULL.sessions, load.FULL.calls, 7)
    assert "flat" in capsys.readouterr().out
    found.append("objects: 1 before, 9 after")
    assert load.main([]) == 1
    assert "GREW objects: 1 before, 9 after" in capsys.readouterr().out


def test_crossed_response_fails_the_command(monkeypatch, capsys):
    async def crossed(*_):
        async with asyncio.TaskGroup() as group:
            group.create_task(raising())

    async def raising():
        raise Crossed("'mine' was answered by 'his'")

    monkeypatch.setattr(load, "load", crossed)
    monkeypatch.setattr(load, "make_room", lambda _: None)
    monkeypatch.setattr(load.Path, "exists", lambda _: True)
    assert load.main([]) == 1
    assert "'mine' was answered by 'his'" in capsys.readouterr().out
