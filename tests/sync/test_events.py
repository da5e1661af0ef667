"""What a server tells, iterated over by blocking threads."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripted import scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

TELLING = """
handshake(capabilities={"tools": {"listChanged": True}, "logging": {},
                        "resources": {"subscribe": True, "listChanged": True}})
version = 0
def log(data):
    send({"jsonrpc": "2.0", "method": "notifications/message",
          "params": {"level": "info", "data": data}})
while True:
    m = recv()
    method, params = m["method"], m.get("params", {})
    if method == "tools/call":
        if params["name"] == "die":
            os._exit(1)
        for number in range(params["arguments"].get("logs", 0)):
            log(number)
        for uri in params["arguments"].get("updates", ()):
            version += 1
            send({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                  "params": {"uri": uri}})
        text(m, "done")
    elif method == "resources/read":
        answer(m, {"contents": [{"uri": params["uri"], "text": str(version)}]})
    elif "id" in m:
        answer(m, {})
"""


def telling():
    return scripted(TELLING)


@pytest.fixture
def client():
    with mcpwire.sync.Client(telling()) as client:
        yield client


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def data(notification):
    return notification.params.data


def test_events_come_in_order_to_each_stream_of_its_own(client):
    first, second = client.events(), client.events()
    client.call_tool("x", {"logs": 3})
    assert [data(next(first)) for _ in range(3)] == [0, 1, 2]
    assert [data(next(second)) for _ in range(3)] == [0, 1, 2]
    first.close()
    second.close()


def test_one_thread_iterates_while_others_call(client, threads):
    def listen():
        with client.events() as events:
            return [data(event) for _, event in zip(range(400), events, strict=False)]

    heard = threads.submit(listen)
    until(lambda: client._connection.inbound.listeners)
    calls = [threads.submit(client.call_tool, "x", {"logs": 20}) for _ in range(20)]
    for call in calls:
        assert call.result(BOUND_S).text == "done"
    assert heard.result(BOUND_S) == list(range(20)) * 20


def test_closing_the_client_ends_an_iteration(client, threads):
    listening = threads.submit(lambda: list(client.events()))
    until(lambda: client._connection.inbound.listeners)
    client.close()
    assert listening.result(BOUND_S) == []


def test_closing_a_stream_ends_its_iteration_in_another_thread(client, threads):
    events = client.events()
    listening = threads.submit(lambda: list(events))
    until(lambda: events._wanted is not None)
    events.close()
    assert listening.result(BOUND_S) == []
    assert client.call_tool("x", {}).text == "done"


def test_a_subscription_tells_of_chosen_resources_only(client):
    with client.listen(["a:1"], tools=True) as changes:
        assert changes.acknowledged.uris == {"a:1"}
        client.call_tool("x", {"logs": 2, "updates": ["a:2", "a:1"]})
        change = next(changes)
        assert (change.method, change.params.uri) == (
            "notifications/resources/updated",
            "a:1",
        )


def test_a_watch_reads_again_with_each_change(client):
    with client.watch("a:1") as contents:
        assert next(contents).text == "0"
        client.call_tool("x", {"updates": ["a:1", "a:1"]})
        assert next(contents).text == "2"


@pytest.mark.fault("F41")
def test_an_iteration_goes_on_over_a_server_that_died(client, threads):
    def listen():
        with client.watch("a:1") as contents:
            return [
                content.text for _, content in zip(range(2), contents, strict=False)
            ]

    watching = threads.submit(listen)
    until(lambda: client._subscriptions.interests.current.uris)
    client.call_tool("x", {})
    with pytest.raises(mcpwire.ConnectionClosed):
        client.call_tool("die")
    assert watching.result(BOUND_S) == ["0", "0"]
    assert client.stats.connections == 2


def test_a_forgotten_stream_is_heard_of_no_more(client):
    events = client.events()
    next_event = threading.Thread(target=lambda: client.call_tool("x", {"logs": 1}))
    next_event.start()
    assert data(next(events)) == 0
    next_event.join(BOUND_S)
    del events
    assert not client._connection.inbound.listeners
    assert client.call_tool("x", {}).text == "done"


def test_many_threads_subscribe_and_unsubscribe_and_nothing_is_left(client, threads):
    def work(number):
        for _ in range(10):
            client.subscribe(f"a:{number % 3}")
            client.unsubscribe(f"a:{number % 3}")

    for done in [threads.submit(work, number) for number in range(6)]:
        done.result(BOUND_S)
    assert not client._subscriptions.interests.current
    assert client._subscriptions._subscribed == set()
    with pytest.raises(mcpwire.LocalProtocolError, match="not subscribed"):
        client.unsubscribe("a:1")
