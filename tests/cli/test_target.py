"""The grammar of commands: targets, the options that define them, server commands."""

from __future__ import annotations  # as the modules of options have them

import importlib
import math
import shlex
from collections import Counter

import pytest

import mcpwire
from mcpwire.cli.failures import UsageError
from mcpwire.cli.main import COMMANDS, OVERVIEW, parse
from mcpwire.cli.options import Group, Options, option
from mcpwire.cli.output import Output
from mcpwire.cli.targets import make_target

URL = "https://host.example/mcp"
HUSH = "hush-hush"


def target(*words):
    return make_target(parse(["ls", *words]), Output())


def refusal(*words):
    with pytest.raises(UsageError) as caught:
        target(*words)
    assert HUSH not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("words", [[URL], ["--", URL], [f" {URL} "]])
def test_url_becomes_an_http_target(words):
    found = target(*words)
    assert type(found) is mcpwire.Http
    assert found == mcpwire.Http(URL)


@pytest.mark.parametrize("word", ["proxy https://host.example", "./http:/x"])
def test_url_inside_a_command_line_stays_an_argument(word):
    assert type(target(word)) is mcpwire.Stdio


def test_arguments_after_a_url_are_refused():
    assert refusal("--", URL, "x") == ("a URL takes no further words, got 'x'")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["-H", "X-A: b"], "-H"),
        (["--header", "X-A: b"], "-H"),
        (["--header-env", "X-A=PATH"], "--header-env"),
        (["--ca", "ca.pem"], "--ca"),
        (["--cert", "me.pem"], "--cert"),
        (["--proxy", "http://p.example"], "--proxy"),
        (["--allow-insecure"], "--allow-insecure"),
    ],
)
def test_http_options_are_refused_for_a_command(words, option):
    assert refusal("cat", *words) == (
        f"{option} applies to servers at a URL, not to a server that is started"
    )


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--env", "A=b"], "--env"),
        (["--inherit-env"], "--inherit-env"),
        (["--cwd", "/"], "--cwd"),
    ],
)
def test_process_options_are_refused_for_a_url(words, option):
    assert refusal(URL, *words) == (
        f"{option} applies to servers that are started, not to a server at a URL"
    )


def test_header_options_are_combined(monkeypatch):
    monkeypatch.setenv("TOKEN", "abc")
    found = target(
        *(URL, "-H", "X-Tenant: a: b", "--header", "x-empty:"),
        *("--header-env", "X-Api-Key=TOKEN"),
        *("--header-env", "Authorization=Bearer TOKEN"),
    )
    assert found.headers == {
        "X-Tenant": "a: b",
        "x-empty": "",
        "X-Api-Key": "abc",
        "Authorization": "Bearer abc",
    }


@pytest.mark.attack("S23")
@pytest.mark.parametrize("name", ["Authorization", "cookie", "X-API-Key", "x-token"])
def test_secret_header_in_the_command_line_is_refused(name):
    message = refusal(URL, "-H", f"{name}: {HUSH}")
    assert message.startswith(f"-H {name}: every process of the machine can read")
    assert f"--header-env {name}=VARIABLE" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-H", HUSH], "-H: a header is written 'NAME: VALUE'"),
        (["-H", "X-A: 1", "-H", "x-a: 2"], "header 'x-a' is given twice"),
        (["-H", ": 1"], "headers: '' cannot be a header's name"),
        (
            ["-H", "Content-Length: 1"],
            "mcpwire sets 'Content-Length'; it must not be given",
        ),
        (["-H", "X-A: \x01"], "the value of 'X-A' must be visible ASCII"),
        (["-H", "@/no/such"], "cannot read '/no/such': no such file or directory"),
        (["--header-env", "X-A"], "--header-env must be NAME=VARIABLE"),
        (["--header-env", f"X-A={HUSH}"], "--header-env must be NAME=VARIABLE"),
        (["--header-env", "X-A="], "--header-env must be NAME=VARIABLE"),
        (["--header-env", "=PATH"], "--header-env must be NAME=VARIABLE"),
        (["--header-env", "X-A=NOT_SET"], "--header-env X-A: NOT_SET is not set"),
        (["--header-env", "X-A=Bearer NOT_SET"], "--header-env X-A: NOT_SET is not"),
    ],
)
def test_invalid_headers_are_refused(words, message):
    assert message in refusal(URL, *words)


def test_headers_of_a_file_may_contain_secrets(tmp_path):
    path = tmp_path / "headers.txt"
    path.write_text(f"Authorization: Bearer {HUSH}\n\nX-Tenant: a\n")
    assert target(URL, "-H", f"@{path}").headers == {
        "Authorization": f"Bearer {HUSH}",
        "X-Tenant": "a",
    }


def test_headers_are_read_from_standard_input(stdin):
    stdin(f"cookie: {HUSH}\r\n")
    assert target(URL, "-H", "@-").headers == {"cookie": HUSH}


def test_invalid_header_line_of_a_file_is_not_quoted(tmp_path):
    path = tmp_path / "headers.txt"
    path.write_text(HUSH)
    assert refusal(URL, "-H", f"@{path}").endswith("a header is written 'NAME: VALUE'")


@pytest.mark.attack("S30")
def test_secret_over_http_needs_allow_insecure(monkeypatch):
    monkeypatch.setenv("TOKEN", HUSH)
    words = ["http://host.example/mcp", "--header-env", "Authorization=Bearer TOKEN"]
    message = refusal(*words)
    assert message.endswith("use https, or pass --allow-insecure")
    assert target(*words, "--allow-insecure").allow_insecure
    assert target("http://localhost/mcp", *words[1:]).headers


@pytest.mark.pain("P28")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ca", "/no/such.pem"], "cannot read --ca '/no/such.pem': No such file"),
        (["--cert", "/no/such.pem"], "cannot read --cert '/no/such.pem': No such"),
        (["--cert", "/etc/passwd,/no"], "cannot read --cert '/no': No such file"),
        (["--proxy", "p.example:3128"], "--proxy: cannot use URL"),
        (["--proxy", "http://p.example/x"], "--proxy must have no path, query or"),
        (
            ["--proxy", f"http://me:{HUSH}@p.example"],
            "--proxy: every process of the machine can read its password there",
        ),
    ],
)
def test_unusable_file_or_proxy_error_names_the_option(words, message):
    assert message in refusal(URL, *words)


def parsed(line):
    """Return the options of a command line, as a shell splits it."""
    return parse(shlex.split(line))


@pytest.mark.parametrize(
    ("line", "command", "words"),
    [
        ("ls 'npx -y x'", "'npx -y x'", ""),
        ("ls -- npx -y x", "npx -y x", ""),
        ("ls -- uv run -- x --json", "uv run -- x --json", ""),
        ("call T tool a=1 b:=2", "T", "tool a=1 b:=2"),
        ("call tool a=1 -- T a=2", "T a=2", "tool a=1"),
        ("call T tool --json a=1", "T", "tool a=1"),
        ("call --timeout 5 T tool a=-1", "T", "tool a=-1"),
        ("call T tool -", "T", "tool -"),
        ("read T file:///x", "T", "file:///x"),
        ("read file:///x -- T", "T", "file:///x"),
        ("complete T prompt:p arg", "T", "prompt:p arg"),
        ("complete prompt:p arg va -- T", "T", "prompt:p arg va"),
        ("call https://x/mcp tool", "https://x/mcp", "tool"),
        ("call tool -- https://x/mcp", "https://x/mcp", "tool"),
        ("demo", "", ""),
        ("demo-server", "", ""),
    ],
)
def test_target_and_words_are_separated(line, command, words):
    options = parsed(line)
    assert options.command == tuple(shlex.split(command))
    assert options.words == words.split()
    assert options.verb == line.split()[0]


def test_options_are_accepted_anywhere_before_the_double_dash():
    options = parsed("read --json T -v file:///x --timeout 0.5 -o out")
    assert (options.json, options.verbose, options.timeout) == (True, 1, 0.5)
    assert options.output == "out"
    assert parsed("ls T -vv").verbose == 2
    assert parsed("ls T --timeout inf").timeout == math.inf
    assert parsed("ping T -n 3").count == 3
    assert parsed("call T t --no-check").check is False


def test_omitted_options_have_their_defaults():
    options = parsed("ls T")
    entries = [entry for group in options.groups for entry in group.options()]
    assert len(entries) > 20
    for entry in entries:
        assert getattr(options, entry.name) == entry.default
    assert (options.json, options.mode, options.count) == (False, None, 1)
    assert (options.env, options.timeout, options.may_ask) == ([], None, True)


def test_environment_variable_sets_the_default_of_an_option(monkeypatch):
    class Sizes(Group):
        size: int = option("--size N", type=int, default=3, variable="TEST_SIZE")
        fast: bool = option("--fast", variable="TEST_FAST")

    sizes = Sizes()
    assert (sizes.size, sizes.fast) == (3, False)
    monkeypatch.setenv("TEST_SIZE", "4")
    monkeypatch.setenv("TEST_FAST", "1")
    assert (sizes.size, sizes.fast) == (4, True)
    sizes.size = 5
    assert sizes.size == 5


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_refers_to_a_function(name):
    module, _, function = COMMANDS[name].run.partition(":")
    assert callable(getattr(importlib.import_module(f"mcpwire.cli.{module}"), function))


def test_each_option_is_declared_once():
    groups = [base for base in Options.__mro__ if issubclass(base, Group)]
    names = [entry.name for group in groups for entry in group.options()]
    # --timeout has another meaning in each of these groups.
    repeated = {name: count for name, count in Counter(names).items() if count > 1}
    assert repeated == {"timeout": 4}


def test_several_values_of_an_option_are_collected():
    options = parsed("complete T prompt:p a --context x=1 --context y=2=3")
    assert options.context == [("x", "1"), ("y", "2=3")]


@pytest.mark.attack("S20")
def test_env_option_sets_a_value_or_passes_a_variable(monkeypatch):
    monkeypatch.setenv("GIVEN", "ours")
    options = parsed("ls T --env A=1=2 --env GIVEN --env B=")
    assert options.env == [("A", "1=2"), ("GIVEN", "ours"), ("B", "")]
    assert options.inherit_env is False


BAD = [
    ("ls", "ls needs TARGET"),
    ("call T", "call needs TOOL"),
    ("read", "read needs TARGET and URI"),
    ("call -- T", "call needs TOOL before `--`"),
    ("complete -- T", "complete needs REF and ARG before `--`"),
    ("ls --", "no command follows `--`"),
    ("ls python x.py", "ls: unexpected argument 'x.py'; quote the server's"),
    ("ls x -- T", "ls: unexpected argument 'x'"),
    ("ls npx -y x", "unknown option '-y'; the options of the server's own"),
    ("ls T --timeot 5", "unknown option '--timeot'; did you mean '--timeout'?"),
    ("ls T --count 5", "unknown option '--count'"),
    (
        "call T add --names 2",
        "unknown option '--names'; an argument is written without dashes: names=VALUE",
    ),
    (
        "call T add --timeot 2",
        "unknown option '--timeot'; did you mean '--timeout'? An argument is written",
    ),
    ("ls T --timeout 0", "argument --timeout: must be above zero, got '0'"),
    ("ls T --timeout nan", "argument --timeout: must be above zero"),
    ("ls T --timeout x", "argument --timeout: must be a number of seconds, got"),
    ("ls T --timeout", "argument --timeout: expected one argument"),
    ("ping T -n 0", "argument -n/--count: must be at least 1"),
    ("ping T -n .5", "argument -n/--count: must be an integer of at least 1, got '.5'"),
    (
        "bench T --sessions x",
        "argument --sessions: must be per-call or an integer of at least 1, got 'x'",
    ),
    ("check T --seed x", "argument --seed: must be an integer, got 'x'"),
    ("ls T --env =x", "argument --env: must be NAME=VALUE or NAME"),
    ("ls T --env NOT_SET_HERE", "--env NOT_SET_HERE: NOT_SET_HERE is not set"),
    ("complete T p a --context x", "argument --context: must be NAME=VALUE"),
    ("demo x", "demo: unexpected argument 'x'"),
    ("demo -- T", "demo takes no server's command"),
    ("demo-server --json", "unknown option '--json'"),
]


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_invalid_command_line_is_refused(line, sentence):
    with pytest.raises(UsageError) as caught:
        parsed(line)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("word", "sentence", "suggestions"),
    [
        ("lst", "unknown command 'lst'; did you mean 'ls'?", ("ls",)),
        ("PROMTP", "unknown command 'PROMTP'; did you mean 'prompt'?", ("prompt",)),
        ("xyz", "unknown command 'xyz'; mcpwire --help lists the commands", ()),
        ("--json", "the command comes before its options, got '--json' first", ()),
    ],
)
def test_unknown_command_gets_a_suggestion(word, sentence, suggestions):
    with pytest.raises(UsageError) as caught:
        parse([word, "T"])
    assert str(caught.value) == sentence
    assert caught.value.suggestions == suggestions


@pytest.mark.parametrize("verb", COMMANDS)
def test_each_command_has_help(verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = parsed(f"{verb} --help").help
    assert text is not None
    assert text.startswith(f"usage: mcpwire {verb}")
    assert "exit codes" in text
    assert max(map(len, text.splitlines())) <= 88


def test_help_takes_precedence_over_other_errors():
    assert parsed("call -h").help is not None
    assert parsed("ls a b -h").help is not None


def test_the_overview_names_each_command():
    for verb in COMMANDS:
        assert f"\n  {verb} " in OVERVIEW
    assert max(map(len, OVERVIEW.splitlines())) <= 88
