"""The blocking client over HTTP; servers and helpers are those of other folders."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "over_http"))

import checked
import lasting

posted_messages_are_checked = checked.posted_messages_are_checked
patient_close = lasting.patient_close
