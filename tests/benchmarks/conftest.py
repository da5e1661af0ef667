"""The benchmarks' modules by name, and what needs a C compiler for its null servers."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch):
    """Return a function that gives a module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def without(reason):
    """Skip what needs a compiler, but under CI, where one has to be there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def compiled(benchmark_module):
    """Return the same function, where there is a compiler."""
    build = benchmark_module("null.build")
    try:
        build.find_compiler()
    except build.NoCompiler as error:
        without(str(error))
    return benchmark_module


@pytest.fixture(scope="session")
def null_program():
    """Return a function that builds a null server as users do, without a warning."""

    def build(name):
        built = subprocess.run(
            [sys.executable, FOLDER / "null/build.py", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            without(built.stderr.strip())
        assert built.stderr == "", "the compiler warned"
        return built.stdout.strip()

    return build
