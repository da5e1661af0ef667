"""Requests of a third-party server, answered at a terminal and by options."""

import json
import shlex

import pytest
from real_servers import installed

pytestmark = pytest.mark.servers


@pytest.fixture
def everything(tmp_path):
    """Return the command line of the everything server."""
    server = installed("everything", tmp_path)
    return shlex.join(server.argv)


@pytest.mark.rule("ELIC-06", "ELIC-11")
def test_form_of_everything_server_is_filled_in_at_a_terminal(terminal, everything):
    one = terminal(100).start("call", everything, "trigger-elicitation-request")
    one.answer("Ada", "y", "", "nope", "a@b.example", "", "2000-02-28", "", "!skip")
    one.answer("2", "1,3", "", "1 2", "Cats", "1", "Grace", "s")
    assert one.finish() == 0
    assert "'nope' is not an email address" in one.text
    raw = one.text.partition("Raw result: ")[2]
    assert json.loads(raw) == {
        "action": "accept",
        "content": {
            "name": "Grace",
            "check": True,
            "firstLine": "It was a dark and stormy night.",
            "email": "a@b.example",
            "birthdate": "2000-02-28",
            "integer": 42,
            "untitledSingleSelectEnum": "Rachel",
            "untitledMultipleSelectEnum": ["Guitar", "Violin"],
            "titledSingleSelectEnum": "hero-1",
            "titledMultipleSelectEnum": ["fish-1", "fish-2"],
            "legacyTitledEnum": "pet-1",
        },
    }


@pytest.mark.rule("ELIC-11", "ELIC-13")
def test_urls_are_accepted_before_and_during_a_call(terminal, everything):
    words = ("trigger-url-elicitation", "url=https://example.com/a", "errorPath=true")
    one = terminal(100).start("call", everything, *words)
    one.answer("y", "", "r", "y", "")
    assert one.finish() == 0
    assert "URL   https://modelcontextprotocol.io\n" in one.text
    assert "URL   https://example.com/a\n" in one.text
    assert '"action": "accept"' in one.text


def test_sample_option_answers_a_sampling_request(cli, everything):
    words = ("trigger-sampling-request", "prompt=hi", "--sample", "hello")
    done = cli("call", everything, *words)
    assert done.code == 0
    assert '"text": "hello"' in done.out


def test_roots_option_answers_a_roots_request(cli, everything, tmp_path):
    done = cli("call", everything, "get-roots-list", "--roots", str(tmp_path))
    assert done.code == 0
    assert tmp_path.as_uri() in done.out
