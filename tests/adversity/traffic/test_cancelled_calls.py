"""What the server is told of calls nobody waits for any more, and what it answers."""

import asyncio
import json
import logging

import pytest
from scripted import scripted

import mcpwire

BOUND_S = 30.0
CALLS = 50

# Answers only `report`, with all it has heard; `answer all` answers what is left first.
HEARING = """
handshake(*sys.argv[1:]) if sys.argv[1:] != ["stateless"] else discover()
heard = []
while True:
    m = recv()
    heard.append(m)
    name = m.get("params", {}).get("name")
    if name == "answer all":
        for late in heard:
            if late.get("params", {}).get("name") == "slow":
                text(late, "too late")
    if name in ("report", "answer all"):
        text(m, json.dumps(heard)); heard.clear()
"""


def hearing(era):
    return scripted(HEARING, *(["stateless"] if era == "stateless" else []))


ERAS = pytest.mark.parametrize("era", ["session", "stateless"])


async def heard_by(client, name="report"):
    """Return the messages the server has heard, the asking one left out."""
    return json.loads((await client.call_tool(name)).text)[:-1]


def told(heard):
    return sorted(
        m["params"]["requestId"]
        for m in heard
        if m["method"] == "notifications/cancelled"
    )


def asked(heard):
    return sorted(m["id"] for m in heard if m["method"] == "tools/call")


@ERAS
@pytest.mark.pain("P09")
@pytest.mark.rule("CAN-01")
async def test_fifty_cancelled_tasks_are_fifty_notifications_with_their_ids(era):
    async with mcpwire.Client(hearing(era)) as client:
        calls = [asyncio.create_task(client.call_tool("slow")) for _ in range(CALLS)]
        await asyncio.sleep(0)  # a turn of the loop
        for call in calls:
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}
        heard = await heard_by(client)
    assert len(heard) == 2 * CALLS
    assert told(heard) == asked(heard)
    assert len(set(told(heard))) == CALLS


@pytest.mark.system("A32", "L-A1")
@ERAS
@pytest.mark.pain("P09")
@pytest.mark.fault("F15")
@pytest.mark.rule("CAN-02", "CAN-07", "CAN-10", "CAN-12", "TR-STDIO-10", "LIFE-14")
async def test_fifty_timeouts_are_fifty_notifications_and_late_answers_are_silent(
    era, caplog
):
    with caplog.at_level(logging.INFO, "mcpwire"):
        async with mcpwire.Client(hearing(era)) as client:
            ends = await asyncio.gather(
                *(client.call_tool("slow", timeout=0.1) for _ in range(CALLS)),
                return_exceptions=True,
            )
            assert {type(end) for end in ends} == {mcpwire.RequestTimeout}
            assert {(end.method, end.timeout) for end in ends} == {("tools/call", 0.1)}
            assert len({id(end) for end in ends}) == CALLS
            heard = await heard_by(client, "answer all")
            # Each that was sent: a loaded machine may not send all of them in time.
            assert told(heard) == asked(heard) != []
            assert len(set(told(heard))) == len(told(heard)) <= CALLS
            # None of the fifty late answers was taken for this one's.
            assert await heard_by(client) == []
            assert client.stats.late_answers == len(asked(heard))
            assert client.stats.unknown_answers == 0
    assert caplog.records == []


@pytest.mark.system("U34")
@pytest.mark.pain("P09")
async def test_a_call_cancelled_before_its_first_step_was_never_sent():
    target = hearing("session")
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await heard_by(client) == []


RECORDING = """
log = open(sys.argv[1], "a")
while True:
    m = recv()
    print(json.dumps(m), file=log, flush=True)
    os.write(2, b".")
"""


def dots(number, signal):
    """Return what sets the signal when the server has recorded so many messages."""
    seen = bytearray()

    def heard(data):
        seen.extend(data)
        if len(seen) >= number:
            signal.set()

    return heard


def recorded(path):
    return [json.loads(line)["method"] for line in path.read_text().splitlines()]


@pytest.mark.pain("P09")
@pytest.mark.rule("CAN-02")
@pytest.mark.parametrize("mode", ["session", "auto"])
async def test_a_handshake_that_times_out_is_never_cancelled_on_the_wire(
    mode, tmp_path
):
    path = tmp_path / "heard"
    target = scripted(RECORDING, str(path))
    # It may read what came for as long as it needs, before its input ends.
    options = {"probe_timeout": 0.05, "limits": mcpwire.Limits(close_grace=BOUND_S)}
    client = mcpwire.Client(target, mode=mode, connect_timeout=0.4, **options)
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    await client.aclose()
    expected = (
        ["initialize"] if mode == "session" else ["server/discover", "initialize"]
    )
    assert recorded(path) == expected


@pytest.mark.pain("P09")
@pytest.mark.rule("CAN-02")
async def test_a_handshake_whose_caller_is_cancelled_is_not_cancelled_on_the_wire(
    tmp_path,
):
    path = tmp_path / "heard"
    begun = asyncio.Event()
    target = scripted(RECORDING, str(path), stderr=dots(1, begun))
    client = mcpwire.Client(target, mode="session")
    task = asyncio.create_task(client.connect())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded(path) == ["initialize"]


@pytest.mark.pain("P09")
async def test_calls_in_flight_at_closing_are_not_cancelled_one_by_one(tmp_path):
    # The end of the input says it for all of them.
    path = tmp_path / "heard"
    all_here = asyncio.Event()
    target = scripted("handshake()\n" + RECORDING, str(path), stderr=dots(5, all_here))
    client = mcpwire.Client(target)
    await client.connect()
    calls = [asyncio.ensure_future(client.call_tool("x")) for _ in range(5)]
    await all_here.wait()
    await client.aclose()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} == {mcpwire.ConnectionClosed}
    assert recorded(path) == ["tools/call"] * 5
