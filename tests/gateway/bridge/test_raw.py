"""What goes through stays as it came: results, errors, tokens, whatever the eras."""

from __future__ import annotations

import pytest
from bridged import META, raw
from fakes import FakeServer

TOOLS = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


ERAS = [
    pytest.param(down, up, id=f"{down} before {up}")
    for down in ("2025-11-25", "2026-07-28")
    for up in ("2025-11-25", "2026-07-28")
]


def behind(version, outcome):
    answers = {"2025-11-25": {}, "2026-07-28": {"resultType": "complete"}}[version]
    hints = {"ttlMs": 0, "cacheScope": "private"} if answers else {}

    def call(params, server):
        answer = outcome(params, server)
        return {**answer, **answers} if isinstance(answer, dict) else answer

    methods = {
        "tools/list": lambda *_: {**TOOLS, **answers, **hints},
        "tools/call": call,
    }
    return FakeServer(methods, version=version, capabilities={"tools": {}})


@pytest.mark.system("O44")
@pytest.mark.parametrize(("down", "up"), ERAS)
async def test_meta_of_the_client_goes_through_and_that_of_the_hop_is_ours(down, up):
    server = behind(up, lambda *_: {"content": []})
    async with raw(server, down) as client:
        mine = {"traceparent": "00-1-2-03", "com.example/k": 5}
        await client.ask("tools/call", {"name": "up_t"}, **mine)
    (params,) = server.requests("tools/call")
    meta = params["_meta"]
    assert meta.items() >= mine.items()
    own = {key for key in meta if key not in mine}
    if up == "2026-07-28":
        assert meta[f"{META}clientInfo"]["name"] != "raw"
        assert own == {
            f"{META}{name}"
            for name in ("protocolVersion", "clientCapabilities", "clientInfo")
        } | ({f"{META}logLevel"} & own)
    else:
        assert not own


@pytest.mark.parametrize(("down", "up"), ERAS)
@pytest.mark.parametrize("token", ["mine", "7", 7, 0, ""])
async def test_a_token_of_progress_comes_back_as_it_was(down, up, token):
    def step(params, server):
        theirs = params["_meta"]["progressToken"]
        for progress in (1, 2, 2, 1, 2.5):
            server.notify(
                "notifications/progress", progressToken=theirs, progress=progress, x=1
            )
        return {"content": []}

    async with raw(behind(up, step), down) as client:
        id = client.request("tools/call", {"name": "up_t"}, progressToken=token)
        await client.answer(id)
        told = [line["params"] for line in client.lines if "method" in line]
    assert [each["progress"] for each in told] == [1, 2, 2.5]
    for each in told:
        assert (each["progressToken"], type(each["progressToken"])) == (
            token,
            type(token),
        )
        assert each["x"] == 1


@pytest.mark.parametrize(("down", "up"), ERAS)
async def test_who_gave_no_token_hears_of_no_progress(down, up):
    def step(params, server):
        assert "progressToken" not in params.get("_meta", {})
        server.notify("notifications/progress", progressToken="other", progress=1)
        return {"content": []}

    async with raw(behind(up, step), down) as client:
        await client.ask("tools/call", {"name": "up_t"})
        assert client.lines == []


@pytest.mark.parametrize(("down", "up"), ERAS)
async def test_a_server_that_writes_nonsense_fails_that_call(down, up):
    def nonsense(params, server):
        return {"content": []} if "arguments" in params else 5

    async with raw(behind(up, nonsense), down) as client:
        failed = await client.ask("tools/call", {"name": "up_t"})
        assert failed["error"]["code"] == -32603
        assert failed["error"]["data"]["server"] == "up"
        fine = await client.ask("tools/call", {"name": "up_t", "arguments": {}})
        assert fine["result"]["content"] == []
