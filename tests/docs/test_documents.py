"""Programs and commands in the documents produce the output shown there."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from child_python import finished

from mcpwire.testing import AsgiTransport

sys.path.insert(0, str(Path(__file__).parent))

from documents import (
    DOCUMENTS,
    EXAMPLES,
    LANGUAGES,
    MEASURED_DOCUMENTS,
    PROGRAM_TIMEOUT_S,
    ROOT,
    Runner,
    blocks,
    commands,
    file_name,
    is_recorded,
    needs_everything,
    normal,
    pairs,
    record_name,
    without_figures,
)
from real_servers import require
from record import docs, make
from served import served
from unmeasured import unmeasured
from warmed import ForkServer

SHOWN = [pair for document in DOCUMENTS for pair in pairs(document)]
HARMLESS = re.compile(
    r"(pip install|make|mcpwire gateway) [\w.:@ -]+"
    r"|mcpwire check [^|;&]*https?://[\w.:/]+|pytest -p mcpwire[^|;&]*"
)


@pytest.fixture(scope="session")
def forking(tmp_path_factory):
    """Start a fork server for the programs of the documents, on Linux."""
    if sys.platform != "linux":
        yield None
        return
    path = tmp_path_factory.mktemp("fork") / "docs.sock"
    env = unmeasured(PYTHONPATH=str(Path(__file__).parent))
    server = ForkServer(path, sys.executable, ["forked"], env)
    yield server
    server.close()


@pytest.fixture
def runner(tmp_path, forking):
    return Runner(tmp_path, forking)


def compare(case, runner):
    """Assert that the traffic of the example's clients equals the record."""
    differences = list(make.compare(docs.AREA, {case: docs.seen(case, runner.seen)}))
    assert not differences, "\n\n".join(differences)


def require_everything(runner):
    """Skip if the real server is not installed; fail under CI."""
    require(runner.everything.missing())


@pytest.mark.servers
@pytest.mark.parametrize(("block", "shown"), SHOWN, ids=str)
def test_document_shows_the_real_output(runner, block, shown):
    if needs_everything(block):
        require_everything(runner)
    output = runner.output(block)
    if block.document in MEASURED_DOCUMENTS:
        expected = without_figures(output if shown is None else shown.text)
        assert without_figures(output) == expected
        return
    if shown is not None:
        assert normal(output) == normal(shown.text)
    else:
        assert "Traceback" not in output
        assert output
    if is_recorded(block):
        compare(record_name(block), runner)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_block_of_a_document_is_executed_or_harmless(document):
    for block in blocks(document):
        assert block.language in LANGUAGES, str(block)
        if block.language == "sh":
            for line in block.text.splitlines():
                assert HARMLESS.fullmatch(line), str(block)
        if block.language == "console":
            assert commands(block), str(block)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_file_of_a_document_is_used(document):
    used = ""
    for block in reversed(blocks(document)):
        name = file_name(block)
        assert name is None or name in used or Path(name).stem in used, str(block)
        used += block.text if name or block.language == "console" else ""


def test_documents_contain_executed_blocks():
    assert len(SHOWN) > 15
    assert sum(shown is not None for _, shown in SHOWN) > 15


def test_readme_program_has_six_lines():
    programs = [b for b in blocks("README.md") if b.language == "python"]
    first = next(b for b in programs if file_name(b) is None)
    assert len([line for line in first.text.splitlines() if line]) == 6


def test_readme_has_at_most_200_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_readme_server_has_ten_lines():
    server = next(b for b in blocks("README.md") if file_name(b) == "server.py")
    lines = [line for line in server.text.splitlines() if line]
    assert len(lines[1:]) == 10


def test_readme_has_the_two_commands_for_developers():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo\nmake test\n" in text


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_link_within_the_repository_has_a_target(document):
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if link.startswith("#"):
            assert link[1:] in anchors
        elif "://" not in link:
            assert (path.parent / link.partition("#")[0]).exists(), link


ARGUMENTS = {"log_in.py": "http://localhost:9000/mcp"}
PRINTED = {
    "quickstart.py": "'get-sum'",
    "log_in.py": "Logged in at http://localhost:9000 for ('mcp',)\n['echo', ",
    "progress_and_cancel.py": "cancelled: True\nand still there: {'sum': 5}\n",
    "in_memory.py": "hi\nHello, Ada.\n",
    "test_a_server.py": "4 passed",
    "server.py": "",
    "use_the_server.py": "asked: Overwrite 'tea'?\nwrote 'tea'\nBoil water, wait",
    "server_in_fastapi.py": "401 without a token\ntea for ada\n",
    "test_your_server.py": "16 passed",
    "many_servers.py": "not connected: broken (ConnectError)\n[{'sum': 0}, {'sum': 2},",
    "gateway.py": "clock_now, store_put\n12:00\nunknown tool: 'store_wipe'\n1 deliv",
    "own_transport.py": "queues: boiled for 4 minutes\nreverse: boiled for 6 min",
    "tools_for_a_model.py": "[MCP] shop.order -> no\n1 [{'type': 'text', 'text': 'se",
}


def test_each_example_has_an_expected_output():
    assert {path.name for path in EXAMPLES} == set(PRINTED)


@pytest.mark.servers
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_prints_its_expected_output(runner, path):
    if "npx" in path.read_text(encoding="utf-8"):
        require_everything(runner)
    argument = ARGUMENTS.get(path.name, "")
    runs_as = ["-m", "pytest", "-q"] if path.name.startswith("test_") else []
    with served(argument) as place:
        words = (*runs_as, str(path), *place.put(argument).split())
        options = {"env": runner.environment, "timeout": PROGRAM_TIMEOUT_S}
        options |= {"cwd": path.parent, "stdin": subprocess.DEVNULL}
        done = finished(runner.python, *words, **options)
        assert (done.returncode, done.stderr) == (0, "")
        assert PRINTED[path.name] in place.show(done.stdout)
    compare(path.name, runner)


async def test_fastapi_example_can_be_started_again():
    app = runpy.run_path(str(ROOT / "examples/server_in_fastapi.py"))["app"]
    for _ in range(2):
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=AsgiTransport(app)) as http_client,
        ):
            ready = await http_client.get("http://localhost:8000/api/ready")
            assert ready.status_code == 200


def test_record_contains_exactly_the_examples():
    assert make.load(docs.AREA).keys() == docs.names()


def test_comparison_ignores_measured_numbers_and_versions():
    assert normal("   1.30 ms  a 0.1.0.dev0") == normal(" 1,030 ms  a 10.2.3")
    assert normal("5 µs each, 1,000/s") == normal("50 µs each, 9/s")
    assert normal("2 things") != normal("3 things")
    assert normal("/authorize?a=1 b") == normal("/authorize?... b")
    assert normal("2026-11-22 10:36 UTC") == normal("2027-01-01 00:00 UTC")


def test_comparison_of_measurements_ignores_figures_only():
    shown = "p50   1.30 ms   12 us   no difference shown\nnote: busy\nrate  9,000/s  -"
    measured_again = "p50  900 us  1.00 s  no difference shown\nrate   10.5/s  0.9"
    assert without_figures(shown) == without_figures(measured_again)
    assert without_figures("p50 1 ms worse") == without_figures("p50 1 ms better")
    assert without_figures("p50 1 ms") != without_figures("p90 1 ms")
    assert without_figures("memory  3 MiB  -2 KiB/s") == "memory N N"
    assert without_figures("cpu -   3.1e-05 5%") == "cpu N N N"
