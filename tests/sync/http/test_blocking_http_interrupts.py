"""Ctrl-C at any moment of what a client does over HTTP: it is undone, and goes on.

Each test takes some of the moments, for all of them would take minutes.
"""

import pytest
from interrupts import Interrupts
from mcp_server import scripted_mcp
from running import ours
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

MOMENTS = 12


def each_moment(make, use, *, count=MOMENTS):
    """Yield what `make` gives, used and interrupted at moments all over the use."""
    made = make()
    with Interrupts(10**9) as all_moments:
        use(made)
    yield made
    stride = max(all_moments.passed // count, 1)
    for moment in range(1, all_moments.passed, stride):
        made = make()
        try:
            with Interrupts(moment):
                use(made)
        except KeyboardInterrupt:
            pass
        yield made


@pytest.mark.fault("F42")
@pytest.mark.pain("P10", "P12")
@pytest.mark.parametrize("era", ["session", "stateless"])
def test_an_interrupted_connect_leaves_no_thread_and_can_be_tried_again(era):
    with scripted_mcp(era, complains=False) as server:

        def make():
            return mcpwire.sync.Client(server.url, on_notification=lambda _: None)

        for client in each_moment(make, lambda client: client.connect()):
            client.connect()
            assert client.call_tool("echo", {"text": "hi"}).text == "hi"
            client.close()
            until(lambda: not ours())


@pytest.mark.fault("F42")
@pytest.mark.pain("P12")
@pytest.mark.parametrize("replies", ["json", "sse"])
def test_an_interrupted_call_leaves_nothing_that_waits(replies):
    with (
        scripted_mcp(replies=replies) as server,
        mcpwire.sync.Client(server.url) as client,
    ):
        channel = client._connection.channel
        texts = iter(range(1000))

        def call(client):
            client.call_tool("echo", {"text": "interrupted"})

        for _ in each_moment(lambda: client, call, count=40):
            text = str(next(texts))
            assert client.call_tool("echo", {"text": text}).text == text
            until(lambda: not channel._waiting)
            until(lambda: not channel._speakers)


@pytest.mark.pain("P12")
def test_an_interrupt_as_a_call_is_given_up_does_not_spoil_closing():
    with scripted_mcp() as server:

        def make():
            client = mcpwire.sync.Client(server.url)
            client.connect()
            return client

        def use(client):
            try:
                client.call_tool("slow", {"seconds": 30}, timeout=0.01)
            except mcpwire.RequestTimeout:
                return

        for client in each_moment(make, use, count=30):
            client.close()
            until(lambda: not ours())
        server.release()


@pytest.mark.fault("F42")
@pytest.mark.pain("P12")
def test_an_interrupted_close_leaves_no_thread():
    with scripted_mcp() as server:

        def make():
            client = mcpwire.sync.Client(server.url, on_notification=lambda _: None)
            client.connect()
            client.call_tool("echo")
            return client

        # Where it is the abort of the server's stream that is interrupted, its thread
        # looks for itself within a second.
        for client in each_moment(make, lambda client: client.close(), count=25):
            client.close()
            assert not client.is_connected
            until(lambda: not ours())


@pytest.mark.pain("P12")
def test_an_interrupted_subscribe_is_in_nobodys_way():
    with (
        scripted_mcp("stateless") as server,
        mcpwire.sync.Client(server.url) as client,
    ):

        def subscribe(client):
            client.subscribe("file:///a")

        for _ in each_moment(lambda: client, subscribe, count=40):
            # What was wanted when the interrupt came may be wanted now, or not.
            if client._subscriptions.interests.current.uris:
                client.unsubscribe("file:///a", timeout=BOUND_S)
            with client.listen(["file:///b"], timeout=BOUND_S) as changes:
                assert changes.acknowledged.uris == {"file:///b"}
            until(lambda: not server.streams)


@pytest.mark.pain("P12")
@pytest.mark.parametrize("engine", ["direct", "httpx", "client"])
def test_an_abort_that_is_interrupted_halfway_is_noticed_within_a_second(engine):
    """It was taken out of what runs, and its thread was not woken."""
    httpx = pytest.importorskip("httpx")
    options = {"engine": engine}
    with scripted_mcp() as server, httpx.Client() as http_client:
        if engine == "client":
            options = {"http_client": http_client}
        target = mcpwire.Http(server.url, **options)
        client = mcpwire.sync.Client(target, on_notification=lambda _: None)
        client.connect()
        server.wait_until(lambda: server.streams)
        running = client._connection.channel._engine

        def half(reply, _):
            running._running.pop(id(reply), None)
            raise KeyboardInterrupt

        running.abort = half
        with pytest.raises(KeyboardInterrupt):
            client.close()
        until(lambda: not ours())
