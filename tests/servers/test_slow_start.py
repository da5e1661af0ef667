"""Servers that start more slowly than the probe timeout.

Both requests are in the pipe when the server starts to read. The Python frameworks
accept the first one and refuse the other, so the timeout must not have decided.
"""

import pytest
from real_servers import PYTHON, TYPESCRIPT, by_npx

pytestmark = pytest.mark.servers

ASLEEP = 0.6
PROBE = 0.1
FRAMEWORKS = ("sdk", "fastmcp")
VERSIONS = {"session": "2025-11-25", "stateless": "2026-07-28"}
CALLS = {
    "everything": ("echo", {"message": "awake"}, "Echo: awake"),
    "memory": ("read_graph", {}, "entities"),
    "time": ("get_current_time", {"timezone": "UTC"}, "+00:00"),
    "sdk": ("echo", {"message": "awake"}, "awake"),
    "fastmcp": ("echo", {"message": "awake"}, "awake"),
}


async def use(client, name):
    assert await client.list_tools()
    if name in CALLS:
        tool, arguments, expected = CALLS[name]
        assert expected in (await client.call_tool(tool, arguments)).text


@pytest.fixture
def asleep(tmp_path):
    """Return a file that exists once a session was requested, and its trace hook."""
    file = tmp_path / "asked for a session"

    def trace(event, data):
        if event == "send" and b'"initialize"' in data:
            file.touch()

    return file, trace


def sent(client):
    events = [step.event for step in client.negotiation.steps]
    return [event for event in events if event.startswith("sent ")]


@pytest.mark.pain("P26")
@pytest.mark.rule("VER-12")
@pytest.mark.parametrize("name", PYTHON)
async def test_a_late_discover_result_means_the_stateless_era(
    warm, connect, name, asleep
):
    until, trace = asleep
    late = warm(name).once(until)
    async with connect(late, probe_timeout=PROBE, trace=trace) as client:
        assert client.protocol_version == "2026-07-28"
        assert sent(client) == ["sent server/discover", "sent initialize"]
        await use(client, name)


@pytest.mark.pain("P26")
@pytest.mark.rule("VER-14", "LIFE-07")
@pytest.mark.parametrize("name", TYPESCRIPT)
async def test_a_late_initialize_result_means_a_session(warm, connect, name, asleep):
    until, trace = asleep
    late = warm(name).once(until)
    async with connect(late, probe_timeout=PROBE, trace=trace) as client:
        assert client.protocol_version == "2025-11-25"
        assert sent(client)[:2] == ["sent server/discover", "sent initialize"]
        await use(client, name)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("everything", "2025-06-18"),
        *((name, mode) for name in FRAMEWORKS for mode in VERSIONS),
    ],
)
async def test_a_requested_era_waits_for_a_slow_server(warm, connect, name, mode):
    late = warm(name).after(ASLEEP)
    async with connect(late, probe_timeout=PROBE, mode=mode) as client:
        assert client.protocol_version == VERSIONS.get(mode, mode)
        method = "server/discover" if mode == "stateless" else "initialize"
        assert sent(client) == [f"sent {method}"]
        await use(client, name)


@pytest.mark.pain("P06")
async def test_closing_ends_all_processes_of_a_server_run_by_npx(real, connect):
    real("everything")
    async with connect(by_npx(), probe_timeout=PROBE) as client:
        assert client.protocol_version == "2025-11-25"
        await use(client, "everything")
