"""The servers in this folder are modules that tests in any folder can import."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import black_holes
import checked
import lasting
import legacy_faces

posted_messages_are_checked = checked.posted_messages_are_checked
kept_for_long = lasting.kept_for_long
black_hole = black_holes.black_hole
engine = legacy_faces.engine
gate = legacy_faces.gate
