"""A lost connection is reopened for the next call, with its state restored."""

import asyncio
import gc
import logging
import os
import signal
import weakref

import attrs
import pytest
from clocks import on_a_clock_by_hand, on_a_virtual_clock
from eager import eager
from fakes import SILENCE, FakeServer, ReopenableServer, text
from loop_polling import until
from scripted import ECHO_LOOP, pid_of, scripted

import mcpwire
from mcpwire.protocol import retry

STATELESS = "2026-07-28"
ERA = pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
URI = "file:///a"
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}

AT_ONCE = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.01)


class MortalServer(ReopenableServer):
    def __init__(self, version="2025-11-25", **methods):
        super().__init__(
            {"resources/subscribe": lambda *_: {}, "logging/setLevel": lambda *_: {}}
            | {"subscriptions/listen": self.listen, "tools/call": self.call}
            | methods,
            version=version,
            capabilities=CAPABILITIES,
        )

    def call(self, params, _):
        if params["name"] == "die" and len(self.lives) == 1:
            self.die()
            return SILENCE
        return text("alive")

    def calls(self):
        return [
            m["params"]["name"]
            for life in self.lives
            for m in life
            if m.get("method") == "tools/call"
        ]


async def lost(client):
    """Wait until the client knows that its connection is gone."""
    await until(lambda: not client.is_connected)


@pytest.mark.system("L-A14")
@ERA
@pytest.mark.pain("P04")
@pytest.mark.rule("TR-STDIO-14")
async def test_the_next_call_reopens_a_lost_connection(version):
    server = MortalServer(version)
    async with mcpwire.Client(server) as client:
        await client.call_tool("x")
        await server.lose(client)
        results = await asyncio.gather(*(client.call_tool("x") for _ in range(50)))
        assert {result.text for result in results} == {"alive"}
        assert client.stats.connections == 2
    assert server.calls() == ["x"] * 51


async def test_without_restart_a_lost_connection_stays_lost_until_connect():
    server = MortalServer()
    recovery = mcpwire.Recovery(restart=False)
    async with mcpwire.Client(server, recovery=recovery) as client:
        await server.lose(client)
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
        assert caught.value.sent is False
        await client.connect()
        assert (await client.call_tool("x")).text == "alive"


@pytest.mark.system("L-R12")
@pytest.mark.pain("P04")
async def test_a_call_that_may_have_run_is_not_retried():
    server = MortalServer()
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("die")
        assert caught.value.sent is True
        assert (await client.call_tool("x")).text == "alive"
    assert server.calls() == ["die", "x"]


async def test_an_idempotent_call_is_retried():
    server = MortalServer()
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("die", idempotent=True)).text == "alive"
    assert server.calls() == ["die", "die"]


@pytest.mark.system("L-R12")
@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint", "openWorldHint"])
async def test_a_call_is_retried_if_the_tool_hints_allow_it(hint):
    tool = {
        "name": "die",
        "inputSchema": {"type": "object"},
        "annotations": {hint: True},
    }
    server = MortalServer(**{"tools/list": lambda *_: {"tools": [tool]}})
    async with mcpwire.Client(server) as client:
        await client.list_tools()
        if hint == "openWorldHint":
            with pytest.raises(mcpwire.ConnectionClosed):
                await client.call_tool("die")
        else:
            assert (await client.call_tool("die")).text == "alive"
            server.lives = server.lives[:1]
            with pytest.raises(mcpwire.ConnectionClosed):
                await client.call_tool("die", idempotent=False)


async def test_a_reading_request_is_retried():
    def reading(params, server):
        if len(server.lives) == 1:
            server.die()
            return SILENCE
        return {"tools": []}

    server = MortalServer(**{"tools/list": reading})
    async with mcpwire.Client(server) as client:
        assert await client.list_tools() == []
        assert client.stats.connections == 2


@pytest.mark.system("L-A12")
@ERA
@pytest.mark.rule("TR-STDIO-15", "SUB-14")
async def test_log_level_and_subscriptions_are_restored(version):
    server = MortalServer(version)
    async with mcpwire.Client(server) as client:
        await client.set_log_level("error")
        await client.subscribe(URI)
        await server.lose(client)
        await client.call_tool("x")
    second = [m for m in server.lives[1] if m["method"] != "server/discover"]
    if version == STATELESS:
        listen, call, *_ = second
        assert listen["params"]["notifications"] == {"resourceSubscriptions": [URI]}
        for message in (listen, call):
            meta = message["params"]["_meta"]
            assert meta["io.modelcontextprotocol/logLevel"] == "error"
    else:
        assert [m["method"] for m in second] == [
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe",
            "tools/call",
        ]


@pytest.mark.rule("VER-08")
async def test_a_known_session_server_is_not_probed_again():
    server = MortalServer()
    async with mcpwire.Client(server) as client:
        await server.lose(client)
        await client.call_tool("x")
        assert server.lives[1][0]["method"] == "initialize"
        server.version = STATELESS
        await server.lose(client)
        await client.call_tool("x")
        assert client.protocol_version == STATELESS
        # After closing, the server may be another one: the known era is forgotten.
        await client.aclose()
        await client.connect()
        assert server.received[0]["method"] == "server/discover"


async def test_closing_forgets_log_level_and_subscriptions():
    server = MortalServer()
    client = mcpwire.Client(server)
    async with client:
        await client.set_log_level("error")
        await client.subscribe(URI)
    async with client:
        await client.ping()
    methods = [m.get("method") for m in server.lives[1]]
    assert "logging/setLevel" not in methods
    assert "resources/subscribe" not in methods


@ERA
@pytest.mark.rule("TR-STDIO-14", "TR-STDIO-15")
async def test_a_listen_stream_continues_after_a_loss_without_calls(version):
    server = MortalServer(version)
    async with mcpwire.Client(server) as client, client.listen([URI]) as changes:
        await server.lose(client)
        await until(lambda: len(server.lives) == 2 and client.is_connected)
        server.notify("notifications/resources/updated", uri=URI)
        assert (await anext(changes)).params.uri == URI


async def test_subscriptions_that_wait_for_another_one_continue_after_a_loss():
    server = MortalServer(STATELESS)
    server.methods["subscriptions/listen"] = lambda *_: SILENCE
    uris = [f"file:///{number}" for number in range(6)]
    async with mcpwire.Client(server, recovery=AT_ONCE) as client:
        first, *others = [asyncio.create_task(client.subscribe(uri)) for uri in uris]
        await until(lambda: server.requests("subscriptions/listen"))
        server.methods["subscriptions/listen"] = server.listen
        server.die()
        with pytest.raises(mcpwire.ConnectionClosed):
            await first
        await asyncio.gather(*others)
        assert client.subscribed == frozenset(uris[1:])
        (*_, latest) = server.requests("subscriptions/listen")
        assert latest["notifications"] == {"resourceSubscriptions": uris[1:]}


@ERA
async def test_a_watch_reads_again_after_a_loss(version):
    def read(params, server):
        return {"contents": [{"uri": URI, "text": str(len(server.lives))}]}

    server = MortalServer(version, **{"resources/read": read})
    async with mcpwire.Client(server) as client, client.watch(URI) as contents:
        assert (await anext(contents)).text == "1"
        server.die()
        assert (await anext(contents)).text == "2"


class Failing(MortalServer):
    """A server that can be opened once; then `failures` openings fail."""

    failures = 0

    def open_in_memory(self, client, limits):
        if self.lives and self.failures:
            self.failures -= 1
            raise mcpwire.ConnectError("no such luck", target="failing")
        return super().open_in_memory(client, limits)


async def test_reopening_is_tried_up_to_the_configured_attempts():
    server = Failing()
    async with mcpwire.Client(server, recovery=AT_ONCE) as client:
        await client.call_tool("x")
        server.failures = 4
        await server.lose(client)
        assert (await client.call_tool("x")).text == "alive"
        server.failures = 100
        await server.lose(client)
        with pytest.raises(mcpwire.ConnectError, match="no such luck"):
            await client.call_tool("x")
        assert server.failures == 95


@on_a_virtual_clock
async def test_after_all_attempts_it_pauses_and_then_retries():
    server = Failing()
    recovery = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.2, attempts=1)
    async with mcpwire.Client(server, recovery=recovery) as client:
        await client.call_tool("x")
        server.failures = 1
        await server.lose(client)
        for _ in range(3):  # none of these tries again
            with pytest.raises(mcpwire.ConnectError):
                await client.call_tool("x")
        while True:
            try:
                result = await client.call_tool("x")
                break
            except mcpwire.ConnectError:
                await asyncio.sleep(0.01)
        assert result.text == "alive"


class Arguments(dict):
    """A dict that can be referenced weakly."""


async def test_a_failed_call_does_not_keep_its_arguments(caplog):
    caplog.set_level(logging.ERROR)  # a stored record keeps the error that it names

    async def failed_call(client):
        arguments = Arguments(a=1)
        try:
            return await client.call_tool("die", {"of": arguments})
        except mcpwire.TransportError:  # `pytest.raises` would keep the frame
            return weakref.ref(arguments)

    server = Failing()
    async with mcpwire.Client(server, recovery=AT_ONCE) as client:
        server.failures = 100
        gc.disable()
        try:
            # Lost during the call; after all attempts; without further attempts.
            for _ in range(3):
                kept = await failed_call(client)
                await until(lambda kept=kept: kept() is None)
        finally:
            gc.enable()


async def test_the_error_of_an_earlier_loss_is_not_raised_again():
    server = Failing()
    recovery = attrs.evolve(AT_ONCE, attempts=2)
    async with mcpwire.Client(server, recovery=recovery) as client:
        await client.call_tool("x")
        server.failures = 1
        await server.lose(client)
        await client.call_tool("x")  # the second attempt has succeeded
        await server.lose(client)
        for _ in range(2):  # from here on no connection answers a call
            server.methods["tools/call"] = lambda *_: server.die() or SILENCE
            with pytest.raises(mcpwire.ConnectionClosed):
                await client.call_tool("x")
        with pytest.raises(mcpwire.ConnectionClosed, match="the peer closed it"):
            await client.call_tool("x")


@on_a_virtual_clock
async def test_a_connection_that_has_answered_a_call_is_replaced_at_once():
    server = MortalServer()
    server.methods["server/discover"] = lambda *_: SILENCE
    recovery = attrs.evolve(AT_ONCE, attempts=1)
    client = mcpwire.Client(server, probe_timeout=0.01, recovery=recovery)
    async with client:
        await client.call_tool("x")
        await server.lose(client)
        await client.call_tool("x")
    assert server.calls() == ["x", "x"]


@on_a_virtual_clock
async def test_eager_tasks_do_not_hide_that_a_connection_has_answered():
    factory = getattr(asyncio, "eager_task_factory", eager)
    asyncio.get_running_loop().set_task_factory(factory)
    recovery = attrs.evolve(AT_ONCE, attempts=1)
    server = MortalServer(STATELESS)
    async with mcpwire.Client(server, recovery=recovery) as client:
        await client.subscribe(URI)
        for _ in range(3):
            await client.call_tool("x")
            await server.lose(client)
    assert server.calls() == ["x", "x", "x"]


@pytest.mark.parametrize("reopened_by", ["the iteration", "another call"])
async def test_an_iteration_uses_no_cursor_of_an_earlier_session(reopened_by):
    tool = {"name": "x", "inputSchema": {}}
    page = {"tools": [tool], "nextCursor": "2"}
    server = MortalServer(**{"tools/list": lambda *_: page})
    async with mcpwire.Client(server, recovery=AT_ONCE) as client:
        tools = client.iter_tools()
        await anext(tools)
        await server.lose(client)
        if reopened_by == "another call":
            await client.call_tool("x")
        with pytest.raises(mcpwire.LocalProtocolError, match="session of the cursor"):
            await anext(tools)
        assert "tools/list" not in [m["method"] for m in server.lives[1]]


async def test_connect_does_not_wait_for_the_pause_between_attempts():
    server = Failing()
    recovery = mcpwire.Recovery(backoff_max=1000, attempts=1)
    async with mcpwire.Client(server, recovery=recovery) as client:
        await client.call_tool("x")
        server.failures = 1
        await server.lose(client)
        with pytest.raises(mcpwire.ConnectError):
            await client.call_tool("x")
        await client.connect()
        assert (await client.call_tool("x")).text == "alive"


async def test_a_timeout_applies_while_reopening(monkeypatch):
    monkeypatch.setattr(retry.RestartBackoff, "delay", lambda *_: 1000.0)
    server = MortalServer()
    async with mcpwire.Client(server) as client:
        await server.lose(client)
        with pytest.raises(mcpwire.RequestTimeout, match="opened again"):
            await client.call_tool("x", timeout=0.05)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "mcpwire-reconnect" not in names


async def test_closing_ends_the_reopening_and_its_waiting_calls(monkeypatch):
    monkeypatch.setattr(retry.RestartBackoff, "delay", lambda *_: 1000.0)
    server = MortalServer()
    async with mcpwire.Client(server) as client:
        await server.lose(client)
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)  # one loop iteration
        await asyncio.sleep(0)  # one loop iteration
        await client.aclose()
        with pytest.raises(mcpwire.ConnectionClosed):
            await call


@pytest.mark.fault("F41")
@pytest.mark.parametrize("turns", range(12))
async def test_closing_at_any_step_of_reopening_leaves_no_connection(
    turns, monkeypatch
):
    """The reopening may succeed and be lost again in the iteration that ends it."""
    monkeypatch.setattr(retry.RestartBackoff, "delay", lambda *_: 1000.0)
    server = MortalServer()
    client = mcpwire.Client(server)
    await client.connect()
    await server.lose(client)
    connecting = asyncio.create_task(client.connect())
    for _ in range(turns):
        await asyncio.sleep(0)  # one loop iteration
    closing = asyncio.create_task(client.aclose())
    calls = []
    for turn in range(4):
        calls.append(asyncio.create_task(client.call_tool("x")))
        await asyncio.sleep(0)  # one loop iteration
        if turn:
            FakeServer.die(server)
    await closing
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert "mcpwire-reconnect" not in names
    await asyncio.gather(connecting, *calls, return_exceptions=True)
    assert not client.is_connected


@pytest.mark.system("L-V14")
@pytest.mark.pain("P04")
@pytest.mark.rule("TR-STDIO-14")
async def test_a_killed_child_is_restarted_for_the_next_call():
    target = scripted("handshake()\n" + ECHO_LOOP)
    async with mcpwire.Client(target) as client:
        for text_ in ("a", "b", "c"):
            result = await client.call_tool("echo", {"text": text_})
            assert result.text == text_
            os.kill(pid_of(client), signal.SIGKILL)
            await lost(client)
        assert (await client.call_tool("echo", {"text": "d"})).text == "d"
        assert client.stats.connections == 4


@pytest.mark.pain("P24")
async def test_side_effects_happen_once_despite_crashes(tmp_path):
    ledger = tmp_path / "ledger"
    ledger.touch()
    target = scripted(
        "handshake()\n"
        "while True:\n"
        "    m = recv()\n"
        "    if 'id' not in m: continue\n"
        "    n = m['params']['arguments']['n']\n"
        "    with open(sys.argv[1], 'a') as f: f.write(f'{n}\\n')\n"
        "    if n % 3 == 0: os._exit(1)\n"
        "    text(m, str(n))\n",
        str(ledger),
    )
    answered, unsure = [], []
    async with mcpwire.Client(target, recovery=AT_ONCE) as client:
        for n in range(1, 10):
            try:
                answered.append((await client.call_tool("x", {"n": n})).text)
            except mcpwire.ConnectionClosed as error:
                unsure.append((n, error.sent))
    assert unsure == [(3, True), (6, True), (9, True)]
    assert answered == ["1", "2", "4", "5", "7", "8"]
    ran = ledger.read_text().split()
    assert ran == [str(n) for n in range(1, 10)]


@on_a_clock_by_hand
async def test_an_abandoned_server_does_not_delay_the_next_one():
    target = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "handshake()\nm = recv()\ntext(m, 'once')\n"
        "signal.pause()"
    )
    limits = mcpwire.Limits(close_grace=1000, terminate_grace=1000)
    client = mcpwire.Client(target, keepalive=1, limits=limits, recovery=AT_ONCE)
    await client.connect()
    for _ in range(2):
        assert (await client.call_tool("x")).text == "once"
        await asyncio.get_running_loop().advance(5)
        await lost(client)
    assert client.stats.connections == 2
    await client.aclose()


@on_a_clock_by_hand
async def test_a_keepalive_detects_a_silent_server():
    target = scripted(
        "handshake()\nm = recv()\nanswer(m, {})\nsend({'jsonrpc': '2.0', 'method':"
        " 'notifications/message', 'params': {'level': 'info', 'data': m['method']}})\n"
        "time.sleep(60)"
    )
    received = []
    limits = mcpwire.Limits(close_grace=0.1)
    recovery = mcpwire.Recovery(restart=False)
    async with mcpwire.Client(
        target,
        keepalive=1,
        limits=limits,
        recovery=recovery,
        on_notification=received.append,
    ) as client:
        loop = asyncio.get_running_loop()
        await loop.advance(1.5)
        await until(lambda: received)  # the first ping, which is answered
        await loop.advance(5)
        await lost(client)
        with pytest.raises(mcpwire.ConnectionClosed, match="did not answer a ping"):
            await client.call_tool("x")
        loop.auto_advance = True  # closing takes its time
    assert [n.params.data for n in received] == ["ping"]


@pytest.mark.rule("PING-02")
@pytest.mark.parametrize(
    ("version", "pings"), [("2025-11-25", True), (STATELESS, False)]
)
@on_a_virtual_clock
async def test_a_keepalive_pings_sessions_only(version, pings):
    server = MortalServer(version)
    async with mcpwire.Client(server, keepalive=0.01) as client:
        if version != STATELESS:
            await until(
                lambda: [m.get("method") for m in server.received].count("ping") > 2,
                0.001,
            )
        else:
            names = {task.get_name() for task in asyncio.all_tasks()}
            assert "mcpwire-keepalive" not in names
        assert client.is_connected


@pytest.mark.pain("P21")
async def test_a_server_that_keeps_dying_is_not_restarted_forever(monkeypatch):
    pauses = []
    delay = retry.RestartBackoff.delay

    def record_pause(self, now, chance):
        pauses.append(delay(self, now, 1.0))
        return pauses[-1] if pauses[-1] is None else 0.0

    monkeypatch.setattr(retry.RestartBackoff, "delay", record_pause)

    class Chatty(MortalServer):
        def receive(self, data):
            super().receive(data)
            is_ready = self.received[-1].get("method") == "notifications/initialized"
            if is_ready and len(self.lives) > 1:
                self.notify("notifications/message", level="info", data="hello")
                self.die()

    server = Chatty()
    received = []
    async with mcpwire.Client(server) as client:
        stream = client.events()
        server.notify("notifications/x")
        await anext(stream)
        server.die()
        with pytest.raises(mcpwire.ConnectionClosed):
            await listen(stream, received)
    assert received == ["notifications/message"] * (len(server.lives) - 1)
    assert len(server.lives) == mcpwire.Recovery().attempts
    assert pauses[-1] is None
    assert pauses[1:-1] == sorted(pauses[1:-1])
    assert pauses[-2] > 1.0


async def listen(stream, received):
    async for notification in stream:
        received.append(notification.method)
