"""What a client declared is declared again, as the next revision spells it."""

from __future__ import annotations

import itertools

import pytest

from mcpwire.gateway.translation import can_be_asked, declared_again
from mcpwire.versions import REVISIONS

A, B, C, D, E = REVISIONS

TASKS = "io.modelcontextprotocol/tasks"


@pytest.mark.parametrize(
    ("declared", "came", "goes", "made"),
    [
        ({}, A, E, {}),
        ({"roots": {"listChanged": True}}, A, D, {"roots": {"listChanged": True}}),
        ({"roots": {"listChanged": True}}, D, E, {"roots": {}}),
        ({"roots": {}}, E, A, {"roots": {}}),
        ({"roots": {"listChanged": True}}, E, A, {"roots": {}}),
        ({"roots": None, "sampling": True}, D, D, {}),
        ({"sampling": {"tools": {}, "context": {}}}, E, C, {"sampling": {}}),
        (
            {"sampling": {"tools": {}, "more": 1}},
            D,
            E,
            {"sampling": {"tools": {}}},
        ),
        ({"elicitation": {}}, C, E, {"elicitation": {}}),
        ({"elicitation": {"form": {}, "url": {}}}, D, C, {"elicitation": {}}),
        ({"elicitation": {"url": {}}}, D, C, {}),
        ({"elicitation": {"url": {}}}, E, D, {"elicitation": {"url": {}}}),
        ({"elicitation": {}}, E, B, {}),
        ({"elicitation": {}}, B, E, {}),
        ({"elicitation": {"url": {}}}, C, D, {"elicitation": {}}),
        ({"experimental": {"x": {}}, "tasks": {}}, D, D, {}),
        (
            {"extensions": {"com.example/ui": {"a": 1}, TASKS: {}}},
            D,
            D,
            {"extensions": {"com.example/ui": {"a": 1}}},
        ),
        ({"extensions": {TASKS: {}}}, E, E, {"extensions": {TASKS: {}}}),
        ({"extensions": {TASKS: {}}}, D, D, {}),
        ({"extensions": {}}, E, E, {}),
        ({"extensions": {"com.example/ui": {}}}, E, D, {}),
        ({"extensions": {"com.example/ui": {}}}, D, C, {}),
        ({"extensions": []}, E, E, {}),
    ],
)
@pytest.mark.system("A54")
def test_each_revision_declares_what_it_knows(declared, came, goes, made):
    assert declared_again(declared, came, goes) == made


def test_nothing_is_declared_that_the_client_did_not():
    for came, goes in itertools.product(REVISIONS, REVISIONS):
        assert declared_again({"roots": {}}, came, goes) == {"roots": {}}
        assert declared_again({"sampling": {}}, came, goes) == {"sampling": {}}


def test_who_declares_none_of_three_cannot_be_asked():
    assert not can_be_asked({})
    assert not can_be_asked({"extensions": {"com.example/ui": {}}, "roots": None})
    for name in ("roots", "sampling", "elicitation"):
        assert can_be_asked({name: {}})
