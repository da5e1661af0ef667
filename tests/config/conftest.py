"""Lets these tests use servers over HTTP."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))
