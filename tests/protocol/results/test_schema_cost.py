"""The bound of a check's work holds, and is not far off where nothing goes wrong."""

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol.json_schema import read_schema
from mcpwire.protocol.results import schema_cost
from mcpwire.protocol.results.schema_cost import CostModel


def bound(schema, value, patterns=None):
    """Return the smallest budget that is enough."""
    model = CostModel(read_schema(schema), patterns or {})
    low, high = -1, 10**16
    while high - low > 1:
        middle = (low + high) // 2
        if model.is_within(value, middle):
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({}, 1, 1),
        ({"allOf": [{}, {}]}, 1, 3),
        ({"items": {}}, [1, 2, 3], 1 + 3),
        # Names count as parts as deep as the members they name.
        ({"properties": {"a": {}}}, {"a": 1}, 1 + 2),
        ({"properties": {"a": {}, "b": {}}}, {"a": 1, "b": 2}, 1 + 4),
        ({"properties": {"a": {}}, "additionalProperties": {}}, {"a": 1}, 1 + 2),
        ({"properties": {"a": {}}, "patternProperties": {"a": {}}}, {"a": 1}, 1 + 4),
        ({"prefixItems": [{}, {}], "items": {}}, [1, 2, 3], 1 + 3),
        ({"prefixItems": [{}], "items": [{}]}, [1], 1 + 2),
        ({"contains": {}, "items": {}}, [1], 1 + 2),
        ({"allOf": [{"items": {}}, {"items": {}}]}, [1], 3 + 2),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, {}, 3),
        ({"allOf": [{}], "unevaluatedItems": {}}, [1], 3 * 2 + 3),
        ({"unevaluatedProperties": {}, "properties": {"a": {}}}, {"a": 1}, 3 + 2 * 3),
        ({"required": list("abcdefgh")}, {}, 1 + 2),
        ({"enum": ["a", None, True]}, 1, 1),
        ({"enum": [1, 2, 3.5]}, 1, 1 + 15),
        ({"enum": [[1, 2], "x"]}, 1, 1 + 5 * 3),
        ({"const": "x"}, 1, 1),
        ({"const": [1, 2]}, 1, 1 + 5 * 3),
        ({"dependentRequired": {"a": ["b", "c"]}}, 1, 1 + 5),
        ({"multipleOf": 2}, 1, 1),
        ({"const": 2}, 1, 1 + 5),
        ({"multipleOf": 0.5}, 1, 1 + 300),
        ({"multipleOf": 1e-300}, 1, 1 + 2_000),
        ({"uniqueItems": True}, [1, [2]], 1 + 4 * 4),
        ({"uniqueItems": True}, ["x" * 160], 1 + 4 * 12),
        ({"uniqueItems": False}, [1], 1),
        ({"pattern": "p"}, "abcd", 1 + 4 * 10),
        ({"pattern": 7}, "abcd", 1),
        ({"patternProperties": {"p": {}}}, {"abcd": 1}, 1 + 2 + 4 * 10),
        ({"items": {"$ref": "#"}}, [[[1]]], 1 + 3 * 2),
        ({"items": True}, [1], 2),
    ],
)
def test_the_bound_counts(schema, value, expected):
    assert bound(schema, value, {"p": 10}) == expected


@pytest.mark.rule("SCH-10")
def test_a_recursive_schema_is_bounded_level_by_level_of_the_value():
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    value = {}
    for _ in range(200):
        value = {"left": value, "right": {}}
    assert bound(tree, value) == 1 + 200 * 4 * 2
    twice = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
    assert bound(twice, [[[[1]]]]) == 3 + 8 + 16 + 32 + 64


@pytest.mark.rule("SCH-10")
def test_the_depth_of_value_and_schema_together_is_bounded():
    chain = {"items": {"$ref": "#"}}
    for _ in range(30):
        chain = {"allOf": [chain]}
    chain = {"allOf": [chain], "$defs": {}}
    model = CostModel(read_schema({"items": {"allOf": [chain["allOf"][0]]}}), {})
    shallow, deep = 1, 1
    for _ in range(100):
        shallow = [shallow]
    for _ in range(400):
        deep = [deep]
    assert model.is_within(shallow, 10**9)
    assert not model.is_within(deep, 10**9)


@pytest.mark.rule("SCH-10")
def test_a_schema_whose_parts_meet_in_too_many_ways_is_refused():
    many = {"properties": {str(n): {} for n in range(1_000)}}
    schema = {
        "$defs": {"many": many},
        "anyOf": [{"$ref": "#/$defs/many"} for _ in range(400)],
    }
    with pytest.raises(RemoteProtocolError, match="in too many ways"):
        CostModel(read_schema(schema), {})


@pytest.mark.rule("SCH-10")
def test_a_bound_that_takes_too_long_to_find_counts_as_endless(monkeypatch):
    monkeypatch.setattr(schema_cost, "MAX_TOTAL_EFFORT", 50)
    # From one level of the value to the next it costs one more, so it never settles.
    schema = {
        "items": {"$ref": "#/$defs/a"},
        "$defs": {
            "a": {"allOf": [{"items": {"$ref": "#/$defs/a"}}, {"$ref": "#/$defs/b"}]},
            "b": {"items": {"$ref": "#/$defs/b"}},
        },
    }
    model = CostModel(read_schema(schema), {})
    value = 1
    for _ in range(30):
        value = [value]
    assert not model.is_within(value, 10**9)
    assert model.is_within([[1]], 10**9)


# --- against the validator itself, which is asked to count

LEAVES = st.sampled_from([{}, {"type": "string"}, {"minimum": 1}, True, False])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"allOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a: {"not": a}, inner),
        st.builds(lambda a, b: {"properties": {"a": a, "b": b}}, inner, inner),
        st.builds(
            lambda a, b: {"properties": {"a": a}, "additionalProperties": b},
            inner,
            inner,
        ),
        st.builds(lambda a, b: {"prefixItems": [a], "items": b}, inner, inner),
        st.builds(lambda a, b: {"if": a, "then": b}, inner, inner),
    ),
    max_leaves=12,
)
VALUES = st.recursive(
    st.sampled_from([0, 2, "x", None]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    ),
    max_leaves=12,
)


def counted(schema, value):
    """Return how often the validator comes to a subschema that is an object."""
    count = 0

    class Counter:
        def __init__(self, _schema, _operand, _path):
            pass

        def validate(self, _instance):
            nonlocal count
            count += 1

    def marked(part):
        if isinstance(part, dict):
            inner = {
                key: {name: marked(sub) for name, sub in held.items()}
                if key == "properties"
                else marked(held)
                for key, held in part.items()
            }
            return {**inner, "x-count": 1}
        return [marked(sub) for sub in part] if isinstance(part, list) else part

    jsonschema_rs.Draft202012Validator(
        marked(schema), keywords={"x-count": Counter}
    ).is_valid(value)
    return count


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_validator_never_does_more_than_the_bound(schema, value):
    assert counted(schema, value) <= bound(schema, value)
