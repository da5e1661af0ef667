"""The options of `Server.asgi`, as a client sees them."""

import asyncio

import pytest
import raw_client
from hosted import opened, opening, post
from living import living

from mcpwire import Context, Server
from mcpwire.server.http.event_store import MemoryEventStore
from mcpwire.server.http.sessions import HttpSession
from mcpwire.testing import VirtualClockLoop

CALL = raw_client.request(1, "tools/call", {"name": "tell", "arguments": {}})
CALL["params"]["_meta"] = {"progressToken": "t"}

server = Server("under-test", "1")


@server.tool
async def tell(ctx: Context) -> str:
    ctx.progress(1)
    return "told"


@pytest.mark.case("C09")
async def test_stateless_option_serves_older_revisions_without_sessions():
    app = server.asgi(stateless=True)
    answer = await post(app, opening(), mcp_protocol_version=None)
    assert (answer.status, "mcp-session-id" in answer.headers) == (200, False)
    answer = await post(app, CALL, mcp_protocol_version="2025-11-25")
    assert answer.sse()[-1]["result"]["content"][0]["text"] == "told"
    await app.aclose()


@pytest.mark.parametrize("stream_after", [0.0, 30.0])
async def test_json_only_applies_to_older_revisions_without_sessions(stream_after):
    app = server.asgi(stateless=True, json_only=True, stream_after=stream_after)
    fields = {"accept": "application/json", "mcp_protocol_version": "2025-11-25"}
    answer = await post(app, CALL, **fields)
    assert answer.json()["result"]["content"][0]["text"] == "told"
    await app.aclose()


@pytest.mark.parametrize(
    ("version", "batch"), [("2025-03-26", []), ("2025-11-25", [CALL])]
)
async def test_refused_batch_in_stateless_mode_leaves_no_session(version, batch):
    app = server.asgi(stateless=True)
    answer = await post(app, batch, mcp_protocol_version=version)
    assert answer.status == 400
    assert living(HttpSession) == []
    await app.aclose()


async def test_stored_events_have_ids_and_a_retry_time():
    app = server.asgi(retry=0.25)
    answer = await post(app, CALL, **await opened(app))
    assert b"id: " in answer.body
    assert b"retry: 250\n" in answer.body
    await app.aclose()
    app = server.asgi(event_store=False)
    assert b"id: " not in (await post(app, CALL, **await opened(app))).body
    await app.aclose()


async def test_events_go_to_the_given_event_store():
    store = MemoryEventStore()
    app = server.asgi(event_store=store)
    await post(app, CALL, **await opened(app))
    assert len(store) >= 2  # the progress and the response
    await app.aclose()


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_call_longer_than_a_tenth_of_a_second_is_answered_by_a_stream(era):
    timed = Server("under-test", "1")

    @timed.tool
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    async def main():
        app = timed.asgi()
        fields = {} if era == "2026-07-28" else await opened(app)
        kinds = []
        for seconds in (0.09, 0.11):
            params = {"name": "wait", "arguments": {"seconds": seconds}}
            message = raw_client.request(1, "tools/call", params)
            if era == "2026-07-28":
                message = raw_client.modern(1, "tools/call", params)
            kinds.append((await post(app, message, **fields)).headers["content-type"])
        await app.aclose()
        return kinds

    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        assert runner.run(main()) == ["application/json", "text/event-stream"]
