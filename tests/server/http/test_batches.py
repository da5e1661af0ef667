"""Batches over HTTP, which only 2025-03-26 has."""

import pytest
from raw_client import notice, request, success
from raw_http_client import Work, call, content, in_session, progress

INITIALIZED = notice("notifications/initialized")


def batching(work=None, version="2025-03-26"):
    return in_session(work or progress(0), version)


@pytest.mark.rule("RPC-13", "LHTTP-35")
@pytest.mark.case("B05")
async def test_a_batch_is_answered_by_an_array():
    async with batching() as (_, hand):
        visit = await hand.post(
            [request("a", "ping"), INITIALIZED, call(2), request(3, "no/method")]
        ).done()
        answers = {answer["id"]: answer for answer in visit.json}
        assert answers["a"] == success("a", {})
        assert answers[2] == success(2, content())
        assert answers[3]["error"]["code"] == -32601
        assert len(visit.json) == 3
        assert (await hand.post([call(7)]).done()).json == [success(7, content())]


@pytest.mark.rule("LHTTP-35")
@pytest.mark.case("B05")
async def test_a_batch_without_requests_is_accepted():
    async with batching() as (_, hand):
        for batch in ([INITIALIZED, success(9, {}), 1], [1, INITIALIZED]):
            visit = await hand.post(batch).done()
            assert (visit.status, visit.body) == (202, b"")


@pytest.mark.case("B05")
async def test_initialize_in_a_batch_is_refused_and_the_rest_is_answered():
    async with batching() as (bench, hand):
        visit = await hand.post([request(1, "initialize"), request(2, "ping")]).done()
        refused, pong = visit.json
        assert (refused["id"], refused["error"]["code"]) == (1, -32600)
        assert pong == success(2, {})
        visit = await bench.hand().post([request(1, "initialize")]).done()
        assert visit.status == 400
        assert len(bench.sessions) == 1


@pytest.mark.attack("S13")
@pytest.mark.case("B05")
@pytest.mark.parametrize("batch", [[], [{}], [1, 2], [INITIALIZED] * 1_001])
async def test_batch_that_is_empty_too_long_or_without_messages_is_refused(batch):
    async with batching() as (_, hand):
        visit = await hand.post(batch).done()
        assert visit.status == 400
        assert visit.json["error"]["code"] == -32600


@pytest.mark.rule("RPC-15")
@pytest.mark.case("B06")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_batch_is_refused_in_other_revisions(version):
    async with batching(version=version) as (_, hand):
        visit = await hand.post([request(1, "ping")]).done()
        assert visit.status == 400
        assert visit.json["error"]["code"] == -32600


async def test_invalid_message_in_a_batch_gets_its_own_error():
    async with batching() as (_, hand):
        bad = {"jsonrpc": "2.0", "id": 5, "method": 5}
        visit = await hand.post([bad, 3, request(6, "ping")]).done()
        refused, pong = visit.json
        assert (refused["id"], refused["error"]["code"]) == (5, -32600)
        assert pong == success(6, {})


async def test_stateless_request_in_a_batch_is_refused():
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with batching() as (_, hand):
        visit = await hand.post([request(1, "tools/list", meta=meta)]).done()
        assert visit.json[0]["error"]["code"] == -32600


async def test_batch_with_notifications_streams_until_its_last_request_ends():
    first, second = Work(), Work()

    async def work(params, request):
        if params["arguments"].get("log"):
            request.log("info", "hello")
            return content("logged")
        return await (first if params["arguments"]["text"] == "1" else second)(
            params, request
        )

    async with batching(work) as (_, hand):
        visit = hand.post(
            [
                request(0, "ping"),
                call(1, text="1"),
                call(2, text="2"),
                call(3, text="x", log=True),
            ]
        )
        assert await visit.next() == success(0, {})
        assert (await visit.next())["method"] == "notifications/message"
        assert await visit.next() == success(3, content("logged"))
        second.release.set()
        assert await visit.next() == success(2, content("2"))
        assert not visit.is_complete
        await hand.post_accepted(notice("notifications/cancelled", requestId=1))
        await visit.done()
        assert len(visit.messages) == 4


async def test_duplicate_id_within_a_batch_is_refused():
    work = Work()
    work.release.set()
    async with batching(work) as (_, hand):
        visit = await hand.post([call(1), call(1)]).done()
        assert sorted("error" in answer for answer in visit.json) == [False, True]
