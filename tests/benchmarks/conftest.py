"""Fixtures: the benchmarks' modules by name, and null servers built by a C compiler."""

import importlib
import os
import sys
from pathlib import Path

import pytest
from child_python import finished

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def skip_or_fail(reason):
    """Skip a test that needs a compiler; fail under CI, which must have one."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def compiled(benchmark_module):
    """Return `benchmark_module`, or skip the test without a compiler."""
    build = benchmark_module("null.build")
    try:
        build.find_compiler()
    except build.NoCompiler as error:
        skip_or_fail(str(error))
    return benchmark_module


@pytest.fixture(scope="session")
def null_program():
    """Return a function that builds a null server as users do, without a warning."""

    def build(name):
        built = finished(sys.executable, str(FOLDER / "null/build.py"), name)
        if built.returncode:
            skip_or_fail(built.stderr.strip())
        assert built.stderr == "", "the compiler warned"
        return built.stdout.strip()

    return build
