"""Servers addressed by their names in a configuration."""

import json

import pytest
from cli_servers import entry, listing
from sentinel import SENTINEL

import mcpwire
from mcpwire.cli.failures import UsageError
from mcpwire.cli.main import parse
from mcpwire.cli.output import Output
from mcpwire.cli.targets import make_target
from mcpwire.errors import GroupError

URL = "https://host.example/mcp"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run in an empty folder, without the user's configuration."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MCPWIRE_CONFIG", raising=False)
    return here


@pytest.fixture
def configure(folder):
    def write(name="x.json", **servers):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcpServers": servers}))
        return name

    return write


def target(*words):
    return make_target(parse(["ls", "--config", "x.json", *words]), Output())


def test_name_resolves_to_a_stdio_target(configure, monkeypatch):
    monkeypatch.setenv("GIVEN", "ours")
    configure(
        a={
            "command": "c",
            "args": ["x"],
            "env": {"A": "1", "B": "2"},
            "inherit_env": ["LANG"],
            "cwd": "/srv",
        }
    )
    assert target("@a") == target("--", "@a")
    assert target("@a") == mcpwire.Stdio(
        "c", ["x"], env={"A": "1", "B": "2"}, inherit_env=("LANG",), cwd="/srv"
    )
    found = target("@a", "--env", "B=3", "--env", "GIVEN", "--cwd", "/")
    env = {"A": "1", "B": "3", "GIVEN": "ours"}
    assert found == mcpwire.Stdio("c", ["x"], env=env, inherit_env=("LANG",), cwd="/")
    assert target("@a", "--inherit-env").inherit_env is True


def test_inherit_env_of_an_entry_is_kept(configure):
    configure(a={"command": "c", "inherit_env": True})
    assert target("@a").inherit_env is True


def test_name_resolves_to_an_http_target(configure, monkeypatch):
    monkeypatch.setenv("TOKEN", SENTINEL)
    configure(a={"url": URL, "headers": {"X-A": "1", "X-B": "2"}, "auth": "${TOKEN}"})
    found = target("@a", "-H", "x-b: 3")
    assert found.url == URL
    assert found.static_headers == (
        ("x-a", "1"),
        ("x-b", "3"),
        ("authorization", f"Bearer {SENTINEL}"),
    )
    assert target("@a", "--proxy", "http://p.example").proxy == "http://p.example"


@pytest.mark.parametrize(
    "a",
    [
        {"url": "http://127.0.0.1:9/${KEY}/mcp"},
        {"command": "/no/${KEY}"},
        {"url": "http://host.example/${KEY}", "auth": "oauth"},
    ],
)
@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"], ["bench", "--for", "1s"]])
def test_errors_show_variables_unexpanded(cli, configure, monkeypatch, a, words):
    monkeypatch.setenv("KEY", SENTINEL)
    configure(a=a)
    done = cli(*words, "--config", "x.json", "@a")
    assert done.code == (2 if "auth" in a else 4)
    assert SENTINEL not in done.err


def test_allow_insecure_of_an_entry_permits_secrets_over_http(configure):
    url = "http://host.example/mcp"
    configure(a={"url": url, "auth": "token", "allow_insecure": True}, b={"url": url})
    assert target("@a").allow_insecure
    assert not target("@b").allow_insecure


def test_configured_oauth_becomes_a_user_login_grant(configure):
    configure(
        a={"url": URL, "auth": {"type": "oauth", "client_id": "me", "profile": "p"}},
        b={"url": URL, "auth": {"type": "oauth", "open_browser": False}},
        c={"url": URL, "auth": "oauth"},
    )
    grant = target("@a").grant
    assert (grant.client_id, grant.profile, grant.interactive) == ("me", "p", False)
    assert target("@b").grant.open_browser is False
    assert target("@c").grant.client_id is None
    assert target("@a", "--client-id", "other").grant.client_id == "other"
    assert target("@a", "--client-id", "other").grant.profile == "default"


def test_configured_client_credentials_become_the_grant(configure):
    auth = {
        "type": "client_credentials",
        "client_id": "me",
        "client_secret": SENTINEL,
        "issuer": "discovered",
    }
    configure(a={"url": URL, "auth": auth})
    assert isinstance(target("@a").grant, mcpwire.ClientCredentials)
    with pytest.raises(UsageError, match="is configured, and needs no user"):
        make_target(parse(["auth", "status", "--config", "x.json", "@a"]), Output())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["@a", "-H", "X: y"],
            "-H applies to servers at a URL, not to a server that is started",
        ),
        (["@u", "--cwd", "/"], "--cwd applies to servers that are started"),
        (["@b"], "x.json: no server is named 'b'; there are @a, @u, @off"),
        (["@of"], "x.json: no server is named 'of'; did you mean 'off'?"),
        (["@off"], "x.json: @off is not enabled"),
        (["cat"], "--config goes with @NAME as TARGET, or with ls alone"),
        (["--", "cat"], "--config goes with @NAME as TARGET, or with ls alone"),
        (["--cwd", "/"], "--cwd applies to one server, and this lists all servers"),
        (["-H", "X: y"], "-H applies to one server, and this lists all servers"),
    ],
)
def test_invalid_name_or_option_is_a_usage_error(configure, words, problem):
    configure(
        a={"command": "c"}, u={"url": URL}, off={"command": "c", "disabled": True}
    )
    with pytest.raises(UsageError) as caught:
        parse(["ls", "--config", "x.json", *words])
    assert str(caught.value).startswith(problem)


def test_invalid_entry_of_another_server_is_ignored(configure):
    configure(a={"command": "c"}, b={"command": "${NOT_SET_ANYWHERE}"})
    assert target("@a").command == "c"
    with pytest.raises(GroupError) as caught:
        target("@b")
    assert str(caught.value) == (
        "x.json: b: command: the variable NOT_SET_ANYWHERE is not set"
    )


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_command_connects_to_a_server_by_its_name(cli, configure, tool_server, flags):
    server = tool_server({"result": {"content": [{"type": "text", "text": "fine"}]}})
    configure(a=entry(server))
    code, out, err = cli("call", "--config", "x.json", "@a", "do", *flags)
    assert (code, err) == (0, "")
    assert "fine" in out


def test_configuration_warning_precedes_the_result(cli, configure, tool_server):
    server = tool_server()
    configure(a={**entry(server), "commnd": 1})
    code, out, err = cli("ls", "--config", "x.json", "@a")
    assert (code, out) == (0, "Tools (1)\n  do()\n")
    assert err == "mcpwire: x.json: a: commnd: is unknown; did you mean 'command'?\n"
    err = cli("ls", "--config", "x.json", "@a", "--json").err
    assert json.loads(err) == {
        "warning": "x.json: a: commnd: is unknown; did you mean 'command'?"
    }


@pytest.mark.attack("S21")
def test_command_of_a_config_in_the_folder_is_printed(cli, configure, tool_server):
    server = tool_server()
    configure("mcp.json", a=entry(server))
    code, out, err = cli("ls", "@a")
    assert (code, out) == (0, "Tools (1)\n  do()\n")
    assert err == f"mcpwire: @a of mcp.json is {server.line}\n"
    assert cli("ls", "--config", "mcp.json", "@a").err == ""


def test_command_of_the_users_config_is_not_printed(
    cli, configure, tool_server, tmp_path, monkeypatch
):
    server = tool_server()
    configure("mine.json", a=entry(server))
    monkeypatch.setenv("MCPWIRE_CONFIG", "mine.json")
    assert cli("ls", "@a").err == ""


def test_missing_configuration_error_lists_the_locations(cli):
    code, out, err = cli("ls", "@a")
    assert (code, out) == (2, "")
    assert err == (
        "mcpwire: no configuration for @a: name a file by --config or MCPWIRE_CONFIG; "
        "otherwise ./mcp.json, ./.mcp.json, ./mcpwire.toml and "
        "~/.config/mcpwire/config.toml are read\n"
    )


def test_invalid_configuration_is_a_usage_error(cli, configure):
    configure(a={"command": 7})
    for words in (["@a"], []):
        code, out, err = cli("ls", "--config", "x.json", *words, "--json")
        assert (code, out) == (2, "")
        assert json.loads(err)["error"] == {
            "type": "ConfigError",
            "exit": 2,
            "message": "x.json: a: command: must be a string, got an integer",
            "details": {
                "problem": "must be a string, got an integer",
                "file": "x.json",
                "entry": "a",
                "field": "command",
            },
        }


def test_timeout_and_roots_of_an_entry_apply_to_the_client(
    cli, configure, scripted, folder
):
    server = scripted({"tools": {}}, tools__list=[])
    configure(a={**entry(server), "timeout": 0.05, "roots": [str(folder)]})
    code, _, err = cli("ls", "--config", "x.json", "@a")
    assert code == 7
    assert "0.05" in err
    configure(b={**entry(server), "connect_timeout": 0.001})
    for words in (["bench", "--for", "0.1s"], ["bench", "start"], ["bench", "size"]):
        code, _, err = cli(*words, "--config", "x.json", "@b")
        assert (code, "no answer within 0.001 s" in err) == (7, True)
    declared = server.requests("initialize")[0]["capabilities"]
    assert "roots" in declared


@pytest.mark.parametrize(
    "entry_mode", [{"mode": "session"}, {"revision": "2025-11-25"}]
)
def test_mode_of_an_entry_is_used(cli, configure, tool_server, entry_mode):
    server = tool_server()
    configure(a={**entry(server), **entry_mode})
    assert cli("ls", "--config", "x.json", "@a").code == 0
    assert server.requests("server/discover") == []
    assert cli("ls", "--config", "x.json", "@a", "--mode", "stateless").code == 4
    before = server.requests("server/discover")
    assert cli("ls", "--config", "x.json", "@a", "--mode", "auto").code == 0
    assert server.requests("server/discover") != before


def test_auth_commands_accept_a_configured_name(cli, configure):
    configure(a={"url": URL, "auth": "oauth"}, b={"command": "c"})
    done = cli("auth", "status", "@a", "--config", "x.json")
    assert (done.code, done.out) == (3, "not logged in\n")
    done = cli("auth", "status", "@b", "--config", "x.json")
    assert done.code == 2
    assert "needs a server at a URL" in done.err


@pytest.mark.system("A18", "V02")
def test_ls_lists_all_servers_and_failures_at_the_end(cli, configure, tool_server):
    server = tool_server()
    line = server.line
    configure(
        bad={"command": "no-such-program"},
        a=entry(server),
        off={"command": "x", "disabled": True},
        odd={"command": "c", "args": ["d"], "cwd": "/no/such/folder"},
    )
    code, out, err = cli("ls", "--config", "x.json")
    assert code == 4
    head, _, failed = out.partition("\nFailed (2)\n")
    assert head == f"a  {line}\n  Tools (1)\n    do()\n"
    reasons = failed.splitlines()
    assert reasons[0] == "  bad: cannot start 'no-such-program': command not found"
    assert reasons[1].startswith("  odd: cannot start 'c': ")
    assert err == "mcpwire: 2 of 3 servers failed: 'bad', 'odd'\n"


def test_options_override_the_entries(cli, configure, scripted, tool_server):
    server = tool_server()
    configure(a={**entry(server), "mode": "stateless"})
    assert cli("ls", "--config", "x.json", "--mode", "session").code == 0
    silent = scripted({"tools": {}}, tools__list=[])
    configure(a={**entry(silent), "timeout": 3600, "connect_timeout": 3600})
    done = cli("ls", "--config", "x.json", "--timeout", "0.5")
    assert (done.code, "no answer within 0.5 s" in done.out) == (4, True)


def test_too_large_message_of_a_listed_server_names_the_option(
    cli, configure, tool_server
):
    configure(a=entry(tool_server()))
    done = cli("ls", "--config", "x.json", "--max-message", "10")
    assert done.code == 4
    assert "(Limits.message)" in done.out
    assert "; to change the limit: --max-message BYTES" in done.out


def test_ls_of_all_servers_as_json_is_one_object_by_name(cli, configure, tool_server):
    configure(a=entry(tool_server()), bad={"command": "no-such-program"})
    code, out, err = cli("ls", "--config", "x.json", "--json")
    found = json.loads(out)
    assert code == 4
    assert list(found) == ["a", "bad"]
    assert [tool["name"] for tool in found["a"]["tools"]] == ["do"]
    assert found["bad"]["error"]["exit"] == 4
    assert found["bad"]["error"]["message"] == (
        "cannot start 'no-such-program': command not found"
    )
    assert json.loads(err)["error"]["details"] == {"failed": ["bad"]}


@pytest.mark.parametrize("has_more", [True, False])
def test_server_that_refuses_a_list_counts_as_failed(
    cli, configure, scripted, has_more
):
    server = scripted(
        {"tools": {}, "prompts": {}} if has_more else {"tools": {}},
        tools__list=[{"error": {"code": -32603, "message": "no luck"}}],
        prompts__list=listing(prompts=[{"name": "ask"}]),
    )
    configure(a=entry(server))
    code, out, err = cli("ls", "--config", "x.json")
    assert code == 4
    assert out.endswith(
        "Failed (1)\n  a: tools/list: no luck (JSON-RPC error -32603)\n"
    )
    assert ("ask()" in out) is has_more
    assert err == "mcpwire: 1 of 1 server failed: 'a'\n"


def test_server_that_exits_during_a_list_counts_as_failed(cli, configure, scripted):
    server = scripted({"tools": {}}, tools__list=[{"exit": 3}])
    configure(a=entry(server))
    code, out, _ = cli("ls", "--config", "x.json")
    assert code == 4
    assert out.startswith("Failed (1)\n  a: ")


MESSAGE = {"role": "user", "content": {"type": "text", "text": "?"}}
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


SAMPLING = {"messages": [MESSAGE], "maxTokens": 1}
REFUSED = {"error": {"code": -1, "message": "this client only lists components"}}
REQUESTS = {
    "sampling/createMessage": (SAMPLING, REFUSED),
    "elicitation/create": (FORM, {"result": {"action": "decline"}}),
}


@pytest.mark.parametrize("method", REQUESTS)
def test_server_requests_during_ls_are_declined(cli, configure, scripted, method):
    params, answer = REQUESTS[method]
    server = scripted(
        {"tools": {}},
        tools__list=[{"method": method, "id": "$next", "params": params}],
        answer=[{"result": {"tools": []}}],
    )
    configure(a=entry(server))
    assert cli("ls", "--config", "x.json", "--roots", ".").code == 0
    capabilities = server.requests("initialize")[0]["capabilities"]
    assert {"sampling", "elicitation", "roots"} <= set(capabilities)
    (response,) = (m for m in server.messages() if "method" not in m)
    assert {name: response[name] for name in answer} == answer


def test_no_ask_declares_no_capabilities_during_ls(cli, configure, tool_server):
    server = tool_server()
    configure(a=entry(server))
    assert cli("ls", "--config", "x.json", "--no-ask").code == 0
    assert server.requests("initialize")[0]["capabilities"] == {}


def test_configuration_without_servers_is_reported(cli, configure):
    configure()
    done = cli("ls", "--config", "x.json")
    assert (done.code, done.err) == (0, "")
    assert done.out == "The configuration has no servers.\n"
    assert cli("ls", "--config", "x.json", "--json") == (0, "{}\n", "")


def test_unknown_mode_is_a_usage_error_for_ls_of_all(cli, configure):
    configure(a={"command": "x"})
    code, out, err = cli("ls", "--config", "x.json", "--mode", "none")
    assert (code, out) == (2, "")
    assert "mode" in err


def test_ls_of_all_servers_prints_configuration_warnings(cli, configure):
    configure(a={"command": "x", "disabled": True, "qqqq": 1})
    code, _, err = cli("ls", "--config", "x.json")
    assert (code, err) == (0, "mcpwire: x.json: a: qqqq: is unknown\n")
