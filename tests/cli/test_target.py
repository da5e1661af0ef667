"""Targets of commands: the options that define them, and the resulting objects."""

import pytest

import mcpwire
from mcpwire.cli.failures import UsageError
from mcpwire.cli.main import parse
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
