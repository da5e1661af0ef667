"""The blocking client among signals, forks, handlers and shared streams."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scripted import scripted
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.limits import Limits
from mcpwire.types import CreateMessageResult, TextContent

HANG_S = 100.0
"""How long a hanging wait lasts: longer than any test."""

SOON_S = 30.0
"""Within which an operation that need not wait ends, on a loaded machine."""

QUICK = Limits(close_grace=0.2, terminate_grace=0.2)


NOTES = """
handshake(capabilities={"tools": {"listChanged": True}, "logging": {}})
while True:
    m = recv()
    if "id" in m:
        n = int(m["params"]["arguments"]["n"])
        notes = [{"jsonrpc": "2.0", "method": "notifications/message",
                  "params": {"level": "info", "data": i}} for i in range(n)]
        raw("".join(json.dumps(note) + "\\n" for note in notes).encode())
        text(m, "done")
"""


@pytest.mark.parametrize("background", [False, True])
def test_two_threads_that_share_a_stream_get_every_event(background):
    with (
        ThreadPoolExecutor(2) as threads,
        mcpwire.sync.Client(
            scripted(NOTES), limits=QUICK, background=background, mode="2025-11-25"
        ) as client,
        client.events() as events,
    ):
        for _ in range(20):
            readers = [threads.submit(events.next, HANG_S) for _ in range(2)]
            client.call_tool("x", {"n": 2})
            for reader in readers:
                assert reader.result(SOON_S) is not None


SLOW_SUBSCRIBING = """
handshake(capabilities={"resources": {"subscribe": True}})
while True:
    m = recv()
    if m.get("params", {}).get("uri") == "a:2":
        answer(m, {})
"""


def test_subscribe_beside_a_slow_one_keeps_its_own_timeout():
    with (
        ThreadPoolExecutor(2) as threads,
        mcpwire.sync.Client(
            scripted(SLOW_SUBSCRIBING), limits=QUICK, mode="2025-11-25"
        ) as client,
    ):
        sent = client.stats.requests
        slow = threads.submit(client.subscribe, "a:1", timeout=60)
        until(lambda: client.stats.requests == sent + 1)
        quick = threads.submit(client.subscribe, "a:2", timeout=0.3)
        error = quick.exception(SOON_S)
        assert error is None or isinstance(error, mcpwire.RequestTimeout)
        client.close()
        slow.exception(BOUND_S)


LONG_ANSWER = """
handshake()
m = recv()
send({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage",
      "params": {"messages": [], "maxTokens": 1}})
time.sleep(0.2)
text(m, "first")
n = recv()
text(recv(), str(len(n["result"]["content"]["text"])))
recv()
"""


def test_client_response_is_sent_completely_after_its_call_ended():
    size = 1_000_000

    def sample(_: Any) -> CreateMessageResult:
        return CreateMessageResult(
            role="assistant", content=TextContent("x" * size), model="m"
        )

    with mcpwire.sync.Client(
        scripted(LONG_ANSWER), sampling=sample, limits=QUICK, mode="2025-11-25"
    ) as client:
        assert client.call_tool("x").text == "first"
        assert client.call_tool("y").text == str(size)
