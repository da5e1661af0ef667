"""``mcpwire bench`` from the command line: exit codes, files and messages."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from null_targets import CLIENT_COMMAND

from mcpwire.bench import Result
from mcpwire.bench.null_process import null_command

NULL = ["--", *null_command("--stdio")]
COMPARED = ["--for", "0.6s", "--rounds", "3"]
SHORT = ["--for", "0.2s", "--rounds", "1", "--warm-up", "0"]


def test_run_shows_the_server_beside_the_floor(cli):
    code, out, err = cli("bench", *SHORT, "--call", "echo", "text=hi", *NULL)
    assert (code, err) == (0, "")
    assert out.startswith(
        "tools/call echo, 1 user; 1 round, 0.2 s each\ntarget: null 1"
    )
    head = next(line for line in out.splitlines() if "multiple" in line)
    assert head.split() == ["target", "floor", "multiple"]
    assert {line.split("  ")[0] for line in out.splitlines()} >= {"p50", "p99", "cpu"}
    assert next(line for line in out.splitlines() if line.startswith("reads"))


def test_saved_results_can_be_compared(cli, tmp_path):
    paths = [str(tmp_path / name) for name in ("old.json", "new.json")]
    change = f"p50 +50% vs {paths[0]}"
    words = [*SHORT, *COMPARED, "--json", "--no-floor", "--call", "echo"]
    for path, delay, options, expected in (
        (paths[0], "0", [], 0),
        (paths[1], "0.002", ["--fail-if", change], 9),
    ):
        code, out, err = cli("bench", *words, *options, *NULL, "--delay", delay)
        assert code == expected
        Path(path).write_text(out)
        assert Result.from_json(out.encode()).targets[0].total("done") > 0
    assert f"failed: {change}: p50 is " in err
    code, out, _ = cli("bench", "compare", *paths)
    assert code == 9
    row = next(line for line in out.splitlines() if line.startswith("p50"))
    assert row.endswith("worse")
    code, out, _ = cli("bench", "compare", "--json", *paths[::-1])
    assert code == 0
    assert {each["verdict"] for each in json.loads(out)} >= {"better"}


def test_second_server_is_measured_alternately(cli):
    against = shlex.join(null_command("--stdio", "--delay", "0.003"))
    words = [*SHORT, *COMPARED, "--call", "echo", "--no-floor"]
    code, out, _ = cli("bench", *words, "--against", against, *NULL)
    assert code == 0
    rows = {line.split("  ")[0]: line for line in out.splitlines()[-6:]}
    assert rows["p50"].endswith("worse")
    assert rows["rate"].endswith("worse")


@pytest.mark.parametrize(
    ("condition", "code"), [("p50 > 0us", 9), ("errors > 0%", 0), ("p99 > 1000s", 0)]
)
def test_fail_if_condition_sets_the_exit_code(cli, condition, code):
    words = [*SHORT, "--ping", "--no-floor", "--fail-if", condition]
    found, _, err = cli("bench", *words, *NULL)
    assert found == code
    assert (f"failed: {condition}: p50 is" in err) == (code == 9)


def test_counts_are_reproducible_and_can_fail_a_run(cli):
    words = ["bench", "--counts", "--warm-up", "0.1s", "--call", "echo"]
    words += ["--fail-if", "writes > 1"]
    code, out, _ = cli(*words, *NULL)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[3:]]
    assert rows[1:] == [
        ["messages", "2", "2"],
        ["reads", "1", "1"],
        ["writes", "1", "1"],
    ]
    code, second_out, err = cli(*words[:-1], "messages > 1", *NULL)
    assert (code, second_out) == (9, out)
    assert "failed: messages > 1: messages is 2" in err


def test_find_max_finds_the_highest_rate(cli):
    words = ["--for", "0.2s", "--rate", "50/s", "--find-max", "p99<200ms"]
    code, out, _ = cli("bench", *words, "--call", "echo", *NULL, "--delay", "0.004")
    assert code == 0
    assert "highest rate that met the condition: " in out
    assert out.splitlines()[3].split()[:3] == ["offered", "rate", "p50"]


def test_percentile_distributions_are_written(cli, tmp_path):
    path = tmp_path / "out.hgrm"
    code, _, _ = cli("bench", *SHORT, "--hgrm", str(path), *NULL)
    assert code == 0
    for name in ("out.hgrm", "out-floor.hgrm"):
        text = (tmp_path / name).read_text()
        assert "Percentile TotalCount" in text
        number = r"\s*([0-9.]+)"
        (deviation,) = re.search(f"StdDeviation   ={number}", text).groups()
        (highest,) = re.search(f"Max     ={number}", text).groups()
        assert float(deviation) <= float(highest)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "3/s", "--users", "2"], "--rate and --users exclude each other"),
        (["--rate", "none"], "argument --rate"),
        (["--shape", "ramp"], "the shape 'ramp' needs a rate"),
        (["--fail-if", "p98 > 3ms"], "no figure is named 'p98'"),
        (["--find-max", "fast"], "a condition is FIGURE < VALUE UNIT"),
        (["--call", "echo", "--ping"], "--ping"),
        (["--mix", "nothing.json"], "nothing.json"),
        (["--call", "ecco"], "the server has no tool 'ecco'; did you mean 'echo'?"),
        (["text=1"], "--call TOOL is missing before 'text=1'"),
        (["--fail-if", "p99 +10% vs nothing.json"], "nothing.json"),
        (["--sessions", "0"], "must be at least 1, got '0'"),
        (["--revision", "2025"], "2026-07-28, got '2025'"),
        *(
            (
                [*words, "--find-max", "p99<1s"],
                f"{words[0]} and --find-max exclude each",
            )
            for words in (["--against", "x"], ["--rounds", "2"], ["--counts"])
        ),
        (
            ["--counts", "--sessions", "per-call"],
            "--counts and --sessions per-call exclude each other",
        ),
        (["--hgrm", "/no/such/folder/a.hgrm"], "does not exist"),
    ],
)
def test_invalid_options_are_usage_errors(cli, words, message):
    code, out, err = cli("bench", *words, *NULL)
    assert (code, out) == (2, "")
    assert message in err


def test_fail_if_of_a_search_applies_to_the_highest_rate(cli):
    words = ["--for", "0.2s", "--rate", "400/s", "--find-max", "p99<100ms"]
    words += ["--call", "echo", "--warm-up", "0"]
    server = [*NULL, "--delay", "0.004"]
    limits = ["--fail-if", "p99 > 100ms", "--fail-if", "rate < 1000/s"]
    code, _, err = cli("bench", *words, *limits, *server)
    assert code == 9
    (line,) = err.splitlines()
    assert line.startswith("failed: rate < 1000/s: rate is ")


def test_change_that_cannot_be_computed_is_an_error(cli, tmp_path):
    path = tmp_path / "base.json"
    path.write_text(cli("bench", *SHORT, "--no-floor", "--json", *NULL)[1])
    change = ["--no-floor", "--fail-if", f"p50 +10% vs {path}"]
    code, _, err = cli("bench", *SHORT, *change, *NULL)
    assert code == 2
    assert "runs of 1 rounds cannot be compared, at least 3 are needed" in err
    code, _, err = cli("bench", *SHORT, *change, "--sessions", "2", *NULL)
    assert code == 2
    assert "the loads differ: sessions is 1 and 2" in err


def test_result_is_printed_if_a_file_cannot_be_written(cli, tmp_path):
    (tmp_path / "out-floor.hgrm").mkdir()
    words = [*SHORT, "--json", "--hgrm", str(tmp_path / "out.hgrm")]
    code, out, _ = cli("bench", *words, "--call", "echo", "text=é", *NULL)
    assert (code, out.isascii()) == (2, True)
    assert Result.from_json(out.encode()).targets


@pytest.mark.parametrize("option", ["--revision", "--mode"])
def test_the_protocol_revision_can_be_chosen(cli, option):
    words = [*SHORT, "--json", "--no-floor", option, "2025-06-18"]
    code, out, _ = cli("bench", *words, *NULL, "--legacy")
    assert code == 0
    (target,) = json.loads(out)["subjects"]
    assert target["server"]["revision"] == "2025-06-18"


@pytest.mark.parametrize("words", [["start", "--starts", "1"], ["size"], ["gateway"]])
def test_invalid_value_is_a_usage_error_of_each_command(cli, tmp_path, words):
    code, out, err = cli("bench", *words, "--revision", "2025", *NULL)
    assert (code, out) == (2, "")
    assert "2026-07-28, got '2025'" in err
    mix = tmp_path / "mix.json"
    mix.write_text("[]")
    assert cli("bench", *words, "--mix", str(mix), *NULL).code == 2


def test_comparing_a_file_that_is_not_a_result_is_an_error(cli, tmp_path):
    path = tmp_path / "none.json"
    path.write_text("{}")
    code, _, err = cli("bench", "compare", str(path), str(path))
    assert code == 2
    assert "not a result of mcpwire bench" in err


def test_unreachable_server_exits_with_4(cli):
    code, _, err = cli("bench", *SHORT, "--", "/no/such/program")
    assert code == 4
    assert "/no/such/program" in err


@pytest.mark.parametrize(
    "words", [[*SHORT, "--ping"], [*SHORT, "--call", "echo"], ["start"], ["size"]]
)
def test_timeout_limits_connecting(cli, words):
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    code, out, err = cli("bench", *words, "--timeout", "0.2", "--", *silent)
    assert (code, out) == (7, "")
    assert err.startswith("mcpwire: server/discover: no answer within 0.2 s")


def test_timeout_can_be_without_limit(cli, tmp_path):
    page = tmp_path / "page.html"
    words = [*SHORT, "--no-floor", "--json", "--timeout", "inf", "--html", str(page)]
    code, out, err = cli("bench", *words, *NULL)
    assert (code, err) == (0, "")
    load = json.loads(out)["load"]
    assert (load["timeout"], load["connect_timeout"]) == (None, None)
    assert "--timeout inf -- " in page.read_text()
    page.with_suffix(".json").write_text(out)
    code, _, err = cli("bench", "page", "/dev/full", str(page.with_suffix(".json")))
    assert (code, err.count("no space left on device")) == (2, 1)
    assert cli("bench", "size", "--calls", "1", "--timeout", "inf", *NULL)[0] == 0


@pytest.mark.parametrize("http", [[], ["--http"]])
def test_client_is_measured_against_the_null_server(cli, http):
    words = ["bench", "client", *http, "--rounds", "1"]
    code, out, err = cli(*words, "--", *CLIENT_COMMAND)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["calls", "20"]
    code, out, _ = cli(*words, "--json", shlex.join(CLIENT_COMMAND))
    assert code == 0
    (run,) = json.loads(out)["runs"]
    assert run["methods"]["tools/call"] == run["calls"] == 20


def test_client_without_a_call_is_an_error(cli):
    code, out, err = cli("bench", "client", "--", sys.executable, "-c", "pass")
    assert (code, out) == (4, "")
    assert "ended with exit code 0 without a tools/call; it sent no request" in err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a 'b", 'cannot split the command line "a \'b": No closing quotation'),
        (" ", "the client's command line is empty"),
    ],
)
def test_empty_or_unparsable_client_command_is_refused(cli, line, problem):
    assert cli("bench", "client", line) == (2, "", f"mcpwire: {problem}\n")


def test_floor_command_shows_each_transport(cli):
    code, out, _ = cli("bench", "floor", "--for", "0.1s")
    assert code == 0
    kinds = [line.split()[0] for line in out.splitlines()[1:]]
    assert kinds == ["pipe", "socket", "http", "sse"]
    code, out, _ = cli("bench", "floor", "--for", "0.1s", "--json")
    assert json.loads(out)["pipe"]["calls"] >= 200


@pytest.mark.parametrize("words", [[], ["--find-max", "p99<1s"]])
def test_missing_package_is_named(cli, monkeypatch, tmp_path, words):
    monkeypatch.setitem(sys.modules, "hdrh", None)
    monkeypatch.delitem(sys.modules, "hdrh.histogram", raising=False)
    (tmp_path / "hdrh.py").write_text("raise ImportError")  # for children, too
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, _, err = cli("bench", *SHORT, *words, *NULL)
    assert (code, err) == (
        2,
        "mcpwire: mcpwire bench needs hdrhistogram: pip install hdrhistogram\n",
    )
