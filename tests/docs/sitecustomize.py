"""Installs `watched` in each Python that starts with this folder in its path."""

import os
from pathlib import Path

import watched

if watched.VARIABLE in os.environ:
    watched.install(Path(os.environ[watched.VARIABLE]))
