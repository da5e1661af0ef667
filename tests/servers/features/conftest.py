"""What the tests of this folder share is found by name: it is no package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
