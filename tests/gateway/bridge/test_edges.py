"""Rare cases of relaying: timeouts, failures, invalid notifications."""

import asyncio
import sys

import attrs
import pytest
from bridged import (
    ACKNOWLEDGED,
    ASK,
    CAN,
    CANCELLED,
    DONE,
    ELICIT,
    FORM,
    META,
    STAMP,
    TASKS,
    TOOLS,
    AskingServer,
    a_request,
    answers_in,
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
from mcpwire.server.notifications import Hub

CHANGED = "notifications/tools/list_changed"
VISIT = {"mode": "url", "message": "go", "url": "https://a/", "elicitationId": "1"}


async def test_error_for_an_unconnected_server_names_it():
    class Gone:
        def open_in_memory(self, *_):
            raise ConnectionRefusedError("nobody listens")

    async with joined(Gateway({"gone": Gone()})) as client:
        (upstreams,) = client.gateway.pool.session_sets
        gone = upstreams.members["gone"]
        with pytest.raises(InternalError, match="'gone' is not connected"):
            await forward(gone, "tools/call", {"name": "t"}, a_request())


@on_a_virtual_clock
async def test_client_response_timeout_is_an_error_to_the_server():
    gateway = Gateway({"up": AskingServer()}, ask_timeout=0.02)
    async with joined(gateway, **CAN) as client:
        response = await client.ask("tools/call", ASK)
        (found,) = answers_in(response)
        assert found["error"]["code"] == -32603
        assert "did not answer" in found["error"]["message"]
        assert await client.wait_for(CANCELLED)


async def test_input_required_without_requests_is_retried_with_its_state():
    busy = {"resultType": "input_required", "requestState": "later"}
    server = rounds(busy, busy, DONE)
    async with joined(Gateway({"up": server})) as client:
        (upstreams,) = client.gateway.pool.session_sets
        connection = upstreams.members["up"].client.connection
        soon = Recovery(backoff_initial=0.01)
        connection.settings = attrs.evolve(connection.settings, recovery=soon)
        response = await client.call()
        assert response["result"] == {"content": []}
    states = [call.get("requestState") for call in server.requests("tools/call")]
    assert states == [None, "later", "later"]


async def test_refused_input_of_a_prompt_request_is_an_error():
    server = rounds()
    input_required = needs(a={"method": ELICIT, "params": FORM})
    server.members["capabilities"] = {"prompts": {}}
    server.methods["prompts/list"] = lambda *_: {"prompts": [{"name": "p"}], **STAMP}
    server.methods["prompts/get"] = lambda *_: input_required
    async with raw(server, **CAN) as client:
        id = client.request("prompts/get", {"name": "up_p"})
        elicitation = await client.wait_for(ELICIT)
        client.send(id=elicitation["id"], error={"code": -1, "message": "not now"})
        error = (await client.response(id))["error"]
    assert (error["code"], error["data"]) == (-32603, {"code": -1})


async def test_url_elicitation_error_reaches_a_client_without_url_elicitation():
    error = {"message": "sign in", "data": {"elicitations": [VISIT]}}
    server = AskingServer()
    server.methods["tools/call"] = lambda *_: rpc_error(-32042, **error)
    for declared in ({}, {"elicitation": {"form": {}}}):
        async with raw(server, "2026-07-28", **declared) as client:
            assert (await client.call())["error"] == {"code": -32603, **error}
    async with raw(server, "2025-11-25", **CAN) as client:
        assert (await client.call())["error"] == {"code": -32042, **error}


async def test_url_elicitation_error_after_an_elicitation_becomes_a_request():
    server = AskingServer()

    def refuse(_):
        error = {"code": -32042, "message": "go", "data": {"elicitations": [VISIT]}}
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "error": error})

    server.answered = refuse
    async with raw(server, "2026-07-28", **CAN) as client:
        input_required = (await client.ask("tools/call", ASK))["result"]
        answers = {
            key: {"action": "decline"} for key in input_required["inputRequests"]
        }
        state = input_required["requestState"]
        retry = {**ASK, "inputResponses": answers, "requestState": state}
        visits = (await client.ask("tools/call", retry))["result"]
    assert list(visits["inputRequests"]) == ["visit-1"]
    assert "requestState" not in visits


@pytest.mark.parametrize("code", [-32055, -32001, 7, -32602])
async def test_server_error_keeps_message_and_data_in_both_eras(code):
    server = AskingServer()
    server.methods["tools/call"] = lambda *_: rpc_error(code, "no", data={"why": 1})
    for down in ("2025-11-25", "2026-07-28"):
        async with raw(server, down) as client:
            error = (await client.call())["error"]
        assert (error["message"], error["data"]) == ("no", {"why": 1})
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


async def test_last_stderr_line_of_a_server_is_logged_and_not_sent_to_clients(caplog):
    up = mcpwire.Stdio(sys.executable, ["-S", "-c", DYING])
    async with joined(Gateway({"up": up})) as client:
        error = (await client.call())["error"]
    assert error["message"] == "'up' failed tools/call: the server exited with code 1"
    assert "last line of stderr: 'a key of the server'" in caplog.text


async def test_shared_session_gets_log_messages_of_its_calls_from_its_level():
    server = AskingServer()

    def talk(params, up):
        for level in ("debug", "error"):
            up.notify("notifications/message", level=level, data="x")
        return {"content": []}

    server.methods["tools/call"] = talk
    server.methods["logging/setLevel"] = lambda *_: {}
    async with joined(Gateway({"up": server}, share="identity")) as client:
        for level, expected in (("error", ["error"]), ("debug", ["debug", "error"])):
            await client.ask("logging/setLevel", {"level": level})
            await client.call()
            levels = [line["params"]["level"] for line in client.lines]
            assert levels == expected
            client.lines.clear()
        await client.ask("logging/setLevel", {"level": "alert"})
    levels = [each["level"] for each in server.requests("logging/setLevel")]
    assert levels == ["error", "debug"]


async def test_notifications_with_missing_or_invalid_params_are_dropped():
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
        await client.settle()
        assert client.lines == []


async def test_task_subscription_acknowledges_only_tasks_the_server_accepts():
    def listen(params, up):
        requested = params["notifications"]
        requested = {
            **requested,
            "taskIds": [id for id in requested["taskIds"] if id != "mute"],
        }
        up.notify(
            ACKNOWLEDGED,
            notifications={key: each for key, each in requested.items() if each},
            _meta={f"{META}subscriptionId": up.current["id"]},
        )
        return SILENCE

    def call(params, _):
        return {"resultType": "task", "taskId": params["arguments"]["id"]}

    up = FakeServer(
        {
            "subscriptions/listen": listen,
            "tools/call": call,
            "tools/list": lambda *_: {"tools": TOOLS, **STAMP},
        },
        version="2026-07-28",
        capabilities={"tools": {}, "extensions": {TASKS: {}}},
    )
    async with raw(up, "2026-07-28", extensions={TASKS: {}}) as client:
        loud, mute = [
            (await client.call(id=id))["result"]["taskId"] for id in ("loud", "mute")
        ]
        id, accepted = await client.listen(taskIds=[loud, mute, loud])
        assert accepted == {"taskIds": [loud]}
        client.cancel(id)
        bad = {"notifications": {"taskIds": [5]}}
        response = await client.ask("subscriptions/listen", bad)
        assert response["error"]["code"] == -32602


@on_a_virtual_clock
async def test_closed_change_throttle_sends_no_more_notifications():
    class CountingHub(Hub):
        sent = 0

        def notify(self, *_):
            self.sent += 1

    hub = CountingHub()
    throttle = ChangeThrottle(hub)
    throttle.notify(CHANGED)
    throttle.notify(CHANGED)
    assert hub.sent == 1
    throttle.close()
    throttle.notify(CHANGED)
    await asyncio.sleep(0.06)  # longer than the window
    assert hub.sent == 1


async def test_call_relays_only_valid_progress_with_the_clients_token():
    sent = []
    request = a_request(1, {"progressToken": "t"}, lambda *each: sent.append(each))
    call = RelayedCall(request)
    assert (
        repr(call) == "<RelayedCall <RequestContext tools/call 1, 2026-07-28> as None>"
    )
    call.relay_progress("notifications/message", {"progress": 1})
    call.relay_progress("notifications/progress", None)
    call.relay_progress("notifications/progress", {"progress": "1"})
    call.relay_progress("notifications/progress", {"progress": True})
    assert sent == []
    call.relay_progress("notifications/progress", {"progress": 1, "progressToken": 9})
    assert sent == [("notifications/progress", {"progress": 1, "progressToken": "t"})]
