"""The scripted MCP server keeps to the rules, by which other tests judge clients."""

import json
import threading

import pytest
from little_client import ACCEPT, META, MODERN, last_message, messages, text_of
from mcp_server import scripted_mcp

pytestmark = pytest.mark.unchecked_wire("a client that says as little as it can")


@pytest.mark.parametrize("replies", ["json", "sse"])
def test_a_session_lives_from_initialize_to_delete(client_of, replies):
    with scripted_mcp(replies=replies) as server:
        client = client_of(server).open()
        assert text_of(client.call("echo", text="hello")) == "hello"
        assert client.call("fail")["result"]["isError"]
        assert client.ask("ping").status_code == 200
        assert client.http.delete(server.url, headers=client.headers).status_code == 204
        assert client.ask("ping").status_code == 404
    assert server.executed == [("echo", {"text": "hello"}, 2), ("fail", {}, 3)]
    assert server.connections == 1
    assert server.verbs()[:2] == ["initialize", "notifications/initialized"]


def test_a_forgotten_session_is_404_and_none_at_all_400(client_of):
    with scripted_mcp() as server:
        client = client_of(server).open()
        server.forget_sessions()
        assert client.ask("ping").status_code == 404
        assert client.ask("ping", headers=ACCEPT).status_code == 400


def test_the_session_era_knows_no_modern_probe(client_of):
    with scripted_mcp() as server:
        answer = client_of(server).modern("server/discover")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32000


@pytest.mark.parametrize(
    ("fields", "params", "status", "code"),
    [
        ({"Mcp-Method": "ping"}, {}, 404, -32601),
        ({"Mcp-Method": "tools/list"}, {}, 400, -32020),
        ({"MCP-Protocol-Version": "2026-07-29"}, {}, 400, -32020),
        ({"Mcp-Method": "ping"}, {"_meta": {}}, 400, -32602),
    ],
)
def test_the_stateless_ladder(client_of, fields, params, status, code):
    with scripted_mcp("stateless") as server:
        headers = {**MODERN, **fields}
        params = {"_meta": META, **params}
        answer = client_of(server).ask("ping", params, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_the_stateless_era_names_its_version_to_initialize(client_of):
    with scripted_mcp("stateless") as server:
        answer = client_of(server).ask("initialize", {"protocolVersion": "2025-11-25"})
    assert answer.status_code == 400
    assert answer.json()["error"]["data"]["supported"] == ["2026-07-28"]


def test_the_stateless_era_compares_mirrored_headers(client_of):
    with scripted_mcp("stateless") as server:
        client = client_of(server)
        params = {"name": "mirrored", "arguments": {"region": "ä"}}
        headers = {"Mcp-Name": "mirrored", "Mcp-Param-Region": "=?base64?w6Q=?="}
        refused = client.modern("tools/call", params, **{"Mcp-Name": "mirrored"})
        assert refused.json()["error"]["code"] == -32020
        assert text_of(client.modern("tools/call", params, **headers).json()) == "ä"


@pytest.mark.parametrize("replies", ["json", "sse"])
def test_progress_comes_on_the_calls_own_stream(client_of, replies):
    with scripted_mcp(replies=replies) as server:
        client = client_of(server).open()
        params = {"name": "notify", "arguments": {"steps": 2}}
        params["_meta"] = {"progressToken": "t"}
        found = messages(client.ask("tools/call", params))
    assert [message.get("method") for message in found] == [
        "notifications/progress",
        "notifications/progress",
        "notifications/message",
        None,
    ]


@pytest.mark.parametrize("over", ["post", "get"])
def test_it_asks_back_on_either_stream(client_of, over):
    with scripted_mcp() as server:
        client, other = client_of(server).open(), client_of(server)
        other.headers = client.headers
        heard = threading.Event()

        def listen():
            with other.http.stream("GET", server.url, headers=client.headers) as stream:
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        heard.set()
                        return

        def answer():
            server.wait_until(lambda: server.verbs()[-1:] == ["tools/call"])
            if over == "get":
                heard.wait(30)
            content = {"type": "text", "text": "fine"}
            result = {"role": "assistant", "model": "m", "content": content}
            message = {"jsonrpc": "2.0", "id": "ask-3", "result": result}
            number = 2 if over == "post" else 3
            message["id"] = f"ask-{number}"
            assert third.http.post(
                server.url, json=message, headers=client.headers
            ).is_success

        third = client_of(server)
        threads = [threading.Thread(target=answer)]
        if over == "get":
            threads.append(threading.Thread(target=listen))
        for thread in reversed(threads):
            thread.start()
        if over == "get":
            server.wait_until(lambda: server.streams)
        assert text_of(client.call("ask", over=over)) == "fine"
        for thread in threads:
            thread.join()


def test_a_polled_call_runs_once_and_is_answered_after_its_cycles(client_of):
    with scripted_mcp(replies="sse", resumable=True, polls=3, retry=5) as server:
        client = client_of(server).open()
        params = {"name": "echo", "arguments": {"text": "x"}}
        answer = client.ask("tools/call", params)
        cycles = 1
        while not messages(answer):
            last = [line for line in answer.text.splitlines() if line[:3] == "id:"][-1]
            assert "retry: 5" in answer.text
            headers = {**client.headers, "Last-Event-ID": last[4:]}
            answer = client.http.get(server.url, headers=headers)
            cycles += 1
    assert cycles == 4
    assert text_of(last_message(answer)) == "x"
    assert len(server.executed) == 1


def test_a_listen_stream_is_acknowledged_and_hears_what_is_pushed(client_of):
    with scripted_mcp("stateless") as server:
        client = client_of(server)
        headers = {**MODERN, "Mcp-Method": "subscriptions/listen"}
        wanted = {"toolsListChanged": True, "promptsListChanged": True}
        params = {"_meta": META, "notifications": wanted}
        message = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen"}
        message["params"] = params
        with client.http.stream(
            "POST", server.url, json=message, headers=headers
        ) as stream:
            lines = (line for line in stream.iter_lines() if line)
            ack = json.loads(next(lines)[6:])
            assert ack["params"]["notifications"] == {"toolsListChanged": True}
            server.push({"method": "notifications/tools/list_changed"})
            pushed = json.loads(next(lines)[6:])
        assert list(pushed["params"]["_meta"].values()) == [7]
        server.wait_until(lambda: not server.streams)


def test_slow_calls_wait_for_their_release(client_of):
    with scripted_mcp() as server:
        client = client_of(server).open()
        threading.Timer(0.01, server.release).start()
        assert text_of(client.call("slow")) == "slow"


def test_what_no_client_may_do_fails_the_test(client_of):
    def body():
        with scripted_mcp() as server:
            client_of(server).ask("ping", headers={"Accept": "text/html"})

    with pytest.raises(AssertionError, match="Accept lacks"):
        body()


@pytest.mark.timeout(180)
def test_a_thousand_calls_are_quick(client_of):
    with scripted_mcp() as server:
        client = client_of(server).open()
        for _ in range(1000):
            client.call("echo", text="x")
    assert len(server.executed) == 1000
    assert server.connections == 1
