"""The footprint benchmark: installed sizes, interpreter starts and system calls."""

import asyncio
import importlib
import json
import sys
from pathlib import Path

import pytest
from child_python import finished, printed_by

FOLDER = Path(__file__).parents[2] / "benchmarks"
MEMORY = (sys.executable, "-m", "footprint.memory")
PROGRAMS = FOLDER / "footprint/programs"


@pytest.fixture
def install(benchmark_module):
    return benchmark_module("footprint.install")


@pytest.fixture
def null(compiled):
    return str(compiled("null.build").build("stdio_null"))


def install_distribution(folder, name, requires=(), content=b""):
    """Install a distribution of one file, with its bytecode."""
    package = name.replace("-", "_")
    info = folder / f"{package}-1.5.dist-info"
    info.mkdir(parents=True)
    lines = [f"Requires-Dist: {each}" for each in requires]
    head = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.5", *lines]
    (info / "METADATA").write_text("\n".join(head) + "\n")
    (folder / package).mkdir()
    (folder / package / "a.py").write_bytes(content)
    (folder / package / "a.pyc").write_bytes(bytes(1000))
    files = [f"{package}/a.py", f"{package}/a.pyc", f"{package}/gone.py"]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_python_install_counts_required_files_without_bytecode(install, tmp_path):
    site = tmp_path / "site"
    install_distribution(
        site, "Mine", ["other.one>=1", "other-one[more]", "never; extra == 'x'"]
    )
    install_distribution(site, "other-one", ["deep; extra == 'more'", "mine"], b"12345")
    install_distribution(
        site, "deep", ["absent", "never; python_version < '3'"], b"123"
    )
    install_distribution(site, "never", (), b"1234567")
    assert set(install.required_distributions("mine", site)) == {
        "mine",
        "other-one",
        "deep",
    }
    package = tmp_path / "elsewhere"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__/a.pyc").write_bytes(bytes(99))
    (package / "a.py").write_bytes(bytes(50))
    found = install.python_install("mine", site, package)
    assert found == {"install_mib": 58 / install.MIB, "distributions": 3}
    assert install.version("Other.One", site) == "1.5"


def test_node_install_counts_nested_packages_once(install, tmp_path):
    def package(folder, size, *needs):
        folder.mkdir(parents=True)
        manifest = json.dumps({"version": "2", "dependencies": dict.fromkeys(needs)})
        (folder / "package.json").write_text(manifest.ljust(size))

    package(tmp_path / "@a/mine", 1000, "near", "far")
    package(tmp_path / "@a/mine/node_modules/near", 200, "far")
    package(tmp_path / "far", 300, "absent")
    package(tmp_path / "near", 5000)
    found = install.node_install("@a/mine", tmp_path)
    assert found == {"install_mib": 1500 / install.MIB, "distributions": 3}
    assert install.node_version("far", tmp_path) == "2"


def test_program_prints_figures_or_fails_with_its_stderr(benchmark_module):
    starts = benchmark_module("footprint.starts")
    took, figures = starts.run(
        [sys.executable, "-c", "import os; print('a 1\\nb', os.environ['X'], '\\nc')"],
        {"X": "2.5"},
    )
    assert figures == {"a": 1, "b": 2.5}
    assert took > 0
    with pytest.raises(ChildProcessError, match="sorry"):
        starts.run([sys.executable, "-c", "raise SystemExit('sorry')"], {})


LOG = """\
11 mmap(NULL, 4096) = 0x7f
11 sched_yield() = 0
12 brk(NULL) = 0x55
11 munmap(0x7f, <unfinished ...>
11 <... munmap resumed>) = 0
11 sched_yield() = 0
11 mmap(NULL, 4096) = 0x7f
"""


def test_only_system_calls_between_the_marks_count(benchmark_module):
    kernel = benchmark_module("footprint.kernel")
    assert kernel.count_between_marks(LOG.splitlines()) == 2
    with pytest.raises(ChildProcessError, match="1 marks"):
        kernel.count_between_marks(LOG.splitlines()[:3])


def test_measured_calls_are_made_between_the_marks(benchmark_module, monkeypatch):
    kernel = benchmark_module("footprint.kernel")
    seen = []

    class Variant:
        def __enter__(self):
            return lambda: seen.append("call")

        def __exit__(self, *_):
            seen.append("end")

        async def __aenter__(self):
            async def call():
                seen.append("call")

            return call

        async def __aexit__(self, *_):
            seen.append("end")

    monkeypatch.setattr(kernel, "WARM_UP_CALLS", 2)
    monkeypatch.setattr(kernel.pkgutil, "resolve_name", lambda _: lambda _: Variant())
    monkeypatch.setattr(kernel.os, "sched_yield", lambda: seen.append("mark"))
    expected = [*["call"] * 2, "mark", *["call"] * 3, "mark", "end"]
    for target in ("any:thing", "any_blocking:thing"):
        kernel.main(target, "", "3")
        assert seen == expected
        seen.clear()


@pytest.mark.parametrize("name", ["mcpwire_client", "mcpwire_sync_client"])
def test_minimal_program_reports_its_modules_and_memory(null, name):
    def run_program(*arguments):
        printed = printed_by(str(PROGRAMS / f"{name}.py"), *arguments)
        return dict(line.split() for line in printed.splitlines())

    assert set(run_program()) == {"import_modules"}
    figures = run_program(null, "20")
    assert int(figures["call_modules"]) >= int(figures["import_modules"])
    assert int(figures["blocks_left"]) <= 2  # no memory left per call
    assert 0 < int(figures["peak_bytes"]) < 10**6


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory figures of Linux")
@pytest.mark.unchecked_wire("it runs in another interpreter")
def test_memory_of_sessions_and_calls_in_flight_is_measured(null):
    words = ("2", "10", "stdio", "floor:connect", f"stdio --legacy anywhere {null}")
    done = finished(*MEMORY, *words, cwd=FOLDER, check=True)
    figures = dict(line.split() for line in done.stdout.splitlines())
    assert set(figures) == {"stdio_session_kib", "stdio_in_flight_kib"}
    assert 0 < float(figures["stdio_in_flight_kib"]) < 100


def test_ratios_are_to_our_figure_unless_it_is_zero(benchmark_module):
    bench = benchmark_module("bench_footprint")
    times = [
        {"mcpwire": [{"import_ms": 4}, {"import_ms": 6}], "x": [{"import_ms": 50}]}
    ]
    constant = {"mcpwire": {"blocks_left": 0}, "x": {"blocks_left": 3}, "p": {"k": 2}}
    (found,) = bench.rounds_of(times, constant)
    assert found["x"] == {
        "import_ms": {"value": 50, "ratio": 10},
        "blocks_left": {"value": 3, "ratio": 3},
    }
    assert found["mcpwire"]["import_ms"] == {"value": 5, "ratio": 1}
    assert found["p"] == {"k": {"value": 2, "ratio": 2}}


def test_absent_or_unselected_clients_are_skipped(
    benchmark_module, monkeypatch, tmp_path, capsys
):
    bench = benchmark_module("bench_footprint")
    monkeypatch.setattr(bench, "PEERS", tmp_path)
    monkeypatch.setattr(bench, "NODE_MODULES", tmp_path)
    assert list(bench.installed_clients([])) == [bench.PLAIN, "mcpwire", "mcpwire.sync"]
    assert "Python SDK is left out: it is not installed" in capsys.readouterr().err
    assert list(bench.installed_clients(["sync"])) == ["mcpwire.sync"]


def test_failing_peer_is_skipped_but_our_failure_is_raised(
    benchmark_module, monkeypatch, capsys
):
    bench = benchmark_module("bench_footprint")

    def fail(*_):
        raise ChildProcessError("it broke")

    monkeypatch.setattr(bench, "count_figures", fail)
    chosen = {"Peer": bench.Client(("x", "y"))}
    assert bench.count_all(chosen, "s", 1) == {}
    assert chosen == {}
    assert "Peer is left out: it broke" in capsys.readouterr().err
    with pytest.raises(ChildProcessError):
        bench.count_all({"mcpwire": bench.Client(("x", "y"))}, "s", 1)


def test_peak_of_a_call_is_its_maximum_live_memory(monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS))
    measurements = importlib.import_module("measurements")

    async def call():
        for _ in range(3):
            bytes(100_000)

    assert 100_000 <= asyncio.run(measurements.peak_bytes(call)) < 150_000
