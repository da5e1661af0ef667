"""Servers of what goes wrong over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent.parent / "over_http"))

import checked
import lasting

posted_messages_are_checked = checked.posted_messages_are_checked
kept_for_long = lasting.kept_for_long
patient_close = lasting.patient_close
