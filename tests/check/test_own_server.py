"""mcpwire's own server scores 100 in every cell, on both transports and loops."""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path

import attrs
import pytest
from unmeasured import pause, unmeasured

from mcpwire import Stdio
from mcpwire.check import Options, Verdict, run
from mcpwire.versions import REVISIONS

SERVER = [sys.executable, str(Path(__file__).with_name("server.py"))]
QUICK = Options(allow_calls=("*",), answer_s=20.0)


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def words(request):
    """Return the command of the server on one of two event loops."""
    return [*SERVER, *(["--uvloop"] if request.param == "uvloop" else [])]


@pytest.fixture(autouse=True)
def measured_once(request):
    """Measure coverage with one of the loops: both run the same lines."""
    with pause() if "[uvloop]" in request.node.name else contextlib.nullcontext():
        yield


def assert_perfect(report):
    assert [(r.case, str(r.cell), r.actual) for r in report.failures()] == []
    assert {cell.revision for cell in report.cells()} == {r.name for r in REVISIONS}
    assert {score.points for score in report.scores().values()} == {100}


@pytest.mark.timeout(300)
def test_our_server_passes_over_stdio(words):
    assert_perfect(asyncio.run(run(Stdio(words[0], words[1:]), QUICK)))


@pytest.mark.timeout(300)
def test_our_server_passes_slow_and_hostile_cases_over_stdio(forked):
    options = attrs.evolve(QUICK, speed="full", hostile=True)
    report = asyncio.run(run(Stdio(forked[0], forked[1:]), options))
    assert_perfect(report)
    # That a client without forms gets none counts only if another client gets one.
    found = [r.verdict for r in report.results if r.case == "ELIC-02.b"]
    assert found == [Verdict.PASS]


@pytest.mark.timeout(300)
def test_our_server_passes_over_http(words, tmp_path):
    log = tmp_path / "log"
    with (
        log.open("w") as written,
        subprocess.Popen(
            [*words, "--http", "0"], stderr=written, env=unmeasured()
        ) as serving,
    ):
        try:
            while not (found := re.search(r"http://\S+", log.read_text())):
                assert serving.poll() is None
                time.sleep(0.01)
            assert_perfect(asyncio.run(run(found[0], QUICK)))
        finally:
            serving.terminate()
