"""Test folders are not packages: this makes the helper modules here importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
