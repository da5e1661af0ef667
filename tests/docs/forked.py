"""Runs a program like `python`, watched, with its imports already loaded.

    python -m forked FILE|-c CODE|-m MODULE [ARGUMENT]...

A fork server imports this module once; each program of a document is forked from it.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

import attrs
import httptools
import httpx
import msgspec
import orjson
import uvicorn
import watched

# Not mcpwire: a program that lacks an import of one of its modules must fail.
assert all((asyncio, attrs, httptools, httpx, msgspec, orjson, uvicorn))


def main(words: list[str]) -> None:
    """Install the watcher, then run the program that the arguments name."""
    watched.install(Path(os.environ[watched.VARIABLE]))
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), module.__dict__)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
