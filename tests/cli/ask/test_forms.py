"""Requests at a prompt: forms, fields, URLs, samples, and ways to leave them."""

import os
import sys
import time
from types import SimpleNamespace

import pytest

from mcpwire import UrlElicitationRequired
from mcpwire.cli import interactive as pages
from mcpwire.cli.interactive import (
    Field,
    Form,
    RequestHandlers,
    open_in_browser,
    request_consent,
)
from mcpwire.cli.options import Options
from mcpwire.cli.output import Output
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


BOUND_S = 30.0
URL = "https://pay.example.com/order?x=1"


@pytest.fixture
def opened(monkeypatch):
    """Collect the URLs that a browser would have opened."""
    found = []
    monkeypatch.setattr(
        pages, "open_in_browser", lambda url: found.append(url) or url == URL
    )
    return found


@pytest.mark.rule("ELIC-11", "ELIC-13", "ELIC-15")
async def test_full_url_is_shown_with_its_host_highlighted(requester, person, opened):
    one = person("d")
    assert await request_consent(URL, "Please pay.", requester, one) == "decline"
    assert one.shown == [
        "",
        "*drinks* asks you to visit a URL",
        "  | Please pay.",
        "  request from the server some-server --fast",
        "",
        "  URL   https://*pay.example.com*/order?x=1",
        "  host  *pay.example.com*",
        "",
        "mcpwire has not opened this URL, and does not see what you do there.",
        "y: agree, d: decline, c: cancel > ",
    ]
    assert opened == []


@pytest.mark.rule("ELIC-11", "ELIC-12", "ELIC-13")
@pytest.mark.parametrize(
    "dialog",
    [
        (["d"], "decline", False),
        (["n"], "decline", False),
        (["!decline"], "decline", False),
        (["c"], "cancel", False),
        (["!cancel"], "cancel", False),
        ([None], "cancel", False),
        (["", "o", "what", "D"], "decline", False),
        (["y", ""], "accept", False),
        (["yes", "no"], "accept", False),
        (["y", None], "cancel", False),
        (["y", "o"], "accept", True),
        (["Y", "Open"], "accept", True),
    ],
)
async def test_browser_opens_only_after_consent_and_an_open_command(
    requester, person, opened, dialog
):
    typed, action, opens = dialog
    one = person(*typed)
    assert await request_consent(URL, "m", requester, one) == action
    assert one.typed == []
    assert opened == ([URL] if opens else [])
    assert one.forgot_before == [len(typed)]


@pytest.mark.rule("ELIC-26")
@pytest.mark.parametrize(
    ("typed", "action"),
    [
        (("y", "", "r"), "accept"),
        (("y", "o", "what", "R"), "accept"),
        (("y", "", "c"), "cancel"),
        (("y", "", None), "cancel"),
        (("d",), "decline"),
    ],
)
async def test_stateless_accept_waits_until_the_user_finished(
    requester, person, opened, typed, action
):
    one = person(*typed)
    stateless = requester._replace(revision=REVISIONS[-1])
    assert await request_consent(URL, "m", stateless, one) == action
    assert one.typed == []


@pytest.mark.rule("ELIC-15")
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "https://xn--e1afmkfd.example/",
            "host  *xn--e1afmkfd.example* (a browser may show пример.example)",
        ),
        (
            "https://xn--e1afmkfd.example/",
            "*Warning*: the host has letters that look like others",
        ),
        ("https://example.com:8443/", "*Warning*: the port is 8443, which is unusual"),
        ("https://10.0.0.1/", "*Warning*: the host is a bare address"),
        ("HTTPS://Example.COM/a", "URL   HTTPS://*Example.COM*/a"),
        ("https://https.example/", "URL   https://*https.example*/"),
        ("https://[2001:db8::1]/a", "URL   https://[*2001:db8::1*]/a"),
        ("https://[2001:db8:0::1]/a", "URL   https://[2001:db8:0::1]/a"),
    ],
)
async def test_suspicious_url_is_shown_with_a_warning(requester, person, url, expected):
    one = person("c")
    await request_consent(url, "m", requester, one)
    assert any(expected in line for line in one.shown), one.text


async def test_missing_browser_does_not_fail_the_consent(requester, person, opened):
    one = person("y", "o")
    assert (
        await request_consent("https://other.example/", "m", requester, one) == "accept"
    )
    assert one.shown[-1] == "  No browser could be opened."


def browser(tmp_path, code):
    path = tmp_path / "browser"
    path.write_text(f"#!{sys.executable} -S\nimport os, sys, time\n{code}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.attack("S32")
def test_url_is_one_browser_argument_without_a_shell(tmp_path, monkeypatch):
    log = tmp_path / "log"
    code = f"print('chatter'); open({str(log)!r}, 'w').write(repr(sys.argv[1:]))"
    monkeypatch.setenv("BROWSER", browser(tmp_path, code))
    url = "https://example.com/?a=1&b=$(touch%20x);'%22`"
    assert open_in_browser(url)
    assert log.read_text() == repr([url])


def test_failing_browser_command_is_detected(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER", browser(tmp_path, "sys.exit(1)"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_in_browser(URL)


def wait_for_text(path):
    """Return the text of a file once another process has written it."""
    deadline = time.monotonic() + BOUND_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, "the file stayed empty"
        time.sleep(0.01)  # the writer gives no other signal
    return path.read_text()


def test_running_browser_does_not_block_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "OPENER_TIMEOUT_S", 0.5)
    pid = tmp_path / "pid"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    monkeypatch.setenv("BROWSER", browser(tmp_path, code))
    assert open_in_browser(URL)
    os.killpg(os.getpgid(int(wait_for_text(pid))), 9)
    pages.RUNNING_BROWSERS.pop().wait(BOUND_S)


EVIL = "a\x1b]0;x\x07\u202eb\nhttps://evil.example"
SAFE = "a\\x1b]0;x\\x07\\u202eb\\nhttps[://]evil.example"


def field(schema, name="f", *, is_required=False):
    form = {"type": "object", "properties": {name: schema}}
    params = decode(ElicitRequestFormParams, {"message": "m", "requestedSchema": form})
    found = params.requested_schema.properties[name]
    return Field(name, found, is_required=is_required)


TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
ENUM = {"type": "string", "enum": ["red", "green", "3"]}
TITLED = {
    "type": "string",
    "oneOf": [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Bee tree"}],
}
LEGACY = {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex"]}
LIST = {"type": "array", "items": {"type": "string", "enum": ["q", "r", "s, t"]}}
TITLED_LIST = {"type": "array", "items": {"anyOf": TITLED["oneOf"]}}
STRANGE = {"type": "vector"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (TEXT, "text"),
        ({**TEXT, "minLength": 2}, "text, at least 2 characters"),
        ({**TEXT, "maxLength": 9}, "text, at most 9 characters"),
        ({**TEXT, "minLength": 2, "maxLength": 9}, "text, 2 to 9 characters"),
        ({**TEXT, "minLength": 4, "maxLength": 4}, "text, exactly 4 characters"),
        ({**TEXT, "format": "email"}, "an email address"),
        ({**TEXT, "format": "uri"}, "an absolute URI"),
        ({**TEXT, "format": "date"}, "a date such as 2026-07-28"),
        ({**TEXT, "format": "other"}, "text"),
        (INTEGER, "an integer"),
        ({**INTEGER, "minimum": 1, "maximum": 5}, "an integer, 1 to 5"),
        ({**NUMBER, "minimum": 0.5}, "a number, at least 0.5"),
        (BOOLEAN, "yes or no"),
        (ENUM, "the number of one of these"),
        (TITLED, "the number of one of these"),
        (LIST, "any of these, as numbers separated by commas"),
        (
            {**LIST, "minItems": 1, "maxItems": 2},
            "1 to 2 of these, as numbers separated by commas",
        ),
        (STRANGE, "text, or a value as JSON"),
    ],
)
def test_field_kind_describes_the_expected_input(schema, kind):
    assert field(schema).kind == kind


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        (TEXT, "Ada", "Ada"),
        (TEXT, "12", "12"),
        (INTEGER, "12", 12),
        (INTEGER, "-3", -3),
        (NUMBER, "2.5", 2.5),
        (NUMBER, "2", 2),
        *[(BOOLEAN, word, True) for word in ("y", "Yes", "TRUE")],
        *[(BOOLEAN, word, False) for word in ("n", "no", "false")],
        (ENUM, "1", "red"),
        (ENUM, "green", "green"),
        (ENUM, "3", "3"),
        (TITLED, "2", "b"),
        (TITLED, "Bee tree", "b"),
        (LEGACY, "1", "x"),
        (LEGACY, "Ex", "x"),
        (LIST, "1,2", ["q", "r"]),
        (LIST, "2 1", ["r", "q"]),
        (LIST, "q, 3", ["q", "s, t"]),
        (TITLED_LIST, "Apple", ["a"]),
        (STRANGE, '["a"]', ["a"]),
        (STRANGE, "1.5", 1.5),
        (STRANGE, "what", "what"),
    ],
)
def test_typed_line_is_parsed_to_a_value(schema, typed, value):
    found = field(schema).parse(typed)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "typed", "reason"),
    [
        ({**TEXT, "minLength": 3}, "ab", "2 characters, the minimum is 3"),
        ({**TEXT, "format": "email"}, "x", "'x' is not an email address"),
        (INTEGER, "1.5", "must be an integer, got '1.5'"),
        (INTEGER, "", "must be an integer, got ''"),
        ({**INTEGER, "maximum": 5}, "6", "6 is above the maximum 5"),
        (NUMBER, "NaN", "must be a number, got 'NaN'"),
        (BOOLEAN, "maybe", "expected yes or no, got 'maybe'"),
        (ENUM, "4", "expected a number from 1 to 3, got '4'"),
        (ENUM, "0", "expected a number from 1 to 3, got '0'"),
        (ENUM, "\u0663", "expected a number from 1 to 3, got '\u0663'"),
        (ENUM, "9" * 5000, "expected a number from 1 to 3"),
        (TITLED, "Pear", "expected a number from 1 to 2, got 'Pear'"),
        ({**LIST, "minItems": 2}, "1", "1 chosen, the minimum is 2"),
        (STRANGE, "{}", "expected a number"),
        (STRANGE, "[" * 100_000, None),
    ],
)
def test_invalid_line_is_refused_with_the_reason(schema, typed, reason):
    if reason is None:
        assert field(schema).parse(typed) == typed  # the line stays text
        return
    with pytest.raises(ValueError) as caught:
        field(schema).parse(typed)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        (TEXT, "a", "a"),
        (TEXT, "", '""'),
        (TEXT, None, "(omitted)"),
        (TEXT, EVIL, SAFE),
        (INTEGER, 3, "3"),
        (NUMBER, 2.5, "2.5"),
        (BOOLEAN, True, "yes"),
        (BOOLEAN, False, "no"),
        (TITLED, "a", "Apple"),
        (LIST, ["q", "r"], "q, r"),
        (LIST, [], "(none)"),
        (STRANGE, ["u"], "u"),
    ],
)
def test_value_is_formatted_for_reading(schema, value, shown):
    assert field(schema).format(value) == shown


def test_empty_value_depends_on_the_field_type():
    assert field(TEXT).empty_value() == ""
    assert field(LIST).empty_value() == []
    with pytest.raises(ValueError, match="expected a number"):
        field(INTEGER).empty_value()


@pytest.mark.attack("S32")
@pytest.mark.rule("ELIC-15")
def test_field_text_is_escaped_and_contains_no_link():
    schema = {
        "type": "string",
        "title": EVIL,
        "description": EVIL,
        "oneOf": [{"const": EVIL, "title": EVIL}, {"const": EVIL + "2", "title": "t"}],
    }
    one = field(schema, EVIL)
    assert one.title == f"{SAFE} ({SAFE})"
    # Lines of the description stay lines, each marked as the server's.
    assert one.lines(200) == [
        "    | a\\x1b]0;x\\x07\\u202eb",
        "    | https[://]evil.example",
        f"    1  {SAFE}",
        f"    2  t  ({SAFE}2)",
    ]


def test_long_titles_and_descriptions_are_truncated():
    schema = {"type": "string", "title": "t" * 500, "description": "d" * 100_000}
    one = field(schema, "n" * 500)
    assert len(one.title) < 130
    lines = one.lines(80)
    assert len(lines) <= 60
    assert all(len(line) <= 80 for line in lines)


PAGE = {"mode": "url", "message": "m", "url": "https://example.com/a"}


@pytest.fixture
def attended(person, monkeypatch):
    """Return a function that makes handlers with a fake user at the terminal."""

    def make(*typed):
        monkeypatch.setattr(RequestHandlers, "_can_prompt", True)
        client = SimpleNamespace(protocol_version="2025-11-25", server_info=None)
        session = SimpleNamespace(
            options=Options(),
            output=Output(),
            signals=None,
            client=client,
            target="some-server",
        )
        handlers = RequestHandlers(session)
        handlers._terminal = person(*typed)
        return handlers

    return make


def required(data):
    return UrlElicitationRequired("x", code=-32042, data=data)


@pytest.mark.parametrize(
    ("typed", "retries"),
    [
        (("y", "", "r"), True),
        (("y", "", "what", "R"), True),
        (("y", "", "c"), False),
        (("y", "", None), False),
        (("d",), False),
        (("c",), False),
        ((None,), False),
    ],
)
async def test_call_is_retried_only_if_the_user_agrees(attended, typed, retries):
    handlers = attended(*typed)
    assert (
        await handlers.visit_required_urls(required({"elicitations": [PAGE]}))
        == retries
    )
    assert handlers._terminal.typed == []
    assert "The server* asks you to visit" in handlers._terminal.text


async def test_each_url_needs_its_own_consent(attended):
    handlers = attended("y", "", "d")
    assert not await handlers.visit_required_urls(
        required({"elicitations": [PAGE, PAGE, PAGE]})
    )
    assert handlers._terminal.text.count("  URL ") == 2


@pytest.mark.rule("ELIC-13")
@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"elicitations": []},
        {"elicitations": 3},
        {"elicitations": [3]},
        {"elicitations": [{**PAGE, "url": "https://user@example.com/"}]},
        {"elicitations": [{**PAGE, "url": "file:///etc/passwd"}]},
        {"elicitations": [{**PAGE, "url": "javascript:alert(1)"}]},
    ],
)
async def test_invalid_or_unsafe_urls_are_not_shown(attended, data):
    handlers = attended()
    assert not await handlers.visit_required_urls(required(data))
    assert handlers._terminal.shown == []


async def test_sampling_program_output_is_limited_in_size(monkeypatch, requester):
    import asyncio
    import sys

    from mcpwire import InternalError
    from mcpwire.cli import interactive as models
    from mcpwire.types import CreateMessageRequestParams, SamplingMessage, TextContent

    monkeypatch.setattr(models, "MAX_ANSWER_BYTES", 10)
    params = CreateMessageRequestParams([SamplingMessage("user", TextContent("x"))], 5)
    command = [sys.executable, "-S", "-c", "print('x' * 11)"]
    with pytest.raises(InternalError, match="too long"):
        await models.run_program(params, command, requester)
    endless = [sys.executable, "-S", "-c", "while True: print('x' * 10_000)"]
    async with asyncio.timeout(20):
        with pytest.raises(InternalError, match="too long"):
            await models.run_program(params, endless, requester)


def test_sampling_request_text_has_the_role_of_each_message():
    from mcpwire.cli.interactive import request_text
    from mcpwire.types import CreateMessageRequestParams, decode

    image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    messages = [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, image]},
    ]
    raw = {"messages": messages, "maxTokens": 5}
    params = decode(CreateMessageRequestParams, raw)
    assert request_text(params) == "user: a\nassistant: b\nassistant: [image]"
