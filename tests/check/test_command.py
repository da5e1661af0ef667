"""``mcpwire check`` from the command line: exit codes, files and messages."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from small_http import opening, respond, with_body
from unmeasured import pause

from mcpwire.check import CASES, CLIENT_CASES, Report

HERE = Path(__file__).parent
GOOD = ["--", sys.executable, str(HERE / "server.py")]
BAD = [*GOOD[:2], str(HERE / "mutants.py"), "an unknown method is invalid params"]
ONE = ["--only", "RPC-31.a", "--revision", "2025-11-25"]


def test_passing_server_exits_with_0_and_a_broken_must_with_6(cli):
    code, out, _ = cli("check", *ONE, *GOOD)
    assert code == 0
    assert "mcpwire-subject 1.0: 1 pass" in out
    code, out, _ = cli("check", *ONE, *BAD)
    assert code == 6
    assert "fail" in out
    assert "expected  an error -32601" in out
    assert "again     mcpwire check --only RPC-31.a --revision 2025-11-25" in out


def printed_command(out):
    """Return the line of the command that repeats the only failure."""
    (line,) = [each for each in out.splitlines() if "again" in each]
    return line


def fails_again(cli, line):
    code, out, _ = cli(*shlex.split(line)[2:])
    return code == 6 and line in out


def test_printed_command_repeats_a_failure(cli):
    _, out, _ = cli("check", *ONE, *BAD)
    assert fails_again(cli, printed_command(out))


def test_repeat_command_has_all_options_without_secrets(cli, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_OURS", "a-secret-token")
    monkeypatch.setenv("COLOUR", "blue")
    given = ["--env", "COLOUR", "--env", "SIZE=4", "--env", "API_KEY=a-secret-key"]
    given += ["--env", "GITHUB_PAT=a-secret-pat", "--env", "DB=pg://me:a-secret@host/"]
    given += ["--map", "echo=echo", "--allow-calls", "e*"]
    given += ["--auth", "TOKEN_OF_OURS", "--timeout", "4", "--cwd", str(HERE)]
    _, out, _ = cli("check", *ONE, *given, *BAD)
    line = printed_command(out)
    for words in (
        *("--env COLOUR", "--env SIZE=4", "--env API_KEY", "--auth good=TOKEN_OF_OURS"),
        *("--timeout 4", f"--cwd {HERE}", "--env GITHUB_PAT --env DB"),
        "--map echo=echo --allow-calls 'e*'",
    ):
        assert f" {words} " in line
    assert "a-secret" not in out


def test_repeat_command_names_a_configured_server(cli, tmp_path):
    word, *words = BAD[1:]
    start = f"import os, sys; os.environ['SECRET'] and os.execv({word!r}, sys.argv[1:])"
    entry = {
        "command": word,
        "args": ["-c", start, word, *words],
        "env": {"SECRET": "a-secret-word"},
    }
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"bad": entry}}))
    code, out, _ = cli("check", *ONE, "--config", str(file), "@bad")
    line = printed_command(out)
    assert line.endswith(f" --seed 1 --config {file} @bad")
    assert "a-secret" not in out
    assert code == 6
    assert fails_again(cli, line)


class OneTeam(BaseHTTPRequestHandler):
    """A server that requires team headers, and fails unknown methods with -32602."""

    given = "team: blue", "licence-key: a-secret-key"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = [line.partition(":")[0] for line in self.given]
        is_ours = [f"{n}: {self.headers[n]}" for n in names] == list(self.given)
        outcomes = {"initialize": {"result": opening("team")}, "ping": {"result": {}}}
        unknown = {"error": {"code": -32602, "message": "unknown"}}
        outcome = outcomes.get(message["method"], unknown)
        refusal = with_body(b"", status="403 Forbidden")
        self.wfile.write(respond(message, **outcome) if is_ours else refusal)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(handler):
    """Run a server in a thread; yield its origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def team_url():
    with serving(OneTeam) as origin:
        yield f"{origin}/mcp;v=(1)"


def test_repeat_command_over_http_has_the_headers(cli, monkeypatch, tmp_path, team_url):
    team, key = OneTeam.given
    (tmp_path / "headers").write_text(f"{key}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LICENCE_KEY", "a-secret-key")
    monkeypatch.setenv("X_SESSION_ID", "a-secret-session")
    monkeypatch.setenv("X_TEAM", "a-secret" * 30)
    monkeypatch.setenv("X_UPSTREAM", "Bearer a-secret-token")
    session, upstream = "X-Session-Id: a-secret-session", "X-Upstream: Bearer a-secret"
    assert cli("check", *ONE, "-H", team, team_url)[0] == 4
    for given, shown in (
        (
            ["-H", team, "-H", key, "-H", session, "-H", upstream],
            "X-Session-Id=X_SESSION_ID --header-env X-Upstream=X_UPSTREAM",
        ),
        (["-H", team, "-H", key], f"-H '{team}' --header-env licence-key=LICENCE_KEY"),
        (["-H", team, "-H", "@headers"], f"-H '{team}' -H @headers"),
        (
            ["-H", team, "--allow-insecure", "--wait", "9s", "-H", key],
            "LICENCE_KEY --wait 9s --allow-insecure",
        ),
    ):
        _, out, _ = cli("check", *ONE, *given, team_url)
        line = printed_command(out)
        assert f"{shown} 'http" in line
        assert "a-secret" not in out
        assert fails_again(cli, line)
    headers = dict(line.split(": ") for line in OneTeam.given)
    path = f"{team_url}/${{X_TEAM}}/${{X_TEAM}}${{LICENCE_KEY}}"
    url = f"{path}?key=${{LICENCE_KEY}}"
    entry = {"url": url, "headers": headers}
    (tmp_path / "x.json").write_text(json.dumps({"mcpServers": {"é": entry}}))
    configured = "--config", "x.json", "@é"
    _, out, _ = cli("check", *ONE, "--json", "--html", "h", *configured)
    assert json.loads(out)["subject"] == f"{path}?***"
    assert out.isascii()
    (page,) = Path("h", "results").rglob("RPC-31.a.html")
    for shown in (page.read_text(), cli("ping", "-v", *configured).err):
        assert "***?*** HTTP/1.1" in shown
        assert "a-secret" not in shown


class Refusing(BaseHTTPRequestHandler):
    """Responds with the status at the start of the path."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path[1:4]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


def test_rejected_connection_is_a_one_line_error_with_advice(cli):
    with serving(Refusing) as origin:
        for status, advice in (
            (401, "requires an access token: give one with --auth or --header-env"),
            (307, "the server redirects to another URL: use that one"),
            (404, "check that this is the URL of an MCP endpoint, including its path"),
            (200, "check that this is the URL of an MCP endpoint, including its path"),
        ):
            code, out, err = cli("check", *ONE, f"{origin}/{status}")
            expected = 3 if status == 401 else 4
            assert (code, out, err.count("\n")) == (expected, "", 1)
            assert f"HTTP {status}, " in err
            assert advice in err


FAULTS = (
    "an unknown method is invalid params",
    "the handshake lacks the server's name",
    "the log is not declared",
    "a banner stands on stdout",
    "progress comes behind the answer",
    "a client without capabilities is asked for roots",
    "line ends in texts are not escaped",
)


@pytest.mark.timeout(180)
def test_repeat_commands_find_each_failure_of_a_run(cli, mutated):
    def failures(*words):
        report = Report.from_json(cli(*words)[1].encode())
        fields = ("case", "cell", "verdict")
        return {
            tuple(getattr(each, name) for name in fields): each.again
            for each in report.failures()
        }

    revisions = ["--revision", "2024-11-05", "--revision", "2025-11-25"]
    options = ["--json", "--timeout", "2"]
    found = failures("check", *options, *revisions, "--", *mutated(*FAULTS))
    by_line = {}
    for key, line in found.items():
        by_line.setdefault(line, set()).add(key)
    assert len(found) > len(FAULTS)
    with pause():
        for line, keys in by_line.items():
            words = shlex.split(line)[2:]
            assert keys <= failures("check", "--json", *words).keys(), line


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--only", "NOPE", "true"], 2, "no case matches 'NOPE'"),
        (["--revision", "1999", "true"], 2, "--revision takes any of 2024-11-05"),
        (["--fail-on", "worse", "true"], 2, "--fail-on worse needs --baseline"),
        (["--baseline", "/nowhere", "true"], 2, "/nowhere"),
        (["--junit", "/nowhere/x", "true"], 2, "/nowhere/x"),
        (["--budget", "soon", "true"], 2, "--budget"),
        (["--auth", "evil=TOKEN", "true"], 2, "KIND is good, expired"),
        (["--auth", "NO_SUCH_TOKEN", "true"], 2, "NO_SUCH_TOKEN is not set"),
        (["--map", "cook=echo", *GOOD], 2, "--map takes echo, slow"),
        (["--map", "echo=nope", *GOOD], 2, "no such tool; known tools: "),
        (["--official", "true"], 2, "servers at a URL"),
        (["--wait", "9s", "true"], 2, "--wait applies to servers at a URL"),
        (["true"], 4, "the server exited with code 0"),
        (["/no/such/program"], 4, "command not found"),
        (
            ["http://127.0.0.1:9/mcp"],
            4,
            "cannot connect to '127.0.0.1:9': Connection refused",
        ),
    ],
)
def test_usage_and_connection_errors_are_one_line(cli, words, code, problem):
    found, out, err = cli("check", *words)
    assert (found, out) == (code, "")
    assert problem in err
    assert err.count("\n") == 1


def test_tls_error_is_reported_with_its_own_text(cli, team_url):
    code, _, err = cli("check", team_url.replace("http:", "https:"))
    assert code == 4
    assert ": cannot connect to '127.0.0.1:" in err
    assert "[SSL" in err


def test_exceeded_budget_exits_with_7(cli):
    code, _, err = cli("check", "--budget", "0.000001s", *ONE, *GOOD)
    assert code == 7
    assert "the time limit of --budget was reached" in err


def test_baseline_accepts_known_findings_only(cli, tmp_path):
    known = str(tmp_path / "known")
    assert cli("check", *ONE, "--write-baseline", known, *BAD)[0] == 6
    assert Path(known).read_text() == "RPC-31.a stdio 2025-11-25 fail\n"
    assert cli("check", *ONE, "--baseline", known, *BAD)[0] == 0
    code, _, err = cli("check", *ONE, "--baseline", known, *GOOD)
    assert code == 9
    line = "stale entry in the baseline: RPC-31.a stdio 2025-11-25 fail, now pass"
    assert line in err
    Path(known).write_text("# nothing\n")
    code, _, err = cli("check", *ONE, "--baseline", known, "--fail-on", "worse", *BAD)
    assert code == 9
    assert "not in the baseline: fail" in err


@pytest.mark.parametrize("option", ["--html", "--tap"])
def test_folder_that_is_a_file_is_refused_before_the_run(cli, tmp_path, option):
    path = str(tmp_path / "file")
    Path(path).write_text("")
    code, out, err = cli("check", *ONE, option, path, "--", "/no/such/program")
    assert (code, out) == (2, "")
    assert err == f"mcpwire: cannot write {path!r}: file exists\n"


def test_result_is_printed_if_the_pages_cannot_be_written(cli, tmp_path):
    (tmp_path / "index.html").mkdir()
    code, out, err = cli("check", *ONE, "--html", str(tmp_path), *GOOD)
    assert code == 2
    assert "mcpwire-subject 1.0: 1 pass" in out
    assert err == f"mcpwire: cannot write {str(tmp_path)!r}: is a directory\n"


def test_files_are_written_if_nothing_reads_the_result(tmp_path):
    path = tmp_path / "report.md"
    words = ["mcpwire", "check", *ONE, "--md", str(path), *GOOD]
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run([sys.executable, "-m", *words], stdout=writing, check=False)
    os.close(writing)
    assert run.returncode == 141
    assert "mcpwire-subject" in path.read_text()


def test_all_report_formats_are_written_and_compared(cli, tmp_path):
    files = {name: str(tmp_path / name) for name in ("junit", "sarif", "md", "badge")}
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    folders = ["--html", str(tmp_path / "site"), "--tap", str(tmp_path / "tapes")]
    code, out, _ = cli("check", "--json", *ONE, *words, *folders, *GOOD)
    assert code == 0
    report = Report.from_json(out.encode())
    assert [each.verdict.value for each in report.results] == ["pass"]
    assert all(Path(path).stat().st_size for path in files.values())
    assert (tmp_path / "site" / "index.html").is_file()
    assert list((tmp_path / "tapes").rglob("*.jsonl"))
    (tmp_path / "good.json").write_text(out)
    (tmp_path / "bad.json").write_text(cli("check", "--json", *ONE, *BAD)[1])
    good, bad = str(tmp_path / "good.json"), str(tmp_path / "bad.json")
    code, out, _ = cli("check", "diff", good, bad)
    assert code == 9
    assert "pass -> fail" in out
    assert "1 worse" in out
    code, out, _ = cli("check", "diff", "--json", bad, good)
    assert (code, json.loads(out)) == (0, [])
    assert cli("check", "page", str(tmp_path / "both"), good, bad)[0] == 0
    assert (tmp_path / "both" / "subjects" / "mcpwire-subject-1.0-2.html").is_file()
    code, _, err = cli("check", "diff", good, str(HERE / "server.py"))
    assert code == 2
    assert "not a report of mcpwire check" in err


def test_cases_are_listed_and_explained(cli):
    _, out, _ = cli("check", "list")
    assert len(out.splitlines()) == len(CASES) + len(CLIENT_CASES)
    listed = json.loads(cli("check", "list", "--json", "--only", "jsonrpc")[1])
    assert {each["family"] for each in listed} == {"jsonrpc"}
    assert {each["role"] for each in listed} == {"server", "client"}
    _, out, _ = cli("check", "explain", "RPC-31.a")
    for word in ("RPC-31.a  MUST", "sends", "expects", "why", "source"):
        assert word in out
    assert (
        json.loads(cli("check", "explain", "--json", "RPC-31.a")[1])["id"] == "RPC-31.a"
    )
    code, _, err = cli("check", "explain", "RPC-31")
    assert code == 2
    assert "did you mean" in err
    assert cli("check", "list", "--only", "NOPE")[0] == 2
    assert "sends" in cli("check", "explain", CLIENT_CASES[0].id)[1]


def test_each_case_has_complete_texts():
    cases = (*CASES, *CLIENT_CASES)
    for case in cases:
        for text in (case.title, case.sends, case.expects, case.why):
            assert text, case.id
            assert "\n" not in text, case.id
        assert bool(case.source) == (case.level.value != "ROBUST"), case.id
    assert len({case.id for case in cases}) == len(cases)
    assert {case.role for case in CLIENT_CASES} == {"client"}


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGINT],
        [signal.SIGTERM],
        [signal.SIGHUP],
        [signal.SIGINT, signal.SIGINT],
    ],
    ids=["INT", "TERM", "HUP", "INT twice"],
)
def test_signal_leaves_no_process_running(tmp_path, numbers):
    text = f"""
import os, time
open(os.path.join({str(tmp_path)!r}, str(os.getpid())), 'w').close()
time.sleep(60)
"""
    words = [sys.executable, "-m", "mcpwire", "check", "--", sys.executable, "-c", text]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as running:
        while len(pids := list(tmp_path.iterdir())) < 2:  # two revisions at once
            assert running.poll() is None
            time.sleep(0.01)
        for number in numbers:
            running.send_signal(number)
        _, err = running.communicate()
    assert running.returncode == 128 + numbers[0]
    assert b"interrupted" in err
    for each in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(each.name), 0)


CALLER = """
import asyncio, signal, sys
from mcpwire import Stdio, check
async def main():
    if sys.argv[1] == "cancels":
        cancel = asyncio.current_task().cancel
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, cancel)
    options = check.Options(revisions=("2025-11-25",))
    await check.run(Stdio(sys.argv[2], sys.argv[3:]), options)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("caller", "server"),
    [("plain", "for _ in sys.stdin: pass"), ("cancels", "time.sleep(600)")],
)
def test_caller_ended_by_sigterm_leaves_no_server_running(caller, server, tmp_path):
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    text = f"import os, sys, time\nheld = open({str(fifo)!r}, 'w')\n{server}"
    words = [sys.executable, "-c", CALLER, caller, sys.executable, "-c", text]
    with (
        subprocess.Popen(words, stderr=subprocess.DEVNULL) as running,
        fifo.open() as held,  # blocks until the server has opened it
    ):
        running.terminate()
        assert held.read() == ""  # at the end of the server
    assert running.returncode != 0


# --- pytest ---------------------------------------------------------------------------


@pytest.fixture
def check_with_pytest(tmp_path):
    def run(server, *words):
        command = [sys.executable, "-m", "pytest", "-p", "mcpwire.check.pytest_plugin"]
        command += ["-p", "no:cacheprovider", "-rA", "--mcpwire-check", server]
        for word in words:
            command += ["--mcpwire-check-only", word]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_pytest_has_an_item_for_each_case(check_with_pytest, mutated):
    server = shlex.join(mutated())
    code, out = check_with_pytest(server, "RPC-31", "SCHEMA.ElicitRequest")
    assert code == 0
    assert "PASSED mcpwire-check::RPC-31.a" in out
    assert "1 passed, 1 skipped" in out


def test_pytest_item_of_a_failed_case_shows_the_expectation(check_with_pytest, mutated):
    server = shlex.join(mutated("an unknown method is invalid params"))
    code, out = check_with_pytest(server, "RPC-31")
    assert code == 1
    assert "FAILED mcpwire-check::RPC-31.a" in out
    assert "expected  an error -32601" in out
    assert "Traceback" not in out


def test_pytest_refuses_an_unknown_case_name(check_with_pytest):
    code, out = check_with_pytest("true", "NOPE")
    assert code == 4
    assert "no case matches 'NOPE'" in out


# --- the official suite ---------------------------------------------------------------

SUITE = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
folder = pathlib.Path(words[words.index("-o") + 1])
def write(scenario, *statuses):
    place = folder / f"server-{{scenario}}-2026-01-01T00-00-00-000Z"
    place.mkdir()
    checks = [
        {{"id": f"check-{{n}}", "name": "n", "description": "d", "status": status,
          "errorMessage": "oops" if status == "FAILURE" else None}}
        for n, status in enumerate(statuses)
    ]
    (place / "checks.json").write_text(json.dumps(checks))
{plays}
"""


def suite(tmp_path, plays):
    path = tmp_path / "suite"
    path.write_text(SUITE.format(python=sys.executable, plays=plays))
    path.chmod(0o755)
    return ["--official", "--suite", str(path), "--revision", "2025-11-25"]


@pytest.mark.parametrize(
    ("plays", "code", "expected"),
    [
        ("write('tools', 'SUCCESS', 'INFO')", 0, "1 pass"),
        ("write('tools', 'SUCCESS', 'FAILURE')", 6, "OFFICIAL.tools.check-1"),
        ("write('tools', 'SUCCESS', 'WARNING')", 6, "OFFICIAL.tools.check-1"),
        ("write('tools', 'INFO')", 6, "OFFICIAL.tools.vacuous"),
        ("write('tools', 'SUCCESS', 'SKIPPED')", 6, "OFFICIAL.tools.check-1"),
    ],
)
def test_official_suite_is_judged_strictly(cli, tmp_path, plays, code, expected):
    found, out, _ = cli("check", *suite(tmp_path, plays), "http://127.0.0.1:9/mcp")
    assert found == code
    assert expected in out


def test_suite_without_results_or_not_installed_is_an_error(cli, tmp_path):
    words = suite(tmp_path, "print('no such scenario')")
    code, _, err = cli("check", *words, "http://127.0.0.1:9/mcp")
    assert code == 6
    assert "wrote no result for 2025-11-25" in err
    assert "no such scenario" in err
    words = ["--official", "--suite", "no-such-suite", "http://127.0.0.1:9/mcp"]
    code, _, err = cli("check", *words)
    assert code == 2
    assert "no-such-suite is not installed" in err


def test_official_suite_ends_although_its_output_stays_open(cli, tmp_path):
    pid_file = tmp_path / "pid"
    plays = f"""
import subprocess
child = subprocess.Popen(['sleep', '600'], start_new_session=True)
open({str(pid_file)!r}, 'w').write(str(child.pid))
"""
    words = suite(tmp_path, plays)
    try:
        code, _, err = cli("check", *words, "http://127.0.0.1:9/mcp")
        assert (code, "wrote no result" in err) == (6, True)
    finally:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_interrupt_ends_the_official_suite(tmp_path):
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    plays = f"import os, time\nopen({str(fifo)!r}, 'w').write(str(os.getpid()))"
    words = suite(tmp_path, f"{plays}\ntime.sleep(600)")
    command = [sys.executable, "-m", "mcpwire", "check", *words]
    with subprocess.Popen(
        [*command, "http://127.0.0.1:9/mcp"], stderr=subprocess.PIPE
    ) as process:
        try:
            pid = int(fifo.read_text())
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, b"mcpwire: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
