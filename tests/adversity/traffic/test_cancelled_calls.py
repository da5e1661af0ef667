"""Cancellations that the server receives, and its late responses."""

import asyncio
import json
import logging

import pytest
from scripted import scripted

import mcpwire

BOUND_S = 30.0
CALLS = 50

# Answers only `report`, with all received messages; `answer all` answers the rest too.
RECORDING_SERVER = """
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


def recording_server(era):
    return scripted(RECORDING_SERVER, *(["stateless"] if era == "stateless" else []))


ERAS = pytest.mark.parametrize("era", ["session", "stateless"])


async def received_by(client, name="report"):
    """Return the messages that the server received, without the reporting call."""
    return json.loads((await client.call_tool(name)).text)[:-1]


def cancelled_ids(received):
    return sorted(
        m["params"]["requestId"]
        for m in received
        if m["method"] == "notifications/cancelled"
    )


def call_ids(received):
    return sorted(m["id"] for m in received if m["method"] == "tools/call")


@ERAS
@pytest.mark.pain("P09")
@pytest.mark.rule("CAN-01")
async def test_each_cancelled_task_sends_a_cancellation_with_its_id(era):
    async with mcpwire.Client(recording_server(era)) as client:
        calls = [asyncio.create_task(client.call_tool("slow")) for _ in range(CALLS)]
        await asyncio.sleep(0)  # an iteration of the loop
        for call in calls:
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}
        received = await received_by(client)
    assert len(received) == 2 * CALLS
    assert cancelled_ids(received) == call_ids(received)
    assert len(set(cancelled_ids(received))) == CALLS


@pytest.mark.system("A32", "L-A1")
@ERAS
@pytest.mark.pain("P09")
@pytest.mark.fault("F15")
@pytest.mark.rule("CAN-02", "CAN-07", "CAN-10", "CAN-12", "TR-STDIO-10", "LIFE-14")
async def test_each_timeout_sends_a_cancellation_and_ignores_late_responses(
    era, caplog
):
    with caplog.at_level(logging.INFO, "mcpwire"):
        async with mcpwire.Client(recording_server(era)) as client:
            ends = await asyncio.gather(
                *(client.call_tool("slow", timeout=0.1) for _ in range(CALLS)),
                return_exceptions=True,
            )
            assert {type(end) for end in ends} == {mcpwire.RequestTimeout}
            assert {(end.method, end.timeout) for end in ends} == {("tools/call", 0.1)}
            assert len({id(end) for end in ends}) == CALLS
            received = await received_by(client, "answer all")
            # Each sent call: a loaded machine may not send all of them in time.
            assert cancelled_ids(received) == call_ids(received) != []
            assert (
                len(set(cancelled_ids(received)))
                == len(cancelled_ids(received))
                <= CALLS
            )
            # No late response was taken for the response to this call.
            assert await received_by(client) == []
            assert client.stats.late_answers == len(call_ids(received))
            assert client.stats.unknown_answers == 0
    assert caplog.records == []


@pytest.mark.system("U34")
@pytest.mark.pain("P09")
async def test_call_cancelled_before_its_first_step_is_not_sent():
    target = recording_server("session")
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await received_by(client) == []


RECORDING = """
log = open(sys.argv[1], "a")
while True:
    m = recv()
    print(json.dumps(m), file=log, flush=True)
    os.write(2, b".")
"""


def dots(number, signal):
    """Return a callback that sets the signal after so many recorded messages."""
    seen = bytearray()

    def received(data):
        seen.extend(data)
        if len(seen) >= number:
            signal.set()

    return received


def recorded(path):
    return [json.loads(line)["method"] for line in path.read_text().splitlines()]


@pytest.mark.pain("P09")
@pytest.mark.rule("CAN-02")
@pytest.mark.parametrize("mode", ["session", "auto"])
async def test_timed_out_handshake_sends_no_cancellation(mode, tmp_path):
    path = tmp_path / "heard"
    target = scripted(RECORDING, str(path))
    # The server has time to read its messages before its input ends.
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
async def test_cancelled_handshake_sends_no_cancellation(tmp_path):
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
async def test_closing_sends_no_cancellation_for_calls_in_flight(tmp_path):
    # The end of the input cancels all of them.
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
