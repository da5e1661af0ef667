"""Test folders are no packages: what the tests of this one share is found by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
