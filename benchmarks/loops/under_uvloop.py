"""Run an unmodified program with uvloop as asyncio's event loop.

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
    # Python 3.16 removes event loop policies. Until then the policy also applies to
    # programs that create a loop themselves.
    warnings.simplefilter("ignore", DeprecationWarning)
    uvloop.install()
    del sys.argv[0]
    program = sys.argv[0]
    if program.endswith(".py"):
        # As `python FILE` does, so that modules in its folder are found.
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__")


if __name__ == "__main__":
    main()
