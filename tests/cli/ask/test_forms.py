"""Filling in a form: field by field, with a review and ways to leave it."""

import pytest

from mcpwire.cli.interactive import Form
from mcpwire.protocol.elicitation import fill_form
from mcpwire.types import ElicitRequestFormParams, RequestedSchema, decode
from mcpwire.versions import REVISIONS

PROPERTIES = {
    "drink": {"type": "string", "enum": ["tea", "coffee"]},
    "cups": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
    "note": {"type": "string", "maxLength": 5},
}


def params(properties=PROPERTIES, required=("drink",), message="What may we bring?"):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    raw = {"message": message, "requestedSchema": schema}
    return decode(ElicitRequestFormParams, raw)


async def fill_in(requester, person, request=None):
    request = request or params()
    form = Form(request.requested_schema, requester, person)
    found = await form.fill_in(request.message)
    if isinstance(found, dict):
        found = fill_form(request.requested_schema, found, REVISIONS[-2])
    assert person.typed == []
    return found


@pytest.mark.rule("ELIC-11")
async def test_form_names_the_server_and_how_to_decline(requester, person):
    one = person("!decline")
    await fill_in(requester, one)
    assert one.shown[:4] == [
        "",
        "*drinks* asks for input",
        "  | What may we bring?",
        "  request from the server some-server --fast",
    ]
    assert "!decline declines" in one.text.replace("\n", " ")
    assert "!cancel" in one.text


@pytest.mark.rule("ELIC-06")
async def test_enter_takes_the_default_or_omits_the_field(requester, person):
    one = person("1", "", "", "s")
    assert await fill_in(requester, one) == {"drink": "tea", "cups": 2}
    assert "  [2] > " in one.shown
    assert "  3  note: (omitted)" in one.shown


@pytest.mark.rule("ELIC-20")
async def test_invalid_value_is_prompted_for_again(requester, person):
    one = person("beer", "", "2", "9", "x", "3", "too long", "!!hm", "s")
    found = await fill_in(requester, one)
    assert found == {"drink": "coffee", "cups": 3, "note": "!hm"}
    assert "  expected a number from 1 to 2, got 'beer'" in one.shown
    assert "  a value is required; !empty enters an empty one" in one.shown
    assert "  9 is above the maximum 5" in one.shown
    assert "  must be an integer, got 'x'" in one.shown
    assert "  8 characters, the maximum is 5" in one.shown


@pytest.mark.rule("ELIC-11")
async def test_answers_can_be_reviewed_and_edited_before_sending(requester, person):
    one = person("1", "", "", "7", "send it", "1", "2", "3", "cold", "S")
    assert await fill_in(requester, one) == {
        "drink": "coffee",
        "cups": 2,
        "note": "cold",
    }
    assert one.shown[-5:] == [
        "Your answers:",
        "  1  drink: coffee",
        "  2  cups: 2",
        "  3  note: cold",
        "s: send, 1-3: edit, d: decline, c: cancel > ",
    ]


@pytest.mark.rule("ELIC-11", "ELIC-21")
@pytest.mark.parametrize("before", [(), ("1",), ("1", "", "x")])
@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ("!decline", "decline"),
        ("!cancel", "cancel"),
        ("!d", "decline"),
        (None, "cancel"),
    ],
)
async def test_form_can_be_left_at_any_field(requester, person, before, typed, action):
    assert await fill_in(requester, person(*before, typed)) == action


@pytest.mark.rule("ELIC-11")
@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ("d", "decline"),
        ("decline", "decline"),
        ("!decline", "decline"),
        ("c", "cancel"),
        (None, "cancel"),
    ],
)
async def test_form_can_be_left_at_the_review(requester, person, typed, action):
    assert await fill_in(requester, person("1", "", "", typed)) == action


async def test_enter_alone_does_not_send_the_form(requester, person):
    assert await fill_in(requester, person("1", "", "", "", "", "d")) == "decline"


async def test_typed_ahead_input_is_discarded_before_the_review(requester, person):
    one = person("1", "", "", "s")
    await fill_in(requester, one)
    assert one.forgot_before == [4, 1]  # before the first field, and before the review


async def test_back_skip_and_empty_commands_edit_fields(requester, person):
    one = person("!back", "!skip", "1", "!back", "2", "!skip", "!empty", "s")
    assert await fill_in(requester, one) == {"drink": "coffee", "note": ""}
    assert "  a value is required; !decline declines the whole form" in one.shown


async def test_unknown_command_is_not_taken_as_text(requester, person):
    one = person("!what", "!empty", "1", "", "!wow", "s", "s")
    assert await fill_in(requester, one) == {"drink": "tea", "cups": 2, "note": "s"}
    assert (
        "  unknown command: use !skip, !empty, !back, !decline or !cancel "
        "(as text: !!wow)" in one.shown
    )


async def test_field_with_a_default_can_be_skipped(requester, person):
    one = person("1", "!skip", "", "2", "", "s")
    assert await fill_in(requester, one) == {"drink": "tea"}


async def test_form_without_fields_can_be_accepted(requester, person):
    one = person("s")
    assert await fill_in(requester, one, params({}, ())) == {}
    assert one.shown[-2:] == [
        "The form has no fields.",
        "s: send, d: decline, c: cancel > ",
    ]


async def test_required_field_without_a_schema_is_prompted_for(requester, person):
    one = person("x", "s")
    assert await fill_in(requester, one, params({}, ("who",))) == {"who": "x"}
    assert "1/1 *who*: text, or a value as JSON; required" in one.shown
    assert "s: send, 1: edit, d: decline, c: cancel > " in one.shown


async def test_unsupported_field_can_only_be_declined(requester, person):
    old = requester._replace(revision=REVISIONS[2])
    lists = {"l": {"type": "array", "items": {"type": "string", "enum": ["a"]}}}
    one = person("1", "s", "d")
    form = Form(params(lists, ()).requested_schema, old, one)
    assert await form.fill_in("m") == "decline"
    assert "lists exist since 2025-11-25" in one.text


def test_required_names_are_not_compared_pairwise(requester, person):
    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

    names = [Name(number) for number in range(200)]
    Form(RequestedSchema(properties={}, required=names), requester, person("d"))
    assert Name.compared < 10 * len(names)


@pytest.mark.attack("S32")
@pytest.mark.rule("ELIC-15")
async def test_server_message_cannot_imitate_our_prompt(requester, person):
    one = person("d")
    message = (
        "Hi\n\ns: send, d: decline > \x1b[2J\nsee https://evil.example" + "\nx" * 99
    )
    await fill_in(requester, one, params({}, (), message))
    start = one.shown.index("*drinks* asks for input") + 1
    end = one.shown.index("  request from the server some-server --fast")
    lines = one.shown[start:end]
    assert lines[:4] == [
        "  | Hi",
        "  | ",
        "  | s: send, d: decline > \\x1b[2J",
        "  | see https[://]evil.example",
    ]
    assert len(lines) == 31
    assert lines[-1] == "  | (73 more lines)"
