"""Fixtures: real servers by name, and a repository for the one that reads git."""

from __future__ import annotations

import os
import subprocess

import pytest
from real_servers import RealServer, real_server


@pytest.fixture
def real(tmp_path):
    """Return a function that gives a real server by name.

    Where it is not installed the test skips, except under CI, where it fails.
    """

    def find(name: str) -> RealServer:
        server = real_server(name, tmp_path)
        missing = server.missing()
        if missing is not None:
            reason = f"{missing} is not there: run `make peers`"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        return server

    return find


@pytest.fixture
def repository(tmp_path):
    """Return a git repository with one commit, made without anybody's settings."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "poem.txt").write_text("a line\n", encoding="utf-8")
    nobody = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
    }
    for words in (
        ("init", "--quiet"),
        ("add", "."),
        ("commit", "--quiet", "-m", "The first line"),
    ):
        subprocess.run(("git", *words), cwd=folder, env=nobody, check=True, timeout=30)
    return folder
