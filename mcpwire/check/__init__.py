"""Check a server for conformance: any server, over stdio and HTTP, in every revision.

`run` is what ``mcpwire check`` runs; it needs the package jsonschema-rs.
"""

from __future__ import annotations

from mcpwire.check.case import Case, Level, Verdict
from mcpwire.check.cases import CASES
from mcpwire.check.results import Cell, Report, Result, Score, worse
from mcpwire.check.runner import Options, run, select

__all__ = [
    "CASES",
    "Case",
    "Cell",
    "Level",
    "Options",
    "Report",
    "Result",
    "Score",
    "Verdict",
    "run",
    "select",
    "worse",
]
