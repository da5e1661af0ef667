"""The second server of a comparison has its own environment and headers."""

import json
import shlex
import sys

import pytest

import mcpwire
from mcpwire.cli.failures import UsageError
from mcpwire.cli.main import parse
from mcpwire.cli.output import Output
from mcpwire.cli.targets import make_second_target

URL, OTHER = "https://one.example/mcp", "https://two.example/mcp"
NAMED = """
import os, mcpwire
mcpwire.Server("-".join(map(str, map(os.environ.get, "AB"))), "1").run()
"""
SHORT = ["--for", "0.1s", "--rounds", "1", "--warm-up", "0", "--no-floor", "--json"]


def against(*words):
    return make_second_target(parse(["bench", *words]), Output())


def test_second_server_has_its_own_environment(cli):
    server = [sys.executable, "-c", NAMED]
    second = ["--against", shlex.join(server), "--against-env", "B=b"]
    code, out, _ = cli("bench", *SHORT, "--env", "A=a", *second, "--", *server)
    assert code == 0
    names = [each["server"]["name"] for each in json.loads(out)["subjects"]]
    assert names == ["a-None", "None-b"]


def test_second_url_has_its_own_headers_only(monkeypatch):
    monkeypatch.setenv("SECOND", "hush")
    first = ["-H", "X-A: first", "--header-env", "X-C=SECOND"]
    own = ["--against-header", "X-A: second", "--against-header-env", "X-B=SECOND"]
    found = against(URL, *first, "--against", OTHER, *own)
    assert found == mcpwire.Http(OTHER, headers={"X-A": "second", "X-B": "hush"})
    assert against(URL, *first, "--against", OTHER) == mcpwire.Http(OTHER)


def test_stdio_server_can_be_compared_with_a_url():
    started = against(URL, "--against", "run it", "--against-env", "A=b")
    assert isinstance(started, mcpwire.Stdio)
    assert (started.command, started.args) == ("run", ("it",))
    assert started.env == {"A": "b"}
    assert against("run it", "--env", "A=b", "--against", URL) == mcpwire.Http(URL)
    assert against("run it") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against-env", "A=b"], "--against-env needs --against TARGET"),
        (
            ["--against", URL, "--against-env", "A=b"],
            "--against-env: the server of --against is at a URL",
        ),
        (
            ["--against", "x", "--against-header", "A: b"],
            "--against-header: the server of --against is started",
        ),
        (
            ["--against", "x", "--against-header-env", "A=PATH"],
            "--against-header-env: the server of --against is started",
        ),
    ],
)
def test_option_unsuitable_for_the_second_server_is_refused(words, message):
    with pytest.raises(UsageError) as caught:
        against("cat", *words)
    assert str(caught.value) == message
