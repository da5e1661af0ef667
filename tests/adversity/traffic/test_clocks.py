"""Clock jumps, and loops that were suspended for minutes."""

import asyncio
import time

import pytest
from fakes import SILENCE, FakeServer, text
from scripted import ECHO_LOOP, scripted

import mcpwire

pytestmark = [pytest.mark.fault("F46"), pytest.mark.timeout(60)]

BOUND_S = 30.0
MINUTES_S = 600.0


@pytest.fixture
async def asleep():
    """Return a function that lets the loop's clock jump, as after a laptop's sleep."""
    loop = asyncio.get_running_loop()
    real, gap = loop.time, 0.0

    def jump(seconds):
        nonlocal gap
        gap += seconds

    loop.time = lambda: real() + gap
    yield jump
    del loop.time


@pytest.mark.pain("P08")
async def test_wall_clock_jumps_move_no_deadline(monkeypatch):
    real = time.time
    target = scripted(
        "handshake()\n" + ECHO_LOOP.replace("if", "if m.get('method') != 'ping' and")
    )
    async with mcpwire.Client(target) as client:
        slow = asyncio.ensure_future(client.ping(timeout=0.4))
        for jump in (3_600, -3_600, 10**9):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            result = await client.call_tool("x", {"text": str(jump)}, timeout=BOUND_S)
            assert result.text == str(jump)
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await slow
        assert 0.4 <= caught.value.elapsed < BOUND_S


async def test_calls_time_out_once_after_system_sleep(asleep):
    server = FakeServer({"tools/call": lambda *_: SILENCE, "x/y": lambda *_: {}})
    async with mcpwire.Client(server, timeout=30) as client:
        calls = [asyncio.create_task(client.call_tool("x")) for _ in range(20)]
        await asyncio.sleep(0)
        asleep(MINUTES_S)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} == {mcpwire.RequestTimeout}
        assert all(end.elapsed >= MINUTES_S for end in ends)
        assert await client.request("x/y") == {}
        cancelled = server.requests("notifications/cancelled")
        assert len({params["requestId"] for params in cancelled}) == 20
        assert len(cancelled) == 20
        assert client.stats.connections == 1


async def test_response_that_arrived_during_system_sleep_is_used(asleep, tmp_path):
    answered = tmp_path / "answered"
    target = scripted(
        "handshake()\nm = recv(); text(m, 'in time'); open(sys.argv[1], 'w')\nrecv()",
        str(answered),
    )
    async with mcpwire.Client(target, timeout=30) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)
        while not answered.exists():
            time.sleep(0.001)  # noqa: ASYNC251 - the loop must not run meanwhile
        asleep(MINUTES_S)
        assert (await call).text == "in time"


async def test_server_lost_during_system_sleep_causes_one_reconnect(asleep):
    server = FakeServer({"tools/call": lambda *_: text("awake")})
    client = mcpwire.Client(server)
    await client.connect()
    await server.channel.aclose()  # while the machine slept
    asleep(MINUTES_S)
    await asyncio.sleep(0)
    await asyncio.gather(*(client.connect() for _ in range(20)))
    results = await asyncio.gather(*(client.call_tool("x") for _ in range(20)))
    assert {result.text for result in results} == {"awake"}
    assert client.stats.connections == 2
    await client.aclose()


async def test_handshake_times_out_once_after_system_sleep(asleep):
    server = FakeServer(
        {"server/discover": lambda *_: SILENCE, "initialize": lambda *_: SILENCE}
    )
    client = mcpwire.Client(server)
    connecting = asyncio.create_task(client.connect())
    for _ in range(10):
        await asyncio.sleep(0)
    asleep(MINUTES_S)
    with pytest.raises(mcpwire.RequestTimeout):
        await connecting
    assert len(server.requests("server/discover")) == 1
    await client.aclose()
