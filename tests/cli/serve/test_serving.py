"""``mcpwire serve``, and ``mcpwire demo-server`` and ``mcpwire gateway`` over HTTP."""

import asyncio
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from cli_servers import TIMEOUT_S, serving
from ports import kept_port

import mcpwire
from mcpwire.cli.failures import UsageError
from mcpwire.cli.main import main
from mcpwire.cli.serve import find_change, load_server, scan_sources, split_target

PIPE_BYTES = 4096

SOURCE = """
from mcpwire import Server

{name} = Server("served", "{version}")


@{name}.tool
async def add(a: int, b: int) -> int:
    print("noise on stdout")
    return a + b
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a module for `serve` to the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name="server", file="served_module.py", version="1", extra=""):
        sys.modules.pop(file.removesuffix(".py"), None)
        (tmp_path / file).write_text(SOURCE.format(name=name, version=version) + extra)
        return tmp_path / file

    yield write
    for name in ("served_module", "other_module"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("module", ("module", None)),
        ("package.module:server", ("package.module", "server")),
        ("module:make.server", ("module", "make.server")),
        ("dir/file.py", ("dir/file.py", None)),
        ("dir/file.py:it", ("dir/file.py", "it")),
        ("C:\\dir\\file.py", ("C:\\dir\\file.py", None)),
    ],
)
def test_target_is_split_into_module_or_file_and_name(target, parts):
    assert split_target(target) == parts


def test_text_after_the_colon_must_be_an_identifier():
    with pytest.raises(UsageError, match="'1x' is not the name"):
        split_target("module:1x")


@pytest.mark.parametrize("name", ["server", "mcp", "app", "anything"])
def test_server_is_found_by_usual_name_or_as_the_only_one(module, name, monkeypatch):
    path = module(name)
    assert load_server("served_module").name == "served"
    sys.modules.pop("served_module")
    assert load_server(str(path)).name == "served"
    assert load_server(f"{path}:{name}").name == "served"
    monkeypatch.delitem(sys.modules, "json")
    sys.path.remove(str(path.parent))
    for file in ("json.py", "time.py"):
        path = path.rename(file)
        assert load_server(file).name == "served"
    assert sys.modules["time"] is time
    assert sys.modules["json"].loads


def test_server_factory_function_is_called(module):
    module(extra="\n\ndef make():\n    return Server('made', '2')\n")
    assert load_server("served_module:make").name == "made"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module", "unknown module 'no_such_module'"),
        ("no_such_package.module", "unknown module"),
        ("no/such/file.py", "'no/such/file.py' does not exist"),
        ("./", "'.' is not a file"),
        ("served_module:sever", "did you mean 'server'"),
        ("served_module:Server.nothing", "has no 'Server.nothing'"),
        ("served_module:add", "is a coroutine|no mcpwire.Server|missing"),
        ("", "not the name of a module"),
        (".served_module", "not the name of a module"),
        ("other_module", "name one of one, two"),
        ("served_module.py:__doc__", "is a NoneType"),
        ("empty_module.py", "'empty_module.py' has no mcpwire.Server"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_target_without_a_server_is_a_usage_error(module, target, message):
    module()
    path = module(name="one", file="other_module.py", extra="\ntwo = Server('b')\n")
    path.with_name("empty_module.py").write_text("")
    with pytest.raises((UsageError, TypeError), match=message):
        load_server(target)


def test_import_error_of_the_module_shows_its_traceback(module, capfd):
    module(extra="\nimport no_such_module_at_all\n")
    assert main(["serve", "served_module"]) == 1
    output = capfd.readouterr().err
    assert "No module named 'no_such_module_at_all'" in output
    assert "import no_such_module_at_all" in output
    # The frames of the import machinery are left out.
    assert output.count("  File ") == 1


def test_value_error_of_the_module_shows_its_traceback(module, capfd):
    module(extra="\nint('no port')\n")
    assert main(["serve", "served_module"]) == 1
    assert "ValueError: invalid literal for int" in capfd.readouterr().err


LIFESPAN = """

import contextlib


@contextlib.asynccontextmanager
async def lifespan(_):
    raise LookupError("no database")
    yield


broken = Server("broken", lifespan=lifespan)
"""


def test_lifespan_error_shows_its_traceback(module, capfd):
    module(extra=LIFESPAN)
    assert main(["serve", "served_module:broken", "--http", ":0"]) == 1
    output = capfd.readouterr().err
    assert "LookupError: no database" in output
    assert "in lifespan" in output
    assert "-v shows" not in output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("serve", "serve needs MODULE:SERVER (see mcpwire serve --help)"),
        ("serve m --path /x", "--path needs --http"),
        ("serve m --allow-host x", "--allow-host needs --http"),
        ("serve m --reload", "--reload needs --http"),
        ("serve m --http x", "--http: the address must be HOST:PORT, got 'x'"),
        ("serve m --http x --reload", "--http: the address must be"),
        ("serve m --nonsense", "--nonsense"),
        ("demo-server --auth", "--auth needs --http"),
        ("demo-server --quiet", "--quiet needs --http"),
        ("demo-server --http :0 --auth", "--auth needs a port that its tokens can"),
        ("demo-server --http 0.0.0.0:80 --auth", "--auth is for this machine only"),
        ("demo-server --http a.example:80 --auth", "--auth is for this machine only"),
        ("demo-server --http nonsense", "--http: the address must be HOST:PORT"),
        ("demo-server --http 192.0.2.1:80", "cannot listen on '192.0.2.1', port 80"),
        ("gateway", "name the servers"),
        ("gateway time", "'time' is not NAME=TARGET"),
        ("gateway =x", "'=x' is not NAME=TARGET"),
        ("gateway a=", "'a=' is not NAME=TARGET"),
        ("gateway a=x b=x a=y", "server 'a' is given twice"),
        ("gateway a=x --path /x", "--path needs --http"),
        ("gateway a=x --path-per-server", "--path-per-server needs --http"),
        ("gateway a=x --session-key-env X", "--session-key-env needs --http"),
        ("gateway a=x --watch", "--watch needs --config FILE"),
        ("gateway a=x --from-headers --http :0", "--from-headers excludes"),
        ("gateway --from-headers", "--from-headers needs --http"),
        ("gateway a=x --http :0 --stdio", "not allowed with"),
        ("gateway a=x --http x", "the address must be HOST:PORT"),
        ("gateway a=x --http :0 --path x", "path must begin with a slash"),
        ("gateway a=x --timeout 0", "timeout"),
        ("gateway a=x --trace /nonexistent/x", "--trace: [Errno 2] No such file"),
        ("gateway a=ftp://x", "server 'a'"),
        ("gateway a=x --http :0 --session-key-env NONE", "NONE is empty"),
        ("gateway a=x --http :0 --session-key-env BAD", "BAD: session key 1 is"),
        ("gateway a=x --http :0 --forward-header cookie", "never forwarded"),
        ("gateway --config /nonexistent/mcp.json", "/nonexistent/mcp.json"),
    ],
)
def test_invalid_options_are_one_line_errors(line, message, capfd, monkeypatch):
    monkeypatch.setenv("BAD", "not base64!")
    assert main(line.split()) == 2
    (shown,) = capfd.readouterr().err.splitlines()
    assert shown.startswith("mcpwire: ")
    assert message in shown


COMMANDS = pytest.mark.parametrize(
    "words", [("serve", "served_module.py"), ("gateway", "a=x")]
)


@COMMANDS
def test_missing_package_is_a_one_line_error(module, capfd, monkeypatch, words):
    module()
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main([*words, "--http", ":0"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("serving over HTTP needs uvicorn: pip install uvicorn")


@COMMANDS
def test_address_in_use_is_a_one_line_error(module, capfd, words):
    module()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*words, "--http", f":{port}"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"mcpwire: cannot listen on '127.0.0.1', port {port}: " in line
    assert line.endswith("; port 0 takes a free one")


@pytest.mark.case("A02")
async def test_served_module_answers_calls_over_stdio(module):
    path = module()
    target = mcpwire.Stdio(sys.executable, ["-m", "mcpwire", "serve", str(path)])
    async with mcpwire.Client(target) as client:
        assert client.server_info.name == "served"
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3}


URL = r"(http://127\.0\.0\.1:\d+/\S*)"


async def test_http_server_announces_its_url_and_ends_on_sigterm(module):
    path = module()
    with serving("serve", str(path), "--http", ":0", "--path", "/here") as it:
        url = (await asyncio.to_thread(it.line, URL))[1]
        assert url.endswith("/here")
        async with mcpwire.Client(url) as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}
        it.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(it.process.wait, TIMEOUT_S) in {0, 128 + 15, -15}


async def test_http_server_logs_its_start_and_each_request(module):
    with serving("serve", str(module()), "--http", ":0") as it:
        url = await asyncio.to_thread(it.line, URL)
        names = ", ".join(revision.name for revision in mcpwire.REVISIONS)
        assert url.string == f"mcpwire: serving {url[1]} (served, {names})\n"
        async with mcpwire.Client(url[1], mode="stateless") as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(mcpwire.RPCError):
                await client.request("no/such", {})
        lines = [await asyncio.to_thread(it.line, "POST") for _ in range(3)]
        logged = [re.sub(r"\d+\.\d ms", "T", line.string) for line in lines]
        unknown = "'no/such' is not a method of this server at 2026-07-28"
        assert logged == [
            "mcpwire: 127.0.0.1 POST /mcp server/discover 200 T\n",
            "mcpwire: 127.0.0.1 POST /mcp tools/call add 200 T\n",
            f"mcpwire: 127.0.0.1 POST /mcp no/such 404 T: {unknown}\n",
        ]


async def test_full_stderr_pipe_does_not_block_calls(module):
    with serving("serve", str(module()), "--http", ":0") as it:
        url = (await asyncio.to_thread(it.line, URL))[1]
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux
            fcntl.fcntl(it.process.stderr, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            calls = 2 * PIPE_BYTES // len("mcpwire: 127.0.0.1 POST /mcp tools/call")
        else:
            calls = 2_000
        async with mcpwire.Client(url, timeout=TIMEOUT_S) as client:
            for _ in range(calls):
                await client.call_tool("add", {"a": 1, "b": 2})
            await asyncio.to_thread(it.line, "POST")
            await client.call_tool("add", {"a": 1, "b": 2})
            left_out = r"tools/call add 200 .* \(\d+ more were not written\)$"
            await asyncio.to_thread(it.line, left_out)


QUIET = """
import logging, sys
import mcpwire

server = mcpwire.Server("served")
if "logs" in sys.argv:
    logging.basicConfig(level="INFO", format="own: %(message)s")

def announced(url):
    import urllib.request
    try:
        urllib.request.urlopen(url)
    except OSError:
        pass
    print("asked", flush=True)

server.run(http="127.0.0.1:0", announce=lambda url: __import__("threading").Thread(
    target=announced, args=(url,)).start(), quiet="quiet" in sys.argv)
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["quiet"], ""),
        ([], "mcpwire: 127.0.0.1 GET /mcp 4"),
        (["logs"], "own: 127.0.0.1 GET /mcp 4"),
        (["logs", "quiet"], "own: 127.0.0.1 GET /mcp 4"),
    ],
)
def test_quiet_mode_keeps_logging_configured_by_the_program(words, expected):
    with subprocess.Popen(
        [sys.executable, "-c", QUIET, *words], stdout=-1, stderr=-1, text=True
    ) as process:
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert errors.startswith(expected)
    assert errors.count("GET") == (1 if expected else 0)


def test_quiet_option_silences_the_command(module):
    with serving("serve", str(module()), "--http", ":0", "--quiet") as it:
        it.process.terminate()
        assert it.process.stderr.read() == ""


async def test_changed_file_restarts_the_server(module):
    path = module()
    with serving("serve", str(path), "--http", ":0", "--reload") as it:
        url = (await asyncio.to_thread(it.line, URL))[1]
        async with mcpwire.Client(url) as client:
            assert client.server_info.version == "1"
        module(version="2")
        later = time.time() + 5  # the clock of some file systems is coarse
        os.utime(path, (later, later))
        url = (await asyncio.to_thread(it.line, URL))[1]
        async with mcpwire.Client(url) as client:
            assert client.server_info.version == "2"


def test_added_changed_and_removed_sources_are_detected(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / ".hidden").mkdir()
    one = tmp_path / "pkg" / "one.py"
    one.write_text("1")
    seen = [scan_sources(tmp_path)]

    def rescan():
        seen.append(scan_sources(tmp_path))
        return find_change(*seen[-2:])

    assert rescan() is None
    (tmp_path / ".hidden" / "no.py").write_text("1")
    (tmp_path / "text.txt").write_text("1")
    assert rescan() is None
    os.utime(one, (1, 1))
    assert rescan() == one
    two = tmp_path / "two.py"
    two.write_text("1")
    assert rescan() == two
    one.unlink()
    assert rescan() == one
    assert rescan() is None


def test_folder_that_is_removed_during_a_scan_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    one = tmp_path / "one.py"
    one.write_text("1")
    scandir = os.scandir

    def remove_before(path="."):
        if Path(path).name == "gone":
            Path(path).rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_before)
    assert list(scan_sources(tmp_path)) == [one]
    assert not (tmp_path / "gone").exists()


# The embedded server...


async def test_demo_server_over_http_needs_no_token():
    with serving("demo-server", "--http", ":0") as it:
        url = it.line(r"serving (\S+) \(mcpwire-demo, ")[1]
        async with mcpwire.Client(url) as client:
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result.structured_content == {"sum": 5}


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
async def test_demo_server_with_auth_requires_and_issues_tokens(host):
    with (
        kept_port() as port,
        serving("demo-server", "--http", f"{host}:{port}", "--auth") as it,
    ):
        url = it.line(r"serving (\S+) ")[1]
        assert url == f"http://{host or 'localhost'}:{port}/mcp"
        with pytest.raises(mcpwire.HTTPError) as caught:
            await mcpwire.Client(url).connect()
        assert caught.value.status == 401
        auth = mcpwire.OAuth(ask=consent, storage=mcpwire.MemoryStorage())
        service = mcpwire.ClientCredentials(
            client_id="my-service",
            client_secret="s3cret",
            issuer=url.removesuffix("/mcp"),
        )
        for each in (auth, service):
            target = mcpwire.Http(url, auth=each)
            async with mcpwire.Client(target) as client:
                result = await client.call_tool("add", {"a": 2, "b": 3})
                assert result.structured_content == {"sum": 5}


async def consent(url):
    """Request the URL as a browser does, and return the redirect target."""
    async with httpx.AsyncClient() as client:
        answer = await asyncio.wait_for(client.get(url), TIMEOUT_S)
    return answer.headers["location"]
