"""The shared modules of this folder are imported by name: it is not a package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
