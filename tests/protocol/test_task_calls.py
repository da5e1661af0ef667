"""Which calls run as tasks."""

import pytest

from mcpwire.errors import LocalProtocolError, MethodNotFound, MissingCapability
from mcpwire.protocol.tasks import (
    check_extension_declared,
    check_task_can_ask,
    runs_as_task,
)
from mcpwire.versions import REVISIONS, find_revision

ID = "io.modelcontextprotocol/tasks"
DECLARED = {"extensions": {ID: {}}}
NOV, JUL = find_revision("2025-11-25"), find_revision("2026-07-28")


def decide(support, revision, capabilities=(), **params):
    return runs_as_task(support, "slow", revision, dict(capabilities), params)


@pytest.mark.rule("TX-02", "TX-21")
@pytest.mark.parametrize(
    ("support", "capabilities", "params", "expected"),
    [
        ("forbidden", DECLARED, {}, False),
        ("optional", DECLARED, {}, True),
        ("required", DECLARED, {}, True),
        ("forbidden", {}, {}, False),
        ("optional", {}, {}, False),
        ("optional", {}, {"task": {"ttl": 5}}, False),
        ("optional", {"tasks": {}}, {"task": {}}, False),
        ("optional", {"extensions": {ID: None}}, {}, False),
        ("forbidden", DECLARED, {"task": {}}, False),
    ],
)
def test_at_2026_07_28_the_declaration_on_the_call_decides(
    support, capabilities, params, expected
):
    assert decide(support, JUL, capabilities, **params) is expected


@pytest.mark.rule("TX-04")
def test_a_tool_that_needs_a_task_is_refused_to_who_knows_none():
    with pytest.raises(MissingCapability, match="the tool 'slow' needs") as caught:
        decide("required", JUL, {"tasks": {}})
    assert caught.value.code == -32021
    assert caught.value.data == {"requiredCapabilities": {"extensions": {ID: {}}}}


@pytest.mark.parametrize(
    ("support", "params", "expected"),
    [
        ("forbidden", {}, False),
        ("optional", {}, False),
        ("optional", {"task": {}}, True),
        ("required", {"task": {}}, True),
    ],
)
def test_at_2025_11_25_the_call_asks_for_its_task(support, params, expected):
    assert decide(support, NOV, DECLARED, **params) is expected


@pytest.mark.parametrize(
    ("support", "params", "message"),
    [
        pytest.param(
            "forbidden",
            {"task": {}},
            "the tool 'slow' cannot run as a task",
            marks=pytest.mark.rule("T11-02"),
        ),
        pytest.param(
            "required",
            {},
            "the tool 'slow' runs as a task only",
            marks=pytest.mark.rule("T11-03"),
        ),
    ],
)
def test_at_2025_11_25_a_call_asks_as_its_tool_allows(support, params, message):
    with pytest.raises(MethodNotFound, match=message) as caught:
        decide(support, NOV, **params)
    assert caught.value.code == -32601


@pytest.mark.rule("TX-22")
@pytest.mark.parametrize("support", ["forbidden", "optional", "required"])
@pytest.mark.parametrize("revision", REVISIONS[:3], ids=str)
def test_revisions_without_tasks_run_every_call_at_once(revision, support):
    assert decide(support, revision, DECLARED, task={}) is False


@pytest.mark.rule("TX-18")
def test_who_declared_the_extension_may_use_it():
    check_extension_declared(DECLARED, "'taskIds'")
    with pytest.raises(MissingCapability, match="'taskIds' needs the extension"):
        check_extension_declared({}, "'taskIds'")


@pytest.mark.parametrize(
    ("method", "revision"),
    [("elicitation/create", JUL), ("roots/list", JUL), ("elicitation/create", NOV)],
)
def test_a_task_asks_what_its_revision_lets_servers_ask(method, revision):
    check_task_can_ask(method, revision)


@pytest.mark.parametrize(
    ("method", "revision"),
    [("ping", JUL), ("tools/call", NOV), ("notifications/progress", JUL), ("x", NOV)],
)
def test_a_task_asks_nothing_else(method, revision):
    with pytest.raises(LocalProtocolError, match=f"no task can ask '{method}'"):
        check_task_can_ask(method, revision)
