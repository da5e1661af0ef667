"""Results, errors and progress tokens pass unchanged between all eras."""

import pytest
from bridged import ERA_PAIRS, META, STAMP, TOOLS, raw
from fakes import FakeServer


def behind(version, outcome):
    stamp = STAMP if version == "2026-07-28" else {}

    def call(params, server):
        result = outcome(params, server)
        return {**result, **stamp} if isinstance(result, dict) else result

    methods = {"tools/list": lambda *_: {"tools": TOOLS, **stamp}, "tools/call": call}
    return FakeServer(methods, version=version, capabilities={"tools": {}})


@pytest.mark.system("O44")
@ERA_PAIRS
async def test_client_metadata_passes_and_hop_metadata_is_the_gateways(down, up):
    server = behind(up, lambda *_: {"content": []})
    async with raw(server, down) as client:
        sent = {"traceparent": "00-1-2-03", "com.example/k": 5}
        await client.ask("tools/call", {"name": "up_t"}, **sent)
    (params,) = server.requests("tools/call")
    meta = params["_meta"]
    assert meta.items() >= sent.items()
    added = {key for key in meta if key not in sent}
    if up == "2026-07-28":
        assert meta[f"{META}clientInfo"]["name"] != "raw"
        assert added == {
            f"{META}{name}"
            for name in ("protocolVersion", "clientCapabilities", "clientInfo")
        } | ({f"{META}logLevel"} & added)
    else:
        assert not added


@ERA_PAIRS
@pytest.mark.parametrize("token", ["mine", "7", 7, 0, ""])
async def test_progress_token_is_returned_unchanged(down, up, token):
    def step(params, server):
        upstream_token = params["_meta"]["progressToken"]
        for progress in (1, 2, 2, 1, 2.5):
            server.notify(
                "notifications/progress",
                progressToken=upstream_token,
                progress=progress,
                x=1,
            )
        return {"content": []}

    async with raw(behind(up, step), down) as client:
        id = client.request("tools/call", {"name": "up_t"}, progressToken=token)
        await client.response(id)
        received = [line["params"] for line in client.lines if "method" in line]
    assert [each["progress"] for each in received] == [1, 2, 2.5]
    for each in received:
        assert each["progressToken"] == token
        assert type(each["progressToken"]) is type(token)
        assert each["x"] == 1


@ERA_PAIRS
async def test_request_without_a_progress_token_gets_no_progress(down, up):
    def step(params, server):
        assert "progressToken" not in params.get("_meta", {})
        server.notify("notifications/progress", progressToken="other", progress=1)
        return {"content": []}

    async with raw(behind(up, step), down) as client:
        await client.call()
        assert client.lines == []


@ERA_PAIRS
async def test_invalid_result_fails_only_its_call(down, up):
    def nonsense(params, server):
        return {"content": []} if "arguments" in params else 5

    async with raw(behind(up, nonsense), down) as client:
        failed = await client.call()
        assert failed["error"]["code"] == -32603
        assert failed["error"]["data"]["server"] == "up"
        fine = await client.ask("tools/call", {"name": "up_t", "arguments": {}})
        assert fine["result"]["content"] == []


AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "name": "n", "uri": "x:1"}


@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize(
    ("down", "kinds"),
    [
        ("2024-11-05", ["resource", "text"]),
        ("2025-03-26", ["audio", "text"]),
        ("2025-11-25", ["audio", "resource_link"]),
        ("2026-07-28", ["audio", "resource_link"]),
    ],
)
async def test_results_get_the_form_of_the_clients_revision(down, kinds):
    tool = {**TOOLS[0], "outputSchema": {"type": "array"}}
    messages = [{"role": "user", "content": block} for block in (AUDIO, LINK)]
    answers = {
        "tools/list": {"tools": [tool], **STAMP},
        "prompts/list": {"prompts": [{"name": "p"}], **STAMP},
        "prompts/get": {"messages": messages, **STAMP},
    }
    results = [
        {"content": [AUDIO, LINK], "structuredContent": [1], **STAMP},
        {"structuredContent": None, **STAMP},
    ]
    server = FakeServer(
        {
            **{name: lambda *_, a=answer: a for name, answer in answers.items()},
            "tools/call": lambda *_: results.pop(0),
        },
        version="2026-07-28",
        capabilities={"tools": {}, "prompts": {}},
    )
    is_session = down != "2026-07-28"
    async with raw(server, down) as client:
        (listed,) = (await client.ask("tools/list"))["result"]["tools"]
        assert ("outputSchema" in listed) is not is_session
        first, second = [(await client.call())["result"] for _ in range(2)]
        assert first.get("structuredContent") == (None if is_session else [1])
        assert [block["type"] for block in first["content"]] == kinds
        assert ("structuredContent" in second) is not is_session
        if is_session:
            assert second["content"] == [{"type": "text", "text": "null"}]
        prompt = (await client.ask("prompts/get", {"name": "up_p"}))["result"]
        got = [message["content"]["type"] for message in prompt["messages"]]
        assert got == kinds
