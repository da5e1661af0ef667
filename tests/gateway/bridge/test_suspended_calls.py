"""A session server needs input of a stateless client: its call is suspended."""

import asyncio

import pytest
from bridged import (
    ANSWER,
    ASK,
    CAN,
    ELICIT,
    FORM,
    META,
    AskingServer,
    RawClient,
    a_request,
)
from clocks import on_a_virtual_clock

from mcpwire.errors import InternalError, rpc_error
from mcpwire.gateway import Gateway
from mcpwire.gateway.downstream import RelayedCall, SuspendedCalls, SuspensionLimits
from mcpwire.server.request import RequestInfo

TWO = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]] * 2}}


class StatelessSetup:
    """A gateway with one server that sends requests, and a stateless client."""

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
        response = await self.client.ask("tools/call", {**params, **more})
        return response.get("result") or response["error"]

    async def again(self, before, answers, params=ASK):
        """Repeat a call with its state and some input responses."""
        state = before["requestState"]
        return await self.call(params, requestState=state, inputResponses=answers)

    def cancelled(self):
        return self.server.requests("notifications/cancelled")


def answers_in(result):
    return [each.get("result") for each in result["structuredContent"]["answers"]]


@pytest.mark.rule("MRTR-01")
async def test_concurrent_requests_are_one_result_and_unanswered_ones_repeat():
    async with StatelessSetup() as at:
        requests = [[ELICIT, FORM], ["roots/list", None]]
        params = {
            "name": "up_t",
            "arguments": {"ask": requests, "then": [[ELICIT, FORM]]},
        }
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
async def test_request_state_is_valid_for_one_round_of_its_call():
    async with StatelessSetup() as at:
        first = await at.call(ASK)
        state = first["requestState"]
        responses = {"elicitation-1": ANSWER}
        other = {"name": "up_t", "arguments": {"ask": []}}
        for params, given, answers in (
            (other, state, responses),
            (ASK, state[:-2] + "AA", responses),
            (ASK, "x", responses),
            (ASK, state, []),
            (ASK, state, {"elicitation-1": 5}),
        ):
            refused = await at.call(params, requestState=given, inputResponses=answers)
            assert refused["code"] == -32602
        done = await at.call(ASK, requestState=state, inputResponses=responses)
        assert answers_in(done) == [ANSWER]
        refused = await at.call(ASK, requestState=state, inputResponses=responses)
        assert "has expired" in refused["message"]


async def test_reused_request_state_is_refused():
    async with StatelessSetup() as at:
        first = await at.call(TWO)
        second = await at.again(first, {"elicitation-1": ANSWER}, TWO)
        assert list(second["inputRequests"]) == ["elicitation-2"]
        used = await at.again(first, {"elicitation-1": ANSWER}, TWO)
        assert "used before" in used["message"]


@on_a_virtual_clock
async def test_suspended_call_is_cancelled_after_the_timeout():
    async with StatelessSetup(timeout=0.02) as at:
        first = await at.call(ASK)
        await asyncio.sleep(0.05)  # longer than the timeout under test
        (call,) = [m for m in at.server.received if m.get("method") == "tools/call"]
        assert at.cancelled()[0]["requestId"] == call["id"]
        # A server that does not withdraw them would have ever more open requests.
        assert "has ended" in at.server.answers["q1"]["error"]["message"]
        assert len(at.gateway.suspension.calls) == 0
        late = await at.again(first, {"elicitation-1": ANSWER})
        assert late["code"] == -32602


@pytest.mark.attack("X07")
async def test_longest_suspended_call_ends_over_the_limit():
    async with StatelessSetup(max_calls=1) as at:
        first = await at.call(ASK)
        other = RawClient(at.gateway, "2026-07-28")  # declares less: another set
        await other.open(elicitation={})
        response = await other.ask("tools/call", ASK)
        assert list(response["result"]["inputRequests"]) == ["elicitation-1"]
        assert len(at.gateway.suspension.calls) == len(at.cancelled()) == 1
        late = {"requestState": first["requestState"], "inputResponses": {}}
        assert "has expired" in (await at.call({**ASK, **late}))["message"]
        await other.aclose()
    assert len(at.gateway.suspension.calls) == 0


@pytest.mark.attack("X07")
async def test_over_the_limit_the_client_with_most_suspended_calls_loses_one():
    limits = SuspensionLimits(max_calls=4)
    groups = [SuspendedCalls(limits) for _ in range(2)]
    ended = []

    async def work(call, name):
        try:
            await call.suspended.send_request("roots/list", None)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    async def ask(group, address, name):
        info = RequestInfo(scope={"client": (address, 50_000)})
        call = RelayedCall(a_request(name, info=info))
        result = await group.perform(call, work(call, name))
        assert list(result["inputRequests"]) == ["roots-1"]
        await asyncio.sleep(0)  # the cancelled call ends

    for number in range(4):
        await ask(groups[0], "192.0.2.1", number)
    for name in "ab":
        await ask(groups[1], "198.51.100.1", name)
    assert ended == [0, 1]
    for number in (4, 5, 6):
        await ask(groups[0], "192.0.2.1", number)
    assert ended == [0, 1, 2, 3, 4]
    assert len(groups[1]) == 2
    for group in groups:
        group.close()
    assert len(limits.calls) == 0


@pytest.mark.attack("X07")
async def test_resumed_calls_of_one_client_end_for_a_client_with_fewer():
    limits = SuspensionLimits(max_calls=2)
    group = SuspendedCalls(limits)

    async def work(call):
        await call.suspended.send_request("roots/list", None)
        await asyncio.Event().wait()

    async def suspend(address):
        info = RequestInfo(scope={"client": (address, 50_000)})
        context = a_request(info=info)
        call = RelayedCall(context)
        result = await group.perform(call, work(call))
        assert list(result["inputRequests"]) == ["roots-1"]
        return call, context

    resumed = []
    for _ in range(2):
        call, context = await suspend("192.0.2.1")
        call.suspended.accept_answers({"roots-1": {}}, context)
        resumed.append(asyncio.create_task(call.suspended.outcome()))
    await suspend("198.51.100.1")
    with pytest.raises(InternalError, match="dropped in favour of others"):
        await resumed[0]
    assert not resumed[1].done()
    group.close()
    with pytest.raises(InternalError, match="dropped"):
        await resumed[1]
    assert len(limits.calls) == 0


async def test_call_with_a_waiting_request_is_not_ended_for_another():
    limits = SuspensionLimits(max_calls=1)
    group = SuspendedCalls(limits)
    calls = [RelayedCall(a_request(id)) for id in range(2)]

    async def attended():
        return await calls[1].suspended.send_request("roots/list", None)

    async def work():
        waiting = asyncio.ensure_future(
            calls[0].suspended.send_request("roots/list", None)
        )
        await asyncio.sleep(0)
        with pytest.raises(InternalError, match="too many calls"):
            await group.perform(calls[1], attended())
        waiting.cancel()
        return {}

    assert await group.perform(calls[0], work()) == {}
    assert len(limits.calls) == 0


async def test_cancelling_a_resuming_request_cancels_the_call():
    async with StatelessSetup() as at:
        first = await at.call(ASK)
        at.server.asking.clear()  # it gets its response and sends no result
        params = {
            **ASK,
            "requestState": first["requestState"],
            "inputResponses": {"elicitation-1": ANSWER},
        }
        id = at.client.request("tools/call", params)
        await at.client.ask("server/discover")
        at.client.cancel(id)
        await at.client.settle()
        assert len(at.cancelled()) == 1
        assert len(at.gateway.suspension.calls) == 0


async def test_request_cancelled_by_the_server_is_not_repeated():
    async with StatelessSetup() as at:
        first = await at.call(TWO)
        at.server.notify("notifications/cancelled", requestId="q2")
        at.server.asking["q1"][1].remove("q2")
        answers = {"elicitation-1": ANSWER, "elicitation-2": ANSWER}
        done = await at.again(first, answers, TWO)
        assert answers_in(done) == [ANSWER]


async def test_progress_without_a_waiting_request_is_dropped():
    async with StatelessSetup() as at:
        level = {f"{META}logLevel": "debug"}
        id = at.client.request("tools/call", ASK, progressToken="a", **level)
        first = (await at.client.response(id))["result"]
        (call,) = at.server.requests("tools/call")
        token = call["_meta"]["progressToken"]
        at.server.notify("notifications/progress", progressToken=token, progress=1)
        at.server.asking["q1"][2] = [
            ["roots/list", None]
        ]  # so that the call stays suspended
        params = {
            **ASK,
            "requestState": first["requestState"],
            "inputResponses": {"elicitation-1": ANSWER},
        }
        at.client.lines.clear()
        id = at.client.request("tools/call", params, progressToken="b", **level)
        await at.client.response(id)
        at.client.lines.clear()
        at.server.notify("notifications/progress", progressToken=token, progress=2)
        await at.client.ask("server/discover")
        # No request is waiting, so no notification is sent.
        assert at.client.lines == []


async def test_closing_the_gateway_ends_suspended_calls():
    async with StatelessSetup() as at:
        await at.call(ASK)
    assert len(at.gateway.suspension.calls) == 0


async def test_lost_server_fails_only_its_suspended_call():
    async with StatelessSetup() as at:
        first = await at.call(ASK)
        await at.server.channel.aclose()
        lost = await at.again(first, {"elicitation-1": ANSWER})
        assert lost["data"]["error"] == "ConnectionClosed"
        again = await at.call({"name": "up_t"})
        assert again["content"] == []


async def test_url_elicitations_of_an_error_are_requested_and_the_call_repeated():
    visit = {"mode": "url", "message": "sign in", "url": "https://example.com/"}
    data = {"elicitations": [{**visit, "elicitationId": "e1"}]}
    outcomes = [rpc_error(-32042, "sign in", data=data), *[{"content": []}] * 2]
    async with StatelessSetup() as at:
        at.server.methods["tools/call"] = lambda *_: outcomes.pop(0)
        first = await at.call({"name": "up_t"})
        expected = {"method": ELICIT, "params": visit}
        assert first["inputRequests"] == {"visit-1": expected}
        answers = {"visit-1": {"action": "decline"}}
        assert (await at.call({"name": "up_t"}, inputResponses=answers))["isError"]
        answers = {"visit-1": {"action": "accept"}}
        done = await at.call({"name": "up_t"}, inputResponses=answers)
        assert done["content"] == []
        assert "inputResponses" not in at.server.requests("tools/call")[-1]
