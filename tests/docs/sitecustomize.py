"""Installs `watched` in each Python that has this folder in its path at the start."""

import os
from pathlib import Path

import watched

if watched.VARIABLE in os.environ:
    watched.install(Path(os.environ[watched.VARIABLE]))
