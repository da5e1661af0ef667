"""Helpers of these tests are modules of this folder."""

import sys
from pathlib import Path

import pytest

from mcpwire.cli.main import main

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cli(capsys):
    """Run a command line; returns its exit code, stdout and stderr."""

    def run(*words):
        capsys.readouterr()
        code = main(words)
        return code, *capsys.readouterr()

    return run
