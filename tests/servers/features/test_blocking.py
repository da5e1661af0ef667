"""The blocking client with real servers."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

import mcpwire.sync
from mcpwire.types import CreateMessageResult, TextContent

pytestmark = pytest.mark.servers

TIMEOUT_S = 30.0
FIRST = "demo://resource/dynamic/text/1"
UPDATES = "toggle-subscriber-updates"
# The server does not exit by itself while its own timer is running.
QUICK = mcpwire.Limits(close_grace=0.2)


@pytest.fixture
def blocking(warm):
    """Return a function that makes a blocking client of a real server."""

    def make(name, **options):
        server = warm(name)
        if name == "everything":
            options["limits"] = QUICK
        target = mcpwire.Stdio(server.argv[0], server.argv[1:], env=server.env)
        return mcpwire.sync.Client(target, timeout=TIMEOUT_S, **options)

    return make


def children():
    """Return the child processes of this process."""
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread has just ended
            found |= {int(pid) for pid in (thread / "children").read_text().split()}
    return found


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


def test_a_watch_continues_over_a_restarted_server(blocking):
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


@pytest.mark.parametrize("mode", ["session", "stateless"])
def test_ctrl_c_cancels_only_the_call_at_the_server(blocking, mode):
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
