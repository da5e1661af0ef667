"""Our classes say what the schemas of all revisions say, no less and no more."""

from __future__ import annotations

import copy
import re

import pytest
from parity import Comparison, class_of
from parity_tables import EXCLUDED, OURS, RENAMED, UNIONS, WIDER
from wirevalues import OPAQUE, PLAIN

from mcpwire import types
from mcpwire.types._codec import spec_of
from mcpwire.versions import REVISIONS

NAMES = [revision.name for revision in REVISIONS]


@pytest.mark.parametrize("revision", NAMES)
def test_every_definition_and_property_has_its_place(schemas, revision):
    """Spec-mandated: fields, revisions, requiredness and JSON types."""
    assert Comparison(revision, schemas[revision]).run() == []


def test_no_exclusion_is_left_over(schemas):
    """Our choice: what no schema has, or what has a class, needs no reason."""
    defined = {name for s in schemas.values() for name in Comparison("", s).definitions}
    assert set(EXCLUDED) - defined == set()
    assert set(RENAMED) - defined == set()
    assert set(UNIONS) - defined == set()
    excluded = [name for name in EXCLUDED if class_of(name)]
    assert excluded == []


def test_every_class_stands_for_something(schemas):
    """Our choice: a class that no schema knows is part of one, or named."""
    defined = {name for s in schemas.values() for name in Comparison("", s).definitions}
    # Parts without a name in the schema, and what the schemas do not cover.
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


def test_every_deviation_is_of_a_field_that_exists():
    for name, wire in WIDER.keys() | OURS.keys():
        fields = {field.wire for field in spec_of(getattr(types, name)).fields}
        assert wire in fields


def test_fields_only_name_revisions_that_exist():
    for cls in PLAIN:
        for field in spec_of(cls).fields:
            spec = field.spec
            named = spec.required if isinstance(spec.required, tuple) else ()
            assert {spec.since, spec.until or spec.since, *named} <= set(NAMES)


def test_opaque_types_are_the_unknown_ones():
    assert all(cls.__name__.startswith("Unknown") for cls in OPAQUE)


# --- a revision to come


def test_the_folder_has_no_revision_that_we_do_not_know(spec_dir):
    """Our choice: a new schema in the folder fails here, naming what it adds."""
    found = {path.parent.name for path in spec_dir.glob("*/schema.json")}
    dates = {name for name in found if re.fullmatch(r"\d{4}-\d\d-\d\d", name)}
    assert dates == set(NAMES)


def test_a_new_definition_and_a_new_property_are_found(schemas):
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


def test_a_property_that_went_away_is_found(schemas):
    schema = copy.deepcopy(schemas["2026-07-28"])
    del schema["$defs"]["Tool"]["properties"]["title"]
    findings = Comparison("2026-07-28", schema).run()
    assert "2026-07-28 Tool.title: only Tool has it" in findings
