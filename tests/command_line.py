"""Results of command lines, run in this process or in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pytest


class Done(NamedTuple):
    code: int
    out: str
    err: str


def run_here(capsys: pytest.CaptureFixture[str], *words: str) -> Done:
    from mcpwire.cli.main import main

    capsys.readouterr()
    code = main(words)
    return Done(code, *capsys.readouterr())
