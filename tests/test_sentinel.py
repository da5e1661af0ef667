"""The watch finds secrets in each place where one may appear, and only there."""

import copy
import logging
import re
import sys

import pytest
import sentinel
from child_python import finished
from sentinel import SENTINEL, WATCH
from unmeasured import unmeasured

import mcpwire

SECRET = f"{SENTINEL}-access-1"


def raised(error):
    with pytest.raises(type(error)):
        raise error


def caused(error):
    other = mcpwire.MCPError("the server is gone")
    other.__cause__ = error
    return other


def noted(note):
    error = mcpwire.MCPError("the server is gone")
    error.add_note(note)
    return error


def logged(level, text, *args, **options):
    logging.getLogger("mcpwire.somewhere").log(level, text, *args, **options)


class Shown:
    def __repr__(self):
        return f"<token {SECRET}>"


LEAKS = {
    "a log": lambda: logged(logging.WARNING, "token %s", SECRET),
    "a log's repr": lambda: logged(logging.WARNING, "%r", Shown()),
    "a log of another": lambda: logging.getLogger("other").error(SECRET),
    "a traceback in a log": lambda: logged(
        logging.ERROR, "it failed", exc_info=caused(ValueError(SECRET))
    ),
    "an error of ours": lambda: mcpwire.MCPError(f"refused: {SECRET}"),
    "an argument of one": lambda: mcpwire.MCPError("refused", Shown()),
    "an error of others": lambda: raised(ValueError(SECRET)),
    "a cause": lambda: raised(caused(ValueError(SECRET))),
    "a cause of a cause": lambda: raised(caused(caused(KeyError(SECRET)))),
    "a note": lambda: raised(noted(SECRET)),
    "one of a group": lambda: raised(ExceptionGroup("two", [ValueError(SECRET)])),
}


@pytest.mark.attack("S23")
@pytest.mark.parametrize("leak", LEAKS)
def test_secret_is_found_in_every_place(leak):
    assert WATCH.found == []
    LEAKS[leak]()
    found = WATCH.take()
    assert found, "the watch would have missed it"
    assert all(SECRET[:8] in each for each in found)


@pytest.mark.attack("S23")
def test_secret_in_captured_output_is_found(capsys):
    print(f"logged in with {SECRET}")  # noqa: T201 - the output is the subject
    capsys.readouterr()
    assert len(WATCH.take()) == 1


CLEAN = {
    "a log": lambda: logged(logging.WARNING, "token %s", "***"),
    "an error": lambda: raised(mcpwire.TokenError("refused", error="invalid_grant")),
    "its copy": lambda: copy.copy(mcpwire.MCPError("refused")),
    "what nobody says": lambda: logged(logging.DEBUG, SECRET),
    "an error of this machine": lambda: raised(mcpwire.ConnectError("gone", errno=1)),
}


@pytest.mark.parametrize("case", CLEAN)
def test_clean_output_has_no_findings(case):
    CLEAN[case]()
    assert WATCH.take() == []


def test_watch_keeps_the_arguments_of_errors():
    """The watch wraps the constructor of each error."""
    error = mcpwire.MCPError("a", "b")
    assert (error.args, str(error)) == (("a", "b"), "('a', 'b')")
    assert mcpwire.ConnectError("x", errno=2).errno == 2
    late = mcpwire.RequestTimeout(method="m", timeout=1.0, elapsed=1.0)
    assert (late.args, isinstance(late, TimeoutError)) == ((), True)


def test_all_log_levels_are_checked_in_tests_with_secrets(request):
    tests = request.path.parent
    for name in ("oauth/test_login.py", "auth/test_flow.py", "cli/test_auth.py"):
        assert sentinel.listens(tests / name, tests)
    assert not sentinel.listens(tests / "wire/test_json.py", tests)
    sentinel.set_levels(logging.DEBUG)
    try:
        logged(logging.DEBUG, SECRET)
    finally:
        sentinel.set_levels(logging.NOTSET)
    assert len(WATCH.take()) == 1


TESTS = f"""
import logging, warnings
import pytest

def test_logs():
    logging.getLogger("x").warning("{SECRET}")

def test_prints():
    print("{SECRET}")

def test_{SENTINEL}():
    pass

def test_clean():
    logging.getLogger("x").warning("nothing")

def test_warns():
    with pytest.warns(UserWarning):
        warnings.warn("{SECRET}", stacklevel=1)

def test_raises():
    with pytest.raises(ValueError):
        raise ValueError("{SECRET}")
"""


CONFTEST = """
import importlib.util

spec = importlib.util.spec_from_file_location("of_the_real_run", {0!r})
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
sentinel_watch = real.sentinel_watch
pytest_runtest_setup = real.pytest_runtest_setup
pytest_runtest_teardown = real.pytest_runtest_teardown
"""


@pytest.mark.attack("S23")
def test_test_that_shows_a_secret_fails(tmp_path, request):
    """Everything together, in a separate run."""
    tests = request.path.parent
    (tmp_path / "conftest.py").write_text(CONFTEST.format(str(tests / "conftest.py")))
    (tmp_path / "test_leaking.py").write_text(TESTS)
    words = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "-rA", "-W", "default"]
    command = (sys.executable, "-m", "pytest", *words, str(tmp_path))
    done = finished(*command, timeout=50, cwd=tmp_path, env=unmeasured())
    failed = set(re.findall(r"^ERROR .*::(\w+)", done.stdout, re.MULTILINE))
    expected = {"test_logs", "test_prints", f"test_{SENTINEL}"}
    expected |= {"test_warns", "test_raises"}
    assert failed == expected, done.stdout + done.stderr
    assert done.returncode == 1
