"""Clients of others against our server: what each of them gets is compared whole."""

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
    "resources": ["note://today"],
    "templates": ["greet://{name}"],
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
"""What there is to get from `served.py`, in either era and over either transport."""


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


def test_the_official_python_sdk_gets_everything_in_both_eras(use, python_of):
    assert use(python_of("python-sdk"), "sdk_client.py") == expected()


def test_fastmcp_gets_everything_it_knows_how_to_ask_for(use, python_of):
    got = use(
        python_of("fastmcp"), "fastmcp_client.py", FASTMCP_CHECK_FOR_UPDATES="off"
    )
    wanted = expected("fail", "completed", failure="no luck")
    for place in PLACES:
        if place.endswith("auto"):  # it has nothing to listen with at 2026-07-28
            del wanted[place]["changes"]
    assert got == wanted


def test_the_official_typescript_sdk_gets_everything_in_both_eras(use, node_packages):
    got = use(node(), "typescript_client.cjs", NODE_PATH=node_packages)
    assert got == expected()


# --- the Inspector -------------------------------------------------------------------

META = {"io.modelcontextprotocol/serverInfo": {"name": "served", "version": "1.2.3"}}
CALL = ("--tool-name", "add", "--tool-args-json", '{"a": 2, "b": 3}')
ADDED = {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}
PROMPTED = {
    "description": "Have code reviewed.",
    "messages": [
        {
            "role": "user",
            "content": {"type": "text", "text": "Write a short review of x"},
        }
    ],
}
SAYS_WHY = {
    "type": "text",
    "text": "'elicitation/create' needs a client that declares 'elicitation.form', "
    "which this one does not",
}


def text(uri, text):
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


@pytest.mark.parametrize(("era", "meta"), [("legacy", {}), ("modern", {"_meta": META})])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_calls_a_tool(inspect, transport, era, meta):
    assert inspect(transport, era, "tools/call", *CALL) == (0, {"result": meta | ADDED})


@pytest.mark.parametrize(
    ("where", "method", "options", "result"),
    [
        (
            ("stdio", "legacy"),
            "resources/read",
            ["--uri", "note://today"],
            text("note://today", "write tests"),
        ),
        (
            ("http", "modern"),
            "resources/read",
            ["--uri", "greet://Ada"],
            {
                "_meta": META,
                **text("greet://Ada", "Hello, Ada!"),
                "ttlMs": 0,
                "cacheScope": "private",
            },
        ),
        (
            ("http", "legacy"),
            "prompts/get",
            ["--prompt-name", "review", "--prompt-args", "code=x"],
            PROMPTED,
        ),
        (("http", "legacy"), "logging/setLevel", ["--log-level", "debug"], {}),
    ],
)
def test_the_inspector_reads_and_prompts(inspect, where, method, options, result):
    assert inspect(*where, method, *options) == (0, {"result": result})


def test_the_inspector_finds_no_schema_that_other_clients_stumble_over(inspect):
    code, answer = inspect("stdio", "modern", "tools/list", "--strict")
    assert code == 0
    assert [tool["name"] for tool in answer["result"]["tools"]] == TOOLS


@pytest.mark.parametrize(
    ("era", "code", "says"),
    [
        ("legacy", 5, {"result": {"content": [SAYS_WHY], "isError": True}}),
        ("modern", 1, {"error": {"code": "error", "message": SAYS_WHY["text"]}}),
    ],
)
def test_the_inspector_that_cannot_be_asked_is_told_so(inspect, era, code, says):
    options = ("--tool-name", "ask_person")
    assert inspect("http", era, "tools/call", *options) == (code, says)
