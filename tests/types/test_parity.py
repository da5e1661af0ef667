"""Our classes agree with the schemas of all revisions, and with their examples."""

import copy
import json
import re

import pytest
from parity import Comparison, class_of
from parity_tables import EXCLUDED, OURS, PARAMS, RENAMED, UNIONS, WIDER
from wirevalues import CLASSES, OPAQUE, PLAIN

from mcpwire import types
from mcpwire.errors import rpc_error
from mcpwire.types import decode, encode
from mcpwire.types._codec import spec_of
from mcpwire.versions import REVISIONS
from mcpwire.wire import jsonrpc

NAMES = [revision.name for revision in REVISIONS]


@pytest.mark.parametrize("revision", NAMES)
def test_every_definition_and_property_is_covered(schemas, revision):
    """Required by the specification: fields, revisions, requiredness and JSON types."""
    assert Comparison(revision, schemas[revision]).run() == []


def test_every_exclusion_is_needed(schemas):
    """Our choice: no reasons for absent definitions, or for ones with a class."""
    defined = {name for s in schemas.values() for name in Comparison("", s).definitions}
    assert set(EXCLUDED) - defined == set()
    assert set(RENAMED) - defined == set()
    assert set(UNIONS) - defined == set()
    excluded = [name for name in EXCLUDED if class_of(name)]
    assert excluded == []


def test_every_class_is_in_a_schema_or_listed(schemas):
    """Our choice: a class outside the schemas is part of a definition, or is listed."""
    defined = {name for s in schemas.values() for name in Comparison("", s).definitions}
    # Parts without a name in the schema, and types that the schemas do not cover.
    anonymous = {
        "ClientTaskRequests", "ClientTasksCapability", "Completion",
        "CompletionArgument", "CompletionContext", "ElicitationCapability",
        "ElicitationCompleteNotificationParams", "EnumItems", "EnumOption",
        "ListRootsRequestParams", "PromptsCapability", "RequestedSchema",
        "ResourcesCapability", "RootsCapability", "SamplingCapability",
        "ServerTaskRequests", "ServerTasksCapability", "TitledEnumItems",
        "ToolsCapability", "GetTaskRequestParams", "GetTaskPayloadRequestParams",
        "CancelTaskRequestParams",
    }  # fmt: skip
    extension = {
        "CreatedTask", "DetailedTask", "UpdateTaskRequestParams",
        "GetSkillRequestParams", "GetSkillResult", "ListSkillsResult",
        "ReadResourceDirectoryRequestParams", "ReadResourceDirectoryResult",
        "Skill", "SkillResource",
    }  # fmt: skip
    renamed = {cls.__name__ for cls in RENAMED.values()}
    ours = {cls.__name__ for cls in PLAIN}
    assert ours - defined - anonymous - extension - renamed == set()


def test_every_deviation_is_of_an_existing_field():
    for name, wire in WIDER.keys() | OURS.keys():
        fields = {field.wire for field in spec_of(getattr(types, name)).fields}
        assert wire in fields


def test_fields_name_only_existing_revisions():
    for cls in PLAIN:
        for field in spec_of(cls).fields:
            spec = field.spec
            named = spec.required if isinstance(spec.required, tuple) else ()
            assert {spec.since, spec.until or spec.since, *named} <= set(NAMES)


def test_opaque_types_are_the_unknown_types():
    assert all(cls.__name__.startswith("Unknown") for cls in OPAQUE)


def test_every_schema_revision_is_supported(spec_dir):
    """Our choice: a new schema in the folder fails here, with its name."""
    found = {path.parent.name for path in spec_dir.glob("*/schema.json")}
    dates = {name for name in found if re.fullmatch(r"\d{4}-\d\d-\d\d", name)}
    assert dates == set(NAMES)


def test_new_definitions_and_properties_are_reported(schemas):
    schema = copy.deepcopy(schemas["2026-07-28"])
    schema["$defs"]["Tool"]["properties"]["price"] = {"type": "number"}
    schema["$defs"]["Invoice"] = {"properties": {"total": {"type": "number"}}}
    schema["$defs"]["Tool"]["required"].append("title")
    schema["$defs"]["Role"]["enum"].append("system")
    schema["$defs"]["Icon"]["properties"]["src"]["type"] = "array"
    findings = Comparison("2026-07-28", schema).run()
    assert "2026-07-28 Tool.price: Tool has no such field there" in findings
    assert "2026-07-28 Invoice: no class of ours stands for it (total)" in findings
    assert "2026-07-28 Tool.title: the schema says it is required" in findings
    assert any("PromptMessage.role" in each and "system" in each for each in findings)
    assert any("Icon.src" in each and "array" in each for each in findings)


def test_removed_property_is_reported(schemas):
    schema = copy.deepcopy(schemas["2026-07-28"])
    del schema["$defs"]["Tool"]["properties"]["title"]
    findings = Comparison("2026-07-28", schema).run()
    assert "2026-07-28 Tool.title: only Tool has it" in findings


FOLDERS = 88
EXAMPLES = 129

BY_NAME = {cls.__name__: cls for cls in CLASSES}

# Types of fields; an example is the value of the field.
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
