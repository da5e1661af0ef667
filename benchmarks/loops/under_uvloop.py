"""Runs a program as if uvloop were asyncio's own loop; neither side has to know.

python -m loops.under_uvloop harness.child ARGUMENT...
python loops/under_uvloop.py server.py ARGUMENT...
"""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import uvloop


def main() -> None:
    # Policies go away with Python 3.16. Until then they reach programs that run a loop
    # of their own.
    warnings.simplefilter("ignore", DeprecationWarning)
    uvloop.install()
    del sys.argv[0]
    program = sys.argv[0]
    if program.endswith(".py"):
        # As where Python itself is given the file: what stands beside it is found.
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__")


if __name__ == "__main__":
    main()
