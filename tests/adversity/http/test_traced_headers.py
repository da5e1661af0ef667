"""The trace hook gets the head of every request and response, without secrets."""

from faulty import connected, moved, until
from legacy_server import legacy_server
from mcp_server import scripted_mcp

import mcpwire

SECRET = "s3cr3t"


def recording_trace():
    """Return a hook, and its records: the first line of each head, and all heads."""
    lines, heads = [], []

    def trace(event, data):
        if event in {"request", "response"}:
            lines.append(data.splitlines()[0])
            heads.append(data)

    return trace, lines, heads


async def test_trace_reports_each_head_of_a_session():
    trace, lines, heads = recording_trace()
    with scripted_mcp() as server:
        target = mcpwire.Http(
            f"{server.url}?key={SECRET}",
            headers={"Authorization": f"Bearer {SECRET}"},
            server_stream="always",
        )
        async with connected(target, trace=trace) as client:
            await until(lambda: server.streams)
            await client.call_tool("echo", headers={"X-API-Key": SECRET})
        verbs = [request.verb for request in server.requests]
    verbs_sent = [line.split()[0] for line in lines if not line.startswith("HTTP")]
    assert sorted(verbs_sent) == sorted(verbs)
    assert {"GET", "DELETE"} <= set(verbs_sent)
    assert len([line for line in lines if line.startswith("HTTP ")]) == len(verbs_sent)
    assert SECRET not in "".join(heads)
    assert "session-1" not in "".join(heads)


async def test_trace_reports_each_head_of_http_sse():
    trace, lines, heads = recording_trace()
    with legacy_server() as server:
        target = mcpwire.Http(server.url, headers={"Authorization": f"Bearer {SECRET}"})
        async with connected(target, trace=trace) as client:
            await client.call_tool("echo", headers={"X-API-Key": SECRET})
            posts = 5  # the probe, initialize twice, initialized and the call
            await until(lambda: lines.count("HTTP 202") == posts - 2)
    assert lines[:6] == [
        *("POST /sse HTTP/1.1", "HTTP 405", "POST /sse HTTP/1.1", "HTTP 405"),
        *("GET /sse HTTP/1.1", "HTTP 200"),
    ]
    assert lines.count("POST /messages?*** HTTP/1.1") == posts - 2
    assert SECRET not in "".join(heads)
    assert "x-api-key: ***" in "".join(heads)


async def test_trace_reports_a_redirect():
    trace, lines, _ = recording_trace()
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, follow_redirects=True, server_stream="never")

        async with connected(target, trace=trace) as client:
            server.on["tools/call"] = moved(location="/new")
            del lines[:]
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert lines == [
                *("POST /mcp HTTP/1.1", "HTTP 307", "POST /new HTTP/1.1", "HTTP 200")
            ]
