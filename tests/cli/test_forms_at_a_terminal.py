"""Server requests at a real terminal: forms, URLs, sampling, and cancelling them."""

import os
import signal
import subprocess
import sys

import pytest
from cli_servers import DONE, request
from test_answer_options import FORM, PAGE, TALK, answer, program

WITHDRAW = {
    "method": "notifications/cancelled",
    "params": {"requestId": 77, "reason": "too late"},
}
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.mark.rule("ELIC-11")
def test_form_is_filled_in_at_a_terminal(terminal, demo_target):
    one = terminal().start("call", demo_target, "order", "--mode", "stateless")
    one.answer("4", "2", "", "", "!skip", "2", "3", "s")
    assert one.finish() == 0
    assert "mcpwire-demo asks for input\n  | What may we bring you?\n" in one.text
    assert "expected a number from 1 to 3, got '4'" in one.text
    assert "    2  Tea  (tea)\n" in one.text
    assert "  1  Drink (drink): Tea\n  2  Cups (cups): 3\n" in one.text
    assert one.text.endswith("\n3 x tea, without sugar\n")


@pytest.mark.rule("ELIC-11", "ELIC-13")
def test_accepted_url_is_opened_in_the_browser(terminal, demo_target, tmp_path):
    log = tmp_path / "log"
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable} -S\nimport sys\nprint('chatter')\n"
        f"open({str(log)!r}, 'a').write(sys.argv[1])\n"
    )
    browser.chmod(0o755)
    one = terminal().start("call", demo_target, "pay", env={"BROWSER": str(browser)})
    one.read_until("> $")
    url = "https://example.com/mcpwire-demo?order=1"
    assert f"  URL   {url}\n  host  example.com\n" in one.text
    one.type("y\n")
    one.read_until("> $")
    assert not log.exists()
    one.type("o\n")
    one.read_until("c: cancel > $")
    assert log.read_text() == url
    one.type("r\n")
    assert one.finish() == 0
    assert "chatter" not in one.text
    assert "Opened in your browser.\n" in one.text
    assert one.text.endswith("agreed to pay\n")


@pytest.mark.rule("ELIC-15")
@pytest.mark.parametrize(
    ("env", "shown"),
    [
        ({}, b"https://\x1b[1mexample.com\x1b[0m/a"),
        ({"NO_COLOR": "1"}, b"example.com/a"),
    ],
    ids=["styles", "no styles"],
)
def test_url_host_is_bold_if_styles_are_supported(terminal, requesting, env, shown):
    server = requesting("elicitation/create", PAGE)
    one = terminal().start("call", server.line, "do", env=env)
    one.answer("d")
    assert one.finish() == 0
    assert shown in one.written
    assert (b"\x1b[1m" in one.written) is (env == {})


@pytest.mark.parametrize(
    ("leave", "params", "typed"),
    [
        (CTRL_C, FORM, ()),
        (CTRL_D, FORM, ("Ada", "")),
        (CTRL_D, PAGE, ()),
        (CTRL_C, PAGE, ("y",)),
    ],
)
@pytest.mark.rule("ELIC-11", "ELIC-21")
def test_ctrl_c_or_ctrl_d_cancels_only_the_elicitation(
    terminal, requesting, leave, params, typed
):
    server = requesting("elicitation/create", params)
    one = terminal().start("call", server.line, "do", controls=True)
    one.answer(*typed)
    one.read_until("> $")
    one.type(leave)
    assert one.finish() == 0
    assert answer(server) == {"action": "cancel"}
    assert "Cancelled. The call continues; Ctrl-C ends it.\ndone\n" in one.text


def test_a_second_interrupt_ends_the_call(terminal, tool_server):
    server = tool_server(request("elicitation/create", FORM))
    one = terminal().start("call", server.line, "do", controls=True)
    one.read_until("> $")
    one.type("\x03")
    one.read_until("Ctrl-C ends it")
    one.type("\x03")
    assert one.finish() == 130
    assert one.text.endswith("mcpwire: interrupted\n")
    assert server.messages()[-1]["method"] == "notifications/cancelled"
    assert not server.is_running()


def test_repeated_elicitations_can_be_interrupted(terminal, tool_server):
    again = request("elicitation/create", FORM, "$next")
    server = tool_server(request("elicitation/create", FORM), answer=[again])
    one = terminal().start("call", server.line, "do", controls=True)
    one.answer("!cancel", "!decline")
    for _ in range(2):
        one.read_until("> $")
        one.type(CTRL_C)
    assert one.finish() == 130
    actions = [m["result"]["action"] for m in server.messages() if "result" in m]
    assert actions == ["cancel", "decline", "cancel"]
    assert one.text.endswith("mcpwire: interrupted\n")
    assert "has withdrawn" not in one.text


def test_sigterm_at_a_prompt_ends_the_command(terminal, requesting):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.process.send_signal(signal.SIGTERM)
    assert one.finish() == 143
    assert one.text.endswith("mcpwire: interrupted\n")
    assert not server.is_running()


def test_cancelled_elicitation_is_not_answered(terminal, requesting):
    server = requesting("elicitation/create", FORM, WITHDRAW, DONE)
    one = terminal().start("call", server.line, "do")
    assert one.finish() == 0
    # The result may arrive before the message about the withdrawn request.
    assert "done\n" in one.text
    assert [m for m in server.messages() if m.get("id") == 77] == []


def test_server_exit_closes_the_prompt(terminal, tool_server, tmp_path):
    server = tool_server(request("elicitation/create", FORM))
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    pid = int(server.log.read_text().split(maxsplit=1)[0])
    os.kill(pid, signal.SIGKILL)
    assert one.finish() == 4
    assert "The server has withdrawn its request.\nmcpwire: " in one.text


@pytest.mark.pain("P08")
def test_timeout_is_paused_while_the_user_answers(terminal, requesting):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do", "--timeout", "2")
    one.read_until("> $")
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(2.2)  # the user's time is what is tested
    one.type("!decline\n")
    assert one.finish() == 0
    assert one.text.endswith("done\n")


def test_concurrent_elicitations_are_prompted_in_sequence(terminal, tool_server):
    both = [request("elicitation/create", FORM, id) for id in (77, 78)]
    server = tool_server(*both)
    one = terminal().start("call", server.line, "do", controls=True)
    one.answer("!decline", "!cancel")
    one.read_until("\n$")
    server.wait_for("cancel")
    one.type(CTRL_C)
    assert one.finish() == 130
    actions = [m["result"]["action"] for m in server.messages() if "result" in m]
    assert actions == ["decline", "cancel"]
    assert one.text.count("asks for input") == 2


def test_sampling_needs_consent_before_and_after_the_program(terminal, requesting):
    server = requesting("sampling/createMessage", TALK)
    code = program("print('old\\x1b pond')")
    one = terminal().start("call", server.line, "do", "--sample-with", code)
    one.answer("", "y", "what", "y")
    assert one.finish() == 0
    assert "scripted asks for an answer from your model\n" in one.text
    assert "model\n  | system: Be brief\n" in one.text
    assert "  | user: Hi\\x1b\n" in one.text
    assert f"at most 5 tokens; the program that answers: {sys.executable}\n" in one.text
    assert "The program's answer:\n  | old\\x1b pond\n" in one.text
    assert answer(server)["content"] == {"type": "text", "text": "old\x1b pond"}


@pytest.mark.rule("SAMP-18")
@pytest.mark.parametrize("typed", [("no",), ("y", CTRL_D)])
def test_sampling_can_be_denied_at_either_prompt(terminal, requesting, tmp_path, typed):
    server = requesting("sampling/createMessage", TALK)
    ran = tmp_path / "ran"
    code = program(f"open({str(ran)!r}, 'w'); print('x')")
    one = terminal().start("call", server.line, "do", "--sample-with", code)
    one.answer(*typed)
    assert one.finish() == 0
    assert answer(server)["code"] == -1
    assert ran.exists() == (len(typed) > 1)


def test_call_is_retried_after_the_required_urls_are_visited(
    terminal, tool_server, tmp_path
):
    error = {"code": -32042, "message": "x", "data": {"elicitations": [PAGE]}}
    server = tool_server({"error": error})
    one = terminal().start("call", server.line, "do")
    one.answer("y", "", "what", "r", "d")
    assert one.finish() == 8
    assert len(server.requests("tools/call")) == 2
    assert one.text.count("URL   https://example.com/a") == 2


def test_line_with_control_characters_is_prompted_for_again(terminal, requesting):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.answer("a\x1b[Db", "é日", "", "s")
    assert one.finish() == 0
    assert "The line has control characters" in one.text
    assert answer(server)["content"] == {"name": "é日", "age": 7}


def test_line_that_is_not_utf8_is_prompted_for_again(terminal, requesting):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.type_bytes(b"\xff\n")
    one.answer("Ada", "", "s")
    assert one.finish() == 0
    assert "The line is not UTF-8 text." in one.text


def test_partial_line_is_kept_until_its_newline(terminal, requesting):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.type("Gra\x04ce\n")  # Ctrl-D flushes the partial line
    one.answer("", "s")
    assert one.finish() == 0
    assert answer(server)["content"]["name"] == "Grace"


def test_pasted_lines_fill_fields_but_do_not_send_the_form(terminal, requesting):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.type("Ada\n\ns\n")
    one.read_until("cancel > $")
    one.type("d\n")
    assert one.finish() == 0
    assert answer(server) == {"action": "decline"}


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (("--json",), None, "declined with --json"),
        (("--no-ask",), None, ""),
        (("--answer", '{"name": "x"}'), None, "answered by --answer"),
        ((), subprocess.DEVNULL, "declined without a terminal"),
    ],
    ids=["json", "no ask", "answer", "no terminal"],
)
def test_prompts_are_disabled_by_options_and_without_a_terminal(
    terminal, requesting, words, stdin, message
):
    server = requesting("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do", *words, stdin=stdin)
    assert one.finish() == 0
    assert " > " not in one.text
    assert message in one.text


@pytest.mark.parametrize("verb", ["read", "prompt"])
def test_elicitation_during_read_and_prompt_is_prompted(terminal, scripted, verb):
    message = {"role": "user", "content": DONE["result"]["content"][0]}
    results = {
        "read": {"contents": [{"uri": "x:1", "text": "done"}]},
        "prompt": {"messages": [message]},
    }
    server = scripted(
        {"resources": {}, "prompts": {}},
        resources__read=[request("elicitation/create", FORM)],
        prompts__get=[request("elicitation/create", FORM)],
        answer=[{"result": results[verb]}],
    )
    words = ("x:1",) if verb == "read" else ("p", "--no-check")
    one = terminal().start(verb, server.line, *words)
    one.answer("!decline")
    assert one.finish() == 0
    assert one.text.endswith("done\n")
