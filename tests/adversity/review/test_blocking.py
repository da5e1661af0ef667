"""The blocking client among signals, forks, handlers and shared streams."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from scripted import PRELUDE, scripted
from unmeasured import unmeasured

import mcpwire
import mcpwire.sync
from mcpwire.limits import Limits
from mcpwire.types import CreateMessageResult, TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOUND_S = 30.0
"""In which everything must be over; a test that reaches it has found a hang."""

HANG_S = 100.0
"""How long what never comes is waited for: longer than any test takes."""

SOON_S = 30.0
"""Within what something ends that waits for nobody: a machine may stall for long."""

QUICK = Limits(close_grace=0.2, terminate_grace=0.2)

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
handshake()
while sys.stdin.buffer.readline():
    pass
time.sleep(60)
"""

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
    """Wait for what nothing tells of."""
    end = time.monotonic() + BOUND_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


class Asked:
    """A thread that does something, and what came of it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._act()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def ended(self, seconds: float = BOUND_S) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()


def marked(marker: str) -> list[int]:
    """Return the processes whose command line bears a mark."""
    found = subprocess.run(
        ["pgrep", "-f", marker], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


@contextlib.contextmanager
def killed_if_left(marker: str) -> Iterator[None]:
    """Leave none of them to the tests that follow, whatever comes of this one."""
    try:
        yield
    finally:
        for pid in marked(marker):
            os.kill(pid, signal.SIGKILL)


def program(source: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, killed and failed where it hangs."""
    return subprocess.run(
        [sys.executable, "-c", source, *args],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        env=unmeasured(),
    )


ASKS = """
handshake()
m = recv()
send({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage",
      "params": {"messages": [], "maxTokens": 1}})
while True:
    n = recv()
    if n.get("id") == 1 and "method" not in n:
        break
text(m, "answered" if "result" in n else n["error"]["message"])
recv()
"""


@pytest.mark.parametrize("background", [False, True])
def test_a_handler_whose_call_is_not_answered_meanwhile_runs_out_of_its_time(
    background,
):
    seen: list[BaseException] = []

    def sample(_: Any) -> Any:
        try:
            client.list_tools(timeout=0.3)
        except mcpwire.RequestTimeout as error:
            seen.append(error)
        raise mcpwire.RPCError("no", code=-5)

    client = mcpwire.sync.Client(
        scripted(ASKS),
        sampling=sample,
        limits=QUICK,
        background=background,
        mode="2025-11-25",
    )
    client.connect()
    try:
        call = Asked(lambda: client.call_tool("x", timeout=None).text)
        assert call.ended(), "the handler's call waits for ever, and ours for it"
        assert call.result == "no"
        assert seen
    finally:
        client.close()


@pytest.mark.parametrize("background", [False, True])
def test_of_two_threads_that_share_a_stream_each_gets_what_the_other_leaves(
    background,
):
    with (
        mcpwire.sync.Client(
            scripted(NOTES), limits=QUICK, background=background, mode="2025-11-25"
        ) as client,
        client.events() as events,
    ):
        for _ in range(20):
            takers = [Asked(lambda: events.next(HANG_S)) for _ in range(2)]
            client.call_tool("x", {"n": 2})
            for taker in takers:
                assert taker.ended(SOON_S), (
                    "a notification waits, and so does its taker"
                )
                assert taker.result is not None


SLOW_SUBSCRIBING = """
handshake(capabilities={"resources": {"subscribe": True}})
while True:
    m = recv()
    if m.get("params", {}).get("uri") == "a:2":
        answer(m, {})
"""


def test_subscribing_beside_one_that_takes_long_keeps_to_its_own_timeout():
    with mcpwire.sync.Client(
        scripted(SLOW_SUBSCRIBING), limits=QUICK, mode="2025-11-25"
    ) as client:
        sent = client.stats.requests
        slow = Asked(lambda: client.subscribe("a:1", timeout=60))
        until(lambda: client.stats.requests == sent + 1)
        quick = Asked(lambda: client.subscribe("a:2", timeout=0.3))
        assert quick.ended(SOON_S)
        assert isinstance(quick.error, mcpwire.RequestTimeout) or quick.error is None
        client.close()
        assert slow.ended()


EXITS = """
import sys, mcpwire.sync
from mcpwire import Stdio
from mcpwire.limits import Limits
kw = eval(sys.argv[2])
client = mcpwire.sync.Client(
    Stdio(sys.executable, ["-S", "-c", sys.argv[1]]), mode="2025-11-25", **kw)
client.connect()
stream = client.events()
stream.__enter__()
client.notify("notifications/x")
"""


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "options", ["{}", "{'background': True}", "{'background': True, 'keepalive': 0.01}"]
)
def test_a_client_left_open_at_exit_leaves_nobody_behind(options: str):
    marker = f"left-{os.getpid()}-{time.monotonic_ns()}"
    body = f"{PRELUDE}\nhandshake()\n{STUBBORN.split('handshake()')[1]}\n# {marker}"
    for _ in range(5):
        done = program(EXITS, body, options)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert "Fatal" not in done.stderr
    # Killed they are by then; until they are gone it takes a busy machine a moment. By
    # itself none of them would go within the bound.
    with killed_if_left(marker):
        until(lambda: not marked(marker))


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


def test_an_answer_goes_out_to_its_end_though_its_call_ended_meanwhile():
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
