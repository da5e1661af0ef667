"""The published schema of results accepts real results only."""

import asyncio
import copy
import json

import jsonschema_rs
import pytest
from made_results import read_schema
from null_targets import null

from mcpwire.bench import Call, Load, find_max, parse_condition, run
from mcpwire.bench.results import FIGURES

SCHEMA = read_schema("result")
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)


async def both():
    target = null()
    calls = (Call("ping"), Call.tool("echo", {"text": "hi"}))
    load = Load(calls=calls, seconds=0.4, warm_up=0.0, rounds=1)
    measured = await run(target, load, against=target)
    short = Load(rate=4.0, seconds=0.2, warm_up=0.0, rounds=1)
    found = await find_max(target, short, parse_condition("rate > 100/s"))
    counted = await run(target, load, only_counts=True)
    return [json.loads(each.to_json()) for each in (measured, found, counted)]


@pytest.fixture(scope="module")
def results():
    return asyncio.run(both())


def test_real_results_are_valid(results):
    for each in results:
        VALIDATOR.validate(each)
    assert len(results[0]["subjects"]) == 3
    assert results[1]["highest"] == 0


def undescribed(value, schema, where="result"):
    """Yield the members of a value that its schema does not describe."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for item in value:
            yield from undescribed(item, schema.get("items", {}), f"{where}[]")
    elif isinstance(value, dict) and "properties" in schema:
        for name, item in value.items():
            if name in schema["properties"]:
                inner = schema["properties"][name]
                yield from undescribed(item, inner, f"{where}.{name}")
            else:
                yield f"{where}.{name}"


def test_schema_describes_all_members_of_a_result(results):
    for each in results:
        assert list(undescribed(each, SCHEMA)) == []
    figures = SCHEMA["$defs"]["subject"]["properties"]["figures"]["properties"]
    assert figures.keys() == FIGURES.keys()


def places(value, path=()):
    """Yield the path of each member, of one item per list."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield (*path, name)
            yield from places(item, (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


FREE = {"params", "machine", "errors", "phases", "phases_under_load", "counts"}
FREE |= {"figures"}
"""Objects with arbitrary member names."""


def test_missing_member_or_wrong_type_is_invalid(results):
    result = results[0]
    tried = 0
    for path in places(result):
        if FREE & set(path[:-1]):
            continue
        for change in ("gone", "other type"):
            broken = copy.deepcopy(result)
            inner = broken
            for step in path[:-1]:
                inner = inner[step]
            if change == "gone":
                del inner[path[-1]]
            else:
                inner[path[-1]] = [None]
            assert not VALIDATOR.is_valid(broken), (path, change)
            tried += 1
    assert tried > 80


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("subjects",), []),
        (("load", "shape"), "soak"),
        (("load", "sessions"), 0),
        (("load", "rate"), 0),
        (("subjects", 0, "figures", "p50"), "fast"),
        (("subjects", 0, "slices", 0, "done"), -1),
        (("subjects", 0, "slices", 0, "windows"), [[1, 2, 3]]),
        (("subjects", 0, "slices", 0, "errors"), {"RPCError": "many"}),
    ],
)
def test_wrong_values_are_invalid(results, path, value):
    broken = copy.deepcopy(results[0])
    inner = broken
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert not VALIDATOR.is_valid(broken)
