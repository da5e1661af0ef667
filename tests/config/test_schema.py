"""The JSON Schema of a configuration and docs/config.md agree with the validation."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwire.config import load
from mcpwire.config.schema import AUTH_FORMS, FIELDS, schema

SERVERS = jsonschema_rs.validator_for(schema())
FIELD = {
    name: jsonschema_rs.validator_for(dict(field.kind.schema))
    for name, field in FIELDS.items()
}

WORDS = st.sampled_from(
    ["", "x", "stdio", "HTTP", "Streamable_HTTP", "ws", "oauth", "inf", "mutating"]
)
KEYS = st.sampled_from(
    ["", "x", "type", "token", "token_env", "client_id", "scopes", "timeout", "dpop"]
)
TYPES = st.sampled_from(["oauth", "client-credentials", "bearer", "token", "x"])
SCALARS = st.one_of(
    WORDS, st.booleans(), st.integers(-2, 2), st.sampled_from([-0.5, 0.5, 1.5])
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(KEYS, st.one_of(SCALARS, st.lists(WORDS, max_size=2)), max_size=3),
    st.builds(
        lambda table, kind: {**table, "type": kind},
        st.dictionaries(KEYS, WORDS, max_size=3),
        TYPES,
    ),
)


@settings(deadline=None)  # a first import takes its time
@given(st.sampled_from(sorted(FIELDS)), VALUES)
def test_field_schema_accepts_the_values_its_check_accepts(name, value):
    fault = FIELDS[name].kind.check(value)
    assert FIELD[name].is_valid(value) == (fault is None), fault


ENTRY = {"command": "c"}
LISTED = [{"name": "x", **ENTRY}]


@pytest.mark.parametrize(
    "document",
    [
        [],
        LISTED,
        {"servers": LISTED},
        {"mcp_servers": LISTED, "$schema": "x"},
        {"mcpServers": {"x": {**ENTRY, "cwd": None, "alwaysAllow": ["y"]}}},
        {"mcpServers": {"x": {"serverUrl": "https://x", "timeout": 5}}},
        {"servers": {"x": {"allowedTools": ["a*"], **ENTRY}}, "inputs": []},
        {"mcp_servers": {"x": {**ENTRY, "tools": {"y": {"approval_mode": "prompt"}}}}},
        {"mcp_servers": {"x": {**ENTRY, "env_vars": ["A", {"name": "B"}]}}},
        {"mcp_servers": {"x": {**ENTRY, "envVars": ["A", {"name": "B"}]}}},
    ],
)
def test_schema_accepts_documents_of_each_shape(document):
    SERVERS.validate(document)


@pytest.mark.parametrize(
    "document",
    [
        7,
        {},
        {"servers": 7},
        {"servers": [], "mcpServers": {}},
        [ENTRY],
        {"mcpServers": {"": ENTRY}},
        {"mcpServers": {"x": []}},
        {"mcpServers": {"x": {"command": 7}}},
        {"mcpServers": {"x": {"serverUrl": 7}}},
        {"mcpServers": {"x": {"connectTimeout": 0}}},
        {"servers": [{"name": "x", "auth": {"type": "none"}}]},
    ],
)
def test_schema_rejects_invalid_documents(document):
    assert not SERVERS.is_valid(document)


def test_schema_is_valid_and_describes_each_field():
    jsonschema_rs.meta.validate(json.loads(json.dumps(schema())))
    properties = schema()["$defs"]["server"]["properties"]
    for name, field in FIELDS.items():
        assert properties[name]["anyOf"][0]["description"] == field.meaning


# The page...

PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text(encoding="utf-8")
FILES = [
    text
    for text in re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    if text.startswith(("[[", "{\n"))
]
OF = {"any": "all", "stdio": "started", "http": "at a URL"}


@pytest.mark.parametrize("text", FILES, ids=["toml", "json"])
def test_example_file_of_the_page_loads_without_warnings(tmp_path, text):
    path = tmp_path / ("mcp.toml" if text.startswith("[[") else "mcp.json")
    path.write_text(text)
    found = load(path, environment={"WEB_TOKEN": "token"})
    assert (list(found), found.warnings) == (["time", "web"], ())


def test_example_configuration_loads_without_warnings():
    found = load(Path(__file__).parents[2] / "examples" / "mcp.toml", environment={})
    assert (list(found.enabled), found.warnings) == (["demo"], ())


def test_page_contains_the_table_of_fields():
    rows = [f"| `{n}` | {OF[f.transport]} | {f.meaning} |" for n, f in FIELDS.items()]
    assert "\n".join(rows) in PAGE


def test_page_names_all_members_of_each_auth_type():
    for form, known in AUTH_FORMS.items():
        if form in known:  # the token is its only member
            continue
        row = next(line for line in PAGE.splitlines() if f'"type": "{form}"' in line)
        assert all(f"`{name}`" in row for name in known)
