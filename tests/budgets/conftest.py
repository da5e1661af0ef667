"""Lets the budgets find the helpers beside them, and the servers of HTTP's tests."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "over_http")]
