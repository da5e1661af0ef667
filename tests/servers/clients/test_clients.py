"""Other clients against our server: all results of each client are compared."""

import pytest
from real_servers import node

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
PLACES = [f"{transport} {mode}" for mode in ERAS for transport in ("stdio", "http")]

TOOLS = [
    "add",
    "thread",
    "person",
    "fail",
    "count",
    "ask_person",
    "ask_model",
    "ask_roots",
    "change",
]
ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
STEPS = [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
ADA = '{"name":"Ada","age":36}'


def outcome(text, structured=None, *, is_error=False):
    return {"text": text, "structured": structured, "is_error": is_error}


EVERYTHING = {
    "server": ["served", "1.2.3"],
    "instructions": "Add, ask and listen.",
    "tools": TOOLS,
    "schema": ADD,
    "add": outcome("5", {"result": 5}),
    "thread": outcome("cba", {"result": "cba"}),
    "person": outcome(ADA, {"name": "Ada", "age": 36}),
    "fail": outcome("no luck", is_error=True),
    "counted": ["counted to 3", STEPS, [["warning", "counted"]]],
    "resources": ["skill://polite-greeting/SKILL.md", "note://today"],
    "templates": ["skill://{path*}", "greet://{name}"],
    "note": "write tests",
    "greeting": "Hello, Ada!",
    "prompts": ["review"],
    "prompt": "Write a short review of x = 1",
    "completed": ["short"],
    "elicited": "Bob, 7",
    "sampled": "WHY WHY?",
    "roots": "file:///work",
    "changes": ["tools", "updated note://today"],
}
"""All results of `served.py`, in either era and over either transport."""


def expected(*without, **instead):
    return {
        place: {
            key: value
            for key, value in {
                "version": ERAS[place.split()[1]],
                **EVERYTHING,
                **instead,
            }.items()
            if key not in without
        }
        for place in PLACES
    }


@pytest.mark.case("H05")
def test_the_python_sdk_uses_all_features_in_both_eras(use, python_of):
    assert use(python_of("python-sdk"), "sdk_client.py") == expected()


@pytest.mark.case("H05")
def test_fastmcp_uses_all_features_that_it_supports(use, python_of):
    results = use(
        python_of("fastmcp"), "fastmcp_client.py", FASTMCP_CHECK_FOR_UPDATES="off"
    )
    expected_results = expected("fail", "completed", failure="no luck")
    for place in PLACES:
        if place.endswith("auto"):  # it cannot listen at 2026-07-28
            del expected_results[place]["changes"]
            expected_results[place]["skills"] = ["polite-greeting"]
    assert results == expected_results


@pytest.mark.case("H05")
def test_the_typescript_sdk_uses_all_features_in_both_eras(use, node_packages):
    results = use(node(), "typescript_client.cjs", NODE_PATH=node_packages)
    expected_results = expected()
    skill = ["polite-greeting", "Say hello first.\n", True]
    for place in PLACES:  # there are no extensions before 2026-07-28
        expected_results[place]["skills"] = [skill] if place.endswith("auto") else []
    assert results == expected_results
