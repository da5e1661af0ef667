"""Scripted servers serve a blocking client as well."""

import queue
import threading

import pytest

from mcpwire import sync
from mcpwire.limits import Recovery
from mcpwire.testing import ScriptedServer, at_random, later, leak_check, text


def client(target, **options):
    options.setdefault("timeout", 30)
    options.setdefault("recovery", Recovery(restart=False))
    return sync.Client(target, **options)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("split", [None, 1, at_random(4)], ids=["whole", "1", "random"])
def test_scripted_server_answers_a_blocking_client(version, split):
    server = ScriptedServer(
        {"tools/call": later(text("hi"), turns=3)}, versions=version, split=split
    )
    with leak_check(grace=30), client(server) as c:
        assert c.protocol_version == version
        assert [c.call_tool("x").text for _ in range(3)] == ["hi"] * 3
    assert not server.is_open


def test_scripted_server_is_driven_from_the_thread_of_the_client():
    notifications = queue.SimpleQueue()
    server = ScriptedServer({"tools/call": text("hi")}, versions="2025-11-25")
    with client(server, on_notification=notifications.put) as c:
        server.notify("notifications/message", {"level": "info", "data": "now"})
        assert c.call_tool("x").text == "hi"
        server.wait_for("tools/call")
        server.ask("ping", id="mine")
        c.ping()
        c.ping()
        assert notifications.get(timeout=30).params.data == "now"
    assert [each.id for each in server.received if each.is_answer] == ["mine"]


def test_scripted_server_answers_when_another_thread_runs_the_loop():
    answers = []
    with client(ScriptedServer({"tools/call": text("hi")})) as c:
        thread = threading.Thread(target=lambda: answers.append(c.call_tool("x")))
        thread.start()
        thread.join(30)
    assert [answer.text for answer in answers] == ["hi"]
