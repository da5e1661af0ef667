"""The trace of a gateway: each exchange on both sides, without secrets."""

import json
import stat
from datetime import datetime

import pytest
from bridged import ELICIT, ERAS, FORM, AskingServer
from gateway_servers import named

import mcpwire
from mcpwire.gateway import Gateway, JsonLines
from mcpwire.gateway.tracing import MAX_PENDING, ConnectionTrace, ExchangeTrace, masked
from mcpwire.group import Member

pytestmark = pytest.mark.system("O58")


def ends(record):
    return record["side"], record["server"], record["from"], record["method"]


@pytest.mark.parametrize("era", ERAS)
async def test_each_exchange_is_recorded_on_both_sides(era):
    records = []
    gateway = Gateway({"a": named("a", "x")}, trace=records.append)
    async with gateway, mcpwire.Client(gateway, mode=era) as client:
        await client.call_tool("a_x", {"api_key": "k-123", "text": "t"})
    calls = [record for record in records if record["method"] == "tools/call"]
    assert [ends(record) for record in calls] == [
        ("server", "a", "gateway", "tools/call"),
        ("client", None, "client", "tools/call"),
    ]
    for record, name in zip(calls, ("x", "a_x"), strict=True):
        assert record["request"]["name"] == name
        assert record["request"]["arguments"] == {"api_key": "***", "text": "t"}
        assert record["response"]["result"]["content"]
        assert datetime.fromisoformat(record["time"]).utcoffset() is not None
        assert record["seconds"] >= 0
    opening = "initialize" if era == "2025-11-25" else "server/discover"
    assert ("client", None, "client", opening) in map(ends, records)
    assert ("server", "a", "gateway", opening) in map(ends, records)


async def test_server_requests_and_failed_calls_are_recorded():
    records = []
    gateway = Gateway({"up": AskingServer()}, trace=records.append)
    options = {"mode": "2025-11-25", "elicitation": lambda _: "decline"}
    async with gateway, mcpwire.Client(gateway, **options) as client:
        await client.call_tool("up_t", {"ask": [[ELICIT, FORM]]})
        with pytest.raises(mcpwire.RPCError):
            await client.call_tool("no_such_tool")
    elicitations = [record for record in records if record["method"] == ELICIT]
    assert [ends(record) for record in elicitations] == [
        ("server", "up", "server", ELICIT)
    ]
    assert elicitations[0]["response"] == {"result": {"action": "decline"}}
    failed = records[-1]
    assert failed["request"]["name"] == "no_such_tool"
    assert failed["response"]["error"]["code"] == -32602


async def test_refused_session_is_recorded():
    records = []
    servers = {"gone": "/nowhere/at/all"}
    gateway = Gateway(servers, on_error="raise", trace=records.append)
    with pytest.raises(mcpwire.MCPError):
        async with gateway, mcpwire.Client(gateway, mode="2025-11-25"):
            pass
    assert records[-1]["method"] == "initialize"
    assert "'gone'" in records[-1]["response"]["error"]["message"]


async def test_trace_write_errors_are_counted_and_do_not_fail_calls():
    def write(record):
        raise OSError("no space left")

    gateway = Gateway({"a": named("a", "x")}, trace=write)
    async with gateway, mcpwire.Client(gateway) as client:
        assert (await client.call_tool("a_x")).text == "a.x()"
        assert gateway.status()["trace_errors"] >= 4
    assert "trace_errors" not in Gateway({}).status()


async def test_trace_hook_of_a_member_still_works():
    records, traced = [], []
    member = Member(named("a", "x"), trace=lambda event, data: traced.append(event))
    async with (
        Gateway({"a": member}, trace=records.append) as gateway,
        mcpwire.Client(gateway) as client,
    ):
        await client.call_tool("a_x")
    assert {"open", "send", "receive"} <= set(traced)
    assert records


def test_pending_requests_of_a_trace_are_bounded():
    records = []
    hook = ConnectionTrace(ExchangeTrace(records.append), "a", None, None)
    for id in range(MAX_PENDING + 1):
        hook("send", json.dumps({"id": id, "method": "ping"}).encode())
    hook("receive", b"noise")
    hook("receive", b'{"method": "notifications/message"}')
    hook("receive", b'{"id": [1], "method": "ping"}')
    hook("receive", b'{"id": {}, "result": {}}')
    for id in (0, MAX_PENDING):
        hook("receive", json.dumps([{"id": id, "result": {}}]).encode())
    assert len(records) == 1


def test_credentials_are_masked_by_member_name():
    value = {"Authorization": "x", "deep": [{"clientSecret": "y", "n": 1}], "token": 7}
    assert masked(value) == {
        "Authorization": "***",
        "deep": [{"clientSecret": "***", "n": 1}],
        "token": 7,
    }


def test_credentials_in_a_response_are_masked_too():
    records = []
    hook = ConnectionTrace(ExchangeTrace(records.append), "a", None, None)
    hook("send", b'{"id": 1, "method": "tools/call"}')
    hook("receive", b'{"id": 1, "result": {"structuredContent": {"token": "t-1"}}}')
    assert records[0]["response"] == {"result": {"structuredContent": {"token": "***"}}}


def test_records_are_json_lines_in_a_file_with_mode_600(tmp_path):
    path = tmp_path / "trace.jsonl"
    for number in range(2):
        lines = JsonLines(path)
        lines({"n": number})
        lines.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"n": 0},
        {"n": 1},
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OSError, match="directory"):
        JsonLines(tmp_path / "none" / "trace.jsonl")
