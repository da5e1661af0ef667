"""Forms and URLs of elicitation: values that fit, defaults, refusals, warnings."""

import contextlib
import enum

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proportion import grows_in_proportion

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.elicitation import (
    UrlDescription,
    check_value,
    choice_titles,
    describe_url,
    fill_form,
    form_defaults,
    format_problem,
    url_problem,
)
from mcpwire.types import RequestedSchema, decode, encode
from mcpwire.versions import REVISIONS
from mcpwire.wire.urls import parse_url

JUN_2025, NOV_2025, LATEST = REVISIONS[2:]


def field(**members):
    form = {"type": "object", "properties": {"field": members}}
    return decode(RequestedSchema, form).properties["field"]


def form(properties, **more):
    return decode(RequestedSchema, {"type": "object", "properties": properties, **more})


def refusal(properties, content, revision=LATEST, **more):
    with pytest.raises(LocalProtocolError) as caught:
        fill_form(form(properties, **more), content, revision)
    return str(caught.value)


class Colour(str, enum.Enum):  # noqa: UP042 - whose `str()` is not its value
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


class FloatSubclass(float):
    pass


COLOURS = ["red", "green"]
OPTIONS = [{"const": "red", "title": "Red"}, {"const": "green", "title": "Green"}]
UNTITLED = {"type": "string", "enum": COLOURS}
LEGACY = {"type": "string", "enum": COLOURS, "enumNames": ["Red", "Green"]}
TITLED = {"type": "string", "oneOf": OPTIONS}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": COLOURS}}
SEVERAL_TITLED = {"type": "array", "items": {"anyOf": OPTIONS}}
ONE_OF_TWO = [UNTITLED, LEGACY, TITLED]
SOME_OF_TWO = [SEVERAL, SEVERAL_TITLED]
UNKNOWN = {"type": "object", "properties": {}}

# Valid and invalid values

VALID = [
    ({"type": "string"}, "", ""),
    ({"type": "string", "minLength": 2, "maxLength": 2}, "äö", "äö"),
    ({"type": "string", "maxLength": 1}, "\U0001f600", "\U0001f600"),
    ({"type": "string"}, Colour.RED, "red"),
    ({"type": "string", "format": "email"}, "a@b.c", "a@b.c"),
    ({"type": "string", "format": "colour"}, "red", "red"),
    ({"type": "string", "pattern": "^x"}, "y", "y"),
    ({"type": "number"}, 1.5, 1.5),
    ({"type": "number"}, 3, 3),
    ({"type": "number"}, 3.0, 3.0),
    ({"type": "number"}, FloatSubclass(1.5), 1.5),
    ({"type": "number", "minimum": 1, "maximum": 1}, 1, 1),
    ({"type": "integer"}, 3, 3),
    ({"type": "integer"}, 3.0, 3),
    ({"type": "integer"}, -0.0, 0),
    ({"type": "integer"}, 1e300, 1e300),
    ({"type": "integer"}, Size.SMALL, 1),
    ({"type": "boolean"}, False, False),
    *((kind, "red", "red") for kind in ONE_OF_TWO),
    *((kind, Colour.RED, "red") for kind in ONE_OF_TWO),
    *((kind, ["green", "red"], ["green", "red"]) for kind in SOME_OF_TWO),
    *((kind, (), []) for kind in SOME_OF_TWO),
    *(
        (kind | {"minItems": 1, "maxItems": 1}, ["red"], ["red"])
        for kind in SOME_OF_TWO
    ),
    *((UNKNOWN, value, value) for value in ("a", 1, 1.5, True, ["a"], [])),
]

INVALID = [
    ({"type": "string"}, 1, "expected text, got 1"),
    ({"type": "string"}, b"a", "expected text, got a value of type bytes"),
    ({"type": "string", "minLength": 2}, "a", "1 characters, the minimum is 2"),
    ({"type": "string", "maxLength": 1}, "ab", "2 characters, the maximum is 1"),
    ({"type": "string", "format": "email"}, "a", "'a' is not an email address"),
    ({"type": "string", "format": "uri"}, "a", "'a' is not an absolute URI"),
    ({"type": "string", "format": "date"}, "a", "'a' is not a date such as 2026-07-28"),
    ({"type": "string", "format": "date-time"}, "a", "'a' is not a time such as"),
    ({"type": "number"}, "1", "expected a number, got '1'"),
    ({"type": "number"}, True, "expected a number, got True"),
    ({"type": "number"}, float("nan"), "nan is not a number that can be sent"),
    ({"type": "integer"}, float("inf"), "inf is not a number that can be sent"),
    ({"type": "integer"}, 1.5, "1.5 is not an integer"),
    ({"type": "integer"}, False, "expected a number, got False"),
    ({"type": "number", "minimum": 2}, 1.5, "1.5 is below the minimum 2"),
    ({"type": "integer", "maximum": 120}, 200, "200 is above the maximum 120"),
    ({"type": "integer", "maximum": 1}, 10**60, "a huge int is above the maximum 1"),
    ({"type": "boolean"}, 1, "expected True or False, got 1"),
    ({"type": "boolean"}, "true", "expected True or False, got 'true'"),
    *((kind, "blue", "'blue' is not one of 'red', 'green'") for kind in ONE_OF_TWO),
    *((kind, "Red", "'Red' is not one of 'red', 'green'") for kind in ONE_OF_TWO),
    *((kind, 0, "expected text, got 0") for kind in ONE_OF_TWO),
    *((kind, ["blue"], "'blue' is not one of") for kind in SOME_OF_TWO),
    *((kind, "red", "expected a list of texts, got 'red'") for kind in SOME_OF_TWO),
    *((kind, [1], "expected text, got 1") for kind in SOME_OF_TWO),
    *(
        (kind | {"minItems": 1}, [], "0 chosen, the minimum is 1")
        for kind in SOME_OF_TWO
    ),
    *(
        (kind | {"maxItems": 0}, ["red"], "1 chosen, the maximum is 0")
        for kind in SOME_OF_TWO
    ),
    (UNKNOWN, {"a": 1}, "expected a number, got a value of type dict"),
    (UNKNOWN, [1], "expected text, got 1"),
    (UNKNOWN, float("nan"), "nan is not a number that can be sent"),
]


@pytest.mark.rule("ELIC-20")
@pytest.mark.parametrize(("schema", "value", "sent"), VALID)
def test_valid_value_is_sent_as_its_plain_type(schema, value, sent):
    checked = check_value(field(**schema), value)
    assert (type(checked), checked) == (type(sent), sent)


@pytest.mark.rule("ELIC-20")
@pytest.mark.parametrize(("schema", "value", "reason"), INVALID)
def test_invalid_value_is_refused(schema, value, reason):
    with pytest.raises(ValueError) as caught:
        check_value(field(**schema), value)
    assert str(caught.value).startswith(reason)
    message = refusal({"a": schema}, {"a": value})
    assert message.startswith(f"elicitation content.a: {reason}")


def test_error_does_not_repeat_a_long_list_of_choices():
    with pytest.raises(ValueError) as caught:
        check_value(field(type="string", enum=[f"{n}" * 99 for n in range(99)]), "x")
    assert len(str(caught.value)) < 500
    assert str(caught.value).endswith(", ...")


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 5)
    | st.sampled_from([0.5, 1.0, 2.5, -1.0])
    | st.sampled_from([*COLOURS, "", "a", "äö", "\U0001f600", "abc"])
    | st.lists(st.sampled_from([*COLOURS, "blue", 1]), max_size=3)
)
BOUNDS = st.none() | st.integers(0, 3)


def with_bounds(kind, low, high):
    names = {
        "string": ("minLength", "maxLength"),
        "number": ("minimum", "maximum"),
        "integer": ("minimum", "maximum"),
        "array": ("minItems", "maxItems"),
    }
    bounds = dict(zip(names.get(kind["type"], ()), (low, high), strict=False))
    if "enum" in kind or "oneOf" in kind:
        return kind
    return kind | {k: v for k, v in bounds.items() if v is not None}


KINDS = st.builds(
    with_bounds,
    st.sampled_from(
        [
            *({"type": kind} for kind in ("string", "number", "integer", "boolean")),
            *ONE_OF_TWO,
            *SOME_OF_TWO,
        ]
    ),
    BOUNDS,
    BOUNDS,
)


def fits(schema, value):
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@pytest.mark.rule("ELIC-20")
@given(KINDS, VALUES)
def test_a_field_accepts_exactly_what_json_schema_accepts(schema, value):
    try:
        checked = check_value(field(**schema), value)
    except ValueError:
        assert not fits(schema, value)
    else:
        assert fits(schema, value)
        assert checked == value


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        (UNTITLED, {"red": "red", "green": "green"}),
        (LEGACY, {"red": "Red", "green": "Green"}),
        (LEGACY | {"enumNames": ["Red"]}, {"red": "Red", "green": "green"}),
        (LEGACY | {"enumNames": None}, {"red": "red", "green": "green"}),
        (TITLED, {"red": "Red", "green": "Green"}),
        (SEVERAL, {"red": "red", "green": "green"}),
        (SEVERAL_TITLED, {"red": "Red", "green": "Green"}),
        ({"type": "string"}, {}),
        ({"type": "boolean"}, {}),
        (UNKNOWN, {}),
    ],
)
def test_choices_have_their_titles(schema, choices):
    assert choice_titles(field(**schema)) == choices
    assert list(choice_titles(field(**schema))) == list(choices)


DEFAULTS = [
    ({"type": "string"}, "x"),
    ({"type": "string"}, ""),
    ({"type": "number"}, 95.5),
    ({"type": "integer"}, 0),
    ({"type": "boolean"}, False),
    *((kind, "green") for kind in ONE_OF_TWO),
    *((kind, ["green"]) for kind in SOME_OF_TWO),
    *((kind, []) for kind in SOME_OF_TWO),
]


@pytest.mark.rule("ELIC-06")
@pytest.mark.parametrize(("schema", "default"), DEFAULTS)
def test_omitted_field_gets_its_default(schema, default):
    requested = form({"a": schema | {"default": default}}, required=["a"])
    filled = fill_form(requested, {}, LATEST)
    assert filled == {"a": default}
    assert type(filled["a"]) is type(default)
    assert form_defaults(requested) == {"a": default}


@pytest.mark.system("U35")
@pytest.mark.rule("ELIC-06")
def test_default_never_replaces_a_given_value():
    properties = {"a": {"type": "boolean", "default": True}}
    assert fill_form(form(properties), {"a": False}, LATEST) == {"a": False}


def test_field_set_to_none_is_left_out():
    properties = {"a": {"type": "string", "default": "x"}}
    assert fill_form(form(properties), {"a": None}, LATEST) == {}
    assert refusal(properties, {"a": None}, required=["a"]).endswith(
        "content.a: it is required"
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 2, "default": "x"},
        {"type": "integer", "default": 1.5},
        {"type": "integer", "maximum": 1, "default": 2},
        UNTITLED | {"default": "blue"},
        SEVERAL | {"default": ["blue"]},
        UNKNOWN | {"default": "x"},
        {"type": "string", "default": None},
    ],
)
def test_invalid_default_is_left_out(schema):
    assert form_defaults(form({"a": schema})) == {}
    assert fill_form(form({"a": schema}), {}, LATEST) == {}
    assert "it is required" in refusal({"a": schema}, {}, required=["a"])


# Lists exist since 2025-11-25


def test_lists_are_refused_before_2025_11_25():
    assert refusal({"a": SEVERAL}, {"a": ["red"]}, JUN_2025) == (
        "elicitation content.a: lists exist since 2025-11-25, not at 2025-06-18"
    )
    assert fill_form(form({"a": SEVERAL}), {"a": ["red"]}, NOV_2025) == {"a": ["red"]}


def test_list_defaults_are_left_out_before_2025_11_25():
    requested = form({"a": SEVERAL | {"default": ["red"]}})
    assert fill_form(requested, {}, JUN_2025) == {}
    assert fill_form(requested, {}, NOV_2025) == {"a": ["red"]}


@pytest.mark.rule("ELIC-20")
def test_a_required_field_must_be_there():
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    assert refusal(properties, {"a": "x"}, required=["a", "b"]) == (
        "elicitation content.b: it is required"
    )


def test_required_field_without_a_schema_is_checked_for_presence_only():
    assert "content.b: it is required" in refusal({}, {}, required=["b"])
    assert fill_form(form({}, required=["b"]), {"b": [" "]}, LATEST) == {"b": [" "]}


@pytest.mark.rule("ELIC-20")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("x", ".x"),
        ("odd name", "['odd name']"),
        ("", "['']"),
        (3, "[3]"),
        (None, "[None]"),
        ("x" * 41, f"[{'x' * 40 + '…'!r}]"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"additionalProperties": False}])
def test_unknown_field_is_refused(name, path, more):
    assert refusal({}, {name: "v"}, **more) == (
        f"elicitation content{path}: the form has no such field"
    )


@pytest.mark.parametrize("allowed", [True, {}, {"type": "string"}])
def test_a_form_may_allow_further_fields(allowed):
    requested = form({}, additionalProperties=allowed)
    assert fill_form(requested, {"x": "v"}, LATEST) == {"x": "v"}
    assert "content[3]: the form has no" in refusal(
        {}, {3: "v"}, additionalProperties=allowed
    )
    assert "content.x: expected a number" in refusal(
        {}, {"x": {}}, additionalProperties=allowed
    )


def test_content_is_sent_in_the_order_of_the_form():
    properties = {"b": {"type": "string", "default": "x"}, "a": {"type": "string"}}
    requested = form(properties, additionalProperties=True)
    content = {"z": "3", "a": "1"}
    assert list(fill_form(requested, content, LATEST)) == ["b", "a", "z"]
    assert content == {"z": "3", "a": "1"}


NAMES = st.sampled_from(["a", "b", "c", "d"])
FORMS = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    },
    st.dictionaries(NAMES, KINDS, max_size=4),
    st.lists(NAMES, max_size=2, unique=True),
)


@pytest.mark.rule("ELIC-20")
@given(FORMS, st.dictionaries(NAMES, VALUES.filter(lambda v: v is not None)))
def test_sent_content_fits_the_form_as_json_schema_reads_it(schema, content):
    # No content fits a form that requires a field it does not have.
    schema["required"] = [n for n in schema["required"] if n in schema["properties"]]
    try:
        filled = fill_form(decode(RequestedSchema, schema), content, LATEST)
    except LocalProtocolError:
        assert not fits(schema, content)
    else:
        assert fits(schema, filled)
        assert filled == content


DEFAULTED = st.dictionaries(
    NAMES,
    st.sampled_from([kind | {"default": value} for kind, value in DEFAULTS])
    | st.builds(
        lambda low: {"type": "string", "minLength": low, "default": "ab"},
        st.integers(0, 4),
    ),
)


@pytest.mark.rule("ELIC-06")
@given(DEFAULTED, st.sampled_from(REVISIONS[2:]))
def test_applied_defaults_fit_the_form_and_filling_is_idempotent(properties, revision):
    requested = form(properties)
    filled = fill_form(requested, {}, revision)
    assert fits(encode(requested), filled)
    assert fill_form(requested, filled, revision) == filled
    assert filled.items() <= {n: p["default"] for n, p in properties.items()}.items()


ANYTHING = st.recursive(
    VALUES | st.binary() | st.floats() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    max_leaves=4,
)


@given(FORMS, st.dictionaries(NAMES | st.integers() | st.none(), ANYTHING))
def test_any_handler_content_is_sent_as_plain_types_or_refused(schema, content):
    filled = {}
    with contextlib.suppress(LocalProtocolError):
        filled = fill_form(decode(RequestedSchema, schema), content, LATEST)
    assert {type(value) for value in filled.values()} <= {str, int, float, bool, list}


FITTING = {
    "email": [
        "a@b",
        "ada@example.com",
        "ada.lovelace+x@mail.example.com",
        "!#$%&'*+/=?^_`{|}~-@example.com",
        "x" * 64 + "@example.com",
        "1@2.3",
    ],
    "uri": [
        *("https://example.com/a?b=c#d", "mailto:ada@example.com"),
        *("urn:isbn:0451450523", "file:///home", "tel:+1-816", "http://[::1]:80/%20"),
        *("a:", "A+b-c.1:x"),
    ],
    "date": ["2026-07-28", "2024-02-29", "0001-01-01", "9999-12-31"],
    "date-time": [
        *("2026-07-28T12:00:00Z", "2026-07-28t12:00:00z"),
        *("2026-07-28T23:59:59.123456789+00:00", "2026-07-28T00:00:00-23:59"),
        *("1998-12-31T23:59:60Z", "1998-12-31T15:59:60.123-08:00"),
        "1999-01-01T08:59:60+09:00",
    ],
}

UNFIT = {
    "email": [
        *("", "a", "@", "a@", "@b", "a@b@c", "a b@c", "a@b c", ".a@b", "a.@b"),
        *("a..b@c", "a@.b", "a@b.", "a@b..c", "a@-b", "a@b-", "a@b_c", "ä@example.com"),
        *("a@exämple.com", '"a b"@example.com', "a@[127.0.0.1]", "a@b\n"),
        *(" a@b", "Ada <a@b>"),
        "x" * 65 + "@example.com",
        "a@" + "b." * 127 + "c",
        "a@" + "b" * 64,
    ],
    "uri": [
        *("", "example.com", "/path", "//example.com", "?q", "#f", ":a", "1a:b"),
        *("a b:c", "https://example.com/a b", "https://example.com/ä"),
        *("https://example.com/%", "https://example.com/%zz"),
        *("https://example.com/#a#b", "https://example.com/<x>"),
        *("https://example.com/\\", "https://example.com/\n"),
        *('https://example.com/"', "https://example.com/{a}"),
    ],
    "date": [
        *("", "2026-7-28", "2026-07-28 ", "20260728", "2026-W31-2", "2026-209"),
        *("2026-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-04-31"),
        *("0000-01-01", "12026-01-01", "-026-01-01", "2026/07/28"),
        *("2026-07-28T00:00:00Z", "\uff12\uff10\uff12\uff16-07-28", "2026-07-28\n"),
    ],
    "date-time": [
        *("", "2026-07-28", "2026-07-28T12:00:00", "2026-07-28 12:00:00Z"),
        *("2026-07-28T12:00Z", "2026-07-28T12Z", "2026-07-28T24:00:00Z"),
        *("2026-07-28T12:60:00Z", "2026-07-28T12:00:61Z", "2026-07-28T12:00:00.Z"),
        *("2026-07-28T12:00:00,5Z", "2026-07-28T12:00:00+24:00"),
        *("2026-07-28T12:00:00+0100", "2026-07-28T12:00:00+01"),
        *("2026-07-28T12:00:00+01:60", "2026-02-30T12:00:00Z", "1998-12-31T23:58:60Z"),
        *("1998-12-31T22:59:60Z", "1998-12-31T23:59:60+01:00"),
        *("1998-12-31T23:59:60-01:00", "2026-07-28T12:00:00Z\n"),
        "\uff12026-07-28T12:00:00Z",
    ],
}


def cases(table):
    return [(format, text) for format, texts in table.items() for text in texts]


@pytest.mark.parametrize(("format", "text"), cases(FITTING))
def test_valid_text_passes_its_format(format, text):
    assert format_problem(text, format) is None


@pytest.mark.parametrize(("format", "text"), cases(UNFIT))
def test_invalid_text_is_refused_with_the_format_name(format, text):
    expected = format_problem(text, format)
    assert expected is not None
    assert expected.startswith(("a ", "an "))


@pytest.mark.parametrize("format", [None, "", "uuid", "idn-email", "EMAIL"])
def test_unknown_format_is_not_checked(format):
    assert format_problem("anything", format) is None


LONG = [
    lambda size: "a" * size,
    lambda size: "a." * (size // 2),
    lambda size: "a@" + "a-" * (size // 2),
    lambda size: "0" * size,
    lambda size: "a:" + "%20" * (size // 3) + " ",
    lambda size: "2026-07-28T12:00:00." + "0" * size,
]


@pytest.mark.parametrize("format", FITTING)
@pytest.mark.parametrize("text", LONG, ids=range(6))
def test_long_texts_take_linear_time(format, text):
    """Our choice: a quadratic check would take minutes here."""
    assert grows_in_proportion(lambda text: format_problem(text, format), text, 200_000)


@given(st.datetimes(timezones=st.timezones()))
def test_isoformat_of_python_datetimes_is_valid(moment):
    offset = moment.utcoffset()
    text = moment.isoformat()
    if offset.total_seconds() % 60 == 0:
        assert format_problem(text, "date-time") is None
    assert format_problem(moment.date().isoformat(), "date") is None


# The URLs that an elicitation asks a user to visit...


SAFE = [
    *("https://example.com", "https://mcp.example.com/connect?x=1&y=%20#z"),
    *("HTTPS://EXAMPLE.COM:8443/", "https://xn--80ak6aa92e.com/"),
    *("https://192.168.1.1/", "https://[2001:db8::1]/", "http://localhost:3000/cb"),
    *("http://127.0.0.1/", "http://[::1]:9/"),
    *("http://app.localhost/", "https://example.com/a&calc&b"),
]

HOSTILE = [
    *("", " ", "example.com", "//example.com/", "https:/example.com"),
    *("javascript:alert(1)", "JavaScript:alert(1)"),
    *("javascript://example.com/%0aalert(1)", "java\nscript:alert(1)"),
    *("\x01javascript:alert(1)", "data:text/html,<script>1</script>"),
    *("data:text/html;base64,PGI+", "file:///etc/passwd", "file://server/share"),
    *("smb://server/share", "search-ms:query=x&crumb=location:\\\\server"),
    *("ms-msdt:/id", "vbscript:msgbox(1)", "ftp://example.com/", "ws://example.com/"),
    *("intent://x#Intent;end", "about:blank", "blob:https://example.com/1"),
    *("jar:https://example.com/a!/b", "ui://app/1"),
    "x" * 40 + "://example.com/",
    *("https://user@example.com/", "https://user:secret@example.com/"),
    *("https://@example.com/", "https://example.com@evil.example/"),
    *("https://example.com\\@evil.example/", "https:\\\\example.com\\"),
    *("https://example.com/\t", "https://example.com/\0", "https://exa\u200bmple.com/"),
    *("https://example.com/\u202egnp.exe", "https://ex\u0430mple.com/"),
    *("https://example.com/%COMSPEC%", "https://example.com/%"),
    *("https://example.com/^a", "https://example.com/{a}", "https://example.com:0/"),
    *("https://[fe80::1%25eth0]/", "https://256.256.256.256/"),
    "https://example.com/" + "a" * 8192,
    "http://example.com/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://localhost.example.com/",
    "http://0.0.0.0/",
]


@pytest.mark.parametrize("url", SAFE)
def test_safe_url_has_no_problem(url):
    assert url_problem(url) is None
    assert describe_url(url)


@pytest.mark.attack("S04")
@pytest.mark.attack("S28")
@pytest.mark.parametrize("url", HOSTILE)
def test_hostile_url_is_refused_with_a_short_printable_message(url):
    problem = url_problem(url)
    assert problem is not None
    assert problem.startswith("url: ")
    assert len(problem) < 400
    assert problem.isprintable()
    assert problem.isascii()
    assert "secret" not in problem


@pytest.mark.parametrize("length", [8192, 8193])
def test_url_is_limited_to_8_kib(length):
    url = "https://example.com/".ljust(length, "a")
    assert (url_problem(url) is None) is (length == 8192)


@pytest.mark.parametrize("url", ["http://example.com/", "http://10.0.0.1:8080/"])
def test_plain_http_must_be_enabled(url):
    assert url_problem(url) == (
        f"url: {url.rstrip('/')} must be https, as it is not this machine"
    )
    assert url_problem(url, plain_http=True) is None
    assert url_problem("ftp" + url.removeprefix("http"), plain_http=True) is not None


@pytest.mark.rule("ELIC-15")
def test_plain_url_is_described_without_warnings():
    assert describe_url("https://Example.COM/a?b") == UrlDescription(
        host="example.com",
        unicode_host="example.com",
        port=443,
        is_https=True,
        is_punycode=False,
        warnings=(),
    )


APPLE = "\u0430\u0440\u0440\u04cf\u0435.com"  # all letters are Cyrillic
PUNYCODE = "the host has letters that look like others"
MIXED = "the host mixes letters of different scripts"
HTTP = "plain http: everyone on the network path can read and change all of it"
BARE = "the host is a bare address"
HERE = "it points to this machine"


@pytest.mark.rule("ELIC-15")
@pytest.mark.parametrize(
    ("url", "shown", "warnings"),
    [
        ("https://xn--80ak6aa92e.com/", APPLE, (PUNYCODE,)),
        ("https://XN--80AK6AA92E.com/", APPLE, (PUNYCODE,)),
        ("https://a.xn--bcher-kva.example/", "a.bücher.example", (PUNYCODE,)),
        ("https://xn--pypal-4ve.com/", "p\u0430ypal.com", (PUNYCODE, MIXED)),
        ("https://xn--r8jz45g.jp/", "例え.jp", (PUNYCODE,)),
        # Invalid punycode, and a label that would reverse the text after it.
        ("https://xn--9999999999999.com/", "xn--9999999999999.com", (PUNYCODE,)),
        ("https://xn--abc-7q0a.com/", "xn--abc-7q0a.com", (PUNYCODE,)),
        ("https://xn--ab-r13a.com/", "xn--ab-r13a.com", (PUNYCODE,)),
        ("https://xn--abc-8n0a.com/", "xn--abc-8n0a.com", (PUNYCODE,)),
        ("https://xn--a.b-9ya/", "xn--a.b-9ya", (PUNYCODE,)),
        ("http://example.com/", "example.com", (HTTP,)),
        ("https://1.2.3.4/", "1.2.3.4", (BARE,)),
        ("https://0x01020304/", "1.2.3.4", (BARE,)),
        ("https://[2001:db8::1]/", "2001:db8::1", (BARE,)),
        ("http://127.1:80/", "127.0.0.1", (HERE,)),
        ("https://localhost/", "localhost", (HERE,)),
        (
            "https://example.com:444/",
            "example.com",
            ("the port is 444, which is unusual",),
        ),
        ("http://[::1]:443/", "::1", (HERE, "the port is 443, which is unusual")),
    ],
)
def test_unusual_parts_of_a_url_are_warned_about(url, shown, warnings):
    description = describe_url(url)
    assert description.unicode_host == shown
    assert description.warnings == warnings
    assert description.is_punycode is (PUNYCODE in warnings)
    assert description.is_https is url.lower().startswith("https")
    assert description.host == parse_url(url).host
    assert description.port == parse_url(url).port


@pytest.mark.parametrize("url", ["javascript:1", "https://a@b/", "nothing"])
def test_unsafe_url_is_not_described(url):
    with pytest.raises(ValueError, match=r"^cannot use URL"):
        describe_url(url)


@given(st.from_regex(r"xn--[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True))
def test_shown_host_is_printable_and_keeps_its_labels(label):
    shown = describe_url(f"https://{label}.com/").unicode_host
    assert shown.isprintable()
    assert shown.count(".") == 1
