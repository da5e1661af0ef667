"""Lets the tests of this folder find the helper module beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
