"""A connected group made from a configuration follows its entries."""

import asyncio
import json
import sys

import pytest
from hosting import hosted
from scripted import PRELUDE
from sentinel import SENTINEL

import mcpwire
from mcpwire.config import ConfigError
from mcpwire.server.demo import demo_dispatcher

TELL = (
    PRELUDE
    + r"""
handshake()
while True:
    m = recv()
    if "id" in m:
        text(m, json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))
"""
)


@pytest.mark.system("A10", "A11", "A12", "A13", "V01", "V03", "R01", "L-A4", "L-V11")
async def test_child_server_gets_arguments_directory_and_variables(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("TOKEN", SENTINEL)
    monkeypatch.setenv("PASSED", "on")
    monkeypatch.setenv("KEPT", "here")
    here = tmp_path / "here"
    here.mkdir()
    path = tmp_path / "mcp.toml"
    path.write_text(
        f"""
        [[servers]]
        name = "tell"
        command = {json.dumps(sys.executable)}
        args = ["-S", "-c", '''{TELL}''', "b", "a", "${{ZONE:-UTC}}"]
        env = {{ KEY = "key ${{TOKEN}}" }}
        inherit_env = ["PASSED"]
        cwd = {json.dumps(str(here))}
        """
    )
    async with mcpwire.Group.from_config(path) as group:
        result = await group.call_tool("tell", "tell")
    arguments, folder, variables = json.loads(result.text)
    assert arguments == ["b", "a", "UTC"]
    assert folder == str(here)
    assert variables["KEY"] == f"key {SENTINEL}"
    assert variables["PASSED"] == "on"
    assert "KEPT" not in variables


@pytest.mark.system("A14", "A15", "V01", "V04", "L-A5", "L-V11")
@pytest.mark.parametrize(("kind", "mode"), [("http", "json"), ("sse", "legacy")])
async def test_http_server_gets_headers_and_token(kind, mode):
    with hosted(demo_dispatcher(), mode) as host:
        servers = {
            "web": {
                "type": kind,
                "url": "${WHERE}",
                "headers": {"X-Tenant": "of ${TENANT:-blue}"},
                "auth": {"token_env": "TOKEN"},
            }
        }
        variables = {"WHERE": host.url, "TOKEN": SENTINEL}
        group = mcpwire.Group.from_config({"servers": servers}, environment=variables)
        async with group:
            result = await group.call_tool("web", "add", {"a": 2, "b": 3})
        assert result.structured_content == {"sum": 5}
        assert len(host.requests) > 1
        for request in host.requests:
            assert request.headers["x-tenant"] == "of blue"
            assert request.headers["authorization"] == f"Bearer {SENTINEL}"


@pytest.mark.system("A18", "R16", "V02")
async def test_group_combines_servers_of_several_layers(tmp_path):
    with hosted(demo_dispatcher()) as first, hosted(demo_dispatcher()) as second:
        base = [
            {"name": "one", "url": first.url, "denied_tools": ["slow"]},
            {"name": "off", "command": "${NOT_SET_ANYWHERE}", "enabled": False},
            {"name": "two", "command": "no-such-program"},
        ]
        layer = tmp_path / "project.json"
        layer.write_text(json.dumps({"mcpServers": {"two": {"url": second.url}}}))
        async with mcpwire.Group.from_config(base, layers=[layer]) as group:
            assert list(group) == ["one", "two"]
            names = (await group.tools()).names
            assert "mcp__two__slow" in names
            assert "mcp__one__slow" not in names
            await asyncio.gather(*(group[name].ping() for name in group))


@pytest.mark.system("V05")
def test_group_with_a_denied_url_is_refused():
    servers = {"servers": {"web": {"url": "https://sub.example.com/mcp"}}}
    with pytest.raises(ConfigError, match="web: url: is refused by the deny list"):
        mcpwire.Group.from_config(servers, deny_urls=["example.com"])
