"""A server's question reaches the client that it is for, and nobody else."""

from __future__ import annotations

import asyncio

import pytest
from bridged import DONE, FORM, META, AskingServer, RawClient, needs, raw, rounds
from fakes import SILENCE

from mcpwire.gateway import Gateway

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
CAN = {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}}
ASK = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]]}}
ANSWER = {"action": "accept", "content": {"name": "ann"}}


def answers_in(answer):
    return answer["result"]["structuredContent"]["answers"]


@pytest.mark.system("A50", "A51", "A52")
@pytest.mark.parametrize(
    ("method", "params", "answer"),
    [
        (ELICIT, FORM, ANSWER),
        (ELICIT, FORM, {"action": "decline", "_meta": {"k": 1}}),
        ("roots/list", None, {"roots": [{"uri": "file:///a", "x": 1}]}),
        (
            SAMPLE,
            {"messages": [], "maxTokens": 5, "metadata": {"x": [1.0]}},
            {"model": "m", "role": "assistant", "content": [], "stopReason": "any"},
        ),
    ],
)
async def test_questions_and_answers_of_sessions_go_through_as_they_are(
    method, params, answer
):
    async with raw(AskingServer(), **CAN) as client:
        ask = {"name": "up_t", "arguments": {"ask": [[method, params]]}}
        id = client.request("tools/call", ask)
        question = await client.hears(method)
        assert (question.get("params") or None) == params
        client.send(id=question["id"], result=answer)
        (found,) = answers_in(await client.answer(id))
        assert found == {"id": "q1", "result": answer}


async def test_a_refusal_of_the_client_is_the_servers_answer():
    async with raw(AskingServer(), **CAN) as client:
        id = client.request("tools/call", ASK)
        question = await client.hears(ELICIT)
        error = {"code": -1, "message": "not now", "data": {"why": [1]}}
        client.send(id=question["id"], error=error)
        (found,) = answers_in(await client.answer(id))
        assert found["error"] == error


@pytest.mark.parametrize("declared", [{}, {"elicitation": {"url": {}}}])
async def test_who_did_not_declare_it_is_not_asked(declared):
    async with raw(AskingServer(), **declared) as client:
        answer = await client.ask("tools/call", ASK)
        (found,) = answers_in(answer)
        assert found["error"]["code"] in {-32601, -32602}
        assert "did not declare" in found["error"]["message"]


async def test_a_session_is_asked_whatever_else_is_under_way_in_it():
    async with raw(AskingServer(), **CAN) as client:
        ids = [client.request("tools/call", ASK) for _ in range(3)]
        for number in range(3):
            question = await client.hears(ELICIT)
            answer = {"action": "accept", "content": {"n": number}}
            client.send(id=question["id"], result=answer)
        found = [answers_in(await client.answer(id))[0]["result"] for id in ids]
        assert [each["content"]["n"] for each in found] == [0, 1, 2]


async def test_a_session_can_be_asked_when_no_call_is_under_way():
    server = AskingServer()
    async with raw(server, **CAN) as client:
        await client.ask("tools/list")
        server.asking["own"] = [0, ["own"], None, ()]
        server.send({"jsonrpc": "2.0", "id": "own", "method": "roots/list"})
        question = await client.hears("roots/list")
        client.send(id=question["id"], result={"roots": []})
        await client.ask("ping")
        await client.ask("ping")
        assert server.answers["own"]["result"] == {"roots": []}


@pytest.mark.rule("MRTR-01")
async def test_of_several_calls_on_a_pipe_none_is_asked_for_another():
    server = AskingServer()
    async with raw(server, "2026-07-28", **CAN) as client:
        server.methods["tools/call"] = lambda *_: SILENCE
        await client.ask("tools/list")
        waiting = client.request("tools/call", {"name": "up_t"})
        while not server.requests("tools/call"):
            await client.ask("tools/list")
        server.methods["tools/call"] = server.called
        answer = await client.ask("tools/call", ASK)
        (found,) = answers_in(answer)
        assert found["error"]["code"] == -32603
        assert "2 calls are under way" in found["error"]["message"]
        # One that was given up may still be the one that asks.
        client.send(method="notifications/cancelled", params={"requestId": waiting})
        for _ in range(3):
            await client.ask("server/discover")
        (found,) = answers_in(await client.ask("tools/call", ASK))
        assert "2 calls are under way" in found["error"]["message"]


async def test_a_question_that_no_call_brought_is_refused_where_clients_share():
    server = AskingServer()
    async with raw(server, "2026-07-28", **CAN) as client:
        await client.ask("tools/list")
        server.asking["own"] = [0, ["own"], None, ()]
        server.send({"jsonrpc": "2.0", "id": "own", "method": "roots/list"})
        await client.ask("server/discover")
        await client.ask("tools/list")
        assert "no call is under way" in server.answers["own"]["error"]["message"]


@pytest.mark.unchecked_wire("the server shows what it was answered")
async def test_a_question_for_what_cannot_ask_is_refused():
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
        asked = {"ref": ref, "argument": {"name": "a", "value": ""}}
        answer = await client.ask("completion/complete", asked)
        (found,) = answers_in(answer)
        assert "cannot be asked 'roots/list'" in found["error"]["message"]


async def test_a_question_that_the_server_takes_back_is_taken_back_from_the_client():
    server = AskingServer()
    async with raw(server, **CAN) as client:
        client.request("tools/call", ASK)
        question = await client.hears(ELICIT)
        server.notify("notifications/cancelled", requestId="q1")
        told = await client.hears("notifications/cancelled")
        assert told["params"]["requestId"] == question["id"]


async def test_cancelling_a_call_takes_its_question_back_only_if_the_server_does():
    server = AskingServer()
    async with raw(server, **CAN) as client:
        id = client.request("tools/call", ASK)
        await client.hears(ELICIT)
        client.send(method="notifications/cancelled", params={"requestId": id})
        await client.ask("ping")
        await client.ask("ping")
        (told,) = server.requests("notifications/cancelled")
        (call,) = [m for m in server.received if m.get("method") == "tools/call"]
        assert told["requestId"] == call["id"]


# --- a server of the stateless era before a client with a session


async def test_each_question_of_a_round_is_asked_and_its_state_goes_back_untouched():
    form = {"method": ELICIT, "params": {"mode": "form", **FORM}}
    server = rounds(needs("s1", a=form, b={"method": "roots/list"}), needs("s2"), DONE)
    async with raw(server, "2025-06-18", **CAN) as client:
        id = client.request("tools/call", {"name": "up_t", "arguments": {"x": 1}})
        question = await client.hears(ELICIT)
        assert question["params"] == FORM  # 2025-06-18 has no modes
        client.send(id=question["id"], result=ANSWER)
        question = await client.hears("roots/list")
        client.send(id=question["id"], result={"roots": []})
        assert (await client.answer(id))["result"] == {"content": []}
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


async def test_what_the_client_refuses_ends_the_call_with_the_reason():
    server = rounds(needs(a={"method": ELICIT, "params": FORM}))
    async with raw(server, **CAN) as client:
        id = client.request("tools/call", {"name": "up_t"})
        question = await client.hears(ELICIT)
        client.send(id=question["id"], error={"code": -1, "message": "not now"})
        result = (await client.answer(id))["result"]
        assert result["isError"]
        assert "refused 'elicitation/create': not now" in result["content"][0]["text"]


async def test_what_was_not_declared_is_not_asked_in_rounds_either():
    server = rounds(needs(a={"method": SAMPLE, "params": {}}))
    async with raw(server, elicitation={}) as client:
        result = (await client.ask("tools/call", {"name": "up_t"}))["result"]
        assert "did not declare sampling" in result["content"][0]["text"]


@pytest.mark.parametrize(
    "result",
    [
        needs(a={"method": "tools/call", "params": {}}),
        {"resultType": "task", "task": {}},
        {"resultType": "input_required"},
    ],
)
async def test_rounds_that_break_the_rules_fail_the_call(result):
    async with raw(rounds(result), **CAN) as client:
        error = (await client.ask("tools/call", {"name": "up_t"}))["error"]
        assert error["data"] == {"server": "up", "error": "InvalidMessage"}


async def test_between_requests_that_stand_alone_questions_and_state_go_through():
    asked = needs("theirs", a={"method": ELICIT, "params": FORM, "x": 1})
    server = rounds(asked, DONE)
    async with raw(server, "2026-07-28", **CAN) as client:
        result = (await client.ask("tools/call", {"name": "up_t"}))["result"]
        state = result["requestState"]
        assert {key: result[key] for key in asked} == {**asked, "requestState": state}
        more = {"requestState": "theirs", "inputResponses": {"a": ANSWER}}
        await client.ask("tools/call", {"name": "up_t", **more, "requestState": state})
    assert server.requests("tools/call")[1].items() >= more.items()


async def test_sessions_that_share_their_servers_are_asked_by_their_calls():
    server = AskingServer()
    async with Gateway({"up": server}, share="identity") as gateway:
        clients = [RawClient(gateway) for _ in range(2)]
        for client in clients:
            await client.open(**CAN)
        for client in clients:
            id = client.request("tools/call", ASK)
            question = await client.hears(ELICIT)
            client.send(id=question["id"], result=ANSWER)
            (found,) = answers_in(await client.answer(id))
            assert found["result"] == ANSWER
        ids = [client.request("tools/call", ASK) for client in clients]
        both = [client.answer(id) for client, id in zip(clients, ids, strict=True)]
        for answer in await asyncio.gather(*both):
            assert "2 calls are under way" in answers_in(answer)[0]["error"]["message"]
        for client in clients:
            assert client.lines == []
            await client.aclose()


async def test_where_a_set_serves_several_clients_each_request_declares_its_own():
    server = rounds(*(DONE for _ in range(3)))
    key = f"{META}clientCapabilities"
    async with Gateway({"up": server}) as gateway:
        clients = [RawClient(gateway, "2026-07-28") for _ in range(3)]
        declared = ({}, {"sampling": {}}, {"elicitation": {"url": {}}})
        for client, each in zip(clients, declared, strict=True):
            await client.open(**each)
            await client.ask("tools/call", {"name": "up_t"})
            await client.aclose()
    calls = server.requests("tools/call")
    assert [call["_meta"][key] for call in calls] == list(declared)
