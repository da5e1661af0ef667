"""What seldom happens on the way across, and what comes of it."""

from __future__ import annotations

import asyncio
import sys

import attrs
import pytest
from bridged import (
    DONE,
    FORM,
    META,
    AskingServer,
    a_request,
    joined,
    needs,
    raw,
    rounds,
)
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer

import mcpwire
from mcpwire.errors import InternalError, rpc_error
from mcpwire.gateway import Gateway
from mcpwire.gateway.downstream import RelayedCall
from mcpwire.gateway.forwarding import forward
from mcpwire.gateway.upstream import ChangeThrottle
from mcpwire.limits import Recovery
from mcpwire.server.notifications import TOOLS, Hub

ELICIT = "elicitation/create"
CAN = {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}}
ASK = {"name": "up_t", "arguments": {"ask": [[ELICIT, FORM]]}}
TASKS = "io.modelcontextprotocol/tasks"


def answers_in(answer):
    return answer["result"]["structuredContent"]["answers"]


async def test_a_server_that_is_not_there_is_named():
    class Gone:
        def open_in_memory(self, *_):
            raise ConnectionRefusedError("nobody listens")

    async with joined(Gateway({"gone": Gone()})) as client:
        (upstreams,) = client.gateway.session_sets
        gone = upstreams.members["gone"]
        with pytest.raises(InternalError, match="'gone' is not connected"):
            await forward(gone, "tools/call", {"name": "t"}, a_request(), upstreams)


@on_a_virtual_clock
async def test_a_client_that_does_not_answer_in_time_is_an_error_to_the_server():
    gateway = Gateway({"up": AskingServer()}, ask_timeout=0.02)
    async with joined(gateway, **CAN) as client:
        answer = await client.ask("tools/call", ASK)
        (found,) = answers_in(answer)
        assert found["error"]["code"] == -32603
        assert "did not answer" in found["error"]["message"]
        assert await client.hears("notifications/cancelled")


async def test_a_server_that_sends_its_client_away_is_asked_again_a_little_later():
    busy = {"resultType": "input_required", "requestState": "later"}
    server = rounds(busy, busy, DONE)
    async with joined(Gateway({"up": server})) as client:
        (upstreams,) = client.gateway.session_sets
        connection = upstreams.members["up"].client.connection
        soon = Recovery(backoff_initial=0.01)
        connection.settings = attrs.evolve(connection.settings, recovery=soon)
        answer = await client.ask("tools/call", {"name": "up_t"})
        assert answer["result"] == {"content": []}
    states = [call.get("requestState") for call in server.requests("tools/call")]
    assert states == [None, "later", "later"]


async def test_what_the_client_refuses_elsewhere_than_in_a_tool_is_an_error():
    server = rounds()
    asked = needs(a={"method": ELICIT, "params": FORM})
    stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    server.members["capabilities"] = {"prompts": {}}
    server.methods["prompts/list"] = lambda *_: {"prompts": [{"name": "p"}], **stamp}
    server.methods["prompts/get"] = lambda *_: asked
    async with raw(server, **CAN) as client:
        id = client.request("prompts/get", {"name": "up_p"})
        question = await client.hears(ELICIT)
        client.send(id=question["id"], error={"code": -1, "message": "not now"})
        error = (await client.answer(id))["error"]
    assert (error["code"], error["data"]) == (-32603, {"code": -1})


async def test_a_visit_that_a_call_fails_for_is_an_error_to_who_cannot_be_asked():
    visit = {"mode": "url", "message": "go", "url": "https://a/", "elicitationId": "1"}
    data = {"elicitations": [visit]}
    server = AskingServer()

    def refuse(*_):
        error = {"code": -32042, "message": "sign in", "data": data}
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "error": error})
        return SILENCE

    server.methods["tools/call"] = refuse
    for declared in ({}, {"elicitation": {"form": {}}}):
        async with raw(server, "2026-07-28", **declared) as client:
            answer = await client.ask("tools/call", {"name": "up_t"})
            assert answer["error"] == {
                "code": -32603,
                "message": "sign in",
                "data": data,
            }
    async with raw(server, "2025-11-25", **CAN) as client:
        answer = await client.ask("tools/call", {"name": "up_t"})
        assert answer["error"] == {"code": -32042, "message": "sign in", "data": data}


async def test_a_visit_that_a_call_fails_for_after_a_question_is_asked_for_too():
    visit = {"mode": "url", "message": "go", "url": "https://a/", "elicitationId": "1"}
    server = AskingServer()

    def refuse(_):
        error = {"code": -32042, "message": "go", "data": {"elicitations": [visit]}}
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "error": error})

    server.answered = refuse
    async with raw(server, "2026-07-28", **CAN) as client:
        asked = (await client.ask("tools/call", ASK))["result"]
        answers = {key: {"action": "decline"} for key in asked["inputRequests"]}
        state = asked["requestState"]
        again = {**ASK, "inputResponses": answers, "requestState": state}
        visits = (await client.ask("tools/call", again))["result"]
    assert list(visits["inputRequests"]) == ["visit-1"]
    assert "requestState" not in visits


@pytest.mark.parametrize("code", [-32055, -32001, 7, -32602])
async def test_a_servers_error_is_told_with_its_words_in_both_eras(code):
    server = AskingServer()

    def refuse(*_):
        error = {"code": code, "message": "no luck", "data": {"why": 1}}
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "error": error})
        return SILENCE

    server.methods["tools/call"] = refuse
    for down in ("2025-11-25", "2026-07-28"):
        async with raw(server, down) as client:
            error = (await client.ask("tools/call", {"name": "up_t"}))["error"]
        assert (error["message"], error["data"]) == ("no luck", {"why": 1})
        is_unknown = down == "2026-07-28" and code in {-32055, -32001}
        assert error["code"] == (-32603 if is_unknown else code)


DYING = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        sys.exit("a key of the server")
    if "id" not in message:
        continue
    info = {"name": "up", "version": "1"}
    about = {"protocolVersion": "2025-11-25", "serverInfo": info}
    tool = {"name": "t", "inputSchema": {"type": "object"}}
    result = {**about, "capabilities": {"tools": {}}, "tools": [tool]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    sys.stdout.flush()
"""


async def test_what_a_server_wrote_at_its_end_is_logged_and_no_client_reads_it(caplog):
    up = mcpwire.Stdio(sys.executable, ["-S", "-c", DYING])
    async with joined(Gateway({"up": up})) as client:
        error = (await client.ask("tools/call", {"name": "up_t"}))["error"]
    assert error["message"] == "'up' failed tools/call: the server exited with code 1"
    assert "last line of stderr: 'a key of the server'" in caplog.text


async def test_sessions_that_share_hear_the_log_of_their_own_calls():
    server = AskingServer()

    def talk(params, up):
        for level in ("debug", "error"):
            up.notify("notifications/message", level=level, data="x")
        return {"content": []}

    server.methods["tools/call"] = talk
    server.methods["logging/setLevel"] = lambda *_: {}
    async with joined(Gateway({"up": server}, share="identity")) as client:
        for level, heard in (("error", ["error"]), ("debug", ["debug", "error"])):
            await client.ask("logging/setLevel", {"level": level})
            await client.ask("tools/call", {"name": "up_t"})
            told = [line["params"]["level"] for line in client.lines]
            assert told == heard
            client.lines.clear()
        await client.ask("logging/setLevel", {"level": "alert"})
    told = [each["level"] for each in server.requests("logging/setLevel")]
    assert told == ["error", "debug"]


async def test_notifications_without_their_params_reach_nobody():
    up = FakeServer(
        capabilities={"logging": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
    )
    async with raw(up) as client:
        await client.ask("ping")
        for method in (
            "notifications/message",
            "notifications/tasks/status",
            "notifications/tasks",
            "notifications/resources/updated",
        ):
            up.send({"jsonrpc": "2.0", "method": method})
            up.notify(method, taskId=5, uri=5)
        await client.ask("ping")
        await client.ask("ping")
        assert client.lines == []


async def test_a_subscription_that_nobody_wants_any_more_is_left_behind():
    refused = rpc_error(-32603, "no")
    up = FakeServer(
        {
            "resources/list": lambda *_: {"resources": [{"uri": "a:b", "name": "b"}]},
            "resources/templates/list": lambda *_: {"resourceTemplates": []},
            "resources/subscribe": lambda *_: {},
            "resources/unsubscribe": lambda *_: refused,
        },
        capabilities={"resources": {"subscribe": True}},
    )
    async with raw(up) as client:
        await client.ask("resources/subscribe", {"uri": "a:b"})
        answer = await client.ask("resources/unsubscribe", {"uri": "a:b"})
        assert answer["result"] == {}
        # One that is cancelled on the way leaves nothing behind.
        up.methods["resources/subscribe"] = lambda *_: SILENCE
        id = client.request("resources/subscribe", {"uri": "a:b"})
        await client.ask("ping")
        client.send(method="notifications/cancelled", params={"requestId": id})
        for _ in range(3):
            await client.ask("ping")
        up.methods["resources/subscribe"] = lambda *_: {}
        answer = await client.ask("resources/subscribe", {"uri": "a:b"})
        assert answer["result"] == {}
        answer = await client.ask("subscriptions/listen", {"notifications": {}})
        assert "error" in answer


async def test_who_listens_to_tasks_hears_of_those_that_somebody_tells_of():
    def listen(params, up):
        asked = params["notifications"]
        asked = {**asked, "taskIds": [id for id in asked["taskIds"] if id != "mute"]}
        up.notify(
            "notifications/subscriptions/acknowledged",
            notifications={key: each for key, each in asked.items() if each},
            _meta={f"{META}subscriptionId": up.current["id"]},
        )
        return SILENCE

    def call(params, _):
        return {"resultType": "task", "taskId": params["arguments"]["id"]}

    tools = [{"name": "t", "inputSchema": {"type": "object"}}]
    listed = {"resultType": "complete", "tools": tools}
    listed |= {"ttlMs": 0, "cacheScope": "private"}
    up = FakeServer(
        {
            "subscriptions/listen": listen,
            "tools/call": call,
            "tools/list": lambda *_: listed,
        },
        version="2026-07-28",
        capabilities={"tools": {}, "extensions": {TASKS: {}}},
    )
    async with raw(up, "2026-07-28", extensions={TASKS: {}}) as client:
        loud, mute = [
            (await client.ask("tools/call", {"name": "up_t", "arguments": {"id": id}}))[
                "result"
            ]["taskId"]
            for id in ("loud", "mute")
        ]
        wanted = {"notifications": {"taskIds": [loud, mute, loud]}}
        id = client.request("subscriptions/listen", wanted)
        told = await client.hears("notifications/subscriptions/acknowledged")
        assert told["params"]["notifications"] == {"taskIds": [loud]}
        client.send(method="notifications/cancelled", params={"requestId": id})
        bad = {"notifications": {"taskIds": [5]}}
        answer = await client.ask("subscriptions/listen", bad)
        assert answer["error"]["code"] == -32602


@on_a_virtual_clock
async def test_a_teller_that_is_closed_says_nothing_more():
    class Told(Hub):
        told = 0

        def notify(self, *_):
            self.told += 1

    hub = Told()
    throttle = ChangeThrottle(hub)
    throttle.notify(TOOLS)
    throttle.notify(TOOLS)
    assert hub.told == 1
    throttle.close()
    throttle.notify(TOOLS)
    await asyncio.sleep(0.06)  # longer than the window
    assert hub.told == 1


async def test_a_call_passes_on_nothing_but_progress_that_it_was_asked_for():
    told = []
    request = a_request(1, {"progressToken": "t"}, lambda *each: told.append(each))
    call = RelayedCall(request)
    assert (
        repr(call) == "<RelayedCall <RequestContext tools/call 1, 2026-07-28> as None>"
    )
    call.relay_progress("notifications/message", {"progress": 1})
    call.relay_progress("notifications/progress", None)
    call.relay_progress("notifications/progress", {"progress": "1"})
    call.relay_progress("notifications/progress", {"progress": True})
    assert told == []
    call.relay_progress("notifications/progress", {"progress": 1, "progressToken": 9})
    assert told == [("notifications/progress", {"progress": 1, "progressToken": "t"})]
