"""A server's request reaches only the client that it is for."""

import asyncio

import pytest
from bridged import (
    ANSWER,
    ASK,
    CAN,
    DONE,
    ELICIT,
    FORM,
    META,
    AskingServer,
    RawClient,
    answers_in,
    needs,
    raw,
    rounds,
    several,
)
from fakes import SILENCE

from mcpwire.gateway import Gateway

SAMPLE = "sampling/createMessage"


FIELDS = {"a": {"type": "string", "pattern": "^a", "default": "a"}}
TEXT = {"type": "text", "text": ""}
OWN_FORM = {**FORM, "requestedSchema": {"type": "object", "properties": FIELDS}}


@pytest.mark.system("A50", "A51", "A52")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(
    ("method", "params", "answer"),
    [
        (ELICIT, FORM, ANSWER),
        (ELICIT, OWN_FORM, {"action": "decline", "_meta": {"k": 1}}),
        ("roots/list", None, {"roots": [{"uri": "file:///a", "x": 1}]}),
        (
            SAMPLE,
            {"messages": [], "maxTokens": 5, "metadata": {"x": [1.0]}},
            {"model": "m", "role": "assistant", "content": TEXT, "x": 1},
        ),
    ],
)
async def test_requests_and_responses_between_sessions_pass_unchanged(
    method, params, answer, revision
):
    async with raw(AskingServer(revision), revision, **CAN) as client:
        call = {"name": "up_t", "arguments": {"ask": [[method, params]]}}
        id = client.request("tools/call", call)
        request = await client.wait_for(method)
        assert (request.get("params") or None) == params
        client.send(id=request["id"], result=answer)
        (found,) = answers_in(await client.response(id))
        assert found == {"id": "q1", "result": answer}


CHOICES = {
    "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}],
    "type": "string",
    "default": "r",
}
MANY = {"type": "array", "items": {"type": "string", "enum": ["a"]}}


@pytest.mark.rule("ELIC-05")
async def test_form_gets_the_shape_of_the_clients_revision():
    def asking(required):
        properties = {"color": CHOICES, "many": MANY}
        schema = {"type": "object", "properties": properties, "required": required}
        return {"ask": [[ELICIT, {"message": "?", "requestedSchema": schema}]]}

    async with raw(AskingServer(), "2025-06-18", elicitation={}) as client:
        params = {"name": "up_t", "arguments": asking(["color"])}
        id = client.request("tools/call", params)
        request = await client.wait_for(ELICIT)
        titled = {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]}
        assert request["params"]["requestedSchema"] == {
            "type": "object",
            "properties": {"color": titled},
            "required": ["color"],
        }
        client.send(id=request["id"], result={"action": "decline"})
        await client.response(id)
        (found,) = answers_in(await client.call(**asking(["many"])))
        assert found["error"]["code"] == -32602
        assert "exist since 2025-11-25" in found["error"]["message"]


async def test_error_response_of_the_client_reaches_the_server():
    async with raw(AskingServer(), **CAN) as client:
        id = client.request("tools/call", ASK)
        request = await client.wait_for(ELICIT)
        error = {"code": -1, "message": "not now", "data": {"why": [1]}}
        client.send(id=request["id"], error=error)
        (found,) = answers_in(await client.response(id))
        assert found["error"] == error


@pytest.mark.parametrize("declared", [{}, {"elicitation": {"url": {}}}])
async def test_request_for_an_undeclared_feature_does_not_reach_the_client(declared):
    async with raw(AskingServer(), **declared) as client:
        response = await client.ask("tools/call", ASK)
        (found,) = answers_in(response)
        assert found["error"]["code"] in {-32601, -32602}
        assert "did not declare" in found["error"]["message"]


async def test_session_client_gets_requests_of_concurrent_calls():
    async with raw(AskingServer(), **CAN) as client:
        ids = [client.request("tools/call", ASK) for _ in range(3)]
        for number in range(3):
            request = await client.wait_for(ELICIT)
            answer = {"action": "accept", "content": {"n": number}}
            client.send(id=request["id"], result=answer)
        found = [answers_in(await client.response(id))[0]["result"] for id in ids]
        assert [each["content"]["n"] for each in found] == [0, 1, 2]


async def test_session_client_gets_a_request_without_a_call_in_flight():
    server = AskingServer()
    async with raw(server, **CAN) as client:
        await client.ask("tools/list")
        server.asking["own"] = [0, ["own"], None, ()]
        server.send({"jsonrpc": "2.0", "id": "own", "method": "roots/list"})
        request = await client.wait_for("roots/list")
        client.send(id=request["id"], result={"roots": []})
        await client.settle()
        assert server.answers["own"]["result"] == {"roots": []}


@pytest.mark.rule("MRTR-01")
async def test_request_with_several_calls_in_flight_on_a_pipe_is_refused():
    server = AskingServer()
    async with raw(server, "2026-07-28", **CAN) as client:
        server.methods["tools/call"] = lambda *_: SILENCE
        await client.ask("tools/list")
        waiting = client.request("tools/call", {"name": "up_t"})
        while not server.requests("tools/call"):
            await client.ask("tools/list")
        server.methods["tools/call"] = server.called
        response = await client.ask("tools/call", ASK)
        (found,) = answers_in(response)
        assert found["error"]["code"] == -32603
        assert "2 calls are running" in found["error"]["message"]
        # The request may still belong to the cancelled call.
        client.cancel(waiting)
        await client.settle()
        (found,) = answers_in(await client.ask("tools/call", ASK))
        assert "2 calls are running" in found["error"]["message"]


async def test_request_without_a_call_is_refused_if_clients_share():
    server = AskingServer()
    async with raw(server, "2026-07-28", **CAN) as client:
        await client.ask("tools/list")
        server.asking["own"] = [0, ["own"], None, ()]
        server.send({"jsonrpc": "2.0", "id": "own", "method": "roots/list"})
        await client.ask("server/discover")
        await client.ask("tools/list")
        assert "belongs to no running call" in server.answers["own"]["error"]["message"]


@pytest.mark.unchecked_wire("the server shows what it was answered")
async def test_server_request_during_a_completion_is_refused():
    server = AskingServer()

    def complete(_, __):
        server.begin(server.current["id"], [["roots/list", None]], None)
        return SILENCE

    server.methods["completion/complete"] = complete
    server.members["capabilities"] = {"completions": {}, "prompts": {}}
    listed = {"prompts": [{"name": "p"}]}
    server.methods["prompts/list"] = lambda *_: listed
    async with raw(server, "2026-07-28", **CAN) as client:
        ref = {"type": "ref/prompt", "name": "up_p"}
        params = {"ref": ref, "argument": {"name": "a", "value": ""}}
        response = await client.ask("completion/complete", params)
        (found,) = answers_in(response)
        assert "cannot receive 'roots/list'" in found["error"]["message"]


async def test_server_cancellation_of_its_request_reaches_the_client():
    server = AskingServer()
    async with raw(server, **CAN) as client:
        client.request("tools/call", ASK)
        request = await client.wait_for(ELICIT)
        server.notify("notifications/cancelled", requestId="q1")
        cancelled = await client.wait_for("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]


async def test_cancelled_call_reaches_the_server_while_its_request_is_pending():
    server = AskingServer()
    async with raw(server, **CAN) as client:
        id = client.request("tools/call", ASK)
        await client.wait_for(ELICIT)
        client.cancel(id)
        await client.settle()
        (cancelled,) = server.requests("notifications/cancelled")
        (call,) = [m for m in server.received if m.get("method") == "tools/call"]
        assert cancelled["requestId"] == call["id"]


# --- a server of the stateless era before a client with a session


async def test_input_requests_of_a_round_are_sent_and_the_state_is_returned():
    form = {"method": ELICIT, "params": {"mode": "form", **FORM}}
    server = rounds(needs("s1", a=form, b={"method": "roots/list"}), needs("s2"), DONE)
    async with raw(server, "2025-06-18", **CAN) as client:
        id = client.request("tools/call", {"name": "up_t", "arguments": {"x": 1}})
        request = await client.wait_for(ELICIT)
        assert request["params"] == FORM  # 2025-06-18 has no modes
        client.send(id=request["id"], result=ANSWER)
        request = await client.wait_for("roots/list")
        client.send(id=request["id"], result={"roots": []})
        assert (await client.response(id))["result"] == {"content": []}
    first, second, third = server.requests("tools/call")
    assert first["_meta"][f"{META}clientCapabilities"] == {
        "elicitation": {},
        "roots": {},
        "sampling": {},
    }
    assert second["inputResponses"] == {"a": ANSWER, "b": {"roots": []}}
    assert (second["requestState"], third["requestState"]) == ("s1", "s2")
    assert second["arguments"] == {"x": 1}
    assert "inputResponses" not in third


async def test_refused_input_request_ends_the_call_with_the_reason():
    server = rounds(needs(a={"method": ELICIT, "params": FORM}))
    async with raw(server, **CAN) as client:
        id = client.request("tools/call", {"name": "up_t"})
        request = await client.wait_for(ELICIT)
        client.send(id=request["id"], error={"code": -1, "message": "not now"})
        result = (await client.response(id))["result"]
        assert result["isError"]
        assert "refused 'elicitation/create': not now" in result["content"][0]["text"]


async def test_input_request_for_an_undeclared_feature_fails_the_call():
    server = rounds(needs(a={"method": SAMPLE, "params": {}}))
    async with raw(server, elicitation={}) as client:
        result = (await client.call())["result"]
        assert "did not declare sampling" in result["content"][0]["text"]


@pytest.mark.parametrize(
    "result",
    [
        needs(a={"method": "tools/call", "params": {}}),
        {"resultType": "task", "task": {}},
        {"resultType": "input_required"},
    ],
)
async def test_invalid_input_required_result_fails_the_call(result):
    async with raw(rounds(result), **CAN) as client:
        error = (await client.call())["error"]
        assert error["data"] == {"server": "up", "error": "InvalidMessage"}


async def test_input_required_and_state_pass_between_stateless_ends():
    input_required = needs("theirs", a={"method": ELICIT, "params": FORM, "x": 1})
    server = rounds(input_required, DONE)
    async with raw(server, "2026-07-28", **CAN) as client:
        result = (await client.call())["result"]
        state = result["requestState"]
        assert {key: result[key] for key in input_required} == {
            **input_required,
            "requestState": state,
        }
        responses = {"requestState": "theirs", "inputResponses": {"a": ANSWER}}
        await client.ask(
            "tools/call", {"name": "up_t", **responses, "requestState": state}
        )
    assert server.requests("tools/call")[1].items() >= responses.items()


async def test_sharing_sessions_get_only_the_requests_of_their_calls():
    server = AskingServer()
    gateway = Gateway({"up": server}, share="identity")
    async with several(gateway, 2, **CAN) as clients:
        for client in clients:
            id = client.request("tools/call", ASK)
            request = await client.wait_for(ELICIT)
            client.send(id=request["id"], result=ANSWER)
            (found,) = answers_in(await client.response(id))
            assert found["result"] == ANSWER
        ids = [client.request("tools/call", ASK) for client in clients]
        responses = [
            client.response(id) for client, id in zip(clients, ids, strict=True)
        ]
        for response in await asyncio.gather(*responses):
            assert "2 calls are running" in answers_in(response)[0]["error"]["message"]
        for client in clients:
            assert client.lines == []


async def test_requests_over_a_shared_set_declare_their_clients_capabilities():
    server = rounds(*(DONE for _ in range(3)))
    key = f"{META}clientCapabilities"
    async with Gateway({"up": server}) as gateway:
        clients = [RawClient(gateway, "2026-07-28") for _ in range(3)]
        declared = ({}, {"sampling": {}}, {"elicitation": {"url": {}}})
        for client, each in zip(clients, declared, strict=True):
            await client.open(**each)
            await client.call()
            await client.aclose()
    calls = server.requests("tools/call")
    assert [call["_meta"][key] for call in calls] == list(declared)
