"""Notifications of servers, and subscriptions and log levels set by clients."""

import asyncio
import itertools

import attrs
import pytest
from bridged import (
    ACKNOWLEDGED,
    CANCELLED,
    META,
    STAMP,
    TOOLS,
    AskingServer,
    joined,
    raw,
    several,
)
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer
from loop_polling import until

from mcpwire.errors import InternalError, rpc_error
from mcpwire.gateway import Gateway
from mcpwire.gateway.gateway import GATEWAY_LIMITS

CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
LOG = "notifications/message"
LEVEL = f"{META}logLevel"

RESOURCES = {"resources": [{"uri": "memo://1", "name": "memo"}]}


def server(version="2025-11-25", **methods):
    stamp = STAMP if version == "2026-07-28" else {}
    answers = {
        "tools/list": {"tools": TOOLS},
        "resources/list": RESOURCES,
        "resources/templates/list": {"resourceTemplates": []},
        "tools/call": {"content": []},
        "resources/subscribe": {},
        "resources/unsubscribe": {},
        "logging/setLevel": {},
    }
    found = {
        method: lambda *_, answer=answer: {**answer, **stamp}
        for method, answer in answers.items()
    }
    return FakeServer(
        {**found, **methods},
        version=version,
        capabilities={
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "logging": {},
        },
    )


def refuse(*_):
    return rpc_error(-32002, "no such resource")


async def test_burst_of_changes_becomes_one_notification_and_a_later_one_another():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        for _ in range(20):
            up.notify(CHANGED)
            await asyncio.sleep(0)  # one loop iteration
        await client.wait_for(CHANGED)
        up.notify(CHANGED)
        await client.wait_for(CHANGED)
        await client.settle()
        assert client.lines == []


@pytest.mark.system("O72")
async def test_reconnecting_sends_list_changed_for_all_lists():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        await up.channel.aclose()
        up.methods["tools/list"] = lambda *_: {"tools": [{**TOOLS[0], "name": "new"}]}
        response = await client.call()
        assert response["result"]["content"] == []
        assert await client.wait_for(CHANGED)
        assert await client.wait_for("notifications/resources/list_changed")
        new = await client.ask("tools/list")
    assert [each["name"] for each in new["result"]["tools"]] == ["up_new"]


class EndingServer(FakeServer):
    """A server that ends each subscription some time after acknowledging it."""

    def __init__(self, lasting):
        up = server("2026-07-28")
        super().__init__(up.methods, version=up.version, **up.members)
        self.methods["subscriptions/listen"] = self.listen
        self.lasting, self.listens = lasting, []

    def listen(self, params, _):
        loop, id = asyncio.get_running_loop(), self.current["id"]
        meta = {f"{META}subscriptionId": id}
        self.notify(ACKNOWLEDGED, notifications=params["notifications"], _meta=meta)
        self.listens.append(loop.time())
        end = {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}}
        duration = self.lasting(len(self.listens))
        if duration == 0:
            self.send(end)
        elif duration is not None:
            loop.call_later(duration, self.send, end)
        return SILENCE

    def pauses(self):
        """Return the seconds from each subscription to the next."""
        pairs = itertools.pairwise(self.listens)
        return [round(after - before) for before, after in pairs]


@pytest.mark.parametrize(
    ("lasting", "pauses"),
    [
        pytest.param(lambda n: 0 if n == 1 else None, [1], id="once, at once"),
        pytest.param(lambda n: 5 if n == 1 else None, [6], id="once, later"),
        pytest.param(lambda _: 0, [1, 2, 4, 8, 16, 30, 30], id="always, at once"),
        pytest.param(lambda _: 5, [6, 7, 9, 13, 21, 35], id="always, later"),
        pytest.param(lambda _: 40, [41, 41], id="always, when it has lasted"),
        pytest.param(
            lambda n: 40 if n == 3 else 0, [1, 2, 41, 2, 4, 8, 16, 30], id="mixed"
        ),
    ],
)
@on_a_virtual_clock
async def test_subscription_ended_by_the_server_is_reopened_with_backoff(
    lasting, pauses
):
    up = EndingServer(lasting)
    async with raw(up, "2025-11-25") as client:
        await client.ask("tools/list")
        await asyncio.sleep(121)  # of the virtual clock
        assert up.pauses() == pauses
        methods = [line["method"] for line in client.lines]
        assert methods.count(CHANGED) == len(pauses)


@on_a_virtual_clock
async def test_updated_subscription_that_ends_at_once_is_reopened_with_backoff():
    up = EndingServer(lambda n: 0 if n > 1 else None)
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list")
        for _ in range(2):
            await client.listen(resourceSubscriptions=["memo://1"])
        await asyncio.sleep(20)  # of the virtual clock
        assert up.pauses()[1:] == [0, 1, 2, 4, 8]


async def test_stateless_subscription_gets_list_changes_and_updates():
    up = server()
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list")
        requested = {"toolsListChanged": True, "resourceSubscriptions": ["memo://1"]}
        id, accepted = await client.listen(**requested)
        assert accepted == requested
        up.notify(CHANGED)
        up.notify(UPDATED, uri="memo://1")
        assert (await client.wait_for(CHANGED))["params"]["_meta"]
        assert (await client.wait_for(UPDATED))["params"]["uri"] == "memo://1"
        client.cancel(id)
        await client.settle()
        assert up.requests("resources/unsubscribe") == [{"uri": "memo://1"}]


async def test_two_subscribers_of_a_resource_share_one_upstream_subscription():
    up = server()
    async with several(Gateway({"up": up}), 2, "2026-07-28") as clients:
        memo = {"resourceSubscriptions": ["memo://1"]}
        ids = [(await client.listen(**memo))[0] for client in clients]
        assert up.requests("resources/subscribe") == [{"uri": "memo://1"}]
        up.notify(UPDATED, uri="memo://1")
        for client in clients:
            assert (await client.wait_for(UPDATED))["params"]["uri"] == "memo://1"
        for client, id, left in zip(clients, ids, (1, 0), strict=True):
            client.cancel(id)
            await client.settle()
            assert bool(up.requests("resources/unsubscribe")) is (left == 0)


async def test_repeated_subscribe_and_unsubscribe_reach_the_server_once():
    up = server()
    async with raw(up) as client:
        for _ in range(2):
            response = await client.ask("resources/subscribe", {"uri": "memo://1"})
            assert response["result"] == {}
        up.notify(UPDATED, uri="memo://1/part")
        # It subscribed to the whole resource.
        assert (await client.wait_for(UPDATED))["params"]["uri"] == "memo://1"
        for _ in range(2):
            await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        up.notify(UPDATED, uri="memo://1")
        await client.settle()
        assert client.lines == []
    assert len(up.requests("resources/subscribe")) == 1
    assert len(up.requests("resources/unsubscribe")) == 1


async def test_reconnecting_sends_subscriptions_and_log_level_again():
    up = server()
    async with raw(up) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.ask("logging/setLevel", {"level": "error"})
        await up.channel.aclose()
        await client.call()
    assert len(up.requests("resources/subscribe")) == 2
    assert up.requests("logging/setLevel") == [{"level": "error"}] * 2


async def test_subscribe_error_of_the_server_reaches_the_client():
    up = server(**{"resources/subscribe": refuse})
    async with raw(up) as client:
        response = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert response["error"]["code"] == -32002
        up.methods["resources/subscribe"] = lambda *_: {}
        response = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert response["result"] == {}


async def test_unsubscribe_succeeds_although_the_server_refuses_it():
    up = server(**{"resources/unsubscribe": refuse})
    async with raw(up) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        response = await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        assert response["result"] == {}
        # A subscribe request that is cancelled in flight leaves no subscription.
        subscribe = up.methods["resources/subscribe"]
        up.methods["resources/subscribe"] = lambda *_: SILENCE
        id = client.request("resources/subscribe", {"uri": "memo://1"})
        await client.ask("ping")
        client.cancel(id)
        await client.settle()
        up.methods["resources/subscribe"] = subscribe
        response = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert response["result"] == {}
        response = await client.ask("subscriptions/listen", {"notifications": {}})
        assert "error" in response


async def test_unsubscribe_from_a_resource_that_is_not_listed_any_more():
    a, b = server(), server(**{"resources/list": lambda *_: {"resources": []}})
    async with joined(Gateway({"a": a, "b": b})) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        a.methods["resources/list"] = b.methods["resources/list"]
        a.notify("notifications/resources/list_changed")
        await client.wait_for("notifications/resources/list_changed")
        response = await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        assert response["result"] == {}
        assert a.requests("resources/unsubscribe") == [{"uri": "memo://1"}]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_subscription_is_made_at_the_server_that_has_the_resource(version):
    def having(uri):
        methods = {
            "resources/templates/list": lambda *_: {
                "resourceTemplates": [{"uriTemplate": "x:{id}", "name": "x"}]
            },
            "resources/subscribe": lambda params, _: (
                {} if params["uri"] == uri else refuse()
            ),
        }
        return server(**methods)

    servers = {"a": having("x:1"), "b": having("x:2")}
    async with joined(Gateway(servers), version) as client:
        if version == "2026-07-28":
            _, accepted = await client.listen(resourceSubscriptions=["x:2", "x:3"])
            assert accepted["resourceSubscriptions"] == ["x:2"]
        else:
            response = await client.ask("resources/subscribe", {"uri": "x:2"})
            assert response["result"] == {}
            response = await client.ask("resources/subscribe", {"uri": "x:3"})
            assert response["error"]["code"] == -32002
        servers["b"].notify(UPDATED, uri="x:2")
        assert (await client.wait_for(UPDATED))["params"]["uri"] == "x:2"


async def test_acknowledgement_omits_resources_that_servers_refused():
    up = server(**{"resources/subscribe": refuse})
    async with raw(up, "2026-07-28") as client:
        _, accepted = await client.listen(resourceSubscriptions=["memo://1"] * 2)
        assert not accepted.get("resourceSubscriptions")
        for bad in ({"resourceSubscriptions": 5}, 5):
            response = await client.ask("subscriptions/listen", {"notifications": bad})
            assert response["error"]["code"] == -32602


@pytest.mark.system("L-O7")
async def test_subscriptions_over_the_limits_are_refused():
    limits = attrs.evolve(GATEWAY_LIMITS, listens=2)
    gateway = Gateway({"up": server()}, limits=limits)
    async with several(gateway, 3, "2026-07-28") as (one, other, last):
        memo = {"resourceSubscriptions": ["memo://1"]}
        for client in (one, other):
            await client.listen(**memo)
        assert len(gateway.listens) == 2
        response = await last.ask("subscriptions/listen", {"notifications": memo})
        assert "too many subscriptions" in response["error"]["message"]
        await one.aclose()
        await until(lambda: len(gateway.listens) == 1)
        for uris in ([f"memo://{n}" for n in range(1_025)], ["memo://" + 9_000 * "x"]):
            memos = {"notifications": {"resourceSubscriptions": uris}}
            response = await last.ask("subscriptions/listen", memos)
            assert "watches 1024 resources at most" in response["error"]["message"]
    assert len(gateway.listens) == 0


async def test_cancelling_a_pending_subscription_unsubscribes_everything():
    def subscribe(params, _):
        return {} if params["uri"] == "memo://1" else SILENCE

    up = server(**{"resources/subscribe": subscribe})
    both = [*RESOURCES["resources"], {"uri": "memo://2", "name": "other"}]
    up.methods["resources/list"] = lambda *_: {"resources": both}
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list")
        notifications = {"resourceSubscriptions": ["memo://1", "memo://2"]}
        id = client.request("subscriptions/listen", {"notifications": notifications})
        await until(lambda: len(up.requests("resources/subscribe")) == 2)
        await client.settle()
        client.cancel(id)
        await until(lambda: {"uri": "memo://1"} in up.requests("resources/unsubscribe"))
        await client.settle()
        (upstreams,) = client.gateway.pool.shared
        assert not upstreams.subscriptions


async def test_session_that_ends_while_it_subscribes_leaves_the_others_subscribed():
    pending = []

    def subscribe(_, up):
        pending.append(up.current["id"])
        return SILENCE if len(pending) == 1 else {}

    up = server(**{"resources/subscribe": subscribe})
    memo = {"uri": "memo://1"}
    async with several(Gateway({"up": up}, share="identity"), 2) as (client, other):
        id, _ = (each.request("resources/subscribe", memo) for each in (client, other))
        await until(lambda: pending)
        await other.settle()
        await other.aclose()
        await client.settle()
        up.send({"jsonrpc": "2.0", "id": pending[0], "result": {}})
        assert (await client.response(id))["result"] == {}
        up.notify(UPDATED, **memo)
        assert (await client.wait_for(UPDATED))["params"] == memo
        # The cancelled request may have had no effect.
        assert up.requests("resources/subscribe") == [memo, memo]
        assert up.requests("resources/unsubscribe") == []


async def test_refused_subscription_that_ended_meanwhile_succeeds():
    pending = []

    def subscribe(_, up):
        pending.append(up.current["id"])
        return SILENCE

    up = server(**{"resources/subscribe": subscribe})
    async with raw(up) as client:
        id = client.request("resources/subscribe", {"uri": "memo://1"})
        await until(lambda: pending)
        end = client.request("resources/unsubscribe", {"uri": "memo://1"})
        await client.settle()
        error = {"code": -32602, "message": "no"}
        up.send({"jsonrpc": "2.0", "id": pending[0], "error": error})
        for each in (id, end):
            assert (await client.response(each))["result"] == {}


async def test_session_subscriptions_move_to_a_replacement_server():
    first, second, third = server(), server(), server()
    third.methods["resources/subscribe"] = refuse
    async with raw(first) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.ask("logging/setLevel", {"level": "error"})
        await client.gateway.replace({"up": second})
        assert second.requests("resources/subscribe") == [{"uri": "memo://1"}]
        assert {"level": "error"} in second.requests("logging/setLevel")
        second.notify(UPDATED, uri="memo://1")
        assert (await client.wait_for(UPDATED))["params"]["uri"] == "memo://1"
        await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        await until(lambda: second.requests("resources/unsubscribe"))
        # A refused subscription is sent again when the client subscribes again.
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.gateway.replace({"up": third})
        response = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert response["error"]["code"] == -32002


async def test_stateless_subscriptions_move_to_a_replacement_server():
    first, second = server(), server()
    async with raw(first, "2026-07-28") as client:
        await client.ask("tools/list")
        params = {"notifications": {"resourceSubscriptions": ["memo://1"]}}
        ids = [client.request("subscriptions/listen", params) for _ in range(2)]
        for _ in ids:
            await client.wait_for(ACKNOWLEDGED)
        await client.gateway.replace({"up": second})
        second.notify(UPDATED, uri="memo://1")
        for _ in ids:
            await client.wait_for(UPDATED)
        for id in ids:
            assert second.requests("resources/unsubscribe") == []
            client.cancel(id)
            await client.settle()
        await until(lambda: second.requests("resources/unsubscribe"))
        assert len(second.requests("resources/subscribe")) == 1


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_subscription_ends_at_the_server_that_it_was_moved_to(version):
    first, second = server(), server()
    async with raw(first, version) as client:
        await client.ask("tools/list")
        if version == "2026-07-28":
            id, _ = await client.listen(resourceSubscriptions=["memo://1"])
        else:
            await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.gateway.replace({"other": second})
        assert second.requests("resources/subscribe") == [{"uri": "memo://1"}]
        if version == "2026-07-28":
            client.cancel(id)
        else:
            await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        await client.settle()
        assert second.requests("resources/unsubscribe") == [{"uri": "memo://1"}]


async def test_update_from_a_server_without_the_subscription_is_dropped():
    one, other = server(), server()
    async with joined(Gateway({"one": one, "other": other}), "2025-11-25") as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        other.notify(UPDATED, uri="memo://1")
        await client.settle()
        assert UPDATED not in [line.get("method") for line in client.lines]


async def test_subscription_that_ends_while_it_is_moved_is_not_renewed():
    first, second = server(), server()
    listing = second.methods["resources/list"]
    async with raw(first) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        second.methods["resources/list"] = lambda *_: SILENCE
        replacing = asyncio.create_task(client.gateway.replace({"up": second}))
        await until(lambda: second.requests("resources/list"))
        id = second.current["id"]
        await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        second.send({"jsonrpc": "2.0", "id": id, "result": listing()})
        await replacing
    assert second.requests("resources/subscribe") == []


async def test_shared_subscription_ends_when_the_last_session_leaves():
    up = server()
    gateway = Gateway({"up": up}, share="identity")
    async with several(gateway, 2) as (one, other):
        for client in (one, other):
            await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert len(up.requests("resources/subscribe")) == 1
        await one.aclose()
        await other.settle()
        assert up.requests("resources/unsubscribe") == []
        await other.aclose()
        await until(lambda: up.requests("resources/unsubscribe"))
        (upstreams,) = gateway.pool.shared
        assert not upstreams.subscriptions


def log(up, level, data="x"):
    up.notify(LOG, level=level, data=data, logger="l")


async def test_session_gets_log_messages_from_its_level_outside_of_requests():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        for level in ("debug", "info", "emergency", "loud"):
            log(up, level)
        await client.settle()
        levels = [line["params"]["level"] for line in client.lines]
        assert levels == ["info", "emergency"]
        client.lines.clear()
        response = await client.ask("logging/setLevel", {"level": "loud"})
        assert response["error"]["code"] == -32602
        await client.ask("logging/setLevel", {"level": "debug"})
        log(up, "debug", {"whole": [1]})
        received = await client.wait_for(LOG)
        assert received["params"] == {
            "level": "debug",
            "data": {"whole": [1]},
            "logger": "l",
        }
    assert up.requests("logging/setLevel") == [{"level": "debug"}]


async def test_set_level_succeeds_although_the_server_lacks_it():
    up = server(**{"logging/setLevel": lambda *_: rpc_error(-32601, "no")})
    async with raw(up) as client:
        response = await client.ask("logging/setLevel", {"level": "error"})
        assert response["result"] == {}


async def test_stateless_request_gets_log_messages_from_its_own_level():
    def talk(params, up):
        for level in ("debug", "info", "error"):
            log(up, level, params["arguments"]["n"])
        return {"content": []}

    up = server(**{"tools/call": talk})
    async with raw(up, "2026-07-28") as client:
        received = []
        for n, level in enumerate(("error", "info", None, "warning")):
            meta = {} if level is None else {LEVEL: level}
            params = {"name": "up_t", "arguments": {"n": n}}
            await client.ask("tools/call", params, **meta)
            received.append(
                [line["params"]["level"] for line in client.lines if "method" in line]
            )
            client.lines.clear()
    assert received == [["error"], ["info", "error"], [], ["error"]]
    # The lowest requested level is sent, and each level only once.
    assert [each["level"] for each in up.requests("logging/setLevel")] == [
        "error",
        "info",
    ]


@on_a_virtual_clock
@pytest.mark.parametrize("timeout", [300, 1])
async def test_calls_with_a_level_reach_a_server_that_does_not_answer_its_levels(
    timeout,
):
    up = server(**{"logging/setLevel": lambda *_: SILENCE})
    gateway = Gateway({"up": up}, timeout=timeout)
    async with joined(gateway, "2026-07-28") as client:
        for _ in range(2):
            response = await client.ask(
                "tools/call", {"name": "up_t"}, **{LEVEL: "error"}
            )
            assert response["result"]["content"] == []
    assert up.requests("logging/setLevel") == [{"level": "error"}]


async def test_level_that_a_shared_server_refuses_is_sent_again():
    refusals = [InternalError("not now")]
    up = server(**{"logging/setLevel": lambda *_: refusals.pop() if refusals else {}})
    async with raw(up, "2026-07-28") as client:
        for _ in range(3):
            await client.ask("tools/call", {"name": "up_t"}, **{LEVEL: "error"})
    assert up.requests("logging/setLevel") == [{"level": "error"}] * 2


async def test_call_whose_server_is_removed_before_it_is_sent_names_the_server():
    up = server(**{"logging/setLevel": lambda *_: SILENCE})
    async with raw(up, "2026-07-28") as client:
        id = client.request("tools/call", {"name": "up_t"}, **{LEVEL: "error"})
        await until(lambda: up.requests("logging/setLevel"))
        await client.gateway.replace({"other": server()})
        error = (await client.response(id))["error"]
        assert error["code"] == -32603
        assert error["message"] == "'up' failed tools/call: the connection was closed"
        assert error["data"]["sent"] is False


async def test_log_message_without_an_owner_is_not_sent_to_sharing_clients():
    up = server()
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list", **{LEVEL: "debug"})
        log(up, "error")
        await client.settle()
        assert client.lines == []


@pytest.mark.system("L-O4")
async def test_log_message_of_a_cancelled_call_reaches_no_other_client():
    up = server(**{"tools/call": lambda *_: SILENCE})
    async with several(Gateway({"up": up}), 2, "2026-07-28") as (first, second):
        for client in (first, second):
            await client.ask("tools/list")
        gone = first.request("tools/call", {"name": "up_t"}, **{LEVEL: "debug"})
        await until(lambda: up.requests("tools/call"))
        first.cancel(gone)
        await until(lambda: up.requests(CANCELLED))
        second.request("tools/call", {"name": "up_t"}, **{LEVEL: "debug"})
        await until(lambda: len(up.requests("tools/call")) == 2)
        log(up, "error", "of the first client alone")
        for client in (first, second):
            await client.settle()
            assert client.lines == []


async def test_requests_to_a_stateless_server_carry_the_sessions_log_level():
    up = server("2026-07-28")
    async with raw(up) as client:
        await client.call()
        await client.ask("logging/setLevel", {"level": "error"})
        await client.call()
    calls = up.requests("tools/call")
    assert [each["_meta"][LEVEL] for each in calls] == ["info", "error"]
    async with joined(Gateway({"up": up}, share="identity")) as client:
        await client.ask("logging/setLevel", {"level": "alert"})
        await client.call()
    assert up.requests("tools/call")[-1]["_meta"][LEVEL] == "alert"


@pytest.mark.parametrize(
    ("version", "hears"), [("2025-11-25", True), ("2025-06-18", False)]
)
async def test_elicitation_complete_is_sent_only_if_the_revision_has_it(version, hears):
    up = server()
    async with raw(up, version) as client:
        await client.ask("tools/list")
        up.notify("notifications/elicitation/complete", elicitationId="e1")
        await client.settle()
        received = [line["params"] for line in client.lines]
        assert received == ([{"elicitationId": "e1"}] if hears else [])


@pytest.mark.unchecked_wire("a method that the protocol does not have")
async def test_unknown_notification_reaches_the_client_of_a_session():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        up.notify("notifications/com.example/odd", x=1)
        assert (await client.wait_for("notifications/com.example/odd"))["params"] == {
            "x": 1
        }
        up.notify("notifications/initialized")
        await client.settle()
        assert client.lines == []


async def test_roots_list_changed_reaches_only_servers_whose_revision_has_it():
    servers = {"a": AskingServer(), "b": server("2026-07-28")}
    async with joined(Gateway(servers), roots={"listChanged": True}) as client:
        client.send(method="notifications/roots/list_changed")
        await client.settle()
    counts = [
        [m.get("method") for m in each.received].count(
            "notifications/roots/list_changed"
        )
        for each in servers.values()
    ]
    assert counts == [1, 0]
