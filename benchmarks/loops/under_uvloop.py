"""Runs a program as if uvloop were asyncio's own loop; neither side has to know.

python -m loops.under_uvloop harness.child ARGUMENT...
python loops/under_uvloop.py server.py ARGUMENT...
"""

from __future__ import annotations

import runpy
import sys
import warnings

import uvloop


def main() -> None:
    # Policies go away with Python 3.16. Until then they reach programs that run a loop
    # of their own.
    warnings.simplefilter("ignore", DeprecationWarning)
    uvloop.install()
    del sys.argv[0]
    program = sys.argv[0]
    run = runpy.run_path if program.endswith(".py") else runpy.run_module
    run(program, run_name="__main__")


if __name__ == "__main__":
    main()
