"""The servers in this folder are modules that tests anywhere may import."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import checked
import lasting

posted_messages_are_checked = checked.posted_messages_are_checked
kept_for_long = lasting.kept_for_long
