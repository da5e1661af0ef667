"""Values built from our own specifications are valid in each revision's schema."""

from __future__ import annotations

import json

import hypothesis
import jsonschema_rs
import pytest
from parity import Comparison, class_of
from wirevalues import PLAIN, Maker

from mcpwire import types
from mcpwire.types import decode, encode
from mcpwire.types._codec import spec_of
from mcpwire.versions import REVISIONS, find_revision

NAMES = [revision.name for revision in REVISIONS]

SETTINGS = hypothesis.settings(
    max_examples=4,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def definitions_of(schema):
    """Return the definitions that a class of ours stands for, and the classes."""
    found = {}
    for name in Comparison("", schema).definitions:
        cls = class_of(name)
        if cls in PLAIN:
            found[name] = cls
    return found


def validators(schema, names):
    """Return a validator for each definition; formats are no matter of ours."""
    key = "$defs" if "$defs" in schema else "definitions"
    return {
        name: jsonschema_rs.validator_for(
            {"$ref": f"#/{key}/{name}", key: schema[key], "$schema": schema["$schema"]},
            validate_formats=False,
        )
        for name in names
    }


def envelope(name, cls, value):
    """Add what belongs to a request's envelope, where a definition includes it."""
    if "method" in spec_of(cls).constants:
        return value | {"id": 1, "jsonrpc": "2.0"}
    return value


@pytest.mark.parametrize("revision", NAMES)
def test_our_values_are_valid_in_their_revision(schemas, revision):
    """Our choice: what we can build and encode is what the schema asks for."""
    schema = schemas[revision]
    classes = definitions_of(schema)
    check = validators(schema, classes)
    # The first revision with forms has no name for their params.
    unnamed = {"ElicitRequestFormParams"}
    known = unnamed | {cls.__name__ for cls in classes.values()}
    maker = Maker(revision, frozenset(known))
    for name, cls in classes.items():
        hold(check[name], name, cls, maker.instances(cls), revision)


def hold(validator, name, cls, values, revision):
    """Let the schema judge some values of one type."""

    @SETTINGS
    @hypothesis.given(values)
    def run(value):
        encoded = encode(value, find_revision(revision))
        complete = envelope(name, cls, encoded)
        problem = next(validator.iter_errors(complete), None)
        assert problem is None, f"{name} {json.dumps(complete)}: {problem}"
        assert decode(cls, encoded) == value

    run()


@pytest.mark.rule("RPC-16", "CACHE-01")
def test_a_result_made_here_has_what_2026_07_28_requires(schemas):
    """Spec-mandated: `resultType` is always written; hints are the maker's to give."""
    check = validators(schemas["2026-07-28"], ["ListToolsResult"])["ListToolsResult"]
    result = types.ListToolsResult([], ttl_ms=0, cache_scope="private")
    assert check.is_valid(encode(result))
    assert encode(result)["resultType"] == "complete"


def test_a_revision_leaves_out_what_it_does_not_have():
    tool = types.Tool("a", {"type": "object"}, title="A")
    result = types.ListToolsResult([tool], ttl_ms=0, cache_scope="private")
    assert encode(result, find_revision("2025-03-26")) == {
        "tools": [{"name": "a", "inputSchema": {"type": "object"}}]
    }
