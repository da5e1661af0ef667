"""Each command against scripted servers."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from cli_servers import listing

from mcpwire.cli import render
from mcpwire.protocol.methods import SKILLS

TEXT = {"type": "text", "text": "fine"}

ALL = {"tools": {}, "resources": {}, "prompts": {}}


@pytest.fixture
def full(scripted):
    """Make a server with tools, a resource, a template and a prompt."""
    tool = {
        "name": "remove",
        "description": "\n  Remove a file.\nMore about it.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
        "annotations": {"destructiveHint": True, "readOnlyHint": False},
        "x-more": [1],
    }
    resource = {"uri": "file:///a", "name": "a", "size": 1234, "mimeType": "text/plain"}
    template = {"uriTemplate": "file:///{name}", "name": "files", "description": "All."}
    prompt = {"name": "ask", "arguments": [{"name": "what", "required": True}]}
    return scripted(
        ALL,
        tools__list=listing(tools=[tool, {"name": "bare", "inputSchema": {}}]),
        resources__list=listing(resources=[resource]),
        resources__templates__list=listing(resourceTemplates=[template]),
        prompts__list=listing(prompts=[prompt]),
    )


OFFER = """\
Tools (2)
  remove(path: str)  [destructive]
      Remove a file.
  bare()

Resources (1)
  file:///a  [text/plain, 1,234 bytes]
      a

Resource templates (1)
  file:///{name}
      files: All.

Prompts (1)
  ask(what)
"""


def test_ls_shows_what_the_server_offers(cli, full):
    assert cli("ls", full.line) == (0, OFFER, "")


def test_ls_as_json_is_one_document_of_the_objects_of_the_protocol(cli, full):
    code, out, err = cli("ls", "--json", "--", *full.argv)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == ["tools", "resources", "resourceTemplates", "prompts"]
    assert found["tools"][0]["x-more"] == [1]
    assert found["tools"][0]["inputSchema"]["required"] == ["path"]
    assert found["resourceTemplates"][0]["uriTemplate"] == "file:///{name}"


def test_ls_as_json_formats_no_lines(cli, full, monkeypatch):
    monkeypatch.setattr(render, "tool_signature", None)
    code, out, err = cli("ls", "--json", "--", *full.argv)
    assert (code, err, len(json.loads(out)["tools"])) == (0, "", 2)


def test_ls_requests_only_declared_lists(cli, scripted):
    server = scripted({"tools": {}}, tools__list=listing(tools=[]))
    assert cli("ls", server.line) == (0, "Tools (0)\n", "")
    methods = [message["method"] for message in server.messages()]
    assert [m for m in methods if m.endswith("/list")] == ["tools/list"]


def test_ls_reports_a_server_without_list_capabilities(cli, scripted):
    out = "The server declares no tools, resources or prompts.\n"
    assert cli("ls", scripted({"logging": {}}).line) == (0, out, "")


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "no"}},
        {"result": {"resourceTemplates": []}},
    ],
)
def test_a_server_with_resources_need_not_have_templates(cli, scripted, answer):
    server = scripted(
        {"resources": {}},
        resources__list=listing(resources=[]),
        resources__templates__list=[answer],
    )
    assert cli("ls", server.line) == (0, "Resources (0)\n", "")


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_ls_prints_partial_results_before_the_error(cli, scripted, flags):
    server = scripted(
        {"tools": {}, "prompts": {}},
        tools__list=[{"error": {"code": -32603, "message": "no luck"}}],
        prompts__list=listing(prompts=[{"name": "ask"}]),
    )
    code, out, err = cli("ls", server.line, *flags)
    assert code == 8
    assert "ask" in out
    assert "no luck" in err
    assert err.count("\n") == 1


def test_ls_reports_the_error_if_every_list_fails(cli, scripted):
    refusal = [{"error": {"code": -32603, "message": "no luck"}}]
    code, out, err = cli("ls", scripted({"tools": {}}, tools__list=refusal).line)
    assert (code, out) == (8, "")
    assert err == "mcpwire: tools/list: no luck (JSON-RPC error -32603)\n"


@pytest.mark.attack("S32")
def test_listing_is_escaped_even_when_piped(cli, scripted):
    evil = "\x1b]0;x\x07\u202e\n"
    tool = {"name": evil, "description": evil, "title": evil, "inputSchema": {}}
    server = scripted(
        ALL,
        tools__list=listing(tools=[tool]),
        resources__list=listing(
            resources=[{"uri": evil, "name": evil, "mimeType": evil}]
        ),
        resources__templates__list=listing(
            resourceTemplates=[{"uriTemplate": evil, "name": evil}]
        ),
        prompts__list=listing(prompts=[{"name": evil, "title": evil}]),
    )
    code, out, _ = cli("ls", server.line)
    assert code == 0
    assert all(line.isprintable() for line in out.splitlines())
    assert out.count("\\x1b]0;x\\x07\\u202e") == 9


def test_call_coerces_arguments_by_the_schema(cli, tool_server):
    schema = {
        "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {}}
    }
    server = tool_server({"result": {"content": [TEXT]}}, schema=schema)
    done = cli("call", server.line, "do", "n=5", "b=true", "s=5", "x:=[1]")
    assert (done.code, done.out) == (2, "")
    assert done.err == "mcpwire: tool 'do' has no argument 'x'; it takes n, b, s\n"
    assert cli("call", server.line, "do", "n=5", "b=true", "s=5") == (0, "fine\n", "")
    assert server.requests("tools/call") == [
        {"name": "do", "arguments": {"n": 5, "b": True, "s": "5"}}
    ]


def test_call_with_no_check_sends_arguments_unchecked(cli, tool_server):
    server = tool_server({"result": {"content": [TEXT]}})
    assert cli("call", "--no-check", "x", "n=5", "m:=5", "--", *server.argv).code == 0
    (params,) = server.requests("tools/call")
    assert params == {"name": "x", "arguments": {"n": "5", "m": 5}}
    assert server.requests("tools/list") == []


PRINTED = """\
fine
[image: image/png, 2 bytes]
[audio: audio/wav, 3 bytes]
[resource link: x:1, text/plain]
[resource link: x:2]
inner
[resource: x:4, binary, 2 bytes]
[hologram: {"type": "hologram", "depth": 3}]
"""


def test_call_prints_every_kind_of_content(cli, tool_server):
    content = [
        TEXT,
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGkh", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "x:1", "name": "x", "mimeType": "text/plain"},
        {"type": "resource_link", "uri": "x:2", "name": "x"},
        {"type": "resource", "resource": {"uri": "x:3", "text": "inner"}},
        {"type": "resource", "resource": {"uri": "x:4", "blob": "aGk="}},
        {"type": "hologram", "depth": 3},
    ]
    server = tool_server({"result": {"content": content}})
    assert cli("call", server.line, "do") == (0, PRINTED, "")


def test_call_prints_structured_content_if_there_is_no_text(cli, tool_server):
    server = tool_server({"result": {"content": [], "structuredContent": {"é": 1}}})
    assert cli("call", server.line, "do").out == '{\n  "é": 1\n}\n'
    server = tool_server({"result": {"content": []}})
    assert cli("call", server.line, "do") == (0, "", "")


def test_call_as_json_is_the_result_object_in_ascii(cli, tool_server):
    result = {"content": [{"type": "text", "text": "é\x1b\u202e\x7f"}], "x": {"y": []}}
    code, out, err = cli("call", tool_server({"result": result}).line, "do", "--json")
    assert (code, err) == (0, "")
    assert out.isascii()
    assert out.replace("\n", "").isprintable()
    assert json.loads(out) == result


DEEP = json.loads("[" * 940 + "]" * 940)
DEEP_LOG = {
    "method": "notifications/message",
    "params": {"level": "info", "data": DEEP},
}
DEEP_ERROR = {"error": {"code": -1, "message": "", "data": DEEP}}
DEEP_META = {"result": {"content": [TEXT], "_meta": {"x": DEEP}}}


@pytest.mark.parametrize(
    ("words", "step", "expected"),
    [
        (["--json"], DEEP_META, (0, 941)),
        (["--timing"], DEEP_META, (0, 0)),
        ([], {"result": {"content": [], "structuredContent": DEEP}}, (0, 940)),
        ([], {"result": {"content": [{"type": "odd", "x": DEEP}]}}, (0, 941)),
        ([], DEEP_ERROR, (8, 0)),
        (["--json"], DEEP_ERROR, (8, 940)),
        (["--json", "--log-level", "info"], DEEP_LOG, (0, 941)),
    ],
)
def test_deeply_nested_message_can_be_printed(cli, scripted, words, step, expected):
    server = scripted(
        {"tools": {}, "logging": {}},
        logging__setLevel=[{"result": {}}],
        tools__call=[step, {"result": {"content": []}}],
    )
    code, out, err = cli("call", server.line, "do", "--no-check", *words)
    assert (code, (out + err).count("[")) == expected


def test_failed_tool_call_prints_its_text_and_exits_with_5(cli, tool_server):
    result = {"content": [TEXT], "isError": True}
    server = tool_server({"result": result})
    done = cli("call", server.line, "do")
    assert (done.code, done.out) == (5, "fine\n")
    assert done.err == "mcpwire: tool 'do' reported an error\n"
    code, out, err = cli("call", server.line, "do", "--json")
    assert (code, json.loads(out)) == (5, result)
    assert json.loads(err)["error"]["type"] == "ToolError"


def test_piped_text_is_not_escaped(cli, tool_server):
    content = [{"type": "text", "text": "\x1b[31mred\n"}]
    server = tool_server({"result": {"content": content}})
    assert cli("call", server.line, "do").out == "\x1b[31mred\n"


def test_progress_token_is_sent_only_if_progress_is_shown(cli, tool_server):
    server = tool_server({"result": {"content": []}})
    assert cli("call", server.line, "do").code == 0
    assert "_meta" not in server.requests("tools/call")[0]


ANSWERS = [
    (
        {"error": {"code": -32602, "message": "no\nway"}},
        8,
        "tools/call: no\\nway (JSON-RPC",
    ),
    ({"result": {"content": 5}}, 6, "CallToolResult.content: expected"),
    ({"result": 5}, 6, ""),
    ({"exit": 3}, 4, "the server exited with code 3"),
]


@pytest.mark.parametrize(("step", "code", "sentence"), ANSWERS)
def test_call_failure_is_one_line_and_one_exit_code(
    cli, tool_server, step, code, sentence
):
    server = tool_server(step)
    done = cli("call", server.line, "do")
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("mcpwire: ")
    assert done.err.count("\n") == 1
    assert sentence in done.err
    done = cli("call", server.line, "do", "--json")
    assert (done.code, done.out) == (code, "")
    assert done.err.count("\n") == 1
    assert sentence in json.loads(done.err)["error"]["message"].replace("\n", "\\n")


@pytest.mark.usefixtures("patient")
def test_call_timeout_exits_with_7(cli, tool_server):
    server = tool_server()
    code, out, err = cli("call", server.line, "do", "--timeout", "1")
    assert (code, out) == (7, "")
    assert err.startswith("mcpwire: tools/call: no answer within 1 s")
    assert "--timeout SECONDS" in err
    server.wait_for("notifications/cancelled")


def test_max_message_option_sets_the_message_limit(cli, tool_server):
    text = {"type": "text", "text": "x" * 2_000}
    server = tool_server({"result": {"content": [text]}})
    done = cli("call", server.line, "do", "--max-message", "1000")
    assert (done.code, done.out) == (6, "")
    assert done.err.endswith(
        "a message is longer than 1000 bytes (Limits.message); "
        "to change the limit: --max-message BYTES\n"
    )
    assert cli("call", server.line, "do", "--max-message", "4000").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["call", "d"], "the server does not declare tools; it declares logging"),
        (["read", "x:y"], "the server does not declare resources; it declares logging"),
        (["prompt", "p"], "the server does not declare prompts; it declares logging"),
        (
            ["complete", "prompt:p", "a"],
            "the server did not declare 'completions', which",
        ),
    ],
)
def test_undeclared_capability_is_not_requested(cli, scripted, words, sentence):
    code, out, err = cli(*words, "--", *scripted({"logging": {}}).argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"mcpwire: {sentence}")
    assert "client." not in err


def test_server_without_capabilities_is_reported(cli, scripted):
    err = cli("call", scripted().line, "do").err
    assert err == "mcpwire: the server does not declare tools; it declares nothing\n"


def test_unknown_tool_gets_a_suggestion(cli, tool_server):
    server = tool_server()
    code, _, err = cli("call", server.line, "doo")
    assert code == 2
    assert err == "mcpwire: the server has no tool 'doo'; did you mean 'do'?\n"
    code, _, err = cli("call", server.line, "zzz", "--json")
    assert json.loads(err)["error"]["message"] == (
        "the server has no tool 'zzz'; `mcpwire ls` lists the names"
    )


def test_unknown_tool_without_any_tools_gets_no_suggestion(cli, scripted):
    server = scripted({"tools": {}}, tools__list=listing(tools=[]))
    assert cli("call", server.line, "x").err == "mcpwire: the server has no tool 'x'\n"


def contents(*parts):
    return [{"result": {"contents": list(parts)}}]


@pytest.fixture
def reading(scripted):
    def make(*parts):
        return scripted({"resources": {}}, resources__read=contents(*parts))

    return make


def test_read_writes_contents_unchanged(child, reading):
    server = reading({"uri": "x:1", "text": "é\r\n"}, {"uri": "x:2", "blob": "/w=="})
    assert child("read", server.line, "x:1") == (0, "é\r\n\udcff", "")
    assert server.requests("resources/read") == [{"uri": "x:1"}]


def test_read_saves_a_resource(cli, reading, tmp_path):
    server = reading({"uri": "x:1", "blob": "/wA="})
    path = tmp_path / "saved"
    code, out, err = cli("read", server.line, "x:1", "-o", str(path))
    assert (code, out, err) == (0, "", f"saved 2 bytes in {path}\n")
    assert path.read_bytes() == b"\xff\x00"


@pytest.mark.parametrize("words", [(), ("-o", "-"), ("-o", "saved")])
def test_read_as_json_prints_the_result_object(
    cli, reading, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    content = {"uri": "x:1", "text": "hello"}
    code, out, err = cli("read", reading(content).line, "x:1", "--json", *words)
    assert (code, json.loads(out)) == (0, {"contents": [content]})
    if "saved" in words:
        assert json.loads(err) == {"saved": {"file": "saved", "bytes": 5}}
        assert (tmp_path / "saved").read_text() == "hello"


@pytest.mark.parametrize(
    ("path", "sentence"), [("", "it is a directory"), ("no/where", "does not exist")]
)
def test_invalid_output_path_fails_before_the_server_starts(
    cli, reading, tmp_path, path, sentence
):
    server = reading()
    code, _, err = cli("read", server.line, "x:1", "-o", str(tmp_path / path))
    assert code == 2
    assert sentence in err
    assert not server.log.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_write_error_of_the_output_file_is_one_line(cli, reading):
    server = reading({"uri": "x:1", "text": "hello"})
    code, _, err = cli("read", server.line, "x:1", "-o", "/dev/full")
    assert code == 2
    assert err == "mcpwire: cannot write '/dev/full': no space left on device\n"


def test_invalid_base64_blob_is_a_protocol_error(cli, reading):
    server = reading({"uri": "x:1", "blob": "!"})
    assert cli("read", server.line, "x:1").code == 6


@pytest.fixture
def prompting(scripted):
    arguments = [{"name": "city", "required": True}, {"name": "when"}]
    messages = [
        {"role": "user", "content": TEXT},
        {
            "role": "assistant",
            "content": {"type": "image", "data": "", "mimeType": "x/y"},
        },
    ]
    return scripted(
        {"prompts": {}, "completions": {}},
        prompts__list=listing(prompts=[{"name": "ask", "arguments": arguments}]),
        prompts__get=[{"result": {"messages": messages}}],
    )


def test_prompt_prints_the_messages(cli, prompting):
    assert cli("prompt", prompting.line, "ask", "city=Rome") == (
        0,
        "[user]\nfine\n[assistant]\n[image: x/y, 0 bytes]\n",
        "",
    )
    assert prompting.requests("prompts/get") == [
        {"name": "ask", "arguments": {"city": "Rome"}}
    ]


def test_prompt_as_json_is_the_result_object(cli, prompting):
    done = cli("prompt", "--no-check", "other", "--json", "--", *prompting.argv)
    assert json.loads(done.out)["messages"][0] == {"role": "user", "content": TEXT}
    assert prompting.requests("prompts/get") == [{"name": "other"}]


def test_prompt_without_required_argument_is_not_requested(cli, prompting):
    code, _, err = cli("prompt", prompting.line, "ask")
    assert (code, err) == (2, "mcpwire: prompt 'ask' needs the argument 'city'\n")


@pytest.fixture
def completing(scripted):
    def make(**completion):
        return scripted(
            {"completions": {}},
            completion__complete=[{"result": {"completion": completion}}],
        )

    return make


def test_complete_prints_a_value_per_line(cli, completing):
    server = completing(values=["a", "b\n\x1b"], hasMore=True)
    done = cli("complete", server.line, "prompt:ask", "city", "R", "--context", "x=1")
    assert done == (0, "a\nb\\n\\x1b\n", "2, and there are more\n")
    assert server.requests("completion/complete") == [
        {
            "ref": {"type": "ref/prompt", "name": "ask"},
            "argument": {"name": "city", "value": "R"},
            "context": {"arguments": {"x": "1"}},
        }
    ]


def test_complete_supports_templates_and_totals(cli, completing):
    server = completing(values=["a"], total=7)
    assert cli("complete", server.line, "file:///{x}", "x") == (0, "a\n", "1 of 7\n")
    (params,) = server.requests("completion/complete")
    assert params["ref"] == {"type": "ref/resource", "uri": "file:///{x}"}
    assert params["argument"] == {"name": "x", "value": ""}
    server = completing(values=["a"], total=1)
    assert cli("complete", server.line, "file:///{x}", "x") == (0, "a\n", "")
    out = cli("complete", server.line, "file:///{x}", "x", "--json").out
    assert json.loads(out) == {"completion": {"values": ["a"], "total": 1}}


def test_complete_refuses_a_ref_that_is_not_prompt_or_template(cli, completing):
    server = completing(values=[])
    code, _, err = cli("complete", server.line, "ask", "city")
    assert (code, err) == (
        2,
        "mcpwire: cannot complete 'ask': write prompt:NAME or a URI template\n",
    )
    assert not server.log.exists()


def test_ping_prints_round_trip_times(cli, scripted):
    server = scripted(ping=[{"result": {}}])
    code, out, _ = cli("ping", server.line)
    assert code == 0
    assert out.startswith("answered after ")
    lines = cli("ping", server.line, "-n", "3").out.splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("min ")
    found = json.loads(cli("ping", server.line, "-n", "2", "--json").out)
    assert [type(seconds) for seconds in found["seconds"]] == [float, float]


def test_info_shows_the_negotiation_and_its_reason(cli, scripted):
    server = scripted(
        {
            "tools": {"listChanged": True},
            "resources": {"subscribe": False},
            "logging": {},
        },
        info={"name": "a\x1b", "version": "2", "title": "A server"},
        instructions="First.\nSecond\x1b.",
    )
    code, out, _ = cli("info", server.line)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "server        a\\x1b 2 (A server)"
    assert lines[1].startswith("command       ")
    assert lines[2] == "protocol      2025-11-25 (session era)"
    assert lines[3] == "why           the server answered initialize"
    assert lines[4] == "capabilities  tools (listChanged), resources, logging"
    assert lines[5] == "negotiation"
    assert "sent server/discover: as 2026-07-28" in lines[6]
    assert lines[-3:] == ["instructions", "  First.", "  Second\\x1b."]


def test_info_as_json_contains_all_fields(cli, scripted):
    found = json.loads(cli("info", scripted({"tools": {}}).line, "--json").out)
    record = found.pop("negotiation")
    assert found == {
        "protocolVersion": "2025-11-25",
        "serverInfo": {"name": "scripted", "version": "1"},
        "capabilities": {"tools": {}},
        "instructions": None,
        "era": "session",
        "reason": "the server answered initialize",
    }
    assert record[0]["event"] == "sent server/discover"


def test_info_of_a_server_without_name_and_capabilities(cli, scripted):
    result = {"protocolVersion": "2025-06-18", "capabilities": None}
    server = scripted(initialize=[{"result": result}])
    out = cli("info", server.line).out
    assert "server        (it gave no name)" in out
    assert "capabilities  (none)" in out
    assert "instructions" not in out


def test_mode_selects_the_handshake_that_is_tried(cli, scripted):
    server = scripted()
    assert (
        "protocol      2025-11-25" in cli("info", server.line, "--mode", "session").out
    )
    assert server.requests("server/discover") == []
    code, _, err = cli("info", server.line, "--mode", "2024-11-05")
    assert code == 4
    assert "no common revision" in err


CACHE_FIELDS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
URI = "skill://pdf/SKILL.md"
DOCUMENT = "---\nname: pdf\ndescription: Fills forms\n---\nDo it.\n"


def resource_entry(uri, data):
    digest = f"sha256:{sha256(data.encode()).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(data)}


ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "pdf", "description": "Fills forms"},
    "resources": [resource_entry(URI, DOCUMENT), resource_entry("skill://pdf/a", "a")],
}
DYNAMIC = {"uri": "skill://odd\x1b", "frontmatter": {}, "resources": "dynamic"}


@pytest.fixture
def server(scripted):
    def make(text=DOCUMENT, extensions=None):
        capabilities = {"resources": {}, "extensions": extensions or {SKILLS: {}}}
        discovered = {
            **CACHE_FIELDS,
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
        }
        contents = [{"uri": URI, "text": text}]
        return scripted(
            server__discover=[{"result": discovered}],
            skills__list=[{"result": {**CACHE_FIELDS, "skills": [ENTRY, DYNAMIC]}}],
            skills__get=[{"result": {**CACHE_FIELDS, "skill": ENTRY}}],
            resources__read=[{"result": {**CACHE_FIELDS, "contents": contents}}],
        )

    return make


def test_skills_are_listed_without_reading_them(cli, server):
    served = server()
    code, out, _ = cli("skills", served.line)
    assert code == 0
    assert out.splitlines() == [
        "Skills (2)",
        f"  {URI}  [2 file(s)]",
        "      pdf: Fills forms",
        "  skill://odd\\x1b  [dynamic]",
    ]
    assert "resources/read" not in served.log.read_text()


def test_skills_as_json_are_the_server_response(cli, server):
    out = cli("skills", server().line, "--json").out
    assert json.loads(out) == {"skills": [ENTRY, DYNAMIC]}


def test_skill_is_verified_and_its_instructions_are_printed(cli, server):
    code, out, _ = cli("skills", server().line, URI)
    assert (code, out) == (0, "Do it.\n")
    out = cli("skills", server().line, URI, "--json").out
    assert json.loads(out) == {"skill": ENTRY, "body": "Do it.\n"}


def test_skill_with_a_wrong_digest_is_not_printed(cli, server):
    code, out, err = cli("skills", server(DOCUMENT.replace("Do", "Be")).line, URI)
    assert (code, out) == (6, "")
    assert "its digest is sha256:" in err


def test_server_without_skills_capability_is_an_error(cli, server):
    code, _, err = cli("skills", server(extensions={"a/b": {}}).line)
    assert code == 2
    assert f"the server did not declare '{SKILLS}'" in err
