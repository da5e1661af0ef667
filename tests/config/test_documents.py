"""Documents to entries: shapes, field names of other hosts, layers."""

import pytest

from mcpwire.config.document import TableWithDuplicates, merge, read_document
from mcpwire.errors import ConfigError

TIME = {"command": "time"}
LISTED = [{"name": "time", **TIME}]


def values(document):
    entries = read_document(document, "f")
    assert not any(entry.warnings for entry in entries)
    return {entry.name: entry.values for entry in entries}


@pytest.mark.system("V02", "R01", "A18")
@pytest.mark.parametrize(
    "document",
    [
        LISTED,
        tuple(LISTED),
        {"mcpServers": {"time": TIME}},
        {"mcpServers": LISTED},
        {"mcp_servers": LISTED},
        {"mcp_servers": {"time": TIME}},
        {"servers": LISTED},
        {"servers": {"time": TIME}, "inputs": [{"id": "x"}]},
        {"mcp": {"servers": {"time": TIME}}, "editor.fontSize": 12},
        {"mcpServers": {"time": {**TIME, "name": "time"}}},
        {"mcpServers": {"time": TIME}, "servers": None},
    ],
)
def test_servers_can_be_a_list_or_a_map(document):
    assert {name: v["command"] for name, v in values(document).items()} == {
        "time": "time"
    }


@pytest.mark.parametrize(
    "document", [[], {"servers": []}, {"mcpServers": {}}, {"mcp_servers": {}}]
)
def test_document_without_servers_is_valid(document):
    assert values(document) == {}


def one(**entry):
    (found,) = read_document({"mcpServers": {"x": entry}}, "f")
    return found, list(found.warnings)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("serverUrl", "url"),
        ("httpUrl", "url"),
        ("transport", "type"),
        ("allowedTools", "allowed_tools"),
        ("allowed-tools", "allowed_tools"),
        ("includeTools", "allowed_tools"),
        ("disabledTools", "denied_tools"),
        ("envFile", "env_file"),
        ("env_vars", "inherit_env"),
        ("http_headers", "headers"),
        ("startup_timeout_sec", "connect_timeout"),
        ("Timeout", "timeout"),
    ],
)
def test_field_names_of_other_hosts_are_accepted(key, field):
    entry, warnings = one(**{key: "given"})
    assert (entry.values, entry.spellings) == ({field: "given"}, {field: key})
    assert warnings == []


def test_secret_fields_of_other_hosts_are_converted():
    entry, _ = one(bearer_token_env_var="TOKEN")
    assert entry.values == {"auth": {"token_env": "TOKEN"}}
    entry, _ = one(oauth={"clientId": "me"})
    assert entry.values == {"auth": {"type": "oauth", "clientId": "me"}}
    entry, _ = one(env_http_headers={"X-Key": "KEY", "X-Odd": 1})
    assert entry.values == {"headers": {"X-Key": "${KEY}", "X-Odd": 1}}
    for key in ("env_vars", "envVars"):
        entry, _ = one(**{key: ["A", {"name": "B", "source": "local"}, {"B": 1}]})
        assert entry.values == {"inherit_env": ["A", "B", {"B": 1}]}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("headers", "joined"),
    [({"X-A": "a"}, {"X-A": "a", "X-B": "${B}"}), (7, 7)],
    ids=["a table", "what the check will find"],
)
def test_env_http_headers_are_merged_into_headers(is_first, headers, joined):
    pairs = [("headers", headers), ("env_http_headers", {"X-B": "B"})]
    entry, _ = one(**dict(pairs if is_first else pairs[::-1]))
    assert entry.values == {"headers": joined}


def test_null_field_is_ignored():
    assert one(command="x", args=None, cwd=None)[0].values == {"command": "x"}


FOUND_OUT = "where to log in is found out from the server"
ASKED = "no tool needs confirmation unless require_confirmation says so"


@pytest.mark.parametrize(
    ("key", "value", "warning"),
    [
        ("commnd", "x", "is unknown; did you mean 'command'?"),
        ("denied_tool", [], "is unknown; did you mean 'denied_tools'?"),
        ("qqqq", 1, "is unknown"),
        ("a\nb", 1, "is unknown"),
        ("oauth", True, "is unknown; did you mean 'auth'?"),
        ("alwaysAllow", ["a"], f"is not used: {ASKED}"),
        ("autoApprove", [], f"is not used: {ASKED}"),
        ("dev", {}, "is not used: it is for editors"),
        ("tools", {"search": {"approval_mode": "prompt"}}, f"is not used: {ASKED}"),
        ("default_tools_approval_mode", "prompt", f"is not used: {ASKED}"),
        ("oauth", {"enabled": False, "scopes": ["a"]}, None),
    ],
)
def test_unknown_or_unused_key_causes_a_warning(key, value, warning):
    entry, warnings = one(**{key: value})
    shown = key if key.isprintable() else repr(key)
    expected = [f"f: x: {shown}: {warning}"] if warning else []
    assert (entry.values, warnings) == ({}, expected)


@pytest.mark.parametrize("key", ["authServerMetadataUrl", "tokenUrl", "audiences"])
def test_oauth_endpoints_of_other_hosts_are_not_used(key):
    entry, warnings = one(oauth={"clientId": "me", key: "x", "enabled": True})
    assert entry.values == {"auth": {"type": "oauth", "clientId": "me"}}
    assert warnings == [f"f: x: oauth.{key}: is not used: {FOUND_OUT}"]


@pytest.mark.parametrize("key", ["description", "$schema", "_comment", "icon"])
def test_descriptive_keys_are_ignored_without_a_warning(key):
    assert one(**{key: "x"})[1] == []


NO_SERVERS = "contains no servers: there is no mcpServers, mcp_servers or servers"
ONE_LINE = "must be one line without spaces around it"
KEEP = "keep one of them"


def a(**fields):
    return {"servers": {"a": fields}}


def repeating(*keys, **values):
    table = TableWithDuplicates(values)
    table.duplicates = keys
    return table


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (7, "must be a table or a list of servers, got an integer"),
        ({}, NO_SERVERS),
        ({"mcp": 7}, NO_SERVERS),
        (
            {"server": []},
            "contains no servers; 'server' is unknown, did you mean 'servers'?",
        ),
        ({"time": TIME}, "the servers must be under mcpServers"),
        ({"servers": 7, "mcpServers": {}}, "mcpServers and servers exclude each other"),
        (
            {"servers": "x"},
            "servers: must be a list or a table of servers, got a string",
        ),
        ([TIME], "servers[0]: name: is missing"),
        ({"mcp_servers": [TIME]}, "mcp_servers[0]: name: is missing"),
        ([7], "servers[0]: must be a table, got an integer"),
        ([{"name": 7}], "servers[0]: name: must be a string, got an integer"),
        ([{"name": " "}], "servers[0]: name: must not be empty"),
        ([{"name": " a"}], f"servers[0]: name: {ONE_LINE}"),
        ([{"name": "a\nb"}], f"servers[0]: name: {ONE_LINE}"),
        (LISTED * 2, "time: name: is given twice, the second time as servers[1]"),
        ({"servers": {"": {}}}, "servers['']: name: must not be empty"),
        (
            {"servers": {7: {}}},
            "servers: a server's name must be a string, got an integer",
        ),
        ({"servers": {"a": []}}, "a: must be a table, got a list"),
        ({"servers": {"a": {"name": "b"}}}, "a: name: differs from the key"),
        ({"servers": repeating("a", a=TIME)}, "a: name: is given twice"),
        (repeating("servers", servers={}), "servers: is given twice"),
        ({"mcp": repeating("servers", servers={})}, "servers: is given twice"),
        ({"servers": {"a": repeating("url", url=1)}}, "a: url: is given twice"),
        (a(env=repeating("K", K="x")), "a: env.K: is given twice"),
        (a(oauth=repeating("id", id="x")), "a: oauth.id: is given twice"),
        (
            a(env_http_headers=repeating("X", X="x")),
            "a: env_http_headers.X: is given twice",
        ),
        (a(url="x", serverUrl="x"), f"a: serverUrl: duplicates url: {KEEP}"),
        (
            a(headers={}, http_headers={}),
            f"a: http_headers: duplicates headers: {KEEP}",
        ),
    ],
)
def test_malformed_document_is_refused_with_its_path(document, problem):
    with pytest.raises(ConfigError) as caught:
        read_document(document, "f")
    assert str(caught.value) == f"f: {problem}"


def layer(file, *entries):
    return read_document([{"name": name, **given} for name, given in entries], file)


@pytest.mark.system("V02")
def test_later_layer_replaces_a_whole_entry():
    merged = merge(
        [
            layer("one", ("a", {"command": "a", "env": {"K": "1"}}), ("b", TIME)),
            layer("two", ("c", TIME), ("a", {"url": "https://a"})),
        ]
    )
    assert list(merged) == ["a", "b", "c"]
    assert merged["a"].values == {"name": "a", "url": "https://a"}
    assert merged["a"].file == "two"


def test_layer_with_merge_fields_changes_single_fields():
    over = {"merge": "fields", "Timeout": 5, "env": {"K": "2"}, "enabled": False}
    merged = merge(
        [
            layer("one", ("a", {"command": "a", "args": ["x"], "disabled": False})),
            layer("two", ("a", {"merge": "fields", "env": {"K": "1", "L": "1"}})),
            layer("three", ("a", over)),
        ]
    )
    assert merged["a"].values == {
        "name": "a",
        "command": "a",
        "args": ["x"],
        "env": {"K": "2", "L": "1"},
        "merge": "fields",
        "timeout": 5,
        "enabled": False,
    }
    faults = [str(merged["a"].error("is odd", name)) for name in ("command", "timeout")]
    assert faults == ["one: a: command: is odd", "three: a: Timeout: is odd"]
    assert str(merged["a"].error("is odd")) == "three: a: is odd"


def test_auth_is_replaced_as_a_whole_by_merge_fields():
    merged = merge(
        [
            layer("one", ("a", {"auth": {"type": "oauth", "client_id": "x"}})),
            layer("two", ("a", {"merge": "fields", "auth": {"token_env": "T"}})),
        ]
    )
    assert merged["a"].values["auth"] == {"token_env": "T"}


def test_merge_fields_without_an_earlier_entry_is_a_new_entry():
    merged = merge([layer("one", ("a", {"merge": "fields", "command": "x"}))])
    assert merged["a"].values["command"] == "x"


def test_repr_of_a_raw_entry_shows_no_values():
    assert "hush" not in repr(one(env={"K": "hush"}, url="hush")[0])
