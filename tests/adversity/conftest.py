"""Puts the helper modules of this folder on the import path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
