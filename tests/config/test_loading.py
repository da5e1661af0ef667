"""Valid configurations: their entries, targets and members, and a connected group."""

import asyncio
import json
import logging
import math
import os
import sys
from pathlib import Path

import pytest
from hosting import hosted
from scripted import PRELUDE
from sentinel import SENTINEL

import mcpwire
from mcpwire.config import ConfigError, Configuration, ServerEntry, default_files, load
from mcpwire.errors import GroupError, UnknownServer
from mcpwire.server.demo import demo_dispatcher

TOML = """
[[servers]]
name = "time"
command = "uvx"
args = ["mcp-server-time", "--local-timezone", "${ZONE:-UTC}"]
env = { TOKEN = "${TOKEN}" }
inherit_env = ["SSH_AUTH_SOCK"]
cwd = "/srv"
timeout = 5
connect_timeout = inf
denied_tools = ["drop_*"]
require_confirmation = "mutating"
strip_arguments = ["__trace"]
trace_context = true
trace_argument = "__trace"
roots = ["work", "file:///srv/data"]

[[servers]]
name = "web"
type = "streamable-http"
url = "https://host.example/mcp?key=${TOKEN}"
headers = { Authorization = "Bearer ${TOKEN}", X-Tenant = "blue" }
allowed_tools = ["get_*"]

[[servers]]
name = "off"
command = "${NOWHERE}"
enabled = false
"""
VARIABLES = {"TOKEN": SENTINEL}


@pytest.fixture
def toml(tmp_path):
    path = tmp_path / "mcp.toml"
    path.write_text(TOML)
    return path


def one(environment=None, **entry):
    found = load({"mcpServers": {"x": entry}}, environment=environment or {})
    assert found.warnings == ()
    return found["x"]


@pytest.mark.system("V01", "V03", "R01", "A11", "A12", "A13", "L-A4")
def test_stdio_entry_becomes_a_target_with_all_its_fields(toml):
    found = load(toml, environment=VARIABLES)
    assert list(found) == ["time", "web", "off"]
    assert found["time"].to_target() == mcpwire.Stdio(
        "uvx",
        ["mcp-server-time", "--local-timezone", "UTC"],
        env={"TOKEN": SENTINEL},
        inherit_env=["SSH_AUTH_SOCK"],
        cwd="/srv",
    )


@pytest.mark.system("V04", "A15", "L-A5")
def test_http_entry_becomes_a_target_with_url_and_headers(toml):
    target = load(toml, environment=VARIABLES)["web"].to_target()
    assert target.url == f"https://host.example/mcp?key={SENTINEL}"
    assert target.static_headers == (
        ("authorization", f"Bearer {SENTINEL}"),
        ("x-tenant", "blue"),
    )


@pytest.mark.system("A18", "R16")
def test_members_are_made_from_the_enabled_entries(toml):
    found = load(toml, environment=VARIABLES)
    members = found.members()
    assert list(members) == list(found.enabled) == ["time", "web"]
    time, web = members["time"], members["web"]
    assert time.target == found["time"].to_target()
    assert (time.timeout, time.connect_timeout) == (5, math.inf)
    assert (time.deny, time.confirm) == (("drop_*",), "mutating")
    assert (time.strip_arguments, time.trace_context) == (("__trace",), True)
    assert time.trace_argument == "__trace"
    assert time.roots == [Path("work").absolute(), "file:///srv/data"]
    assert web.allow == ("get_*",)
    assert web.client_options() == {}


def test_empty_allowed_tools_allows_no_tool_and_warns():
    entry = {"command": "x", "allowed_tools": [], "denied_tools": ["a"]}
    found = load({"mcpServers": {"x": entry}}, environment={})
    assert found.warnings == (
        "x: allowed_tools: is empty, so no tool is allowed: leave it out to allow all",
    )
    member = found["x"].to_member()
    assert (member.allow, member.deny) == ((), ("*",))


def test_mode_or_revision_selects_the_protocol_version():
    assert one(command="x", mode="prefer-session").to_member().mode == "prefer-session"
    assert one(command="x", revision="2025-06-18").to_member().mode == "2025-06-18"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"mode": "legacy"}, "mode: must be 'auto', "),
        ({"revision": "2025"}, "revision: must be '2024-11-05', "),
        ({"mode": "auto", "revision": "2025-06-18"}, "revision: duplicates mode"),
    ],
)
def test_invalid_mode_or_revision_is_refused(entry, problem):
    with pytest.raises(mcpwire.ConfigError, match=problem):
        one(command="x", **entry)


GRANTS = [
    ("oauth", mcpwire.OAuth, {"client_id": "me", "scopes": "a b", "profile": "p"}),
    (
        *("client_credentials", mcpwire.ClientCredentials),
        {
            "client_id": "me",
            "client_secret": "${TOKEN}",
            "issuer": "https://as.example",
        },
    ),
    (
        *("workload-identity", mcpwire.WorkloadIdentity),
        {"client_id": "me", "assertion": "${TOKEN}", "issuer": "discovered"},
    ),
    (
        *("enterprise_managed", mcpwire.EnterpriseManaged),
        {
            "client_id": "me",
            "idp_client_id": "us",
            "idp_token_endpoint": "https://idp.example/token",
            "id_token": "${TOKEN}",
            "issuer": "discovered",
        },
    ),
]


@pytest.mark.parametrize(("kind", "grant", "fields"), GRANTS)
def test_each_oauth_grant_can_be_configured(kind, grant, fields):
    auth = {"type": kind, **fields}
    target = one(VARIABLES, url="https://host.example/mcp", auth=auth).to_target()
    expanded = {k: v.replace("${TOKEN}", SENTINEL) for k, v in fields.items()}
    assert target.grant == grant(**expanded)


def test_oauth_is_configured_by_a_word_and_without_a_timeout():
    at_url = {"url": "https://host.example/mcp"}
    assert one(**at_url, auth="oauth").to_target().grant == mcpwire.OAuth()
    auth = {"type": "oauth", "timeout": "inf"}
    assert one(**at_url, auth=auth).to_target().grant == mcpwire.OAuth(timeout=None)


def test_env_file_variables_are_set_and_env_takes_precedence(tmp_path):
    path = tmp_path / "x.env"
    path.write_text("A=of the file\nB=${C}\n")
    found = one({"F": str(path)}, command="x", envFile="${F}", env={"A": "of env"})
    assert found.env == {"A": "of env", "B": "${C}"}


def test_disabled_server_needs_no_env_file():
    assert one(command="x", envFile="none.env", disabled=True).env is None


@pytest.mark.system("L-V11")
def test_repr_warnings_and_log_of_a_configuration_show_no_secrets(toml, caplog):
    text = TOML.replace('url = "', 'serverUrls = "x"\nurl = "')
    toml.write_text(text.replace('X-Tenant = "blue"', f'X-Odd = "{SENTINEL}"'))
    with caplog.at_level(logging.DEBUG):
        found = load(toml, environment=VARIABLES)
    tokens = load(
        {
            "mcpServers": {
                "a": {"url": "https://h.example/?k=${TOKEN}", "auth": "${TOKEN}"},
                "b": {
                    "url": "https://h.example/",
                    "auth": {"type": "oauth", "client_id": "${TOKEN}"},
                    "proxy": "http://me:${TOKEN}@p.example",
                },
                "c": {"command": "x", "args": ["--at=https://me:${TOKEN}@h.example"]},
            }
        },
        environment=VARIABLES,
    )
    shown = [repr(found), str(found.warnings), repr(tokens), caplog.text]
    shown += [repr(found.raw), repr(tokens.raw)]
    assert not any(SENTINEL in text for text in shown)
    assert "serverUrls: is unknown; did you mean 'url'?" in caplog.text
    assert repr(tokens["b"]) == (
        "ServerEntry('b', transport='http', url='https://h.example/', auth=<oauth>, "
        "proxy='http://***@p.example')"
    )
    assert repr(found["time"]).startswith(
        "ServerEntry('time', transport='stdio', command='uvx', args=('mcp-server-time'"
    )
    assert "env=['TOKEN']" in repr(found["time"])
    assert "headers=['Authorization', 'X-Odd']" in repr(found["web"])
    assert "auth='***'" in repr(tokens["a"])


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "args": ["--key", "${TOKEN}", "--at=https://${TOKEN}.a/"]},
        {"command": "x-${TOKEN}", "cwd": "/${TOKEN}"},
        {"url": "https://h.example/s/${TOKEN}/mcp"},
        {"url": "https://${TOKEN}.example/mcp", "proxy": "http://${TOKEN}.example"},
    ],
    ids=str,
)
def test_repr_shows_variables_unexpanded(entry):
    found = load({"mcpServers": {"a": entry}}, environment=VARIABLES)["a"]
    target = found.to_target()
    shown = [repr(found), repr(found.to_member()), repr(target), str(target)]
    for text in shown:
        assert SENTINEL not in text
        assert "${TOKEN}" in text
    # The value itself contains the secret.
    assert SENTINEL in str(found.command) + "".join(found.args) + str(found.url)
    literal = json.loads(json.dumps(entry).replace("${TOKEN}", VARIABLES["TOKEN"]))
    assert found == load({"mcpServers": {"a": literal}})["a"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "${TOKEN}"),
        ("url", "http://h.example:${TOKEN}/"),
        ("proxy", "${TOKEN}"),
        ("proxy", "socks5://h/${TOKEN}"),
        ("ca_file", "${TOKEN}"),
    ],
)
def test_error_chain_shows_variables_unexpanded(field, value):
    entry = {"url": "https://h.example/", field: value}
    with pytest.raises(ConfigError) as caught:
        load({"mcpServers": {"a": entry}}, environment=VARIABLES)
    error: BaseException | None = caught.value
    while error is not None:
        assert SENTINEL not in f"{error} {error!r}"
        error = error.__cause__ or error.__context__


@pytest.mark.system("V02")
def test_later_layers_override_earlier_ones(tmp_path, toml):
    project = tmp_path / "project.json"
    project.write_text(
        '{"mcpServers": {"time": {"command": "time"}, "new": {"command": "n"},'
        ' "off": {"merge": "fields", "enabled": true}}}'
    )
    variables = {**VARIABLES, "NOWHERE": "here"}
    found = load(toml, [project, [{"name": "new", "command": "m"}]], variables)
    assert list(found) == ["time", "web", "off", "new"]
    assert found["time"] == ServerEntry(name="time", transport="stdio", command="time")
    assert (found["off"].command, found["off"].enabled) == ("here", True)
    assert found["new"].command == "m"
    assert found.files == (str(toml), str(project))
    assert found["time"].file == str(project)


def test_configuration_can_be_a_source(toml):
    first = load(toml, environment=VARIABLES)
    again = load(
        first, [{"mcpServers": {"web": {"url": "https://b.example"}}}], VARIABLES
    )
    assert list(again) == ["time", "web", "off"]
    assert again["time"] == first["time"]
    assert again["web"].url == "https://b.example"
    assert again.files == (str(toml),)


def test_document_round_trips_through_json_without_secrets(tmp_path, toml):
    over = [{"name": "web", "merge": "fields", "timeout": 7}]
    first = load(toml, [over], VARIABLES, only=["web"])
    path = tmp_path / "all.json"
    text = json.dumps(first.document(), indent=1).replace("\n}", ", // a comma\n}")
    text += "/* of an editor, } */"
    assert SENTINEL not in text
    assert '"Bearer ${TOKEN}"' in text
    path.write_text(text)
    again = load(path, environment=VARIABLES)
    assert list(again) == ["time", "web", "off"]
    assert again["web"] == first["web"]
    assert again["time"] == load(toml, environment=VARIABLES)["time"]


def test_only_limits_validation_to_the_named_entries(toml):
    assert list(load(toml, environment={}, only=["off"])) == ["off"]
    assert list(load(toml, environment={}, only="off")) == ["off"]
    with pytest.raises(ConfigError, match="TOKEN is not set"):
        load(toml, environment={}, only=["web"])
    with pytest.raises(UnknownServer) as caught:
        load(toml, environment={}, only=["tim"])
    assert caught.value.known == ("time", "web", "off")


@pytest.mark.parametrize("layers", ["x.toml", Path("x.toml"), {}, Configuration()])
def test_layers_must_be_a_list(layers):
    with pytest.raises(ValueError, match="layers must be a list of sources"):
        load({"servers": []}, layers)


def test_invalid_deny_list_raises_value_error():
    with pytest.raises(ValueError, match="deny list: ' ' is neither a host nor a URL"):
        load({"servers": []}, deny_urls=[" "])


ASKED = "no tool needs confirmation unless require_confirmation says so"


@pytest.mark.system("V02")
def test_warnings_are_kept_and_logged(caplog):
    found = load({"mcpServers": {"x": {"command": "a b", "alwaysAllow": []}}})
    assert found.warnings == (
        f"x: alwaysAllow: is not used: {ASKED}",
        "x: command: contains spaces: put the program's arguments into args",
    )
    assert [record.getMessage() for record in caplog.records] == list(found.warnings)
    assert {record.name for record in caplog.records} == {"mcpwire.config"}


def test_configuration_is_a_mapping_of_entries(toml):
    found = load(toml, environment=VARIABLES)
    assert len(found) == 3
    assert "time" in found
    assert "x" not in found
    with pytest.raises(UnknownServer, match="no server named 'x' "):
        found["x"]
    assert isinstance(UnknownServer("x"), GroupError)


def test_entries_with_equal_fields_are_equal(tmp_path, toml):
    other = tmp_path / "other.toml"
    other.write_text(TOML)
    assert load(toml, environment=VARIABLES) != load(other, environment=VARIABLES)
    one, same = (load(path, environment=VARIABLES)["time"] for path in (toml, other))
    assert one == same
    assert one != load(toml, environment={"TOKEN": "other"})["time"]


def test_mcpwire_config_names_the_only_file():
    assert default_files({"MCPWIRE_CONFIG": "/x/none.toml"}) == (Path("/x/none.toml"),)


def test_user_files_come_before_files_of_the_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home" / ".config" / "mcpwire"
    home.mkdir(parents=True)
    variables = {"HOME": str(tmp_path / "home")}
    assert default_files(variables) == ()
    for path in ("mcp.json", ".mcp.json", "mcpwire.toml", home / "config.toml"):
        Path(path).write_text("")
    found = (
        home / "config.toml",
        Path("mcpwire.toml"),
        Path(".mcp.json"),
        Path("mcp.json"),
    )
    assert default_files(variables) == found
    variables["XDG_CONFIG_HOME"] = str(home.parent)
    assert default_files({**variables, "HOME": "/none"}) == found
    assert default_files({**variables, "XDG_CONFIG_HOME": "relative"}) == found
    assert os.environ.get("MCPWIRE_CONFIG") is not None or default_files()

    def nowhere(_):
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    assert default_files({}) == found[1:]


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
