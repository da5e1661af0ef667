"""Entries after validation and expansion of variables."""

import math

import pytest

from mcpwire.config.document import check_entry, read_document
from mcpwire.config.schema import FIELDS
from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import ConfigError

VARIABLES = {"TOKEN": "t0ken", "HOST": "host.example", "EMPTY": "", "Lower": "x"}
URL = {"url": "https://host.example/mcp"}


def checked(deny=None, **entry):
    (raw,) = read_document({"mcpServers": {"x": entry}}, "f")
    return check_entry(raw, VARIABLES, deny)


@pytest.mark.system("V04", "L-V11", "L-R13")
def test_variables_are_expanded_in_the_values_that_describe_the_server():
    entry, warnings = checked(
        command="${HOST}",
        args=["--token=${TOKEN}", "$${TOKEN}"],
        env={"T": "${TOKEN}", "N${A}": "${NONE:-n}"},
        cwd="/${HOST}",
        env_file="${HOST}.env",
        roots=["/${HOST}"],
        allowed_tools=["${literal}"],
    )
    assert warnings == []
    assert entry == {
        "transport": "stdio",
        "enabled": True,
        "command": "host.example",
        "args": ["--token=t0ken", "${TOKEN}"],
        "env": {"T": "t0ken", "N${A}": "n"},
        "cwd": "/host.example",
        "env_file": "host.example.env",
        "roots": ["/host.example"],
        "allowed_tools": ["${literal}"],
    }
    entry, _ = checked(
        url="https://${HOST}/?k=${TOKEN}",
        headers={"Authorization": "Bearer ${TOKEN}"},
        proxy="http://${HOST}",
    )
    assert entry == {
        "transport": "http",
        "enabled": True,
        "url": "https://host.example/?k=t0ken",
        "headers": {"Authorization": "Bearer t0ken"},
        "proxy": "http://host.example",
    }


@pytest.mark.system("V01")
@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "c"}, "stdio"),
        (URL, "http"),
        ({"type": "STDIO", "command": "c"}, "stdio"),
        ({"type": "Http", **URL}, "http"),
        ({"type": "sse", **URL}, "http"),
        ({"type": "url", **URL}, "http"),
        ({"type": "streamable-http", **URL}, "http"),
        ({"type": "streamableHttp", **URL}, "http"),
        ({"type": "streamable_http", **URL}, "http"),
        ({"transport": "sse", **URL}, "http"),
        ({"type": "local", "command": "c"}, "stdio"),
    ],
)
def test_transport_follows_from_type_command_or_url(entry, transport):
    assert checked(**entry)[0]["transport"] == transport


@pytest.mark.parametrize(
    ("auth", "login"),
    [
        ("oauth", "oauth"),
        ("OAuth", "oauth"),
        ("${TOKEN}", "t0ken"),
        ({"token": "${TOKEN}"}, "t0ken"),
        ({"token_env": "TOKEN"}, "t0ken"),
        ({"tokenEnv": "Lower"}, "x"),
        ({"type": "bearer", "token_env": "TOKEN"}, "t0ken"),
        ({"type": "Bearer", "token": "a"}, "a"),
        ({"type": "oauth"}, {"type": "oauth"}),
        (
            {"CLIENT_ID": "me", "CLIENT_SECRET": "${TOKEN}", "scopes": ["a"]},
            {
                "type": "oauth",
                "client_id": "me",
                "client_secret": "t0ken",
                "scopes": ["a"],
            },
        ),
        (
            {"type": "OAuth", "clientId": "me", "client-secret": "${TOKEN}"},
            {"type": "oauth", "client_id": "me", "client_secret": "t0ken"},
        ),
        (
            {"type": "client-credentials", "client_id": "me", "scopes": ["${TOKEN}"]},
            {"type": "client_credentials", "client_id": "me", "scopes": ["t0ken"]},
        ),
        (
            {"type": "oauth", "dpop": True, "callback_port": 80, "timeout": "inf"},
            {"type": "oauth", "dpop": True, "callback_port": 80, "timeout": "inf"},
        ),
    ],
)
def test_auth_can_be_a_word_a_token_or_a_table(auth, login):
    assert checked(**URL, auth=auth)[0]["auth"] == login


@pytest.mark.parametrize(
    ("entry", "is_enabled"),
    [
        ({}, True),
        ({"enabled": True}, True),
        ({"disabled": False}, True),
        ({"enabled": False}, False),
        ({"disabled": True}, False),
    ],
)
@pytest.mark.system("R16")
def test_entry_is_enabled_unless_it_is_disabled(entry, is_enabled):
    assert checked(command="c", **entry)[0]["enabled"] is is_enabled


@pytest.mark.system("R16")
def test_variables_of_a_disabled_entry_are_not_expanded():
    entry, _ = checked(
        UrlDenyList(["x.net"]), disabled=True, url="https://x.net/${NONE}"
    )
    assert entry["url"] == "https://x.net/${NONE}"


def test_timeout_inf_means_unlimited():
    entry, _ = checked(command="c", timeout="inf", connect_timeout=1.5)
    assert (entry["timeout"], entry["connect_timeout"]) == (math.inf, 1.5)


STARTED = "it applies to servers that are started, not to a server at a URL"
BRACES = "a variable is written ${NAME}, and this $ stays as it is"
AT_URL = "it applies to servers at a URL, not to a server that is started"


@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        ({**URL, "args": []}, f"f: x: args: is not used: {STARTED}"),
        ({**URL, "env": {}}, f"f: x: env: is not used: {STARTED}"),
        (
            {"command": "c", "httpHeaders": {}},
            f"f: x: httpHeaders: is not used: {AT_URL}",
        ),
        (
            {"command": "c", "timeout": 30000},
            "f: x: timeout: is in seconds, 30000 is meant as milliseconds?",
        ),
        (
            {"command": "c", "args": ["$HOME"], "env": {"A": "a$B $2y$", "B": "$KEY"}},
            f"f: x: env.B: {BRACES}",
        ),
        (
            {**URL, "headers": {"Authorization": "Bearer $TOKEN"}},
            f"f: x: headers.Authorization: {BRACES}",
        ),
        (
            {"command": "uvx time"},
            "f: x: command: contains spaces: put the program's arguments into args",
        ),
        # Values that are only unusual cause no warning.
        ({"command": "uvx time", "args": ["x"]}, None),
        ({"command": "/opt/my programs/time"}, None),
        ({"command": "c", "timeout": 3600}, None),
        ({"command": "c", "timeout": 30000.5}, None),
    ],
)
def test_suspicious_value_causes_a_warning(entry, warning):
    assert checked(**entry)[1] == ([] if warning is None else [warning])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("inherit_env", True),
        ("inherit_env", ["HOME"]),
        ("require_confirmation", False),
        ("require_confirmation", "mutating"),
        ("require_confirmation", ["remove_*"]),
        ("allowed_tools", []),
        ("trace_context", True),
        ("trace_argument", "__trace"),
        ("timeout", 0.5),
    ],
)
def test_field_can_have_several_types(field, value):
    assert checked(command="c", **{field: value})[0][field] == value


ONE_OF = "must be 'stdio', 'http', 'sse', 'streamable-http' or 'url'"
FORMS = (
    "must be one of 'oauth', 'client_credentials', 'workload_identity', "
    "'enterprise_managed'; without it token_env is required"
)
C = {"command": "c"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        # Command or URL...
        ({}, "command: is missing, and so is url"),
        ({"comand": "c"}, "comand: is unknown; did you mean 'command'?"),
        (
            {"agrs": [], "serverUrls": "x"},
            "serverUrls: is unknown; did you mean 'url'?",
        ),
        ({"agrs": []}, "command: is missing, and so is url"),
        (
            {"type": "stdio", "comand": "c"},
            "comand: is unknown; did you mean 'command'?",
        ),
        ({"type": "http", "comand": "c"}, "url: is missing, and the type is 'http'"),
        ({"type": "stdio"}, "command: is missing, and the type is 'stdio'"),
        ({"type": "stdio", **URL}, "command: is missing, and the type is 'stdio'"),
        ({"type": "SSE", **C}, "url: is missing, and the type is 'SSE'"),
        ({**C, **URL}, "url: command is given too, and they exclude each other"),
        (
            {**C, "serverUrl": "https://x"},
            "serverUrl: command is given too, and they exclude each other",
        ),
        ({"type": "ws", **URL}, f"type: {ONE_OF}, got 'ws'"),
        ({"transport": 7, **URL}, f"transport: {ONE_OF}, got an integer"),
        # ...kinds of values...
        ({"command": ["c"]}, "command: must be a string, got a list"),
        ({"command": ""}, "command: must not be empty"),
        ({**C, "args": "x"}, "args: must be a list of strings, got a string"),
        ({**C, "args": ["x", 8080]}, "args[1]: must be a string, got an integer"),
        (
            {**C, "env": ["A=b"]},
            "env: must be a table of names and strings, got a list",
        ),
        ({**C, "env": {"PORT": 80}}, "env.PORT: must be a string, got an integer"),
        ({**C, "env": {"A": None}}, "env.A: must be a string, got null"),
        ({**C, "env": {"A\n": 1}}, "env.'A\\n': must be a string, got an integer"),
        ({**C, "env": {"": "x"}}, "env: holds a name that is empty or no string"),
        ({**C, "env": {7: "x"}}, "env: holds a name that is empty or no string"),
        ({**C, "env": {"A=b": "x"}}, "env: holds a name with = or NUL in it"),
        (
            {**C, "inherit_env": "HOME"},
            "inherit_env: must be true, false or a list of names, got a string",
        ),
        ({**C, "inherit_env": [""]}, "inherit_env[0]: must not be empty"),
        ({**C, "cwd": 7}, "cwd: must be a string, got an integer"),
        ({"url": True}, "url: must be a string, got true or false"),
        (
            {**URL, "headers": "A: b"},
            "headers: must be a table of names and strings, got a string",
        ),
        ({**URL, "headers": {"A": 1.5}}, "headers.A: must be a string, got a number"),
        ({**C, "timeout": 0}, "timeout: must be above zero, got 0"),
        ({**C, "timeout": math.nan}, "timeout: must be above zero, got nan"),
        (
            {**C, "timeout": "x"},
            'timeout: must be a number of seconds or "inf", got a string',
        ),
        (
            {**C, "timeout": True},
            'timeout: must be a number of seconds or "inf", got true or false',
        ),
        ({**C, "connectTimeout": -1.5}, "connectTimeout: must be above zero, got -1.5"),
        (
            {**C, "allowed_tools": "*"},
            "allowed_tools: must be a list of names, got a string",
        ),
        (
            {**C, "disabledTools": [{}]},
            "disabledTools[0]: must be a string, got a table",
        ),
        (
            {**C, "require_confirmation": "all"},
            (
                'require_confirmation: must be true, false, "mutating" or a list of '
                "names, got a string"
            ),
        ),
        (
            {**C, "trace_context": 1},
            "trace_context: must be true or false, got an integer",
        ),
        ({**C, "enabled": "no"}, "enabled: must be true or false, got a string"),
        (
            {**C, "enabled": True, "disabled": False},
            "disabled: duplicates enabled: keep one of them",
        ),
        ({**C, "merge": "deep"}, "merge: must be 'fields' or 'entry', got 'deep'"),
        ({**C, "merge": 7}, "merge: must be 'fields' or 'entry', got an integer"),
        ({**C, "cwd": object()}, "cwd: must be a string, got a object"),
        # ...variables...
        ({"command": "${NONE}"}, "command: the variable NONE is not set"),
        ({"command": "${EMPTY}"}, "command: must not be empty"),
        ({**C, "args": ["a", "${NONE}"]}, "args[1]: the variable NONE is not set"),
        ({**C, "env": {"K": "hush${NONE}"}}, "env.K: the variable NONE is not set"),
        (
            {**C, "cwd": "${hush"},
            "cwd: a ${ has no } that closes it ($${ is a literal one)",
        ),
        ({"serverUrl": "https://${NONE}"}, "serverUrl: the variable NONE is not set"),
        (
            {**URL, "headers": {"A": "${NONE}"}},
            "headers.A: the variable NONE is not set",
        ),
        ({**C, "args": ["a\0hush"]}, "args[0]: must not hold a NUL character"),
        # ...and logins.
        ({**URL, "auth": 7}, "auth: must be a string or a table, got an integer"),
        ({**URL, "auth": ""}, "auth: must not be empty"),
        ({**URL, "auth": "${EMPTY}"}, "auth: must not be empty"),
        ({**URL, "auth": {}}, f"auth.type: {FORMS}"),
        ({**URL, "auth": {"type": 7}}, f"auth.type: {FORMS}"),
        ({**URL, "auth": {"type": "basic"}}, f"auth.type: {FORMS}"),
        ({**URL, "auth": {"type": "token_env"}}, f"auth.type: {FORMS}"),
        ({**URL, "auth": {"type": "bearer"}}, "auth.token: is missing"),
        (
            {**URL, "auth": {"clientId": "x", "client_id": "y"}},
            "auth: has duplicate fields",
        ),
        (
            {**URL, "auth": {"type": "oauth", "isuer": "x"}},
            "auth: 'isuer' is not part of 'oauth'",
        ),
        (
            {**URL, "auth": {"type": "oauth", "dpop": 1}},
            "auth.dpop: must be true or false, got an integer",
        ),
        (
            {**URL, "auth": {"type": "oauth", "callback_port": -1}},
            "auth.callback_port: must be 0 or more, got -1",
        ),
        (
            {**URL, "auth": {"type": "oauth", "callback_port": "x"}},
            "auth.callback_port: must be an integer, got a string",
        ),
        (
            {**URL, "auth": {"type": "oauth", "scopes": [1]}},
            "auth.scopes[0]: must be a string, got an integer",
        ),
        (
            {**URL, "auth": {"token_env": "NONE"}},
            "auth.token_env: the variable NONE is not set",
        ),
        (
            {**URL, "auth": {"token_env": "EMPTY"}},
            "auth.token_env: the variable EMPTY is not set",
        ),
        (
            {**URL, "auth": {"token_env": "hush-1"}},
            "auth.token_env: its variable is not set",
        ),
        (
            {**URL, "auth": {"token": "${NONE}"}},
            "auth.token: the variable NONE is not set",
        ),
    ],
)
def test_invalid_entry_is_refused_with_its_field(entry, problem):
    with pytest.raises(ConfigError) as caught:
        checked(**entry)
    assert str(caught.value) == f"f: x: {problem}"


@pytest.mark.system("V05")
def test_error_for_a_denied_url_names_the_deny_list_entry():
    with pytest.raises(ConfigError) as caught:
        checked(UrlDenyList(["host.example"]), url="https://${HOST}/mcp?k=hush")
    assert str(caught.value) == "f: x: url: is refused by the deny list (host.example)"
    assert checked(UrlDenyList(["other.example"]), **URL)[0]["url"] == URL["url"]
    assert checked(UrlDenyList(["other.example"]), **C)[0]["command"] == "c"


def test_each_field_has_a_description():
    assert all(field.meaning for field in FIELDS.values())
