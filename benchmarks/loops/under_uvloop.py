"""Run an unmodified program with uvloop as asyncio's event loop.

python loops/under_uvloop.py program.py ARGUMENT...
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
    # As `python FILE` does, so that modules in its folder are found.
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
