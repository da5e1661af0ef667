"""Adds the helpers of this folder and of `over_http` to the import path."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "over_http")]
