"""What the four hints of a tool mean, together and when they are missing."""

import itertools

import pytest

from mcpwire.tools.catalog import SideEffects
from mcpwire.types import Tool, ToolAnnotations

HINTS = [
    # read-only, destructive, idempotent, open world:
    #   kind, is_destructive, is_idempotent, is_open_world
    ((None, None, None, None), ("unknown", True, False, True)),
    ((None, None, None, False), ("unknown", True, False, False)),
    ((None, None, None, True), ("unknown", True, False, True)),
    ((True, None, None, None), ("read_only", False, True, True)),
    ((True, True, False, False), ("read_only", False, True, False)),
    ((False, None, None, None), ("mutating", True, False, True)),
    ((False, False, None, None), ("mutating", False, False, True)),
    ((False, False, True, False), ("mutating", False, True, False)),
    ((False, True, True, True), ("mutating", True, True, True)),
    ((None, True, None, None), ("mutating", True, False, True)),
    ((None, False, None, None), ("mutating", False, False, True)),
    ((None, None, True, None), ("mutating", True, True, True)),
    ((None, None, False, None), ("mutating", True, False, True)),
]

RISKS = [
    # the same hints: trusted or not -> risk
    ((None, None, None, None), False, "medium"),
    ((None, None, None, None), True, "medium"),
    ((True, None, None, None), False, "medium"),
    ((True, None, None, None), True, "low"),
    ((False, None, None, None), False, "high"),
    ((False, None, None, None), True, "high"),
    ((False, False, None, None), True, "medium"),
    ((False, False, True, None), True, "medium"),
    ((False, False, True, False), False, "medium"),
    ((False, False, True, False), True, "low"),
]


def annotations(hints):
    """Return annotations with these four hints."""
    return ToolAnnotations(None, *hints)


@pytest.mark.rule("TOOL-24")
@pytest.mark.system("R09", "L-R11")
@pytest.mark.parametrize(("hints", "meaning"), HINTS)
def test_each_hint_counts_and_what_is_missing_has_its_default(hints, meaning):
    effects = SideEffects.of(annotations(hints))
    assert meaning == (
        effects.kind,
        effects.is_destructive,
        effects.is_idempotent,
        effects.is_open_world,
    )
    assert effects.may_change == (meaning[0] != "read_only")


@pytest.mark.rule("TOOL-24")
def test_without_annotations_the_defaults_stand():
    assert (
        SideEffects.of(None)
        == SideEffects()
        == SideEffects.of(annotations((None,) * 4))
    )


def test_the_hints_of_a_tool_are_those_of_its_annotations():
    hints = annotations((True, None, None, None))
    tool = Tool("read", {"type": "object"}, annotations=hints)
    assert SideEffects.of(tool) == SideEffects.of(hints)
    assert SideEffects.of(Tool("t", {"type": "object"})) == SideEffects()


@pytest.mark.rule("TOOL-07")
def test_that_a_tool_only_reads_is_assured_by_a_trusted_server_alone():
    hints = annotations((True, None, None, None))
    assert not SideEffects.of(hints).is_assured_read_only
    assert SideEffects.of(hints, trusted=True).is_assured_read_only
    assert not SideEffects.of(None, trusted=True).is_assured_read_only


@pytest.mark.system("L-R3")
@pytest.mark.parametrize(("hints", "trusted", "risk"), RISKS)
def test_the_risk_follows_from_the_hints(hints, trusted, risk):
    assert SideEffects.of(annotations(hints), trusted=trusted).risk == risk


@pytest.mark.rule("TOOL-07")
def test_a_server_that_is_not_trusted_talks_nobody_into_a_lower_risk():
    order = ["low", "medium", "high"]
    silence = order.index(SideEffects().risk)
    for hints in itertools.product((None, True, False), repeat=4):
        risk = SideEffects.of(annotations(hints)).risk
        assert order.index(risk) >= silence
