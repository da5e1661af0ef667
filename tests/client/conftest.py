"""Test folders are not packages: shared modules are imported by their names."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "over_http"), str(HERE.parent / "sync")]
