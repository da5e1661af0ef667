"""Check a server or a client for conformance, over stdio and HTTP, in every revision.

`run` is what ``mcpwire check`` runs, `run_client` what ``mcpwire check client`` runs;
both need the package jsonschema-rs.
"""

from __future__ import annotations

from mcpwire.check.case import Case, Level, Verdict
from mcpwire.check.cases import CASES
from mcpwire.check.clients import CASES as CLIENT_CASES
from mcpwire.check.clients.runner import run_client
from mcpwire.check.results import Cell, Report, Result, Score, worse
from mcpwire.check.runner import Options, run, select

__all__ = [
    "CASES",
    "CLIENT_CASES",
    "Case",
    "Cell",
    "Level",
    "Options",
    "Report",
    "Result",
    "Score",
    "Verdict",
    "run",
    "run_client",
    "select",
    "worse",
]
