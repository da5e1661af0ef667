"""Servers that each client chooses by header fields."""

import asyncio
import json
import logging
import socket
from typing import Any

import pytest
from world import A, B, a_world, chosen, message_of

from mcpwire.gateway import FromHeaders, Gateway


@pytest.mark.system("O30", "O40")
async def test_each_session_lists_the_servers_it_chose():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()))
        both = await client.opened(**chosen(B, A, A))
        one = await client.opened(**chosen(B))
        none = await client.opened()
        assert await client.tools(both) == [
            "a-example_fail",
            "a-example_whoami",
            "b-example_fail",
            "b-example_whoami",
        ]
        assert await client.tools(one) == ["b-example_fail", "b-example_whoami"]
        assert await client.tools(none) == []


@pytest.mark.system("O45")
async def test_list_filter_header_limits_lists_to_one_server():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()))
        session = await client.opened(**chosen(A, B))
        tools_of_b = ["b-example_fail", "b-example_whoami"]
        for selector, names in (
            (B, tools_of_b),
            ("b-example", tools_of_b),
            ("https://c/", []),
        ):
            response = await client.post(
                "tools/list", {}, session, x_list_filter=selector
            )
            found = message_of(response)["result"]["tools"]
            assert [tool["name"] for tool in found] == names
        for method, key in (
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            response = await client.post(method, {}, session, x_list_filter=B)
            assert message_of(response)["result"][key] == []
        assert len(await client.tools(session)) == 4


@pytest.mark.system("O30")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"x-mcp-servers": "["}, "X-MCP-Servers: expected JSON in UTF-8"),
        ({"x-mcp-servers": "\xff"}, "X-MCP-Servers: expected JSON in UTF-8"),
        ({"x-mcp-headers": "1"}, "X-MCP-Headers: expected an object"),
        (chosen("https://127.0.0.1/mcp"), "X-MCP-Servers: 'https://127.0.0.1/mcp'"),
        (chosen("https://no.example/"), "is on the deny-list"),
        (chosen("http://a.example/", a={}), None),
    ],
)
async def test_invalid_choice_is_an_invalid_request_that_names_the_field(fields, says):
    async with a_world() as world:
        gateway = Gateway(world.source(deny_urls=["no.example"]), on_error="skip")
        client = await world.client_for(gateway)
        response = await client.initialize(**fields)
        if says is None:
            assert "result" in response.json()
        else:
            error = response.json()["error"]
            assert error["code"] == -32600
            assert says in error["message"]


async def test_credentials_for_an_http_url_are_refused():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()))
        url = "http://plain.example/mcp"
        fields = {
            "x-mcp-servers": f'["{url}"]',
            "x-mcp-headers": f'{{"{url}": {{"authorization": "Bearer secret"}}}}',
        }
        error = (await client.initialize(**fields)).json()["error"]
        assert error["code"] == -32600
        assert "unencrypted" in error["message"]
        assert "secret" not in error["message"]


@pytest.mark.system("O31", "O32")
async def test_each_server_gets_only_its_own_headers_with_each_request():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()))
        fields = chosen(
            A,
            B,
            a={"Authorization": "Bearer a", "Mcp-Session-Id": "old"},
            b={"X-B": "1"},
        )
        by_url = json.loads(fields["x-mcp-headers"])
        by_url["https://not.chosen"] = {"X-B": "2"}
        fields["x-mcp-headers"] = json.dumps(by_url)
        session = await client.opened(authorization="Bearer of-the-client", **fields)
        result = (await client.call(session, "a-example_whoami"))["result"]
        assert result["content"][0]["text"] == "a"
        assert set(world.a.all("authorization")) == {"Bearer a"}
        assert set(world.b.all("authorization")) == {None}
        assert set(world.b.all("x-b")) == {"1"}
        assert "old" not in world.a.all("mcp-session-id")
        assert set(world.a.all("x-mcp-headers")) == {None}


async def test_stateless_request_chooses_its_own_servers():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()))
        found = []
        for url in (A, B, A):
            response = await client.post_stateless("tools/list", {}, **chosen(url))
            names = [each["name"] for each in message_of(response)["result"]["tools"]]
            found.append(names[0])
        assert found == ["a-example_fail", "b-example_fail", "a-example_fail"]
        assert len(client.gateway.pool.shared) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"servers": "a b"}, "cannot be a header's name"),
        ({"headers": 1}, "cannot be a header's name"),
        ({"deny_urls": ["https://"]}, "deny list"),
        ({"proxy": "nonsense"}, "proxy"),
    ],
)
def test_invalid_option_is_refused_at_construction(options, says):
    with pytest.raises(ValueError, match=says):
        FromHeaders(**options)  # type: ignore[arg-type] # that is the point


def test_field_with_credentials_cannot_be_forwarded():
    with pytest.raises(ValueError, match="never forwarded"):
        Gateway(FromHeaders(headers="X-Theirs"), forward_headers=["x-theirs"])


def test_repr_is_one_line():
    assert repr(FromHeaders()) == "FromHeaders('X-MCP-Servers', 'X-MCP-Headers')"


async def test_more_servers_than_allowed_are_refused():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source(maximum=1)))
        error = (await client.initialize(**chosen(A, B))).json()["error"]
        assert "at most 1 servers" in error["message"]


# Secrets...

SECRET = "s3cret"
KEYED = [f"{A}?key={SECRET}{number}" for number in (1, 2)]
GONE = [f"https://gone.example/mcp?key={SECRET}{number}" for number in (1, 2)]


async def test_log_status_and_errors_do_not_show_url_queries(caplog):
    caplog.set_level(logging.DEBUG, "mcpwire")
    async with a_world() as world:
        gateway = Gateway(world.source(), on_error="skip")
        client = await world.client_for(gateway, status="/status")
        session = await client.opened(**chosen(*KEYED, *GONE))
        assert len(await client.tools(session)) == 4
        texts = [
            str(await client.call(session, f"{name}_{tool}"))
            for name in ("a-example-mcp", "a-example-mcp-2", "gone-example-mcp-2")
            for tool in ("fail", "unknown")
        ]
        world.a.may_answer = lambda: False
        texts.append(str(await client.call(session, "a-example-mcp-2_whoami")))
        texts.append((await client.http.get("/status")).text)
        texts += [repr(gateway), str(gateway.status())]
        assert "gone-example-mcp-2" in caplog.text
        assert SECRET not in "\n".join([*texts, caplog.text])


@pytest.mark.parametrize(
    "url",
    [
        f"https://{SECRET}:{SECRET}@a.example/mcp",
        f"https://a.example/mcp?key={SECRET} 1",
        f"https://a.example/mcp?key={SECRET}#x",
        f"https://no.example/mcp?key={SECRET}",
        f"https://127.0.0.1/mcp?key={SECRET}",
        f"ftp://a.example/mcp?key={SECRET}",
        f"http://a.example/mcp?key={SECRET}",
    ],
)
async def test_error_for_a_refused_url_shows_no_secrets(url, caplog):
    caplog.set_level(logging.DEBUG, "mcpwire")
    async with a_world() as world:
        gateway = Gateway(world.source(deny_urls=["no.example"]), on_error="raise")
        client = await world.client_for(gateway)
        fields = chosen(url)
        fields["x-mcp-headers"] = json.dumps({url: {"Authorization": f"a {SECRET}"}})
        response = await client.initialize(**fields)
        assert response.json()["error"]["code"] == -32600
        assert SECRET not in response.text + caplog.text


async def test_name_that_resolves_to_loopback_is_not_connected(monkeypatch):
    async def lookup(_: str, port: int, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    async with a_world() as world:
        gateway = Gateway(FromHeaders(trust_env=False), on_error="raise")
        client = await world.client_for(gateway)
        response = await client.initialize(**chosen("http://inside.example:1/mcp"))
        message = response.json()["error"]["message"]
        assert "'inside.example:1': it has no public address" in message


@pytest.mark.system("O58")
async def test_trace_has_hashed_session_ids_and_no_credentials():
    records: list[dict[str, Any]] = []
    async with a_world() as world:
        gateway = Gateway(world.source(), trace=records.append)
        client = await world.client_for(gateway)
        fields = chosen(A, a={"Authorization": "Bearer hidden-token"})
        first, second = [await client.opened(**fields) for _ in range(2)]
        for session in (first, second):
            await client.call(session, "a-example_whoami")
    text = json.dumps(records)
    for secret in ("hidden-token", first, second):
        assert secret not in text
    calls = [r for r in records if (r["side"], r["method"]) == ("client", "tools/call")]
    assert len({record["session"] for record in calls}) == 2
    sides = {record["session"] for record in records if record["side"] == "server"}
    assert {record["session"] for record in calls} <= sides
