"""Questions cross in the form that the client's revision has for them."""

from __future__ import annotations

import pytest

from mcpwire.errors import InternalError, InvalidParams, MethodNotFound
from mcpwire.gateway.translation import (
    ELICIT,
    ROOTS,
    SAMPLE,
    answer_across,
    question_across,
    refusal,
    visits_of,
)
from mcpwire.versions import REVISIONS

A, B, C, D, E = REVISIONS

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
OLD = {"mode": "url", "message": "go", "url": "https://a/", "elicitationId": "old"}
VISIT = {"mode": "url", "message": "go", "url": "https://example.com/"}


def text(value):
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("method", "params", "revision", "capabilities", "error"),
    [
        ("tools/list", {}, D, {}, MethodNotFound),
        (ELICIT, FORM, A, {"elicitation": {}}, MethodNotFound),
        (ELICIT, FORM, C, {}, MethodNotFound),
        (ELICIT, None, D, {"elicitation": {}}, InvalidParams),
        (ELICIT, VISIT, D, {"elicitation": {}}, InvalidParams),
        (ELICIT, FORM, D, {"elicitation": {"url": {}}}, InvalidParams),
        (SAMPLE, {}, D, {"roots": {}}, MethodNotFound),
        (ROOTS, None, D, {"sampling": {}}, MethodNotFound),
        (ELICIT, FORM, C, {"elicitation": {}}, None),
        (ELICIT, FORM, E, {"elicitation": {"form": {}}}, None),
        (ELICIT, VISIT, E, {"elicitation": {"url": {}}}, None),
        (SAMPLE, {}, A, {"sampling": {}}, None),
        (ROOTS, None, E, {"roots": {}}, None),
    ],
)
@pytest.mark.system("A50", "A51", "A52")
def test_a_client_is_asked_only_what_it_declared(
    method, params, revision, capabilities, error
):
    refused = refusal(method, params, revision, capabilities)
    assert (refused and type(refused)) is error


@pytest.mark.parametrize(
    ("method", "params", "goes", "made"),
    [
        (ROOTS, None, A, None),
        (ROOTS, {"_meta": {"progressToken": 3}}, A, {}),
        (ROOTS, {"_meta": {"progressToken": 3, "k": 1}}, A, {"_meta": {"k": 1}}),
        (ROOTS, {"_meta": {"k": 1}}, A, {"_meta": {"k": 1}}),
        (ELICIT, {"mode": "form", **FORM}, C, FORM),
        (ELICIT, {"mode": "form", **FORM}, D, {"mode": "form", **FORM}),
        (ELICIT, VISIT, D, {**VISIT, "elicitationId": "new"}),
        (
            ELICIT,
            {**VISIT, "elicitationId": "old"},
            D,
            {**VISIT, "elicitationId": "old"},
        ),
        (ELICIT, {**VISIT, "elicitationId": "old"}, E, VISIT),
        (
            SAMPLE,
            {"messages": [{"role": "user", "content": [text("a"), text("b")]}]},
            B,
            {
                "messages": [
                    {"role": "user", "content": text("a")},
                    {"role": "user", "content": text("b")},
                ]
            },
        ),
        (
            SAMPLE,
            {"messages": [{"role": "user", "content": text("a")}, 5]},
            B,
            {"messages": [{"role": "user", "content": text("a")}, 5]},
        ),
        (SAMPLE, {"messages": 5}, B, {"messages": 5}),
        (
            SAMPLE,
            {"messages": [{"role": "user", "content": [text("a")]}]},
            D,
            {"messages": [{"role": "user", "content": [text("a")]}]},
        ),
    ],
)
def test_a_question_is_as_the_clients_revision_has_it(method, params, goes, made):
    before = repr(params)
    assert question_across(method, params, goes, new_id="new") == made
    assert repr(params) == before


def test_an_answer_is_the_very_same_where_the_asker_knows_its_form():
    for method in (ELICIT, SAMPLE, ROOTS):
        for asks in REVISIONS:
            answer = {"content": text("a")}
            assert answer_across(method, answer, asks) is answer
    blocks = {"content": [text("a"), text("b")]}
    assert answer_across(SAMPLE, blocks, D) is blocks


def test_an_answer_of_one_block_is_that_block_before_2025_11_25():
    answer = {"model": "m", "content": [text("a")]}
    assert answer_across(SAMPLE, answer, C) == {"model": "m", "content": text("a")}
    with pytest.raises(InternalError, match="2 blocks"):
        answer_across(SAMPLE, {"content": [text("a"), text("b")]}, C)


def test_visits_are_read_out_of_an_error():
    assert visits_of({"elicitations": [VISIT, 5, {"url": 1}, {"url": "x"}]}) == [VISIT]
    for data in (None, 5, {}, {"elicitations": {}}):
        assert visits_of(data) == []
