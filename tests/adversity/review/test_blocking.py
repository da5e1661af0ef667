"""The blocking client among signals, forks, handlers and shared streams."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted import scripted

import mcpwire
import mcpwire.sync
from mcpwire.limits import Limits
from mcpwire.types import CreateMessageResult, TextContent

BOUND_S = 30.0
"""Upper bound of a test; a test that reaches it has found a hang."""

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


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


class InThread:
    """A thread that calls a function, and its result or error."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._act()
        except BaseException as error:  # noqa: BLE001 - the test checks it
            self.error = error

    def ended(self, seconds: float = BOUND_S) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()


@pytest.mark.parametrize("background", [False, True])
def test_two_threads_that_share_a_stream_get_every_event(background):
    with (
        mcpwire.sync.Client(
            scripted(NOTES), limits=QUICK, background=background, mode="2025-11-25"
        ) as client,
        client.events() as events,
    ):
        for _ in range(20):
            readers = [InThread(lambda: events.next(HANG_S)) for _ in range(2)]
            client.call_tool("x", {"n": 2})
            for reader in readers:
                assert reader.ended(SOON_S), (
                    "a notification is queued while its reader waits"
                )
                assert reader.result is not None


SLOW_SUBSCRIBING = """
handshake(capabilities={"resources": {"subscribe": True}})
while True:
    m = recv()
    if m.get("params", {}).get("uri") == "a:2":
        answer(m, {})
"""


def test_subscribe_beside_a_slow_one_keeps_its_own_timeout():
    with mcpwire.sync.Client(
        scripted(SLOW_SUBSCRIBING), limits=QUICK, mode="2025-11-25"
    ) as client:
        sent = client.stats.requests
        slow = InThread(lambda: client.subscribe("a:1", timeout=60))
        until(lambda: client.stats.requests == sent + 1)
        quick = InThread(lambda: client.subscribe("a:2", timeout=0.3))
        assert quick.ended(SOON_S)
        assert isinstance(quick.error, mcpwire.RequestTimeout) or quick.error is None
        client.close()
        assert slow.ended()


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
