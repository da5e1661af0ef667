"""The blocking client with real servers, as its users write it."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mcpwire.sync
from mcpwire.types import CreateMessageResult, TextContent

pytestmark = pytest.mark.servers

PATIENCE_S = 30.0
FIRST = "demo://resource/dynamic/text/1"
LONG = "trigger-long-running-operation"
UPDATES = "toggle-subscriber-updates"
# With a timer of its own still running the server does not leave by itself.
QUICK = mcpwire.Limits(close_grace=0.2)


@pytest.fixture
def blocking(warm):
    """Return a function that makes a blocking client of a real server."""

    def make(name, **options):
        server = warm(name)
        if name == "everything":
            options["limits"] = QUICK
        target = mcpwire.Stdio(server.argv[0], server.argv[1:], env=server.env)
        return mcpwire.sync.Client(target, timeout=PATIENCE_S, **options)

    return make


def children():
    """Return the processes that this one has started."""
    tasks = Path("/proc/self/task").iterdir()
    return {
        int(pid) for task in tasks for pid in (task / "children").read_text().split()
    }


def sample(request):
    text = request.messages[0].content.text
    return CreateMessageResult("assistant", TextContent(text.upper()), "our-model")


def test_handlers_answer_while_a_call_waits(blocking):
    with blocking(
        "everything",
        sampling=sample,
        elicitation=lambda _: {"name": "Ada", "number": 1},
        roots=["file:///srv/a"],
    ) as client:
        sampled = client.call_tool("trigger-sampling-request", {"prompt": "why"})
        filled = client.call_tool("trigger-elicitation-request")
        roots = client.call_tool("get-roots-list")
    assert "CONTEXT: WHY" in sampled.text
    assert '"name": "Ada"' in filled.text
    assert "file:///srv/a" in roots.text


@pytest.mark.fault("F18")
@pytest.mark.parametrize("mode", ["session", "stateless"])
def test_threads_that_share_a_client_are_asked_at_once(blocking, mode):
    """Each handler waits until as many run as threads call."""
    meeting = threading.Barrier(4, timeout=PATIENCE_S)

    def meet(request):
        meeting.wait()
        return sample(request)

    with (
        blocking("sdk_interactive", mode=mode, sampling=meet) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        results = threads.map(
            lambda topic: client.call_tool("haiku", {"topic": topic}), "abcd"
        )
        texts = [each.structured_content["content"]["text"] for each in results]
    assert texts == [f"A HAIKU ON {topic}" for topic in "ABCD"]


def test_what_was_told_between_calls_is_heard_with_the_next(blocking):
    with blocking("everything") as client, client.listen([FIRST]) as changes:
        client.call_tool(UPDATES)
        change = next(changes)
        client.call_tool(UPDATES)
    assert (change.method, change.params.uri) == (
        "notifications/resources/updated",
        FIRST,
    )


def test_a_watch_and_a_restart(blocking):
    others = children()
    with blocking("everything") as client, client.watch(FIRST) as contents:
        first = next(contents)
        client.call_tool(UPDATES)
        second = next(contents)
        (server,) = children() - others
        os.killpg(os.getpgid(server), signal.SIGKILL)
        third = next(contents)
    for content in (first, second, third):
        assert content.text.startswith("Resource 1: ")


@pytest.mark.pain("P09")
def test_a_started_call_is_cancelled_from_another_thread(blocking):
    running = threading.Event()
    with blocking("sdk_interactive") as client:
        call = client.start_call(
            "hang", {"name": "one"}, on_progress=lambda *_: running.set()
        )
        assert running.wait(PATIENCE_S)
        threading.Thread(target=call.cancel, args=("enough",)).start()
        with pytest.raises(mcpwire.CallCancelled, match="enough"):
            call.result(PATIENCE_S)
        for _ in range(200):
            names = client.call_tool("cancelled").structured_content["result"]
            if names:
                break
    assert names == ["one"]


@pytest.mark.parametrize("mode", ["session", "stateless"])
def test_ctrl_c_cancels_the_call_at_the_server_and_nothing_else(blocking, mode):
    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    others = children()
    with blocking("sdk_interactive", mode=mode) as client:
        server = children() - others
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("hang", {"name": "one"}, on_progress=interrupt)
        for _ in range(200):
            names = client.call_tool("cancelled").structured_content["result"]
            if names:
                break
        assert children() - others == server
    assert names == ["one"]
