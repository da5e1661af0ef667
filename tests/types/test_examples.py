"""The official examples of 2026-07-28 decode and encode to equal JSON."""

import json

import pytest
from parity_tables import PARAMS
from wirevalues import CLASSES

from mcpwire import types
from mcpwire.errors import rpc_error
from mcpwire.types import decode, encode
from mcpwire.wire import jsonrpc

FOLDERS = 88
EXAMPLES = 129

BY_NAME = {cls.__name__: cls for cls in CLASSES}

# Types of fields, whose examples are the value of the field.
FIELDS = {
    "InputRequests": (types.InputRequiredResult, "inputRequests", {}),
    "InputResponses": (types.CallToolRequestParams, "inputResponses", {"name": "x"}),
}

# No wire types: `mcpwire.errors` has them.
ERRORS = {
    *("HeaderMismatchError", "InternalError", "InvalidParamsError"),
    *("MethodNotFoundError", "MissingRequiredClientCapabilityError", "ParseError"),
    "UnsupportedProtocolVersionError",
}


def examples(spec_dir):
    root = spec_dir / "2026-07-28" / "examples"
    return [
        (path.parent.name, path.name, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(root.glob("*/*.json"))
    ]


def part_of(folder, value):
    """Return the type of a folder's examples, and the part of that type."""
    if folder in BY_NAME:
        return BY_NAME[folder], value
    if folder in FIELDS:
        cls, field, rest = FIELDS[folder]
        return cls, {field: value, **rest}
    message = jsonrpc.parse_message(value)
    if folder.endswith("ResultResponse"):
        return BY_NAME[folder.removesuffix("Response")], message.result
    return PARAMS.get(folder) or BY_NAME[f"{folder}Params"], message.params or {}


def test_number_of_examples_is_as_expected(spec_dir):
    found = examples(spec_dir)
    assert len(found) == EXAMPLES
    assert len({folder for folder, _, _ in found}) == FOLDERS


def test_each_example_survives_the_round_trip(spec_dir):
    """Our choice: the round trip loses and changes nothing of the specification."""
    for folder, name, value in examples(spec_dir):
        if folder not in ERRORS:
            cls, part = part_of(folder, value)
            assert encode(decode(cls, part)) == part, f"{folder}/{name}"


@pytest.mark.rule("RPC-09")
def test_each_error_example_is_one_of_our_errors(spec_dir):
    for folder, name, value in examples(spec_dir):
        if folder in ERRORS:
            error = value.get("error", value)
            raised = rpc_error(error["code"], error["message"], data=error.get("data"))
            assert raised.code == type(raised).default_code, f"{folder}/{name}"
