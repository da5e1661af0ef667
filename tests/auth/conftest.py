"""The helpers in this folder are modules that its tests import."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
