"""Entries after validation and expansion of variables."""

import math

import pytest

from mcpwire.config.document import check_entry, read_document
from mcpwire.config.schema import FIELDS
from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import ConfigError

VARIABLES = {"TOKEN": "t0ken", "HOST": "host.example", "EMPTY": "", "Lower": "x"}
URL = {"url": "https://host.example/mcp"}
C = {"command": "c"}


def checked(deny=None, **entry):
    (raw,) = read_document({"mcpServers": {"x": entry}}, "f")
    return check_entry(raw, VARIABLES, deny)


def refusal(deny=None, **entry):
    with pytest.raises(ConfigError) as caught:
        checked(deny, **entry)
    return str(caught.value)


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


OAUTH = {"type": "oauth", "client_id": "me", "client_secret": "t0ken"}
OPTIONS = {"dpop": True, "callback_port": 80, "timeout": "inf"}


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
            {**OAUTH, "scopes": ["a"]},
        ),
        ({"type": "OAuth", "clientId": "me", "client-secret": "${TOKEN}"}, OAUTH),
        (
            {"type": "client-credentials", "client_id": "me", "scopes": ["${TOKEN}"]},
            {"type": "client_credentials", "client_id": "me", "scopes": ["t0ken"]},
        ),
        ({**OAUTH, **OPTIONS}, {**OAUTH, **OPTIONS}),
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
        ({**URL, "args": []}, f"args: is not used: {STARTED}"),
        (
            {**URL, "headers": {"Content-Type": "application/json"}},
            "headers.Content-Type: is not used: mcpwire sets it",
        ),
        ({**URL, "env": {}}, f"env: is not used: {STARTED}"),
        ({**C, "httpHeaders": {}}, f"httpHeaders: is not used: {AT_URL}"),
        (
            {**C, "timeout": 30000},
            "timeout: is in seconds, 30000 is meant as milliseconds?",
        ),
        (
            {**C, "args": ["$HOME"], "env": {"A": "a$B $2y$", "B": "$KEY"}},
            f"env.B: {BRACES}",
        ),
        ({**URL, "headers": {"X-A": "Bearer $TOKEN"}}, f"headers.X-A: {BRACES}"),
        (
            {"command": "uvx time"},
            "command: contains spaces: put the program's arguments into args",
        ),
        # Values that are only unusual cause no warning.
        ({"command": "uvx time", "args": ["x"]}, None),
        ({"command": "/opt/my programs/time"}, None),
        ({**C, "timeout": 3600}, None),
        ({**C, "timeout": 30000.5}, None),
    ],
)
def test_suspicious_value_causes_a_warning(entry, warning):
    assert checked(**entry)[1] == ([f"f: x: {warning}"] if warning else [])


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


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "command: is missing, and so is url"),
        ({"comand": "c"}, "comand: is unknown; did you mean 'command'?"),
        ({"agrs": 1, "serverUrls": "x"}, "serverUrls: is unknown; did you mean 'url'?"),
        ({"agrs": []}, "command: is missing, and so is url"),
        ({"type": "stdio", "comand": 1}, "comand: is unknown; did you mean 'command'?"),
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
        ({"command": ["c"]}, "command: must be a string, got a list"),
        ({"command": ""}, "command: must not be empty"),
        ({"url": True}, "url: must be a string, got true or false"),
        ({"command": "${NONE}"}, "command: the variable NONE is not set"),
        ({"command": "${EMPTY}"}, "command: must not be empty"),
        ({"serverUrl": "https://${NONE}"}, "serverUrl: the variable NONE is not set"),
        (
            {**URL, "headers": "A: b"},
            "headers: must be a table of names and strings, got a string",
        ),
        ({**URL, "headers": {"A": 1.5}}, "headers.A: must be a string, got a number"),
        ({**URL, "headers": {"A": "${NO}"}}, "headers.A: the variable NO is not set"),
    ],
)
def test_invalid_entry_is_refused_with_its_field(entry, problem):
    assert refusal(**entry) == f"f: x: {problem}"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"args": "x"}, "args: must be a list of strings, got a string"),
        ({"args": ["x", 8080]}, "args[1]: must be a string, got an integer"),
        ({"env": ["A=b"]}, "env: must be a table of names and strings, got a list"),
        ({"env": {"PORT": 80}}, "env.PORT: must be a string, got an integer"),
        ({"env": {"A": None}}, "env.A: must be a string, got null"),
        ({"env": {"A\n": 1}}, "env.'A\\n': must be a string, got an integer"),
        ({"env": {"": "x"}}, "env: holds a name that is empty or no string"),
        ({"env": {7: "x"}}, "env: holds a name that is empty or no string"),
        ({"env": {"A=b": "x"}}, "env: holds a name with = or NUL in it"),
        (
            {"inherit_env": "HOME"},
            "inherit_env: must be true, false or a list of names, got a string",
        ),
        ({"inherit_env": [""]}, "inherit_env[0]: must not be empty"),
        ({"cwd": 7}, "cwd: must be a string, got an integer"),
        ({"timeout": 0}, "timeout: must be above zero, got 0"),
        ({"timeout": math.nan}, "timeout: must be above zero, got nan"),
        (
            {"timeout": "x"},
            'timeout: must be a number of seconds or "inf", got a string',
        ),
        (
            {"timeout": True},
            'timeout: must be a number of seconds or "inf", got true or false',
        ),
        ({"connectTimeout": -1.5}, "connectTimeout: must be above zero, got -1.5"),
        ({"allowed_tools": ""}, "allowed_tools: must be a list of names, got a string"),
        ({"disabledTools": [{}]}, "disabledTools[0]: must be a string, got a table"),
        (
            {"require_confirmation": "all"},
            (
                'require_confirmation: must be true, false, "mutating" or a list of '
                "names, got a string"
            ),
        ),
        ({"trace_context": 1}, "trace_context: must be true or false, got an integer"),
        ({"enabled": "no"}, "enabled: must be true or false, got a string"),
        (
            {"enabled": True, "disabled": False},
            "disabled: duplicates enabled: keep one of them",
        ),
        ({"merge": "deep"}, "merge: must be 'fields' or 'entry', got 'deep'"),
        ({"merge": 7}, "merge: must be 'fields' or 'entry', got an integer"),
        ({"cwd": object()}, "cwd: must be a string, got a object"),
        ({"args": ["a", "${NONE}"]}, "args[1]: the variable NONE is not set"),
        ({"env": {"K": "hush${NONE}"}}, "env.K: the variable NONE is not set"),
        ({"cwd": "${hush"}, "cwd: a ${ has no } that closes it ($${ is a literal one)"),
        ({"args": ["a\0hush"]}, "args[0]: must not hold a NUL character"),
    ],
)
def test_invalid_field_of_a_command_is_refused(fields, problem):
    assert refusal(**{**C, **fields}) == f"f: x: {problem}"


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        (7, ": must be a string or a table, got an integer"),
        ("", ": must not be empty"),
        ("${EMPTY}", ": must not be empty"),
        ({}, f".type: {FORMS}"),
        ({"type": 7}, f".type: {FORMS}"),
        ({"type": "basic"}, f".type: {FORMS}"),
        ({"type": "token_env"}, f".type: {FORMS}"),
        ({"type": "bearer"}, ".token: is missing"),
        ({"clientId": "x", "client_id": "y"}, ": has duplicate fields"),
        ({"type": "oauth", "isuer": "x"}, ": 'isuer' is not part of 'oauth'"),
        ({"type": "oauth", "dpop": 1}, ".dpop: must be true or false, got an integer"),
        (
            {"type": "oauth", "callback_port": -1},
            ".callback_port: must be 0 or more, got -1",
        ),
        (
            {"type": "oauth", "callback_port": "x"},
            ".callback_port: must be an integer, got a string",
        ),
        (
            {"type": "oauth", "scopes": [1]},
            ".scopes[0]: must be a string, got an integer",
        ),
        ({"token_env": "NONE"}, ".token_env: the variable NONE is not set"),
        ({"token_env": "EMPTY"}, ".token_env: the variable EMPTY is not set"),
        ({"token_env": "hush-1"}, ".token_env: its variable is not set"),
        ({"token": "${NONE}"}, ".token: the variable NONE is not set"),
    ],
)
def test_invalid_auth_is_refused(auth, problem):
    assert refusal(**URL, auth=auth) == f"f: x: auth{problem}"


@pytest.mark.system("V05")
def test_error_for_a_denied_url_names_the_deny_list_entry():
    deny = UrlDenyList(["host.example"])
    problem = refusal(deny, url="https://${HOST}/mcp?k=hush")
    assert problem == "f: x: url: is refused by the deny list (host.example)"
    assert checked(UrlDenyList(["other.example"]), **URL)[0]["url"] == URL["url"]
    assert checked(UrlDenyList(["other.example"]), **C)[0]["command"] == "c"


def test_each_field_has_a_description():
    assert all(field.meaning for field in FIELDS.values())
