"""A session's server asks a client that stands alone: its call waits, and goes on."""

from __future__ import annotations

import asyncio

import pytest
from bridged import FORM, META, AskingServer, RawClient, a_request
from clocks import on_a_virtual_clock
from fakes import SILENCE

from mcpwire.errors import InternalError
from mcpwire.gateway import Gateway
from mcpwire.gateway.downstream import (
    RelayedCall,
    SuspendedCalls,
    SuspensionLimits,
)
from mcpwire.server.request import RequestInfo

ELICIT = "elicitation/create"
CAN = {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}}
ASK = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]]}}
ANSWER = {"action": "accept", "content": {"name": "ann"}}


class Standing:
    """A gateway before one asking server, and a client that stands alone."""

    def __init__(self, **limits):
        self.server = AskingServer()
        self.gateway = Gateway({"up": self.server})
        if limits:
            self.gateway.suspension = SuspensionLimits(**limits)

    async def __aenter__(self):
        await self.gateway.__aenter__()
        self.client = RawClient(self.gateway, "2026-07-28")
        await self.client.open(**CAN)
        return self

    async def __aexit__(self, *_):
        await self.client.aclose()
        await self.gateway.__aexit__(None, None, None)

    async def call(self, params, **more):
        answer = await self.client.ask("tools/call", {**params, **more})
        return answer.get("result") or answer["error"]

    async def again(self, before, answers, params=ASK):
        """Make a call again with the state that it got and some answers."""
        state = before["requestState"]
        return await self.call(params, requestState=state, inputResponses=answers)

    def cancelled(self):
        return self.server.requests("notifications/cancelled")


def answers_in(result):
    return [each.get("result") for each in result["structuredContent"]["answers"]]


@pytest.mark.rule("MRTR-01")
async def test_what_is_asked_at_once_is_one_result_and_comes_again_unless_answered():
    async with Standing() as at:
        ask = [[ELICIT, FORM], ["roots/list", None]]
        params = {"name": "up_t", "arguments": {"ask": ask, "then": [[ELICIT, FORM]]}}
        first = await at.call(params)
        assert first["resultType"] == "input_required"
        assert first["inputRequests"] == {
            "elicitation-1": {"method": ELICIT, "params": FORM},
            "roots-2": {"method": "roots/list"},
        }
        answers = {"roots-2": {"roots": []}, "other": 5}
        second = await at.again(first, answers, params)
        assert list(second["inputRequests"]) == ["elicitation-1"]
        third = await at.again(second, {"elicitation-1": ANSWER}, params)
        assert list(third["inputRequests"]) == ["elicitation-3"]
        last = await at.again(third, {"elicitation-3": {"action": "decline"}}, params)
        assert last["resultType"] == "complete"
        assert answers_in(last) == [ANSWER, {"roots": []}, {"action": "decline"}]
        assert len(at.server.requests("tools/call")) == 1


@pytest.mark.attack("S33")
async def test_a_state_is_good_for_one_round_of_the_call_it_was_given_to():
    async with Standing() as at:
        first = await at.call(ASK)
        state = first["requestState"]
        responses = {"elicitation-1": ANSWER}
        other = {"name": "up_t", "arguments": {"ask": []}}
        for asked, given in ((other, state), (ASK, state[:-2] + "AA"), (ASK, "x")):
            refused = await at.call(asked, requestState=given, inputResponses=responses)
            assert refused["code"] == -32602
        refused = await at.call(ASK, requestState=state, inputResponses=[])
        assert refused["code"] == -32602
        refused = await at.call(
            ASK, requestState=state, inputResponses={"elicitation-1": 5}
        )
        assert refused["code"] == -32602
        done = await at.call(ASK, requestState=state, inputResponses=responses)
        assert answers_in(done) == [ANSWER]
        refused = await at.call(ASK, requestState=state, inputResponses=responses)
        assert "not waiting any more" in refused["message"]


async def test_one_request_at_a_time_goes_on_with_a_call():
    async with Standing() as at:
        params = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]] * 2}}
        first = await at.call(params)
        second = await at.again(first, {"elicitation-1": ANSWER}, params)
        assert list(second["inputRequests"]) == ["elicitation-2"]
        used = await at.again(first, {"elicitation-1": ANSWER}, params)
        assert "used before" in used["message"]


@on_a_virtual_clock
async def test_a_client_that_takes_too_long_ends_the_servers_call():
    async with Standing(timeout=0.02) as at:
        first = await at.call(ASK)
        await asyncio.sleep(0.05)  # the time is what is tested
        (call,) = [m for m in at.server.received if m.get("method") == "tools/call"]
        assert at.cancelled()[0]["requestId"] == call["id"]
        assert len(at.gateway.suspension.calls) == 0
        late = await at.again(first, {"elicitation-1": ANSWER})
        assert late["code"] == -32602


@pytest.mark.attack("X07")
async def test_beyond_the_bound_the_call_of_a_client_that_waited_for_longest_ends():
    async with Standing(max_calls=1) as at:
        first = await at.call(ASK)
        other = RawClient(at.gateway, "2026-07-28")  # declares less: another set
        await other.open(elicitation={})
        answer = await other.ask("tools/call", ASK)
        assert list(answer["result"]["inputRequests"]) == ["elicitation-1"]
        assert len(at.gateway.suspension.calls) == len(at.cancelled()) == 1
        late = {"requestState": first["requestState"], "inputResponses": {}}
        assert "not waiting any more" in (await at.call({**ASK, **late}))["message"]
        await other.aclose()
    assert len(at.gateway.suspension.calls) == 0


@pytest.mark.attack("X07")
async def test_questions_that_a_stranger_leaves_open_take_no_room_from_others():
    parking = SuspensionLimits(max_calls=4)
    lots = [SuspendedCalls(parking) for _ in range(2)]
    ended = []

    async def work(call, name):
        try:
            await call.suspended.send_request("roots/list", None)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    async def ask(lot, address, name):
        info = RequestInfo(scope={"client": (address, 50_000)})
        call = RelayedCall(a_request(name, info=info))
        result = await lot.perform(call, work(call, name))
        assert list(result["inputRequests"]) == ["roots-1"]
        await asyncio.sleep(0)  # the cancelled call ends

    for number in range(4):
        await ask(lots[0], "192.0.2.1", number)
    for name in "ab":
        await ask(lots[1], "198.51.100.1", name)
    assert ended == [0, 1]
    for number in (4, 5, 6):
        await ask(lots[0], "192.0.2.1", number)
    assert ended == [0, 1, 2, 3, 4]
    assert len(lots[1]) == 2
    for lot in lots:
        lot.close()
    assert len(parking.calls) == 0


@pytest.mark.attack("X07")
async def test_calls_that_a_stranger_waits_for_end_for_a_client_with_fewer():
    parking = SuspensionLimits(max_calls=2)
    lot = SuspendedCalls(parking)

    async def work(call):
        await call.suspended.send_request("roots/list", None)
        await asyncio.Event().wait()

    async def asked(address):
        info = RequestInfo(scope={"client": (address, 50_000)})
        context = a_request(info=info)
        call = RelayedCall(context)
        result = await lot.perform(call, work(call))
        assert list(result["inputRequests"]) == ["roots-1"]
        return call, context

    waited_for = []
    for _ in range(2):
        call, context = await asked("192.0.2.1")
        call.suspended.accept_answers({"roots-1": {}}, context)
        waited_for.append(asyncio.create_task(call.suspended.outcome()))
    await asked("198.51.100.1")
    with pytest.raises(InternalError, match="given up for others"):
        await waited_for[0]
    assert not waited_for[1].done()
    lot.close()
    with pytest.raises(InternalError, match="given up"):
        await waited_for[1]
    assert len(parking.calls) == 0


async def test_calls_that_are_waited_for_do_not_end_for_others():
    parking = SuspensionLimits(max_calls=1)
    lot = SuspendedCalls(parking)
    calls = [RelayedCall(a_request(id)) for id in range(2)]

    async def attended():
        return await calls[1].suspended.send_request("roots/list", None)

    async def work():
        waiting = asyncio.ensure_future(
            calls[0].suspended.send_request("roots/list", None)
        )
        await asyncio.sleep(0)
        with pytest.raises(InternalError, match="too many calls"):
            await lot.perform(calls[1], attended())
        waiting.cancel()
        return {}

    assert await lot.perform(calls[0], work()) == {}
    assert len(parking.calls) == 0


async def test_cancelling_a_request_that_goes_on_with_a_call_ends_the_call():
    async with Standing() as at:
        first = await at.call(ASK)
        at.server.asking.clear()  # it gets its answer and never says anything more
        params = {
            **ASK,
            "requestState": first["requestState"],
            "inputResponses": {"elicitation-1": ANSWER},
        }
        id = at.client.request("tools/call", params)
        await at.client.ask("server/discover")
        at.client.send(method="notifications/cancelled", params={"requestId": id})
        for _ in range(3):
            await at.client.ask("server/discover")
        assert len(at.cancelled()) == 1
        assert len(at.gateway.suspension.calls) == 0


async def test_a_question_that_is_taken_back_is_not_asked_again():
    async with Standing() as at:
        params = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]] * 2}}
        first = await at.call(params)
        at.server.notify("notifications/cancelled", requestId="q2")
        at.server.asking["q1"][1].remove("q2")
        done = await at.again(
            first, {"elicitation-1": ANSWER, "elicitation-2": ANSWER}, params
        )
        assert answers_in(done) == [ANSWER]


async def test_progress_and_logs_go_to_the_request_that_waits_now():
    async with Standing() as at:
        level = {f"{META}logLevel": "debug"}
        id = at.client.request("tools/call", ASK, progressToken="a", **level)
        first = (await at.client.answer(id))["result"]
        (call,) = at.server.requests("tools/call")
        token = call["_meta"]["progressToken"]
        at.server.notify("notifications/progress", progressToken=token, progress=1)
        at.server.asking["q1"][2] = [["roots/list", None]]  # so that it goes on waiting
        params = {
            **ASK,
            "requestState": first["requestState"],
            "inputResponses": {"elicitation-1": ANSWER},
        }
        at.client.lines.clear()
        id = at.client.request("tools/call", params, progressToken="b", **level)
        await at.client.answer(id)
        at.client.lines.clear()
        at.server.notify("notifications/progress", progressToken=token, progress=2)
        await at.client.ask("server/discover")
        # Nobody waits: nobody hears.
        assert at.client.lines == []


async def test_closing_the_gateway_ends_what_waits():
    async with Standing() as at:
        await at.call(ASK)
    assert len(at.gateway.suspension.calls) == 0


async def test_a_server_that_dies_fails_the_call_that_waits_and_nothing_else():
    async with Standing() as at:
        first = await at.call(ASK)
        await at.server.channel.aclose()
        lost = await at.again(first, {"elicitation-1": ANSWER})
        assert lost["data"]["error"] == "ConnectionClosed"
        again = await at.call({"name": "up_t"})
        assert again["content"] == []


async def test_visits_that_a_call_fails_for_are_asked_and_the_call_is_made_again():
    visit = {
        "mode": "url",
        "message": "sign in",
        "url": "https://example.com/",
        "elicitationId": "e1",
    }
    async with Standing() as at:
        refused = []

        def needs(params, server):
            if refused:
                return {"content": []}
            refused.append(params)
            data = {"elicitations": [visit]}
            error = {"code": -32042, "message": "sign in", "data": data}
            server.send({"jsonrpc": "2.0", "id": server.current["id"], "error": error})
            return SILENCE

        at.server.methods["tools/call"] = needs
        first = await at.call({"name": "up_t"})
        asked = {key: each for key, each in visit.items() if key != "elicitationId"}
        assert first["inputRequests"] == {
            "visit-1": {"method": ELICIT, "params": asked}
        }
        declined = await at.call(
            {"name": "up_t"}, inputResponses={"visit-1": {"action": "decline"}}
        )
        assert declined["isError"]
        done = await at.call(
            {"name": "up_t"}, inputResponses={"visit-1": {"action": "accept"}}
        )
        assert done["content"] == []
        assert "inputResponses" not in at.server.requests("tools/call")[-1]
