"""The five covered systems, line by line: see `docs/contributing/systems.md`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "over_http"))
