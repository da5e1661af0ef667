"""The method table, against the schema of each revision and against itself."""

import itertools
import json

import pytest
from child_python import printed_by

from mcpwire import types
from mcpwire.protocol.methods import (
    METHODS,
    SKILLS,
    TASKS,
    Kind,
    available_method,
    declared_extensions,
    find_method,
    is_capability_declared,
    is_declared,
    methods_of,
)
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS, Era

each_revision = pytest.mark.parametrize("revision", REVISIONS, ids=str)

# Names that no schema has because it writes these params in place.
IN_PLACE = {
    *("CancelTaskRequestParams", "ElicitationCompleteNotificationParams"),
    *("GetTaskPayloadRequestParams", "GetTaskRequestParams"),
}


@pytest.fixture(scope="module")
def schema(spec_dir):
    def definitions(revision):
        path = spec_dir / str(revision) / "schema.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        return document.get("$defs") or document["definitions"]

    return definitions


def union_members(definitions, union):
    """Return the definitions that a union names, or just itself if it is no union."""
    if union not in definitions:
        return {}
    members = definitions[union].get("anyOf")
    if members is None:
        return {union: definitions[union]}
    names = [member["$ref"].rsplit("/", 1)[-1] for member in members]
    return {name: definitions[name] for name in names}


def method_of(definition):
    return definition["properties"]["method"]["const"]


def methods_in(definitions, union):
    return {method_of(d) for d in union_members(definitions, union).values()}


def names_of(revision, sender, kind):
    return {spec.name for spec in methods_of(revision, sender) if spec.kind is kind}


def core_requests(revision):
    specs = (*methods_of(revision, "client"), *methods_of(revision, "server"))
    return [spec for spec in specs if spec.kind is Kind.REQUEST]


@pytest.mark.parametrize(
    ("sender", "kind", "union"),
    [
        ("client", Kind.REQUEST, "ClientRequest"),
        ("server", Kind.REQUEST, "ServerRequest"),
        ("client", Kind.NOTIFICATION, "ClientNotification"),
        ("server", Kind.NOTIFICATION, "ServerNotification"),
        ("server", Kind.INPUT, "InputRequest"),
    ],
)
@each_revision
def test_the_table_has_exactly_the_methods_of_the_schema(
    schema, revision, sender, kind, union
):
    assert names_of(revision, sender, kind) == methods_in(schema(revision), union)


@each_revision
def test_every_type_of_the_table_is_in_the_schema(schema, revision):
    known = IN_PLACE.union(*(schema(each) for each in REVISIONS))
    specs = (*methods_of(revision, "client"), *methods_of(revision, "server"))
    for spec in specs:
        assert spec.params is None or spec.params in known, spec.name
        assert spec.result is None or spec.result in schema(revision), spec.name


@each_revision
def test_the_params_type_is_the_one_the_schema_refers_to(schema, revision):
    for definition in schema(revision).values():
        properties = definition.get("properties", {})
        name = properties.get("method", {}).get("const")
        referred = properties.get("params", {}).get("$ref")
        if name is None or referred is None:
            continue
        spec = available_method(name, revision, "client") or available_method(
            name, revision, "server"
        )
        assert spec.params == referred.rsplit("/", 1)[-1], name


@each_revision
def test_list_methods_are_those_with_a_next_cursor(schema, revision):
    for spec in core_requests(revision):
        result = schema(revision)[spec.result].get("properties", {})
        assert ("nextCursor" in result) == (spec.list_key is not None), spec.name
        if spec.list_key is not None:
            assert result[spec.list_key]["type"] == "array"


def test_the_result_type_is_the_one_the_schema_answers_with(schema):
    definitions = schema(LATEST)
    for spec in core_requests(LATEST):
        response = definitions[f"{spec.result}Response"]
        result = response["properties"]["result"]
        referred = {ref["$ref"] for ref in result.get("anyOf", [result])}
        assert f"#/$defs/{spec.result}" in referred
        assert ("#/$defs/InputRequiredResult" in referred) == spec.may_need_input


def test_cacheable_methods_are_those_with_cache_hints(schema):
    definitions = schema(LATEST)
    for spec in core_requests(LATEST):
        assert ("ttlMs" in definitions[spec.result]["properties"]) == spec.cacheable


def test_each_listen_filter_field_selects_one_notification(schema):
    fields = schema(LATEST)["SubscriptionFilter"]["properties"]
    rows = [spec for spec in METHODS if spec.listen_filter is not None]
    filters = [spec.listen_filter for spec in rows if spec.extension is None]

    assert sorted(filters) == sorted(fields)
    assert all(spec.kind is Kind.NOTIFICATION for spec in rows)


@each_revision
def test_every_capability_path_of_the_table_is_in_the_schema(schema, revision):
    for sender, other in (("client", "Server"), ("server", "Client")):
        sender_name = sender.capitalize()
        for spec in methods_of(revision, sender):
            side = sender_name if spec.kind is Kind.NOTIFICATION else other
            node = schema(revision)[f"{side}Capabilities"]
            for key in (spec.capability or "").split("."):
                if key and not (key == "listChanged" and not node.get("properties")):
                    node = node["properties"][key]


# Facts that the schema does not contain


@pytest.mark.parametrize(
    ("name", "sender", "capability"),
    [
        ("tools/list", "client", "tools"),
        ("resources/list", "client", "resources"),
        ("resources/subscribe", "client", "resources.subscribe"),
        ("prompts/list", "client", "prompts"),
        ("completion/complete", "client", "completions"),
        ("logging/setLevel", "client", "logging"),
        ("roots/list", "server", "roots"),
        ("sampling/createMessage", "server", "sampling"),
        ("elicitation/create", "server", "elicitation"),
        ("tasks/get", "server", "tasks"),
        ("tasks/list", "client", "tasks.list"),
        ("tasks/cancel", "server", "tasks.cancel"),
        ("notifications/message", "server", "logging"),
        ("notifications/tools/list_changed", "server", "tools.listChanged"),
        ("notifications/resources/list_changed", "server", "resources.listChanged"),
        ("notifications/resources/updated", "server", "resources.subscribe"),
        ("notifications/roots/list_changed", "client", "roots.listChanged"),
        ("notifications/cancelled", "client", None),
        ("notifications/elicitation/complete", "server", None),
        ("initialize", "client", None),
        ("ping", "server", None),
    ],
)
def test_each_method_is_gated_by_its_capability(name, sender, capability):
    assert available_method(name, LATEST_SESSION, sender).capability == capability


def test_completion_has_a_capability_from_its_second_revision_on():
    gates = [available_method("completion/complete", r, "client") for r in REVISIONS]

    assert [spec.capability for spec in gates] == [None, *["completions"] * 4]


def test_name_header_mirrors_name_uri_or_task_id_only():
    mirrored = {spec.name: spec.mirrored for spec in METHODS if spec.mirrored}
    tasks = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
    assert mirrored == {
        "tools/call": "name", "prompts/get": "name", "resources/read": "uri", **tasks,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("holds", "names"),
    [
        (
            lambda spec: not (spec.repeatable or spec.kind is Kind.NOTIFICATION),
            {"initialize", "tools/call", "sampling/createMessage"}
            | {"elicitation/create", "tasks/cancel", "tasks/update"},
        ),
        (lambda spec: not spec.cancellable, {"initialize"}),
        (lambda spec: spec.long_lived, {"subscriptions/listen"}),
        (
            lambda spec: spec.task_capable,
            {"tools/call", "sampling/createMessage", "elicitation/create"},
        ),
        (lambda spec: spec.task_capable and spec.kind is Kind.INPUT, set()),
    ],
    ids=["not repeatable", "not cancellable", "long-lived", "task", "task as input"],
)
def test_only_these_requests_have_the_property(holds, names):
    assert {spec.name for spec in METHODS if holds(spec)} == names


def test_extension_methods_exist_only_with_the_extension():
    core = set(methods_of(LATEST, "client"))

    tasks = set(methods_of(LATEST, "client", {TASKS})) - core
    skills = set(methods_of(LATEST, "client", frozenset({SKILLS}))) - core

    assert {spec.name for spec in tasks} == {
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
    }
    assert {spec.name for spec in skills} == {
        "skills/list",
        "skills/get",
        "resources/directory/read",
    }
    assert available_method("tasks/get", LATEST, "client") is None
    assert (
        available_method("notifications/tasks", LATEST, "server", {TASKS}) is not None
    )


@pytest.mark.rule("TX-22")
@each_revision
def test_tasks_extension_is_unknown_to_session_revisions(revision):
    spec = available_method("tasks/update", revision, "client", {TASKS})

    assert (spec is not None) == (revision.era is Era.STATELESS)


def test_each_tasks_dialect_has_its_own_row():
    core = available_method("tasks/get", LATEST_SESSION, "server", {TASKS})
    extension = available_method("tasks/get", LATEST, "client", {TASKS})

    assert core.extension is None
    assert core.mirrored is None
    assert extension.extension == TASKS
    assert extension.capability is None
    assert available_method("tasks/get", LATEST, "server", {TASKS}) is None
    assert available_method("tasks/result", LATEST, "client", {TASKS}) is None


def test_find_method_returns_the_newest_row():
    assert find_method("elicitation/create").kind is Kind.INPUT
    assert find_method("tasks/get").extension == TASKS
    assert find_method("initialize").until == LATEST_SESSION
    assert find_method("vendor/anything") is None


def test_the_rows_of_one_method_never_overlap():
    extensions = {TASKS, SKILLS}
    for revision, sender in itertools.product(REVISIONS, ("client", "server")):
        names = [spec.name for spec in methods_of(revision, sender, extensions)]
        assert len(names) == len(set(names))
        assert all(
            available_method(spec.name, revision, sender, extensions) is spec
            for spec in methods_of(revision, sender, extensions)
        )


@pytest.mark.parametrize(
    ("capabilities", "path", "declared"),
    [
        ({"tools": {}}, "tools", True),
        ({"tools": {"listChanged": False}}, "tools", True),
        ({"tools": {"listChanged": False}}, "tools.listChanged", False),
        ({"resources": {"subscribe": True}}, "resources.subscribe", True),
        ({"resources": {"subscribe": {}}}, "resources.subscribe", True),
        ({"resources": {}}, "resources.subscribe", False),
        ({"resources": True}, "resources", True),
        ({"resources": True}, "resources.subscribe", False),
        ({"tools": None}, "tools", False),
        ({"tools": False}, "tools", False),
        ({"tools": 0}, "tools", True),
        ({}, "tools", False),
        (None, "tools", False),
        (None, "tools.listChanged", False),
        ({"tasks": {"requests": {"tools": {}}}}, "tasks.requests.tools", True),
        ({"tasks": {"requests": {}}}, "tasks.requests.tools.call", False),
    ],
)
def test_capability_is_declared_by_its_presence(capabilities, path, declared):
    assert is_capability_declared(capabilities, path) is declared


@pytest.mark.parametrize(
    ("capabilities", "form", "url"),
    [
        ({"elicitation": {}}, True, False),
        ({"elicitation": {"form": {}}}, True, False),
        ({"elicitation": {"url": {}}}, False, True),
        ({"elicitation": {"form": {}, "url": {}}}, True, True),
        ({"elicitation": None}, False, False),
        ({}, False, False),
    ],
)
def test_empty_elicitation_means_form_mode_only(capabilities, form, url):
    assert is_capability_declared(capabilities, "elicitation.form") is form
    assert is_capability_declared(capabilities, "elicitation.url") is url


@pytest.mark.parametrize(
    ("capabilities", "names"),
    [
        ({"extensions": {TASKS: {}, SKILLS: {"directoryRead": True}}}, {TASKS, SKILLS}),
        ({"extensions": {TASKS: None, SKILLS: True}}, set()),
        ({"extensions": None}, set()),
        ({"extensions": [TASKS]}, set()),
        ({}, set()),
        (None, set()),
    ],
)
def test_extension_is_declared_by_its_settings_object(capabilities, names):
    assert declared_extensions(capabilities) == names


@pytest.mark.parametrize(
    ("name", "sender", "capabilities", "is_on"),
    [
        ("server/discover", "client", {}, True),
        ("tools/call", "client", {"tools": {}}, True),
        ("tools/call", "client", {"prompts": {}}, False),
        ("tools/call", "client", None, False),
        ("tasks/get", "client", {"extensions": {TASKS: {}}}, True),
        ("tasks/get", "client", {"tasks": {}}, False),
        ("tasks/get", "client", None, False),
        ("skills/list", "client", {"extensions": {SKILLS: {}}}, True),
        ("resources/directory/read", "client", {"extensions": {SKILLS: {}}}, False),
        (
            "resources/directory/read",
            "client",
            {"extensions": {SKILLS: {"directoryRead": True}}},
            True,
        ),
        (
            "notifications/tools/list_changed",
            "server",
            {"tools": {"listChanged": True}},
            True,
        ),
    ],
)
def test_method_is_enabled_by_declared_capabilities(name, sender, capabilities, is_on):
    spec = available_method(name, LATEST, sender, {TASKS, SKILLS})

    assert is_declared(spec, capabilities) is is_on


@pytest.mark.pain("P39")
def test_method_table_imports_no_heavy_module():
    program = (
        "import sys, mcpwire.protocol.methods as m; "
        "print([name for name in ('orjson', 'asyncio', 'mcpwire.types')"
        " if name in sys.modules])"
    )
    assert printed_by("-c", program).strip() == "[]"


def test_every_type_in_the_table_is_exported():
    named = {
        name
        for spec in METHODS
        for name in (spec.params, spec.result)
        if name is not None
    }
    assert named - set(types.__all__) == set()
