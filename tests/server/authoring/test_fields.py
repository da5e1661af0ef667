"""What annotations say, whoever's words they use."""

import annotated_types
import msgspec
import pydantic
import pytest

from mcpwire.server.authoring.fields import Arg, facts_of


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
def test_what_is_known_is_read_and_the_rest_passed_over(metadata, facts):
    assert facts_of(metadata) == facts


def test_the_description_is_what_an_arg_begins_with():
    assert Arg("What for").description == "What for"
    with pytest.raises(TypeError):
        Arg("What for", "more")
