"""Owners and ids of sessions, versions, limits and memory."""

import asyncio
import gc

import pytest
from clocks import on_a_virtual_clock
from raw_client import CLIENT, notice, request, session, success
from raw_http_client import Bench, Work, call, content, in_session
from traced_memory import traced_memory

from mcpwire.errors import InvalidRequest
from mcpwire.server.auth.resource_server import Principal, ScopeRequired
from mcpwire.wire.headers import is_visible_ascii

ADA = Principal(issuer="https://i.example", client_id="c", subject="ada")
BOB = Principal(issuer="https://i.example", client_id="c", subject="bob")

VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26"]


async def echo(params, request):
    return content(params["arguments"].get("text", "done"))


def refusal(visit):
    return visit.status, visit.json["error"]["code"], visit.json.get("id")


@pytest.mark.rule("LHTTP-23")
@pytest.mark.case("C02")
@pytest.mark.parametrize("version", [*VERSIONS, "2024-11-05"])
async def test_initialize_opens_a_session_and_returns_its_id(version):
    async with in_session(echo, version=version) as (bench, hand):
        assert is_visible_ascii(hand.id)
        assert (await hand.ask(1, "ping")) == success(1, {})
        assert (await hand.ask(2, "tools/call", {"name": "t", "arguments": {}}))[
            "result"
        ] == content()
        assert len(bench.sessions) == 1


@pytest.mark.system("O54")
@pytest.mark.case("C02")
@pytest.mark.parametrize("asked", ["2026-07-28", "1999-01-01", "x"])
async def test_unsupported_version_is_answered_with_the_newest_of_sessions(asked):
    async with Bench(echo) as bench:
        visit = await bench.hand().post(request(1, "initialize", session(asked))).done()
        assert visit.json["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.pain("P40")
@pytest.mark.parametrize(
    "message",
    [
        request(1, "initialize", {"protocolVersion": 1}),
        request(1, "initialize"),
        notice("initialize"),
        {"jsonrpc": "1.0", "id": 1, "method": "initialize"},
    ],
)
async def test_a_refused_initialize_leaves_no_session(message):
    async with Bench(echo) as bench:
        visit = await bench.hand().post(message).done()
        assert visit.status in {200, 400}
        assert visit.json["error"]["code"] in {-32600, -32602}
        assert "mcp-session-id" not in visit.headers
        assert len(bench.sessions) == 0


async def test_http_refusal_of_initialize_keeps_its_status():
    async with Bench(echo) as bench:

        def refuse(*_):
            raise ScopeRequired(["x"])

        bench.dispatcher.initialize = refuse
        visit = await bench.hand().post(request(1, "initialize", session())).done()
        assert refusal(visit) == (403, -32600, 1)
        assert "insufficient_scope" in visit.headers["www-authenticate"]
        bench.dispatcher.initialize = None


@pytest.mark.system("O53")
@pytest.mark.rule("LHTTP-25")
@pytest.mark.case("C01", "D04")
@pytest.mark.parametrize("method", ["ping", "tools/list"])
async def test_request_without_a_session_id_is_refused_with_400(method):
    async with Bench(echo) as bench:
        hand = bench.hand()
        assert refusal(await hand.post(request(7, method)).done()) == (400, -32600, 7)
        assert refusal(await hand.get().done()) == (400, -32600, None)
        assert refusal(await hand.delete().done()) == (400, -32600, None)
        assert refusal(await hand.post([request(7, method)]).done())[0] == 400


@pytest.mark.system("O53")
@pytest.mark.rule("LHTTP-26")
@pytest.mark.attack("S09")
@pytest.mark.case("D04")
async def test_unknown_or_deleted_session_id_gets_404_for_every_verb():
    async with Bench(echo) as bench:
        other = await bench.open()
        hand = await bench.open()
        deleted = await hand.delete().done()
        assert (deleted.status, deleted.body) == (204, b"")
        good = other.id
        for id in (
            *(hand.id, "unknown", "", "ü", "0", "null", "x" * 9_999),
            *(good + "x", good[:-1], good.swapcase(), good[::-1], good * 2),
            *(f"{good}, {good}", f'"{good}"', f"{good};x", f"%{good}"),
        ):
            hand.id = id
            assert refusal(await hand.post(request(1, "ping")).done())[0] == 404
            assert refusal(await hand.post(notice("x/y")).done())[0] == 404
            assert refusal(await hand.get().done())[0] == 404
            assert refusal(await hand.delete().done())[0] == 404
            visit = await hand.post(request(2, "initialize", session())).done()
            assert refusal(visit) == (404, -32600, 2)
        assert await other.ask(1, "ping") == success(1, {})
        assert len(bench.sessions) == 1


@pytest.mark.rule("LHTTP-33", "ELIC-27")
@pytest.mark.attack("S09")
@pytest.mark.case("D05")
async def test_session_id_of_another_principal_is_answered_as_unknown():
    async with in_session(echo, principal=ADA) as (bench, hand):
        stream = await hand.listen()
        (event_id,) = stream.ids

        async def answers_to(principal, id):
            intruder = bench.hand(principal=principal)
            intruder.id = id
            visits = [
                intruder.post(call(1)),
                intruder.post(notice("notifications/cancelled", requestId=1)),
                intruder.post([call(1)]),
                intruder.post(request(1, "initialize", session())),
                intruder.get(),
                intruder.get(last_event_id=event_id),
                intruder.delete(),
            ]
            return [
                (v.status, v.headers, v.body) for v in [await x.done() for x in visits]
            ]

        unknown = await answers_to(BOB, "nobody-has-this")
        assert {status for status, *_ in unknown} == {404}
        assert await answers_to(BOB, hand.id) == unknown
        assert await answers_to(None, hand.id) == unknown
        assert await hand.ask(2, "ping") == success(2, {})
        bench.dispatcher.hub.notify("notifications/tools/list_changed")
        assert (await stream.next())["method"] == "notifications/tools/list_changed"
        # Another token of the same principal works as well.
        hand.principal = Principal(
            issuer="https://i.example", client_id="c", subject="ada", scopes=["x"]
        )
        assert await hand.ask(3, "ping") == success(3, {})


@pytest.mark.attack("S09")
async def test_anonymous_session_is_unknown_to_a_principal():
    async with in_session(echo) as (_, hand):
        hand.principal = ADA
        assert (await hand.post(call(1)).done()).status == 404


@pytest.mark.case("D05")
@pytest.mark.rule("LHTTP-33")
async def test_session_ids_are_long_and_random():
    async with Bench(echo) as bench:
        ids = {(await bench.open()).id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) * 6 >= 128
    # Each position takes many characters: the id is no counter.
    assert min(len({id[position] for id in ids}) for position in range(42)) > 20


@pytest.mark.parametrize(
    ("value", "id"),
    [
        (1, None),
        ({}, None),
        ({"jsonrpc": "2.0", "id": 1, "method": 2}, 1),
        ({"jsonrpc": "2.0", "id": "1", "method": "m", "params": []}, "1"),
        ({"jsonrpc": "2.0", "id": None, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": 1.0, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": 4, "result": []}, None),
    ],
)
async def test_body_that_is_not_a_valid_message_is_refused(value, id):
    async with in_session(echo) as (_, hand):
        assert refusal(await hand.post(value).done()) == (400, -32600, id)


@pytest.mark.rule("LHTTP-31")
@pytest.mark.case("C05")
@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "", "x"])
async def test_version_header_without_sessions_is_refused_with_400(version):
    async with in_session(echo) as (bench, hand):
        hand.version = version
        visit = await hand.post(call(5)).done()
        assert refusal(visit) == (400, -32600, 5)
        assert "2025-06-18" in visit.json["error"]["message"]
        assert refusal(await hand.get().done()) == (400, -32600, None)
        assert refusal(await hand.delete().done()) == (400, -32600, None)
        assert len(bench.sessions) == 1


@pytest.mark.rule("LHTTP-30")
@pytest.mark.case("C05")
async def test_missing_version_header_defaults_to_the_version_of_the_session():
    async with in_session(echo) as (bench, hand):
        visit = hand.visit("POST")
        visit.exchange.headers.pop("mcp-protocol-version")
        await visit.begin(bench.sessions.serve(visit.exchange, call(5))).done()
        assert visit.status == 200


async def test_initialize_accepts_the_version_header_of_a_stateless_revision():
    async with Bench(echo) as bench:
        message = request(1, "initialize", session())
        visit = await bench.hand().post(message, mcp_protocol_version="x").done()
        assert visit.status == 400
        visit = (
            await bench.hand().post(message, mcp_protocol_version="2026-07-28").done()
        )
        assert visit.status == 200


@pytest.mark.system("L-O7")
@pytest.mark.pain("P40")
async def test_session_above_the_maximum_evicts_the_longest_idle():
    async with Bench(echo, maximum=3) as bench:
        first, second, third = [await bench.open() for _ in range(3)]
        await first.ask(1, "ping")
        await bench.open()
        assert len(bench.sessions) == 3
        assert (await second.post(call(1)).done()).status == 404
        assert (await first.ask(2, "ping")) == success(2, {})
        assert (await third.ask(2, "ping")) == success(2, {})


@pytest.mark.pain("P40")
async def test_new_session_is_refused_with_503_while_all_are_in_use():
    async with Bench(echo, maximum=2) as bench:
        hands = [await bench.open() for _ in range(2)]
        streams = [hand.get() for hand in hands]
        for stream in streams:
            await stream.until(lambda s=stream: s.events)
        visit = await bench.hand().post(request(1, "initialize", session())).done()
        assert refusal(visit) == (503, -32600, 1)
        assert visit.headers["retry-after"] == "5"
        await streams[0].disconnect()
        await bench.open()
        assert len(bench.sessions) == 2


@pytest.mark.system("L-O7")
@pytest.mark.pain("P40")
@pytest.mark.case("D15")
@on_a_virtual_clock
async def test_idle_sessions_end_and_others_do_not():
    work = Work()
    async with Bench(work, idle=10.0) as bench:
        idle, busy, open_, again = [await bench.open() for _ in range(4)]
        running = busy.post(call(1))
        stream = await open_.listen()
        await asyncio.sleep(5.0)  # of the virtual clock, as below
        assert await again.ask(1, "ping") == success(1, {})
        await asyncio.sleep(5.0)
        assert len(bench.sessions) == 3
        assert (await idle.post(call(1)).done()).status == 404
        await asyncio.sleep(5.0)
        assert len(bench.sessions) == 2
        work.release.set()
        await stream.disconnect()
        assert (await running.done()).status == 200
        await asyncio.sleep(9.9)
        assert len(bench.sessions) == 2
        await asyncio.sleep(0.1)
        assert len(bench.sessions) == 0


async def test_closed_sessions_leave_no_timer_on_the_loop():
    loop = asyncio.get_running_loop()
    timers, call_at = [], loop.call_at
    loop.call_at = lambda at, *args, **options: (
        timers.append(call_at(at, *args, **options)) or timers[-1]
    )
    async with Bench(echo, idle=1_800.0) as bench:
        await bench.open()
    left = [each for each in timers if each.when() > loop.time() + 1_000]
    assert left
    assert all(each.cancelled() for each in left)


async def test_ended_session_receives_no_more_notifications():
    async with in_session(echo) as (bench, hand):
        assert len(bench.dispatcher.hub) == 1
        (session_,) = bench.sessions
        await hand.delete().done()
        assert len(bench.dispatcher.hub) == 0
        assert session_.session.is_closed
        session_.session.send("notifications/tools/list_changed", {})
        assert session_.server_stream.last == 0
        assert session_.close() == []


async def test_handlers_see_the_principal_and_the_session():
    seen = []

    async def record_request(params, request):
        seen.append((request.info, request.session))
        request.state["n"] = request.state.get("n", 0) + 1
        return content(str(request.state["n"]))

    async with in_session(record_request, principal=ADA) as (_, hand):
        await hand.ask(1, "tools/call", {"name": "t"})
        answer = await hand.ask(2, "tools/call", {"name": "t"})
        assert answer["result"] == content("2")
        info, session_ = seen[0]
        assert info.principal is ADA
        assert session_.principal is ADA
        assert session_.id == hand.id
        assert session_.client_info == CLIENT


async def test_http_refusal_keeps_its_status_unless_a_stream_has_begun():
    async def refuse(params, request):
        if params["arguments"]:
            request.log("info", "something")
        raise ScopeRequired(["x"])

    async with in_session(refuse) as (_, hand):
        visit = await hand.post(call(1)).done()
        assert refusal(visit) == (403, -32600, 1)
        assert "insufficient_scope" in visit.headers["www-authenticate"]
        visit = await hand.post(call(2, log=True)).done()
        assert visit.status == 200
        assert visit.messages[-1]["error"]["code"] == -32600


async def test_errors_of_requests_are_json_rpc_responses():
    async def refuse(params, request):
        raise InvalidRequest("no")

    async with in_session(refuse) as (_, hand):
        assert (await hand.ask(1, "tools/call", {}))["error"]["message"] == "no"
        assert (await hand.ask(2, "no/method"))["error"]["code"] == -32601


@pytest.mark.parametrize("name", ["idle", "maximum", "retry"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_numeric_options_must_be_above_zero(name, value):
    with pytest.raises(ValueError, match=f"{name} must be above zero"):
        Bench(echo, **{name: value})


async def test_event_store_defaults_to_memory_and_false_disables_it():
    stores = [Bench(event_store=s).sessions.store for s in (None, True, False)]
    assert [type(store).__name__ for store in stores] == [
        "MemoryEventStore",
        "MemoryEventStore",
        "NoneType",
    ]


@pytest.mark.attack("X07")
@pytest.mark.parametrize(("is_used", "most"), [(False, 2_000), (True, 4_000)])
async def test_an_idle_session_takes_little_memory(is_used, most):
    async with Bench(echo) as bench:

        async def leave(count):
            for number in range(count):
                hand = bench.hand()
                opening = hand.post(request(1, "initialize", session()))
                hand.id = (await opening.done()).headers["mcp-session-id"]
                if is_used:
                    await hand.post(call(number)).done()

        await leave(10)
        with traced_memory() as memory:
            await leave(200)
            gc.collect()  # the objects that the test made for its requests
        assert len(bench.sessions) == 210
        assert memory.held / 200 < most


@pytest.mark.attack("X07")
async def test_queued_notification_takes_little_memory():
    async with Bench(echo) as bench:
        for _ in range(20):
            opening = bench.hand().post(request(1, "initialize", session()))
            await opening.done()

        def notify():
            for each in bench.sessions:
                each.send("notifications/tools/list_changed", {})

        notify()
        with traced_memory() as memory:
            for _ in range(20):
                notify()
        assert len(bench.sessions.store) == 20 * 21
        assert memory.held / 400 < 1_500
