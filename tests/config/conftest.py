"""Makes the helpers for servers over HTTP importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))
