"""Server requests without a terminal: answered by options, or refused with a hint."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from cli_servers import DONE, MCPWIRE, TIMEOUT_S, request

FORM = {
    "message": "Who are\nyou?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "default": 7},
        },
        "required": ["name"],
    },
}
PAGE = {
    "mode": "url",
    "message": "Sign in",
    "url": "https://example.com/a",
    "elicitationId": "e1",
}
TALK = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Hi\x1b"}}],
    "systemPrompt": "Be brief",
    "maxTokens": 5,
}


def answer(server):
    (found,) = [m for m in server.messages() if m.get("id") == 77]
    return found.get("result", found.get("error"))


@pytest.fixture
def asked(requesting, cli):
    """Call a tool that sends this request first; return stderr and our answer."""

    def run(method, params, *words, code=0):
        server = requesting(method, params)
        done = cli("call", server.line, "do", *words)
        assert (done.code, done.out) == (code, "done\n")
        return done.err, answer(server)

    return run


@pytest.mark.rule("ELIC-08")
def test_form_without_a_terminal_is_declined_with_a_hint(asked):
    err, answered = asked("elicitation/create", FORM)
    assert err == (
        "mcpwire: the server asked for input; declined without a terminal "
        '(to answer: --answer \'{"name": ..., "age": ...}\'); '
        'its message: "Who are\\nyou?"\n'
    )
    assert answered == {"action": "decline"}


def test_form_with_json_is_declined_with_a_json_line(requesting, cli):
    server = requesting("elicitation/create", FORM)
    done = cli("call", server.line, "do", "--json")
    assert json.loads(done.out) == DONE["result"]
    assert json.loads(done.err) == {
        "asked": {
            "method": "elicitation/create",
            "answer": "decline",
            "how": "declined with --json "
            '(to answer: --answer \'{"name": ..., "age": ...}\')',
            "message": FORM["message"],
        }
    }


@pytest.mark.rule("ELIC-06", "ELIC-08")
@pytest.mark.parametrize(
    "case",
    [
        ('{"name": "Ada"}', {"name": "Ada", "age": 7}),
        ('{"name": "Ada", "age": null}', {"name": "Ada"}),
        ("decline", "decline"),
        ("cancel", "cancel"),
        ("@FILE", {"name": "file", "age": 7}),
        ("-", {"name": "input", "age": 7}),
    ],
)
def test_answer_option_answers_a_form(asked, stdin, tmp_path, case):
    given, expected = case
    result = {"action": expected}
    if isinstance(expected, dict):
        result = {"action": "accept", "content": expected}
    (tmp_path / "answer").write_text('{"name": "file"}')
    given = given.replace("FILE", str(tmp_path / "answer"))
    stdin('{"name": "input"}')
    err, answered = asked("elicitation/create", FORM, "--answer", given)
    assert f"answered by --answer ({result['action']})" in err
    assert answered == result


@pytest.mark.rule("ELIC-20")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ('{"name": 1}', "elicitation content.name: expected text, got 1"),
        ("{}", "elicitation content.name: it is required"),
        ('{"name": "a", "x": 1}', "elicitation content.x: the form has no such field"),
    ],
)
def test_answer_that_violates_the_schema_is_not_sent(asked, given, reason):
    err, answered = asked("elicitation/create", FORM, "--answer", given, code=2)
    problem = f"--answer does not match the requested form: {reason}"
    assert err.endswith(f"mcpwire: {problem}\n")
    assert answered == {"action": "cancel"}


def test_invalid_answer_explains_the_failed_call(tool_server, cli):
    server = tool_server(
        request("elicitation/create", FORM),
        answer=[{"error": {"code": -1, "message": "no answer"}}],
    )
    done = cli("call", server.line, "do", "--answer", "{}")
    assert done.code == 2
    assert "content.name: it is required" in done.err


def test_answers_are_used_in_order_and_a_surplus_is_reported(tool_server, cli):
    one, two = (request("elicitation/create", FORM, id) for id in (77, 78))
    server = tool_server(one, two, answer=[DONE])
    words = [word for name in "abc" for word in ("--answer", f'{{"name": "{name}"}}')]
    done = cli("call", server.line, "do", *words)
    assert done.code == 0
    names = [m["result"]["content"]["name"] for m in server.messages() if "result" in m]
    assert names == ["a", "b"]
    assert done.err.endswith("1 --answer was not used\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--answer", "x"], "--answer is not JSON"),
        (["--answer", "[1]"], "--answer must be one JSON object, got [1]"),
        (["--answer", "accept"], "--answer is not JSON"),
        (["--answer", "@/no/file"], "cannot read '/no/file'"),
        (["--answer", "-", "--answer", "-"], "only one --answer can be read"),
        (["-", "--answer", "-"], "cannot both be read"),
        (["--sample", "a", "--sample-with", "b"], "not allowed with argument --sample"),
        (["--sample-with", ""], "the --sample-with program's command line is empty"),
        (["--sample-with", "'"], "cannot split"),
        (["--log-level", "inf"], "unknown level 'inf'; did you mean 'info'?"),
        (["--log-level", "x"], "unknown level 'x'; the levels are debug, info"),
        (["--roots", "/no/folder"], "--roots: the folder '/no/folder' does not exist"),
    ],
)
def test_invalid_option_fails_before_the_server_starts(
    tool_server, cli, stdin, words, reason
):
    stdin("{}")
    server = tool_server(DONE)
    done = cli("call", server.line, "do", *words)
    assert done.code == 2
    assert reason in done.err
    assert not server.log.exists()


@pytest.mark.rule("ELIC-13")
def test_url_consent_without_a_terminal_is_declined(asked):
    err, answered = asked("elicitation/create", PAGE)
    assert "declined without a terminal" in err
    assert "a user at a terminal can agree to https://example.com/a" in err
    assert answered == {"action": "decline"}


def test_call_that_requires_urls_hints_at_a_terminal(tool_server, cli):
    error = {"code": -32042, "message": "sign in", "data": {"elicitations": [PAGE]}}
    done = cli("call", tool_server({"error": error}).line, "do")
    assert done.code == 8
    assert "only a user at a terminal can agree to visit the URLs" in done.err


@pytest.mark.rule("SAMP-18")
def test_sampling_is_refused_with_a_hint(asked):
    err, answered = asked("sampling/createMessage", TALK)
    assert err == (
        "mcpwire: the server asked for sampling; refused (to answer: --sample TEXT or "
        '--sample-with COMMAND); its message: "system: Be brief\\nuser: Hi\\x1b"\n'
    )
    assert answered["code"] == -1


def test_sample_option_is_the_model_response(asked):
    err, answered = asked("sampling/createMessage", TALK, "--sample", "Good day")
    assert "answered by --sample" in err
    assert answered == {
        "role": "assistant",
        "content": {"type": "text", "text": "Good day"},
        "model": "mcpwire --sample",
        "stopReason": "endTurn",
    }


def program(code):
    return shlex.join([sys.executable, "-S", "-c", code])


def test_sampling_program_reads_request_and_prints_response(asked):
    code = "import json,sys; p = json.load(sys.stdin); print(p['maxTokens'], p['$x'])"
    code = code.replace("$x", "systemPrompt")
    words = "--sample-with", program(code)
    err, result = asked("sampling/createMessage", TALK, *words)
    assert f"answered by {sys.executable}" in err
    assert result["content"] == {"type": "text", "text": "5 Be brief"}
    assert result["model"] == sys.executable


def test_sampling_command_runs_without_a_shell(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "--sample-with", "echo $HOME > x; ls"
    _, answered = asked("sampling/createMessage", TALK, *words)
    assert answered["content"]["text"] == "$HOME > x; ls"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (program("raise SystemExit(3)"), "the client's program exited with 3"),
        ("/no/such/program", "the client's program cannot be run"),
    ],
)
def test_failing_sampling_program_gives_an_error(asked, command, reason):
    _, answered = asked("sampling/createMessage", TALK, "--sample-with", command)
    assert reason in answered["message"]


def test_running_sampling_program_ends_with_the_command(requesting, tmp_path):
    server = requesting("sampling/createMessage", TALK)
    pid = tmp_path / "pid"
    code = f"import os,time; open({str(pid)!r},'w').write(str(os.getpid()))"
    code += "; time.sleep(60)"
    process = subprocess.Popen(
        [*MCPWIRE, "call", server.line, "do", "--sample-with", program(code)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + TIMEOUT_S
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


# Requests inside results (stateless); the tests above are of the session era...


def test_options_answer_the_demo_server_in_stateless_mode(cli, demo_target):
    words = ("call", demo_target, "--mode", "stateless")
    order = '{"drink": "tea", "cups": 3}'
    done = cli(*words, "order", "--answer", order)
    assert done[:2] == (0, "3 x tea, without sugar\n")
    assert cli(*words, "order")[:2] == (0, "no order: decline\n")
    assert cli(*words, "pay")[:2] == (0, "no payment: decline\n")
    sampled = cli(*words, "haiku", "topic=x", "--sample", "old pond")
    assert sampled[:2] == (0, "old pond\n")


def test_tool_that_requires_refused_sampling_fails(cli, demo_target):
    done = cli("call", demo_target, "--mode", "stateless", "haiku", "topic=x")
    assert done.code == 5
    assert "the user has not allowed sampling" in done.out + done.err


def test_no_ask_declares_no_client_capabilities(tool_server, cli):
    server = tool_server(DONE)
    assert cli("call", server.line, "do", "--no-ask").code == 0
    assert server.requests("initialize")[0]["capabilities"] == {}


def test_client_capabilities_match_the_options(tool_server, cli, tmp_path):
    server = tool_server(DONE)
    assert cli("call", server.line, "do", "--roots", str(tmp_path)).code == 0
    assert server.requests("initialize")[0]["capabilities"] == {
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": True},
        "sampling": {},
    }


@pytest.mark.rule("ROOT-04")
def test_roots_option_answers_a_roots_request(asked, tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path)
    words = "--roots", str(tmp_path), "--roots", "a b"
    _, answered = asked("roots/list", {}, *words)
    base = tmp_path.as_uri()
    assert answered == {"roots": [{"uri": base}, {"uri": f"{base}/a%20b"}]}


def test_server_request_right_after_initialized_is_answered(tool_server, cli):
    server = tool_server(
        DONE, **{"notifications/initialized": [request("elicitation/create", FORM)]}
    )
    done = cli("call", server.line, "do", "--answer", '{"name": "Ada"}')
    assert done.code == 0
    assert answer(server)["content"] == {"name": "Ada", "age": 7}


@pytest.mark.parametrize(
    ("words", "needed", "reason"),
    [
        ((), {"roots": {}}, "; to declare folders: --roots DIR"),
        (
            ("--no-ask",),
            {"sampling": {}},
            "; --no-ask withholds this capability: omit it",
        ),
        ((), {"sampling": {"tools": {}}}, ""),
    ],
)
def test_missing_capability_error_names_the_option(
    tool_server, cli, words, needed, reason
):
    data = {"requiredCapabilities": needed}
    error = {"code": -32021, "message": "missing", "data": data}
    done = cli("call", tool_server({"error": error}).line, "do", *words)
    assert done.code == 8
    assert done.err == f"mcpwire: tools/call: missing (JSON-RPC error -32021){reason}\n"
