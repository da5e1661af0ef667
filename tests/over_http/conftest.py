"""The servers in this folder are modules that tests in any folder can import."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import legacy_channels
import longer_timeouts
import schema_checks
import unreachable_ports

posted_messages_are_checked = schema_checks.posted_messages_are_checked
kept_for_long = longer_timeouts.kept_for_long
black_hole = unreachable_ports.black_hole
engine = legacy_channels.engine
gate = legacy_channels.gate
