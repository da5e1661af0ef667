"""Arguments are converted to the parameter types, or refused with a reason."""

import datetime as dt
import pickle
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import attrs
import jsonschema_rs
import pydantic
import pytest
from hinted import (
    Bounded,
    BoundedNode,
    Box,
    Checked,
    Color,
    Couple,
    Dog,
    Envelope,
    Even,
    Id,
    Items,
    Labelled,
    Lower,
    Marked,
    Model,
    Named,
    Node,
    Numbers,
    OptionalStep,
    Options,
    Page,
    Pages,
    Pair,
    Parsed,
    Pet,
    Point,
    Qualified,
    Rights,
    Shown,
    Step,
    Struct,
    Tagged,
    Validated,
    Words,
    parameters,
    schema_of,
)
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import ToolError
from mcpwire.server.authoring.conversion import format_location
from mcpwire.server.authoring.schemas import Arg
from mcpwire.server.authoring.signature import BadArguments, choices_of, read_signature

IMAGE = {"type": "image", "data": "eA==", "mimeType": "image/png"}
PICTURE = types.ImageContent("eA==", "image/png")


@pytest.mark.parametrize(
    ("hint", "sent", "made"),
    [
        (int, 3, 3),
        (int, 3.0, 3),
        (list[int], [1, 2.0], [1, 2]),
        (float, 3, 3.0),
        (str, "", ""),
        (Any, {"x": [1.0]}, {"x": [1.0]}),
        (bytes, "eA==", b"x"),
        (Path, "a/b", Path("a/b")),
        (dict[int, str], {"1": "x"}, {1: "x"}),
        (tuple[int, str], [1, "x"], (1, "x")),
        (set[int], [1, 1], {1}),
        (Color, "red", Color.RED),
        (Rights, 5, Rights.READ | Rights.RUN),
        (Literal["a", 1], 1, 1),
        (Literal["a", None], None, None),  # noqa: PYI061
        (dt.date, "2026-07-28", dt.date(2026, 7, 28)),
        (Id, 7, 7),
        (Point, {"x": 1}, Point(1)),
        (Point, {"x": 1.0}, Point(1)),
        (Bounded, {"x": 1, "color": "blue"}, Bounded(1, Color.BLUE)),
        (Named, {"name": "n", "_size": 2}, Named("n", 2)),
        (Options, {"b": "x"}, {"b": "x"}),
        (Marked, {}, {}),
        (Page[int], {"items": [1], "next": {"items": []}}, Page([1], Page([]))),
        (Pages[int], {"items": [{"items": [1]}]}, Pages([Page([1])])),
        (Numbers, {"items": [1]}, Numbers([1])),
        (Envelope[int], {"item": 1}, Envelope(1)),
        *((kind, [1], Pair(1)) for kind in (Pair, Parsed)),
        (Struct, {"a": 1}, Struct(1)),
        (Model, {"n": 1, "day": "2026-07-28"}, Model(n=1, day="2026-07-28")),
        (Model, {"n": 1.0}, Model(n=1)),
        (dict[str, list[Model]], {"x": [{"n": 1}]}, {"x": [Model(n=1)]}),
        (Validated, {"n": 1}, Validated(1)),
        (Even, 3, 2),
        (Words, "a b", ["a", "b"]),
        (Lower, "ABC", "abc"),
        (pydantic.Base64Str, "eA==", "x"),
        (Pet, {"kind": "dog", "lives": 1}, Dog(kind="dog", lives=1)),
        (Point | Named, {"name": "n"}, Named("n")),
        (Point | Named | None, None, None),
        (Annotated[int | None, Arg(ge=18)], None, None),
        *((Step, number, number) for number in (0, 0.3, 0.7, 3, -1e300)),
        *(
            (hint, value, value)
            for hint in (
                Annotated[Step | str | None, Arg(ge=0, max_length=2)],
                Annotated[OptionalStep | str, Arg(ge=0, max_length=2)],
                Annotated[float | str | None, Arg(multiple_of=0.1, max_length=2)],
            )
            for value in ("a", 0.3, None)
        ),
        (Annotated[Step, Arg(ge=0)], 0.3, 0.3),
        (types.ImageContent, IMAGE, PICTURE),
        (Shown, {"image": IMAGE}, Shown(PICTURE)),
        (Struct | Tagged, {"type": "Tagged", "image": IMAGE}, Tagged(PICTURE)),
        (
            list[types.ContentBlock],
            [{**IMAGE, "_meta": {"a/b": 1}, "new": 2}],
            [attrs.evolve(PICTURE, meta={"a/b": 1}, extra={"new": 2})],
        ),
    ],
)
def test_valid_argument_is_converted(hint, sent, made):
    assert parameters(hint).convert({"a": sent}) == {"a": made}


@pytest.mark.parametrize(
    ("hint", "sent", "fault"),
    [
        (int, "3", "a: expected integer, got string '3'"),
        (int, True, "a: expected integer, got true"),
        (int, 1.5, "a: expected integer, got number 1.5"),
        (int, None, "a: expected integer, got null"),
        (str, 3, "a: expected string, got number 3"),
        (str, 2**400, "a: expected string, got a huge number"),
        (bool, "true", "a: expected boolean, got string 'true'"),
        (int | None, {}, "a: expected integer or null, got object"),
        (list[int], [1, "x"], "a[1]: expected integer, got string 'x'"),
        (dict[str, int], {"x y": "z"}, "a[...]: expected integer"),
        (Point, {"x": "z"}, "a.x: expected integer, got string 'z'"),
        (
            types.ImageContent,
            {**IMAGE, "mimeType": 1},
            "a.mimeType: expected string, got number 1",
        ),
        (
            types.ImageContent,
            {**IMAGE, "type": "text"},
            "a.type: expected one of the allowed values, got string 'text'",
        ),
        (Point, {}, "a.x is missing"),
        (Point, [], "a: expected object, got array"),
        (Tagged, {"type": "x"}, "a.type: invalid value 'x', got string 'x'"),
        (Point, {"x": 1, "new": 2}, "a: unknown member 'new'"),
        (Pages[int], {"items": ["x"]}, "a.items[0]: expected object, got string 'x'"),
        (
            Numbers,
            {"items": [], "next": {"items": ["x"]}},
            "a.next.items[0]: expected integer, got string 'x'",
        ),
        (
            Numbers,
            {"items": [1, 2, 3]},
            "a.items: expected array of length <= 2, got array",
        ),
        (
            Box[Annotated[int, Arg(le=9)]],
            {"inner": 10},
            "a.inner: expected integer <= 9, got number 10",
        ),
        (Labelled, {"inner": 0}, "a.inner: expected integer >= 1, got number 0"),
        (Couple[int], ["x"], "a[0]: expected integer, got string 'x'"),
        (Envelope[int], {"item": "x"}, "a.item: expected integer, got string 'x'"),
        (
            Annotated[Items[Items[int]], Arg(max_length=1)],
            [["x"]],
            "a[0][0]: expected integer, got string 'x'",
        ),
        (Named, {"name": "n", "new": 2}, "a: unknown member 'new'"),
        (Options, {"b": "x", "new": 2}, "a: unknown member 'new'"),
        (Bounded, {"x": 1, "new": 2}, "a: unknown member 'new'"),
        (dict[str, list[Point]], {"": [{"new": 2}]}, "a[...][0]: unknown member 'new'"),
        (list[Node], [{"next": {"new": 1}}], "a[0].next: unknown member 'new'"),
        (Point | Named, {"x": 1, "new": 2}, "a: expected Point or Named, got object"),
        (Checked, {"size": 3}, "a: 'size' must be in [1, 2] (got 3), got object"),
        (Color, "green", "a: expected one of 'red', 'blue', got string 'green'"),
        (
            list[Color],
            ["x"],
            "a[0]: expected one of the allowed values, got string 'x'",
        ),
        (Literal["a"] | None, "b", "a: expected one of 'a', got string 'b'"),
        (Pair, [-1], "a[0]: expected integer >= 0, got number -1"),
        (Pair, [], "a: expected array of at least length 1, got 0, got array"),
        (Pair, [1, "x", 2], "a: expected array of at most length 2, got 3, got array"),
        (Pair | int | None, [-1], "a[0]: expected integer >= 0, got number -1"),
        (Pair | Model, [], "a: expected array of at least length 1, got 0, got array"),
        (Model | int, {}, "a.n: field required"),
        (Pair | list[Path | int], [[]], "a: expected Pair or array, got array"),
        (int | list[Path | int], [[]], "a[0]: expected Path or integer, got array"),
        (Annotated[int, Arg(ge=1)], 0, "a: expected integer >= 1, got number 0"),
        (Qualified, {"a": 0}, "a.a: expected integer >= 1, got number 0"),
        *(
            (hint, n, f"a: expected number that's a multiple of 0.1, got number {n}")
            for hint in (Step, Step | str, OptionalStep)
            for n in (0.35, float("inf"))
        ),
        (Annotated[Step, Arg(le=1)], 2, "a: expected number <= 1.0, got number 2"),
        (
            Annotated[str, Arg(min_length=1)],
            "",
            "a: expected string of length >= 1, got string ''",
        ),
        pytest.param(
            Annotated[str, Arg(pattern="^a")],
            "b" * 1_025,
            f"a: expected string of length <= 1024, got string {'b' * 100 + '…'!r}",
            marks=pytest.mark.attack("X12"),
        ),
        (list[Bounded], [{"x": -1}], "a[0].x: expected integer >= 0, got number -1"),
        (list[BoundedNode], [{}], "a[0].value is missing"),
        (Bounded, {"x": -1}, "a.x: expected integer >= 0, got number -1"),
        (dt.date, "soon", "a: invalid RFC3339 encoded date, got string 'soon'"),
        (Path, 3, "a: expected a path as text, got number 3"),
        (Model, {"n": "x"}, "a.n: input should be a valid integer, got string 'x'"),
        (list[Model], [{}], "a[0].n: field required"),
        (
            Lower,
            "AAAA",
            "a: string should have at most 3 characters, got string 'AAAA'",
        ),
        (Pet, {"kind": "cat"}, "a.cat.lives: field required"),
        (
            pydantic.UUID4,
            str(UUID(int=0)),
            f"a: uUID version 4 expected, got string '{UUID(int=0)}'",
        ),
        (Validated, {"n": 0}, "a.n: input should be greater than 0, got number 0"),
        (Point | Named, 5, "a: expected Point or Named, got number 5"),
        (PurePosixPath, [], "a: expected a path as text, got array"),
    ],
)
@pytest.mark.rule("TOOL-18")
def test_invalid_argument_error_has_location_and_value(hint, sent, fault):
    with pytest.raises(BadArguments) as caught:
        parameters(hint).convert({"a": sent})
    assert caught.value.faults == (fault,)
    assert isinstance(caught.value, ToolError)


@pytest.mark.parametrize("hint", [set, frozenset[Any]])
@pytest.mark.rule("TOOL-18")
def test_array_or_object_in_a_set_is_an_invalid_argument(hint):
    for item in ([1], {}):
        with pytest.raises(BadArguments, match="a: a set must not contain arrays"):
            parameters(hint).convert({"a": [item]})


def several(a: int, b: str, c: float = 1.0, d: bool = False): ...  # noqa: FBT001, FBT002 - as users do


SEVERAL = read_signature(several).parameters


def test_every_invalid_argument_is_reported():
    with pytest.raises(BadArguments) as caught:
        SEVERAL.convert({"a": "x", "c": "y", "zz": 1})
    assert caught.value.faults == (
        "a: expected integer, got string 'x'",
        "c: expected number, got string 'y'",
        "unknown argument 'zz', there are a, b, c, d",
        "b is missing",
    )
    assert str(caught.value) == "; ".join(caught.value.faults)


def test_length_of_the_error_message_is_bounded():
    sent = {f"{'x' * 5_000}{number}": number for number in range(200)}
    with pytest.raises(BadArguments) as caught:
        SEVERAL.convert({**sent, "b": 1, "a": "y" * 100_000})
    assert "and 182 more" in str(caught.value)
    assert len(str(caught.value)) < 5_000


@pytest.mark.parametrize(
    "sent", [{"a": {"value": 1, "next": {"value": "x"}}}, {"a": {"value": "y" * 5_000}}]
)
def test_error_deep_inside_a_value_is_short(sent):
    with pytest.raises(BadArguments) as caught:
        parameters(Node).convert(sent)
    assert len(str(caught.value)) < 300


def test_formatted_location_is_short():
    path = ["x" * 300, 3] * 50
    assert len(format_location("a" * 300, path)) < 300
    assert len(format_location("a", ["b" * 50] * 50)) < 300


def test_bad_arguments_can_be_pickled():
    error = BadArguments(["a: wrong", "b: wrong"])
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.faults, str(copy)) == (error.faults, str(error))


@pytest.mark.attack("S14")
def test_too_deeply_nested_value_is_bad_arguments():
    deep = {"value": 1}
    for _ in range(50_000):
        deep = {"value": 1, "next": deep}
    with pytest.raises(BadArguments, match="a: nested too deeply"):
        parameters(Node).convert({"a": deep})
    while deep:  # so that freeing it does not recurse
        deep = deep.pop("next", None)


@pytest.mark.attack("S14")
def test_value_too_deep_for_pydantic_is_bad_arguments():
    deep = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(BadArguments, match="nested deeper than"):
        parameters(Model).convert({"a": {"n": deep}})


def test_coercion_converts_strings_to_other_types():
    coerced = read_signature(several, coerce=True).parameters
    sent = {"a": "3", "b": "x", "c": "1.5", "d": "true"}
    assert coerced.convert(sent) == {"a": 3, "b": "x", "c": 1.5, "d": True}
    with pytest.raises(BadArguments, match="a: expected integer"):
        coerced.convert({**sent, "a": "three"})
    with pytest.raises(BadArguments, match=r"^a\[1\]: expected integer$"):
        parameters(list[int], coerce=True).convert({"a": '[1, "x"]'})
    assert parameters(Model, coerce=True).convert({"a": '{"n": "3"}'})["a"].n == 3
    assert parameters(Bounded, coerce=True).convert({"a": {"x": "3"}})["a"].x == 3
    assert parameters(Point | Named, coerce=True).convert({"a": {"x": "3"}})["a"].x == 3


def test_default_is_the_same_object():
    default = [1]
    assert parameters(list[int], default).convert({})["a"] is default


@pytest.mark.parametrize(
    ("hint", "text", "made"),
    [
        (str, "3", "3"),
        (Step | str, "3", "3"),
        (int, "3", 3),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (int | None, "3", 3),
        (Color, "red", Color.RED),
        (dt.date, "2026-07-28", dt.date(2026, 7, 28)),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"x": 1}', {"x": 1}),
        (Point, '{"x": 1}', Point(1)),
        (list[str], ["a", "b"], ["a", "b"]),
    ],
)
def test_strings_are_converted_to_the_parameter_types(hint, text, made):
    assert parameters(hint).convert_strings({"a": text}) == {"a": made}


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        ({"a": "three", "b": ""}, "a: expected integer, got string 'three'"),
        ({"a": "3"}, "b is missing"),
        ({"a": "3", "b": "", "zz": ""}, "unknown argument 'zz', there are a, b, c, d"),
        ({"a": "[1]", "b": ""}, "a: expected integer, got string '[1]'"),
    ],
)
def test_invalid_strings_are_reported(sent, fault):
    with pytest.raises(BadArguments) as caught:
        SEVERAL.convert_strings(sent)
    assert caught.value.faults == (fault,)


@pytest.mark.parametrize(
    ("hint", "choices"),
    [
        (Literal["b", "a"], ["b", "a"]),
        (Literal[1, True], ["1", "true"]),
        (Color | None, ["red", "blue"]),
        (bool, ["true", "false"]),
        (Annotated[Literal["a", "b"], "x"], ["a", "b"]),
        (str, None),
        (Color | str, None),
    ],
)
def test_choices_come_from_the_type_hint(hint, choices):
    assert choices_of(schema_of(hint)) == choices


# --- invariants

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
HINTS = [int, str, Point, Bounded, Model, Options, Point | Named, list[Color], Node]
EACH = {hint: parameters(hint) for hint in HINTS[:6]}


@given(st.sampled_from(list(EACH)), JSON)
def test_random_value_is_converted_or_reported(hint, sent):
    try:
        made = EACH[hint].convert(sent)
    except BadArguments as error:
        made = error
    if isinstance(made, BadArguments):
        assert made.faults
        assert len(str(made)) < 10_000
    else:
        assert set(made) == {"a"}


VALUES = st.fixed_dictionaries(
    {"a": st.integers(-9, 9), "b": st.text(max_size=3)},
    optional={"c": st.floats(allow_nan=False, allow_infinity=False)},
)


@given(VALUES)
def test_values_valid_by_the_schema_are_converted(sent):
    jsonschema_rs.validate(SEVERAL.schema, sent)
    assert SEVERAL.convert(sent) == {"c": 1.0, "d": False, **sent}
