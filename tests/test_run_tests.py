"""How the test run reports failures, flaky tests and skips."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import run_tests
from child_python import finished
from unmeasured import unmeasured

PASSED = '<testcase classname="tests.a" name="test_one"/>'
SKIPPED = (
    '<testcase classname="tests.b" name="test_two[x]">'
    '<skipped type="pytest.skip" message="no node"/></testcase>'
)
EXPECTED = (
    '<testcase classname="tests.c" name="test_three">'
    '<skipped type="pytest.xfail" message="known"/></testcase>'
)


def failing(name, tag="failure"):
    return (
        f'<testcase classname="tests.d" name="{name}"><{tag} message="m"/></testcase>'
    )


def report(*cases):
    def count(tag):
        return sum(f"<{tag} " in case for case in cases)

    suite = (
        f'<testsuite tests="{len(cases)}" failures="{count("failure")}" '
        f'errors="{count("error")}" skipped="{count("skipped")}">'
        f"{''.join(cases)}</testsuite>"
    )
    return ET.fromstring(f"<testsuites>{suite}</testsuites>")


@pytest.mark.parametrize("strict", [False, True])
def test_passed_tests_pass(strict):
    other = PASSED.replace("test_one", "test_other")
    lines, code = run_tests.judge(report(PASSED, other), strict=strict)
    assert lines == ["flaky: 0", "2 passed, 0 failed, 0 skipped"]
    assert code == 0


@pytest.mark.parametrize("strict", [False, True])
def test_a_skip_is_named_and_fails_under_ci(strict):
    lines, code = run_tests.judge(report(PASSED, SKIPPED), strict=strict)
    assert lines[0] == "skipped: tests.b::test_two[x]: no node"
    assert lines[-1] == "1 passed, 0 failed, 1 skipped"
    assert code == int(strict)


def test_a_skip_with_a_reason_on_the_list_passes_under_ci(monkeypatch):
    monkeypatch.setitem(
        run_tests.ALLOWED_SKIPS, "tests.b::test_two", "another platform"
    )
    lines, code = run_tests.judge(report(PASSED, SKIPPED), strict=True)
    assert (lines[-1], code) == ("1 passed, 0 failed, 1 skipped", 0)


def test_expected_failure_is_not_a_skip():
    assert run_tests.judge(report(PASSED, EXPECTED), strict=True)[1] == 0


@pytest.mark.parametrize("tag", ["failure", "error"])
def test_a_failure_is_named_and_fails(tag):
    lines, code = run_tests.judge(report(PASSED, failing("test_x", tag)), strict=False)
    assert lines[0] == "failed: tests.d::test_x"
    assert (lines[-1], code) == ("1 passed, 1 failed, 0 skipped", 1)


def test_run_without_tests_fails():
    assert run_tests.judge(report(), strict=False)[1] == 1


def again(name):
    return f'<testcase classname="tests.d" name="{name}"/>'


@pytest.mark.parametrize("tag", ["failure", "error"])
def test_test_that_passes_alone_is_flaky_and_the_run_passes(tag):
    first = report(PASSED, failing("test_x", tag))
    run_tests.merge(first, report(again("test_x")))
    assert run_tests.judge(first, strict=True) == (
        ["flaky: tests.d::test_x", "flaky: 1", "2 passed, 0 failed, 0 skipped"],
        0,
    )
    assert first.find(f".//flaky{tag.capitalize()}").get("message") == "m"


@pytest.mark.parametrize(
    "second", [failing("test_x"), failing("test_x", "error"), again("test_y"), SKIPPED]
)
def test_test_that_does_not_pass_alone_stays_failed(second):
    first = report(PASSED, failing("test_x"))
    run_tests.merge(first, report(second))
    assert run_tests.judge(first, strict=False)[1] == 1
    assert run_tests.failed(first) == {"tests.d::test_x"}


def test_a_test_that_fails_with_its_teardown_counts_once():
    first = report(PASSED, failing("test_x"), failing("test_x", "error"))
    assert run_tests.judge(first, strict=False)[0][-1] == (
        "1 passed, 1 failed, 0 skipped"
    )
    run_tests.merge(first, report(again("test_x")))
    lines, code = run_tests.judge(first, strict=False)
    assert lines == [
        "flaky: tests.d::test_x",
        "flaky: 1",
        "2 passed, 0 failed, 0 skipped",
    ]
    assert code == 0


ONCE = """
from pathlib import Path
import pytest
SEEN = Path(__file__).with_name("seen")
@pytest.mark.parametrize("n", range(COUNT))
def test_fails_once(n):
    seen = SEEN / str(n)
    was_there = seen.exists()
    seen.mkdir(parents=True, exist_ok=True)
    assert was_there
def test_passes():
    FAILS
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that runs some tests as a separate project."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "pyproject.toml").write_text("[tool.coverage.run]\nparallel = true\n")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "JUNIT", tmp_path / "junit.xml")
    monkeypatch.setattr(run_tests, "JUNIT_AGAIN", tmp_path / "junit-again.xml")

    def run(text, workers=0):
        (tmp_path / "test_x.py").write_text(text)
        return run_tests.main(["-q", "-n", str(workers)])

    return run


@pytest.mark.parametrize(
    ("count", "fails", "last"),
    [
        (1, "", ["flaky: 1", "2 passed, 0 failed, 0 skipped"]),
        (1, "assert 0", ["flaky: 1", "1 passed, 1 failed, 0 skipped"]),
        (1, "import os; os.abort()", ["flaky: 0", "0 passed, 2 failed, 0 skipped"]),
        (6, "", ["flaky: 0", "1 passed, 6 failed, 0 skipped"]),
    ],
    ids=["one flaky", "one fails", "one kills the process", "too many"],
)
def test_whole_run_repeats_failures_and_reports(project, capfd, count, fails, last):
    code = int(last != ["flaky: 1", "2 passed, 0 failed, 0 skipped"])
    run_tests.JUNIT_AGAIN.write_text("left over from another run")
    text = ONCE.replace("COUNT", str(count)).replace("FAILS", fails or "pass")
    # A test that kills its process must run in a worker.
    assert project(text, workers=int("abort" in fails)) == code
    assert capfd.readouterr().out.splitlines()[-2:] == last
    assert run_tests.main(["--report"]) == code
    assert capfd.readouterr().out.splitlines()[-2:] == last


def test_a_run_that_cannot_collect_is_not_repeated(project, capfd):
    assert project("import no_such_module") != 0
    assert "once more" not in capfd.readouterr().out


def test_run_with_a_usage_error_is_not_repeated(monkeypatch):
    codes = iter([4])
    monkeypatch.setattr(run_tests, "pytest", lambda *words: next(codes))
    assert run_tests.main(["--no-such-option"]) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ignored_signals_get_their_defaults_in_the_run():
    ignoring = 'trap "" INT HUP; exec "$@"'
    command = ("/bin/sh", "-c", ignoring, "sh", sys.executable, "-c", SIGNALS)
    here = Path(__file__).parent
    done = finished(*command, cwd=here, env=unmeasured(), check=True)
    assert done.stdout.split() == ["True", "True", "False", "False"]


SIGNALS = """
import signal, subprocess, run_tests
def ignored():
    status = subprocess.check_output(["cat", "/proc/self/status"], text=True)
    mask = int(status.partition("SigIgn:")[2].split()[0], 16)
    for number in (signal.SIGINT, signal.SIGHUP):
        print(bool(mask & 1 << number - 1), flush=True)
ignored()
run_tests.default_signals()
ignored()
"""


def test_each_test_that_may_be_skipped_exists():
    for name in run_tests.ALLOWED_SKIPS:
        module, _, function = name.partition("::")
        path = Path(__file__).parents[1] / (module.replace(".", "/") + ".py")
        assert f"def {function}(" in path.read_text(encoding="utf-8"), name
