"""What servers tell unasked, and what they are told of what clients want to hear."""

from __future__ import annotations

import asyncio
import itertools

import attrs
import pytest
from bridged import META, AskingServer, RawClient, joined, raw
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer
from turns import until

from mcpwire.errors import rpc_error
from mcpwire.gateway import Gateway
from mcpwire.gateway.gateway import GATEWAY_LIMITS

CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
LOG = "notifications/message"

RESOURCES = {"resources": [{"uri": "memo://1", "name": "memo"}]}


def server(version="2025-11-25", **methods):
    stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    stamp = stamp if version == "2026-07-28" else {}
    answers = {
        "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
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


async def settle(client):
    """Let everything go both ways a few times."""
    for _ in range(3):
        await client.ask("ping" if client.version < "2026" else "server/discover")


# --- lists


@pytest.mark.system("O70")
async def test_who_lists_again_after_the_notification_gets_the_new_list():
    up = server()
    async with raw(up) as client:
        old = await client.ask("tools/list")
        tools = [{"name": "new", "inputSchema": {"type": "object"}}]
        up.methods["tools/list"] = lambda *_: {"tools": tools}
        up.notify(CHANGED)
        assert await client.hears(CHANGED)
        new = await client.ask("tools/list")
    assert [each["name"] for each in old["result"]["tools"]] == ["up_t"]
    assert [each["name"] for each in new["result"]["tools"]] == ["up_new"]


async def test_many_changes_at_once_are_told_as_one_and_later_ones_once_more():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        for _ in range(20):
            up.notify(CHANGED)
            await asyncio.sleep(0)  # a turn of the loop
        await client.hears(CHANGED)
        up.notify(CHANGED)
        await client.hears(CHANGED)
        await settle(client)
        assert client.lines == []


@pytest.mark.system("O72")
async def test_after_a_new_connection_all_lists_count_as_changed():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        await up.channel.aclose()
        tools = [{"name": "new", "inputSchema": {"type": "object"}}]
        up.methods["tools/list"] = lambda *_: {"tools": tools}
        answer = await client.ask("tools/call", {"name": "up_t"})
        assert answer["result"]["content"] == []
        assert await client.hears(CHANGED)
        assert await client.hears("notifications/resources/list_changed")
        new = await client.ask("tools/list")
    assert [each["name"] for each in new["result"]["tools"]] == ["up_new"]


class EndingServer(FakeServer):
    """Ends its subscriptions: each so long after it has acknowledged it."""

    def __init__(self, lasting):
        up = server("2026-07-28")
        super().__init__(up.methods, version=up.version, **up.members)
        self.methods["subscriptions/listen"] = self.listen
        self.lasting, self.listens = lasting, []

    def listen(self, params, _):
        loop, id = asyncio.get_running_loop(), self.current["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        told = {"notifications": params["notifications"], "_meta": meta}
        self.notify("notifications/subscriptions/acknowledged", **told)
        self.listens.append(loop.time())
        end = {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}}
        lasts = self.lasting(len(self.listens))
        if lasts == 0:
            self.send(end)
        elif lasts is not None:
            loop.call_later(lasts, self.send, end)
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
async def test_a_server_that_ends_its_subscription_is_listened_to_again(
    lasting, pauses
):
    up = EndingServer(lasting)
    async with raw(up, "2025-11-25") as client:
        await client.ask("tools/list")
        await asyncio.sleep(121)  # of the virtual clock
        assert up.pauses() == pauses
        told = [line["method"] for line in client.lines]
        assert told.count(CHANGED) == len(pauses)


@on_a_virtual_clock
async def test_a_changed_subscription_that_ends_at_once_is_listened_to_again():
    up = EndingServer(lambda n: 0 if n > 1 else None)
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list")
        wanted = {"resourceSubscriptions": ["memo://1"]}
        for _ in range(2):
            client.request("subscriptions/listen", {"notifications": wanted})
            await client.hears("notifications/subscriptions/acknowledged")
        await asyncio.sleep(20)  # of the virtual clock
        assert up.pauses()[1:] == [0, 1, 2, 4, 8]


async def test_a_subscription_of_what_stands_alone_hears_of_changed_lists():
    up = server()
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list")
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["memo://1"]}
        id = client.request("subscriptions/listen", {"notifications": wanted})
        told = await client.hears("notifications/subscriptions/acknowledged")
        assert told["params"]["notifications"] == wanted
        up.notify(CHANGED)
        up.notify(UPDATED, uri="memo://1")
        assert (await client.hears(CHANGED))["params"]["_meta"]
        assert (await client.hears(UPDATED))["params"]["uri"] == "memo://1"
        client.send(method="notifications/cancelled", params={"requestId": id})
        await settle(client)
        assert up.requests("resources/unsubscribe") == [{"uri": "memo://1"}]


# --- resources


async def test_two_who_want_to_hear_of_one_resource_are_one_to_the_server():
    up = server()
    async with Gateway({"up": up}) as gateway:
        clients = [RawClient(gateway, "2026-07-28") for _ in range(2)]
        wanted = {"notifications": {"resourceSubscriptions": ["memo://1"]}}
        ids = []
        for client in clients:
            await client.open()
            ids.append(client.request("subscriptions/listen", wanted))
            await client.hears("notifications/subscriptions/acknowledged")
        assert up.requests("resources/subscribe") == [{"uri": "memo://1"}]
        up.notify(UPDATED, uri="memo://1")
        for client in clients:
            assert (await client.hears(UPDATED))["params"]["uri"] == "memo://1"
        for client, id, left in zip(clients, ids, (1, 0), strict=True):
            client.send(method="notifications/cancelled", params={"requestId": id})
            await settle(client)
            assert bool(up.requests("resources/unsubscribe")) is (left == 0)
        for client in clients:
            await client.aclose()


async def test_a_session_subscribes_and_unsubscribes_as_often_as_it_likes():
    up = server()
    async with raw(up) as client:
        for _ in range(2):
            answer = await client.ask("resources/subscribe", {"uri": "memo://1"})
            assert answer["result"] == {}
        up.notify(UPDATED, uri="memo://1/part")
        # What it subscribed to is the whole.
        assert (await client.hears(UPDATED))["params"]["uri"] == "memo://1"
        for _ in range(2):
            await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        up.notify(UPDATED, uri="memo://1")
        await settle(client)
        assert client.lines == []
    assert len(up.requests("resources/subscribe")) == 1
    assert len(up.requests("resources/unsubscribe")) == 1


async def test_a_new_connection_is_told_of_subscriptions_and_level_again():
    up = server()
    async with raw(up) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.ask("logging/setLevel", {"level": "error"})
        await up.channel.aclose()
        await client.ask("tools/call", {"name": "up_t"})
    assert len(up.requests("resources/subscribe")) == 2
    assert up.requests("logging/setLevel") == [{"level": "error"}] * 2


async def test_a_resource_that_its_server_does_not_tell_of_is_refused():
    def refuse(*_):
        return rpc_error(-32002, "no such resource")

    up = server(**{"resources/subscribe": refuse})
    async with raw(up) as client:
        answer = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert answer["error"]["code"] == -32002
        up.methods["resources/subscribe"] = lambda *_: {}
        answer = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert answer["result"] == {}


async def test_a_subscription_is_acknowledged_without_what_no_server_tells_of():
    def refuse(*_):
        return rpc_error(-32002, "no such resource")

    up = server(**{"resources/subscribe": refuse})
    async with raw(up, "2026-07-28") as client:
        wanted = {"resourceSubscriptions": ["memo://1", "memo://1"]}
        client.request("subscriptions/listen", {"notifications": wanted})
        told = await client.hears("notifications/subscriptions/acknowledged")
        assert not told["params"]["notifications"].get("resourceSubscriptions")
        for bad in ({"resourceSubscriptions": 5}, 5):
            answer = await client.ask("subscriptions/listen", {"notifications": bad})
            assert answer["error"]["code"] == -32602


@pytest.mark.system("L-O7")
async def test_no_more_is_listened_to_than_the_limits_allow():
    up = server()
    limits = attrs.evolve(GATEWAY_LIMITS, listens=2)
    async with Gateway({"up": up}, limits=limits) as gateway:
        clients = [RawClient(gateway, "2026-07-28") for _ in range(3)]
        wanted = {"resourceSubscriptions": ["memo://1"]}
        for client in clients[:2]:
            await client.open()
            client.request("subscriptions/listen", {"notifications": wanted})
            await client.hears("notifications/subscriptions/acknowledged")
        assert len(gateway.listens) == 2
        one, _, last = clients
        await last.open()
        answer = await last.ask("subscriptions/listen", {"notifications": wanted})
        assert "too many subscriptions" in answer["error"]["message"]
        await one.aclose()
        await until(lambda: len(gateway.listens) == 1)
        for much in ([f"memo://{n}" for n in range(1_025)], ["memo://" + 9_000 * "x"]):
            wanted = {"resourceSubscriptions": much}
            answer = await last.ask("subscriptions/listen", {"notifications": wanted})
            assert "watches 1024 resources at most" in answer["error"]["message"]
        for client in clients[1:]:
            await client.aclose()
    assert len(gateway.listens) == 0


async def test_who_goes_while_servers_are_told_leaves_nothing_watched():
    def told(params, _):
        return {} if params["uri"] == "memo://1" else SILENCE

    up = server(**{"resources/subscribe": told})
    both = [*RESOURCES["resources"], {"uri": "memo://2", "name": "other"}]
    up.methods["resources/list"] = lambda *_: {"resources": both}
    async with raw(up, "2026-07-28") as client:
        await client.ask("tools/list")
        wanted = {"resourceSubscriptions": ["memo://1", "memo://2"]}
        id = client.request("subscriptions/listen", {"notifications": wanted})
        await until(lambda: len(up.requests("resources/subscribe")) == 2)
        await settle(client)
        client.send(method="notifications/cancelled", params={"requestId": id})
        await until(lambda: {"uri": "memo://1"} in up.requests("resources/unsubscribe"))
        await settle(client)
        (upstreams,) = client.gateway.pool.shared
        assert upstreams.members["up"].subscriptions == {}


async def test_what_was_subscribed_to_is_told_by_a_server_that_took_the_place():
    first, second, third = server(), server(), server()
    third.methods["resources/subscribe"] = lambda *_: rpc_error(-32002, "none")
    async with raw(first) as client:
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.ask("logging/setLevel", {"level": "error"})
        await client.gateway.replace({"up": second})
        assert second.requests("resources/subscribe") == [{"uri": "memo://1"}]
        assert {"level": "error"} in second.requests("logging/setLevel")
        second.notify(UPDATED, uri="memo://1")
        assert (await client.hears(UPDATED))["params"]["uri"] == "memo://1"
        await client.ask("resources/unsubscribe", {"uri": "memo://1"})
        await until(lambda: second.requests("resources/unsubscribe"))
        # One that will not tell is asked again when the client asks again.
        await client.ask("resources/subscribe", {"uri": "memo://1"})
        await client.gateway.replace({"up": third})
        answer = await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert answer["error"]["code"] == -32002


async def test_what_is_listened_to_is_told_by_a_server_that_took_the_place():
    first, second = server(), server()
    async with raw(first, "2026-07-28") as client:
        await client.ask("tools/list")
        wanted = {"resourceSubscriptions": ["memo://1"]}
        ids = [
            client.request("subscriptions/listen", {"notifications": wanted})
            for _ in range(2)
        ]
        for _ in ids:
            await client.hears("notifications/subscriptions/acknowledged")
        await client.gateway.replace({"up": second})
        second.notify(UPDATED, uri="memo://1")
        for _ in ids:
            await client.hears(UPDATED)
        for id in ids:
            assert second.requests("resources/unsubscribe") == []
            client.send(method="notifications/cancelled", params={"requestId": id})
            await settle(client)
        await until(lambda: second.requests("resources/unsubscribe"))
        assert len(second.requests("resources/subscribe")) == 1


async def test_what_a_session_subscribed_to_is_given_up_when_it_leaves():
    up = server()
    async with Gateway({"up": up}, share="identity") as gateway:
        one, other = RawClient(gateway), RawClient(gateway)
        for client in (one, other):
            await client.open()
            await client.ask("resources/subscribe", {"uri": "memo://1"})
        assert len(up.requests("resources/subscribe")) == 1
        await one.aclose()
        await settle(other)
        assert up.requests("resources/unsubscribe") == []
        await other.aclose()
        await until(lambda: up.requests("resources/unsubscribe"))
        (upstreams,) = gateway.pool.shared
        assert upstreams.members["up"].subscriptions == {}


# --- the log


def log(up, level, data="x"):
    up.notify(LOG, level=level, data=data, logger="l")


async def test_a_session_hears_from_its_level_on_also_outside_of_requests():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        for level in ("debug", "info", "emergency", "loud"):
            log(up, level)
        await settle(client)
        heard = [line["params"]["level"] for line in client.lines]
        assert heard == ["info", "emergency"]
        client.lines.clear()
        answer = await client.ask("logging/setLevel", {"level": "loud"})
        assert answer["error"]["code"] == -32602
        await client.ask("logging/setLevel", {"level": "debug"})
        log(up, "debug", {"whole": [1]})
        told = await client.hears(LOG)
        assert told["params"] == {
            "level": "debug",
            "data": {"whole": [1]},
            "logger": "l",
        }
    assert up.requests("logging/setLevel") == [{"level": "debug"}]


async def test_a_server_that_takes_no_level_is_no_reason_to_fail():
    up = server(**{"logging/setLevel": lambda *_: rpc_error(-32601, "no")})
    async with raw(up) as client:
        answer = await client.ask("logging/setLevel", {"level": "error"})
        assert answer["result"] == {}


async def test_each_request_that_stands_alone_hears_from_its_own_level_on():
    def talk(params, up):
        for level in ("debug", "info", "error"):
            log(up, level, params["arguments"]["n"])
        return {"content": []}

    up = server(**{"tools/call": talk})
    key = f"{META}logLevel"
    async with raw(up, "2026-07-28") as client:
        heard = []
        for n, level in enumerate(("error", "info", None, "warning")):
            meta = {} if level is None else {key: level}
            params = {"name": "up_t", "arguments": {"n": n}}
            await client.ask("tools/call", params, **meta)
            heard.append(
                [line["params"]["level"] for line in client.lines if "method" in line]
            )
            client.lines.clear()
    assert heard == [["error"], ["info", "error"], [], ["error"]]
    # A session tells the most that anybody asked for, and is told so only once.
    assert [each["level"] for each in up.requests("logging/setLevel")] == [
        "error",
        "info",
    ]


async def test_a_message_that_may_be_anybodys_is_nobodys_where_clients_share():
    up = server()
    key = f"{META}logLevel"
    async with joined(Gateway({"up": up}), "2026-07-28") as client:
        await client.ask("tools/list", **{key: "debug"})
        log(up, "error")
        await settle(client)
        assert client.lines == []


@pytest.mark.system("L-O4")
async def test_what_is_said_for_a_call_that_was_given_up_is_told_to_no_other_client():
    up = server(**{"tools/call": lambda *_: SILENCE})
    key = f"{META}logLevel"
    async with Gateway({"up": up}) as gateway:
        first, second = (RawClient(gateway, "2026-07-28") for _ in range(2))
        await first.open()
        await second.open()
        for client in (first, second):
            await client.ask("tools/list")
        gone = first.request("tools/call", {"name": "up_t"}, **{key: "debug"})
        await until(lambda: up.requests("tools/call"))
        first.send(method="notifications/cancelled", params={"requestId": gone})
        await until(lambda: up.requests("notifications/cancelled"))
        second.request("tools/call", {"name": "up_t"}, **{key: "debug"})
        await until(lambda: len(up.requests("tools/call")) == 2)
        log(up, "error", "of the first client alone")
        for client in (first, second):
            await settle(client)
            assert client.lines == []
        await first.aclose()
        await second.aclose()


async def test_a_server_of_the_stateless_era_is_asked_for_the_sessions_level():
    up = server("2026-07-28")
    key = f"{META}logLevel"
    async with raw(up) as client:
        await client.ask("tools/call", {"name": "up_t"})
        await client.ask("logging/setLevel", {"level": "error"})
        await client.ask("tools/call", {"name": "up_t"})
    calls = up.requests("tools/call")
    assert [each["_meta"][key] for each in calls] == ["info", "error"]
    async with joined(Gateway({"up": up}, share="identity")) as client:
        await client.ask("logging/setLevel", {"level": "alert"})
        await client.ask("tools/call", {"name": "up_t"})
    assert up.requests("tools/call")[-1]["_meta"][key] == "alert"


# --- the rest


@pytest.mark.parametrize(
    ("version", "hears"), [("2025-11-25", True), ("2025-06-18", False)]
)
async def test_the_end_of_a_visit_is_told_where_the_revision_knows_it(version, hears):
    up = server()
    async with raw(up, version) as client:
        await client.ask("tools/list")
        up.notify("notifications/elicitation/complete", elicitationId="e1")
        await settle(client)
        told = [line["params"] for line in client.lines]
        assert told == ([{"elicitationId": "e1"}] if hears else [])


@pytest.mark.unchecked_wire("a method that the protocol does not have")
async def test_what_the_protocol_does_not_know_is_between_a_sessions_two_ends():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        up.notify("notifications/com.example/odd", x=1)
        assert (await client.hears("notifications/com.example/odd"))["params"] == {
            "x": 1
        }
        up.notify("notifications/initialized")
        await settle(client)
        assert client.lines == []


async def test_changed_roots_are_told_to_the_servers_that_know_of_that():
    servers = {"a": AskingServer(), "b": server("2026-07-28")}
    async with joined(Gateway(servers), roots={"listChanged": True}) as client:
        client.send(method="notifications/roots/list_changed")
        await settle(client)
    told = [
        [m.get("method") for m in each.received].count(
            "notifications/roots/list_changed"
        )
        for each in servers.values()
    ]
    assert told == [1, 0]
