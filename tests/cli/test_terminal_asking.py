"""A person at a real terminal: forms, pages, models, and every way to leave them."""

import os
import signal
import subprocess
import sys

import pytest
from cli_servers import DONE, request
from test_asking import FORM, PAGE, TALK, answer, program

WITHDRAW = {
    "method": "notifications/cancelled",
    "params": {"requestId": 77, "reason": "too late"},
}
CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.mark.rule("ELIC-11")
def test_an_order_is_placed_at_the_terminal(terminal, demo_target):
    one = terminal().start("call", demo_target, "order", "--mode", "stateless")
    one.answer("4", "2", "", "", "!skip", "2", "3", "s")
    assert one.finish() == 0
    assert "mcpwire-demo asks for input\n  | What may we bring you?\n" in one.text
    assert "expected a number from 1 to 3, got '4'" in one.text
    assert "    2  Tea  (tea)\n" in one.text
    assert "  1  Drink (drink): Tea\n  2  Cups (cups): 3\n" in one.text
    assert one.text.endswith("\n3 x tea, without sugar\n")


@pytest.mark.rule("ELIC-11", "ELIC-13")
def test_a_page_is_agreed_to_and_opened_by_the_browser(terminal, demo_target, tmp_path):
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
    one.read_until("gives it up > $")
    assert log.read_text() == url
    one.type("r\n")
    assert one.finish() == 0
    assert "chatter" not in one.text
    assert "It was handed to your browser.\n" in one.text
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
def test_the_host_of_a_url_is_bold_where_there_are_styles(terminal, asking, env, shown):
    server = asking("elicitation/create", PAGE)
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
def test_keys_leave_a_question_open_and_the_call_goes_on(
    terminal, asking, leave, params, typed
):
    server = asking("elicitation/create", params)
    one = terminal().start("call", server.line, "do", controls=True)
    one.answer(*typed)
    one.read_until("> $")
    one.type(leave)
    assert one.finish() == 0
    assert answer(server) == {"action": "cancel"}
    assert "Cancelled. The call goes on; Ctrl-C now ends that.\ndone\n" in one.text


def test_a_second_interrupt_ends_the_call(terminal, tool_server):
    server = tool_server(request("elicitation/create", FORM))
    one = terminal().start("call", server.line, "do", controls=True)
    one.read_until("> $")
    one.type("\x03")
    one.read_until("Ctrl-C now ends that")
    one.type("\x03")
    assert one.finish() == 130
    assert one.text.endswith("mcpwire: interrupted\n")
    assert server.messages()[-1]["method"] == "notifications/cancelled"
    assert not server.is_running()


def test_a_server_that_asks_and_asks_cannot_keep_a_person(terminal, tool_server):
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
    assert "no longer asks" not in one.text


def test_another_signal_ends_the_command_at_a_question(terminal, asking):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.process.send_signal(signal.SIGTERM)
    assert one.finish() == 143
    assert one.text.endswith("mcpwire: interrupted\n")
    assert not server.is_running()


def test_a_question_that_is_withdrawn_is_no_longer_asked(terminal, asking):
    steps = [WITHDRAW, DONE]
    server = asking("elicitation/create", FORM, *steps)
    one = terminal().start("call", server.line, "do")
    assert one.finish() == 0
    # The answer may come before the line that the server no longer asks.
    assert "done\n" in one.text
    assert [m for m in server.messages() if m.get("id") == 77] == []


def test_a_server_that_dies_ends_the_question(terminal, tool_server, tmp_path):
    server = tool_server(request("elicitation/create", FORM))
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    pid = int(server.log.read_text().split(maxsplit=1)[0])
    os.kill(pid, signal.SIGKILL)
    assert one.finish() == 4
    assert "The server no longer asks.\nmcpwire: " in one.text


@pytest.mark.pain("P08")
def test_the_clock_stands_still_while_a_person_thinks(terminal, asking):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do", "--timeout", "2")
    one.read_until("> $")
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(2.2)  # the time a person takes is what is tested
    one.type("!decline\n")
    assert one.finish() == 0
    assert one.text.endswith("done\n")


def test_two_questions_are_asked_one_after_the_other(terminal, tool_server):
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


def test_a_model_is_asked_only_after_the_person_has_seen_what(terminal, asking):
    server = asking("sampling/createMessage", TALK)
    code = program("print('old\\x1b pond')")
    one = terminal().start("call", server.line, "do", "--sample-with", code)
    one.answer("", "y", "what", "y")
    assert one.finish() == 0
    assert "scripted asks for an answer of a model\n  | system: Be brief\n" in one.text
    assert "  | user: Hi\\x1b\n" in one.text
    assert f"at most 5 tokens; the program is {sys.executable}\n" in one.text
    assert "The program answers:\n  | old\\x1b pond\n" in one.text
    assert answer(server)["content"] == {"type": "text", "text": "old\x1b pond"}


@pytest.mark.rule("SAMP-18")
@pytest.mark.parametrize("typed", [("no",), ("y", CTRL_D)])
def test_a_person_can_deny_a_model_before_and_after(terminal, asking, tmp_path, typed):
    server = asking("sampling/createMessage", TALK)
    ran = tmp_path / "ran"
    code = program(f"open({str(ran)!r}, 'w'); print('x')")
    one = terminal().start("call", server.line, "do", "--sample-with", code)
    one.answer(*typed)
    assert one.finish() == 0
    assert answer(server)["code"] == -1
    assert ran.exists() == (len(typed) > 1)


def test_pages_that_a_call_needs_are_visited_and_it_is_made_again(
    terminal, tool_server, tmp_path
):
    error = {"code": -32042, "message": "x", "data": {"elicitations": [PAGE]}}
    server = tool_server({"error": error})
    one = terminal().start("call", server.line, "do")
    one.answer("y", "", "what", "r", "d")
    assert one.finish() == 8
    assert len(server.requests("tools/call")) == 2
    assert one.text.count("URL   https://example.com/a") == 2


def test_keys_that_are_no_letters_are_asked_again(terminal, asking):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.answer("a\x1b[Db", "é日", "", "s")
    assert one.finish() == 0
    assert "That has control characters in it" in one.text
    assert answer(server)["content"] == {"name": "é日", "age": 7}


def test_a_line_that_is_no_text_is_asked_again(terminal, asking):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.type_bytes(b"\xff\n")
    one.answer("Ada", "", "s")
    assert one.finish() == 0
    assert "That is no UTF-8 text." in one.text


def test_a_line_sent_in_the_middle_waits_for_its_end(terminal, asking):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.type("Gra\x04ce\n")  # Ctrl-D hands over what there is
    one.answer("", "s")
    assert one.finish() == 0
    assert answer(server)["content"]["name"] == "Grace"


def test_several_lines_at_once_answer_several_fields_but_send_nothing(terminal, asking):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do")
    one.read_until("> $")
    one.type("Ada\n\ns\n")
    one.read_until("cancels > $")
    one.type("d\n")
    assert one.finish() == 0
    assert answer(server) == {"action": "decline"}


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("--json",), None, "declined with --json"),
        (("--no-ask",), None, ""),
        (("--answer", '{"name": "x"}'), None, "answered by --answer"),
        ((), subprocess.DEVNULL, "declined without a terminal"),
    ],
    ids=["json", "no ask", "answer", "no terminal"],
)
def test_a_person_is_not_asked_where_that_was_not_wanted(
    terminal, asking, words, stdin, said
):
    server = asking("elicitation/create", FORM)
    one = terminal().start("call", server.line, "do", *words, stdin=stdin)
    assert one.finish() == 0
    assert " > " not in one.text
    assert said in one.text


@pytest.mark.parametrize("verb", ["read", "prompt"])
def test_reading_and_prompts_may_ask_too(terminal, scripted, verb):
    results = {
        "read": {"contents": [{"uri": "x:1", "text": "done"}]},
        "prompt": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "done"}}]
        },
    }
    method = {"read": "resources__read", "prompt": "prompts__get"}[verb]
    server = scripted(
        {"resources": {}, "prompts": {}},
        answer=[{"result": results[verb]}],
        **{method: [request("elicitation/create", FORM)]},
    )
    words = ("x:1",) if verb == "read" else ("p", "--no-check")
    one = terminal().start(verb, server.line, *words)
    one.answer("!decline")
    assert one.finish() == 0
    assert one.text.endswith("done\n")
