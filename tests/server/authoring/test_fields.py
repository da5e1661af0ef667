"""Field attributes from annotations of several libraries."""

import re

import annotated_types
import msgspec
import pydantic
import pytest

from mcpwire.server.authoring.schemas import Arg, attributes_of, check_pattern


class Doc:
    documentation = "What for"


@pytest.mark.parametrize(
    ("metadata", "facts"),
    [
        ([], {}),
        (["What for"], {"description": "What for"}),
        ([Arg("What for", ge=1)], {"description": "What for", "ge": 1}),
        ([Arg(ge=0, header="N")], {"ge": 0, "header": "N"}),
        ([annotated_types.Interval(ge=1, lt=3)], {"ge": 1, "lt": 3}),
        ([annotated_types.Len(1, 2)], {"min_length": 1, "max_length": 2}),
        ([annotated_types.Predicate(str.isdigit)], {}),
        ([msgspec.Meta(title="T", examples=[1])], {"title": "T", "examples": [1]}),
        (
            [pydantic.Field(ge=1, pattern="a", description="D")],
            {"ge": 1, "pattern": "a", "description": "D"},
        ),
        ([Doc()], {"description": "What for"}),
        (["first", "second"], {"description": "second"}),
        ([object(), 3, None, int, len], {}),
    ],
)
def test_known_metadata_is_read_and_the_rest_is_ignored(metadata, facts):
    assert attributes_of(metadata) == facts


def test_arg_description_is_the_first_argument():
    assert Arg("What for").description == "What for"
    with pytest.raises(TypeError):
        Arg("What for", "more")


@pytest.mark.attack("X12")
@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a*)*",
        "^(?:[a-z]+)*$",
        "((ab)*)*",
        "((a+))+",
        "(a|b+)*",
        "(?P<x>a+){2,}",
        "(?i:a+)*",
        "(a+)*?",
        "(a{2,})*",
        "(a{,})+",
        "([]a]+)*",
        r"(\x41+)*",
        r"(a)(\1*)*",
        "(x(a+)y)*",
        "(?=(a+)*)x",
        r"(\w+\w)*",  # the end can match the middle as well
        "(.*,)*",
        "(-a*-?)*",
        "(-a*a*)*",
        "(a+b)*(a+)*",
    ],
)
def test_pattern_with_nested_unbounded_repeats_is_refused(pattern):
    re.compile(pattern)
    with pytest.raises(TypeError) as caught:
        check_pattern(pattern)
    assert str(caught.value).startswith(f"the pattern {pattern!r} repeats ")


@pytest.mark.attack("X12")
@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a+",
        "^(a+)?$",
        "(a+){2,5}",
        "(a{2})*",
        "(a{x}+b)*",
        r"\(a+\)*",
        "[(a+)]*",
        r"^\d{4}-\d{2}$",
        r"^(?=.*[A-Z])(?=.*\d).+$",
        r"(a)\1*",
        "(?#a+)b*",
        "(a++)+",
        "(?>a+)*",
        "((?>a+))*",
        "(a+)*+",
        "^[a-z]+(-[a-z]+)*$",  # the hyphens can match in one way only
        r"(?i)([a-z]+\.)+[a-z]+",
        "(/[^/]+)*",
        "(a[bc]d+)*",
    ],
)
def test_pattern_with_unambiguous_repeats_is_accepted(pattern):
    re.compile(pattern)
    check_pattern(pattern)


def test_pattern_refusal_suggests_a_limit():
    with pytest.raises(TypeError) as caught:
        check_pattern("^x(a+b?)*")
    assert str(caught.value) == (
        "the pattern '^x(a+b?)*' repeats '(a+b?)' without limit and in it 'a+', which "
        "can take exponential time: limit one of them, such as {0,20}"
    )
