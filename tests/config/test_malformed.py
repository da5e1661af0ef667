"""Malformed configuration files: each is refused with one sentence.

The sentence names the file, the entry and the field, and is compared exactly.
Every secret in these files contains the word that `sentinel` looks for.
"""

import pytest
from sentinel import SENTINEL

from mcpwire.config import ConfigError, load

VARIABLES = {"HOST": "host.example", "SECRET": SENTINEL, "LINE": f"a\n{SENTINEL}"}

ENTRIES = """\
command = "x"
connect_timeout = 2026-01-01
  connect_timeout: must be a number of seconds or "inf", got a date

command = "x"
roots = ["file://x/y"]
  roots[0]: 'file://x/y' must not name another machine

command = "x"
env_file = ".env"
  env_file: '.env': does not exist

url = "ftp://x/?SENTINEL"
  url: cannot use URL 'ftp://x/?***': its scheme must be http or https, not 'ftp'

url = "host.example/mcp"
  url: cannot use URL 'host.example/mcp': it must be absolute, such as
  'https://host/path'

url = "https://me:SENTINEL@host.example/"
  url: cannot use URL 'https://***@host.example/': it must not hold a user name or
  password

headers."a b" = "SENTINEL"
  headers: 'a b' cannot be a header's name

headers.X-Key = "${LINE}"
  headers: the value of 'X-Key' must be visible ASCII, with spaces only inside

headers.Mcp-Session-Id = "SENTINEL"
  headers: mcpwire sets 'Mcp-Session-Id'; it must not be given

url = "http://host.example/"
headers.Authorization = "SENTINEL"
  headers: header 'authorization' would be sent unencrypted to
  'http://host.example/': use https, or pass allow_insecure = true

auth = "Bearer SENTINEL"
  auth: must be 'oauth', a token (without 'Bearer') or a table, got a text of 15
  characters that is not a token

auth = "x"
headers.Authorization = "SENTINEL"
  auth: it and a header Authorization exclude each other

auth = {type = "oauth", client_secret = "SENTINEL"}
  auth: client_secret goes with a client_id

auth = {type = "client_credentials", issuer = "https://i"}
  auth: 'client_id' is missing

auth = {type = "enterprise_managed", client_id = "SENTINEL"}
  auth: 'idp_client_id' is missing

ca_file = "none.pem"
  ca_file: cannot read ca_file 'none.pem': No such file or directory

proxy = "http://p.example/x?SENTINEL"
  proxy: must have no path, query or fragment, got 'http://p.example/x?***'
"""
"""Fields of an entry, and indented the sentence; without others it is at a URL."""


def entry(*lines):
    return "\n".join(("[[servers]]", 'name = "a"', *lines))


def entries():
    """Return the entries as TOML, each with its sentence."""
    for block in ENTRIES.rstrip().split("\n\n"):
        lines = block.split("\n")
        fields = [line for line in lines if not line.startswith("  ")]
        sentence = " ".join(line.strip() for line in lines if line.startswith("  "))
        if not fields[0].startswith(("command", "url")):
            fields.insert(0, 'url = "https://host.example/mcp"')
        yield entry(*fields), f"a: {sentence}"


TOML = [
    ("servers = ", "is not TOML: invalid value (at end of document)"),
    (
        '[[servers]\nname = "a"',
        (
            "is not TOML: expected ']]' at the end of an array declaration"
            " (at line 1, column 10)"
        ),
    ),
    (
        'x = 1\nx = "SENTINEL"',
        "is not TOML: cannot overwrite a value (at end of document)",
    ),
    *entries(),
]

JSON = [
    ("", "is not JSON: input is a zero-length, empty document (at line 1, column 1)"),
    (
        '{/* a\n*/ "mcpServers": NaN,}',
        (
            "is not JSON: unexpected character, expected a JSON value (at "
            "line 2, column 18)"
        ),
    ),
    (
        '{"mcpServers": {"a": {"command": "x", "command": "SENTINEL"}}}',
        "a: command: is given twice",
    ),
    (
        '{"mcpServers": ' + "[" * 1_500 + "]" * 1_500 + "}",
        "is not JSON: depth limit exceeded (at line 1, column 1040)",
    ),
]


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def refuse(name):
        with pytest.raises(ConfigError) as caught:
            load(name, environment=VARIABLES)
        assert caught.value.file == name
        return str(caught.value)

    return refuse


def test_number_over_the_digit_limit_is_refused(tmp_path, refusal):
    text = "[[servers]]\nname = 'a'\ncommand = 'x'\ntimeout = 1" + "0" * 5_000
    (tmp_path / "mcp.toml").write_text(text)
    expected = "mcp.toml: is not TOML: exceeds the limit (4300 digits)"
    assert refusal("mcp.toml").startswith(expected)


@pytest.mark.system("L-V11", "L-R13", "R01")
@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [("mcp.toml", *row) for row in TOML] + [("mcp.json", *row) for row in JSON],
    ids=range(len(TOML) + len(JSON)),
)
def test_a_malformed_file_is_refused_in_one_sentence(
    tmp_path, refusal, name, text, problem
):
    (tmp_path / name).write_text(text)
    assert refusal(name) == f"{name}: {problem}"


DEEP = '{"mcpServers": {}, "x": ' + "[" * 990 + "]" * 990 + "}"


def test_json_beyond_pythons_nesting_limit_is_refused(tmp_path):
    # The limit differs between versions of Python.
    path = tmp_path / "mcp.json"
    path.write_text(DEEP)
    problems = []
    try:
        load(path)
    except ConfigError as error:
        problems.append(error.problem)
    assert problems in ([], ["is nested too deeply"])


def test_missing_file_is_named(refusal):
    assert refusal("none.toml") == "none.toml: does not exist"


def test_directory_is_refused(tmp_path, refusal):
    (tmp_path / "mcp.json").mkdir()
    assert refusal("mcp.json") == "mcp.json: is a directory"


def test_unreadable_file_is_named(refusal, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    # Tests that run as root could read the file.
    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    assert refusal("mcp.toml") == "mcp.toml: cannot be read: permission denied"


@pytest.mark.parametrize("name", ["mcp.toml", "mcp.json"])
def test_invalid_utf8_error_shows_the_byte_offset_only(tmp_path, refusal, name):
    (tmp_path / name).write_bytes(b'x = "SENTINEL\xff"')
    assert refusal(name) == f"{name}: is not UTF-8 (at byte 14)"


@pytest.mark.parametrize("name", ["mcp.yaml", "mcp", "mcp.jsonc"])
def test_other_file_extensions_are_refused(refusal, name):
    assert refusal(name) == f"{name}: must be named .toml or .json"


def test_control_characters_in_a_file_name_are_escaped():
    with pytest.raises(ConfigError) as caught:
        load("a\nb.toml")
    assert str(caught.value) == "'a\\nb.toml': does not exist"
    with pytest.raises(ConfigError) as caught:
        load("a\0b.toml")
    assert str(caught.value) == "'a\\x00b.toml': cannot be read: embedded null byte"


@pytest.mark.parametrize("name", ["mcp.toml", "mcp.json"])
def test_byte_order_mark_is_ignored(tmp_path, name):
    text = {"mcp.toml": "servers = []", "mcp.json": "[]"}[name]
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert len(load(tmp_path / name)) == 0


def test_env_file_error_names_the_file_and_the_line(tmp_path, refusal):
    (tmp_path / "x.env").write_text("A=b\nSENTINEL\n")
    (tmp_path / "mcp.toml").write_text(entry('command = "x"', 'env_file = "x.env"'))
    assert refusal("mcp.toml") == (
        "mcp.toml: a: env_file: 'x.env': line 2 is not NAME=VALUE"
    )
