"""The commands of the MCP Inspector against our server, in both eras.

`mcp-inspector --cli` connects for one command; `mcpdo` keeps a connection for several,
so it supports elicitation and subscriptions. Neither answers sampling.
"""

import json

import pytest

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

NOTE = "note://today"
TOOLS = ["add", "thread", "person"]
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


@pytest.mark.parametrize(
    ("transport", "era", "meta"),
    [("stdio", "legacy", {}), ("http", "modern", {"_meta": META})],
)
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
    ],
)
def test_the_inspector_reads_and_gets_prompts(inspect, where, method, options, result):
    assert inspect(*where, method, *options) == (0, {"result": result})


def test_the_inspector_accepts_all_tool_schemas(inspect):
    code, answer = inspect("stdio", "modern", "tools/list", "--strict")
    assert code == 0
    assert [tool["name"] for tool in answer["result"]["tools"]][:3] == TOOLS


def test_the_inspector_verifies_a_skill_and_each_file_of_it(inspect):
    code, skill = inspect(
        "http", "modern", "skills/list", "--verify", "--require-digests"
    )
    assert code == 0
    assert (skill["name"], skill["outcome"]) == ("polite-greeting", "verified")
    assert [skill["conformance"], skill["frontmatter"]] == [[], []]
    assert [file["status"] for file in skill["files"]] == ["verified"]


@pytest.mark.parametrize(
    ("era", "code", "says"),
    [
        ("legacy", 5, {"result": {"content": [SAYS_WHY], "isError": True}}),
        ("modern", 1, {"error": {"code": "error", "message": SAYS_WHY["text"]}}),
    ],
)
def test_the_inspector_gets_an_error_for_an_elicitation(inspect, era, code, says):
    options = ("--tool-name", "ask_person")
    assert inspect("http", era, "tools/call", *options) == (code, says)


@pytest.mark.parametrize(
    ("transport", "era"), [("stdio", "modern"), ("http", "legacy")]
)
def test_the_inspector_answers_a_form_and_gets_an_update(mcpdo, transport, era):
    command = mcpdo.connect(transport, era)
    pending = command("tools/call", "ask_person")["elicitationPending"]
    assert pending["message"] == "Who are you?"
    assert pending["requestedSchema"]["properties"]["age"]["default"] == 42
    form = json.dumps({"name": "Bob", "age": 7})
    answered = command("elicitation/respond", pending["elicitationId"], form)
    assert answered["structuredContent"] == {"result": "Bob, 7"}
    with mcpdo.reading(*command.args, "resources/subscribe", NOTE) as events:
        assert next(events) == {"type": "subscribed", "uri": NOTE}
        changed = command("tools/call", "change")
        assert changed["structuredContent"] == {"result": "changed"}
        assert next(events) == {"type": "resources/updated", "uri": NOTE}
