"""Measure the costs, the maximum load and the regressions of a server.

The command ``mcpwire bench`` calls `run`, which needs the package hdrhistogram.
"""

from __future__ import annotations

from mcpwire.bench.client_code import ClientCode, CodeProcess
from mcpwire.bench.compare import Difference, compare, differences
from mcpwire.bench.footprint import Size, Sizes, StartUp, measure_size, measure_start
from mcpwire.bench.load import Call, Load, read_mix
from mcpwire.bench.results import Result, Slice, Subject
from mcpwire.bench.runs import Progress, find_max, measure_code, run
from mcpwire.bench.thresholds import Change, Threshold, parse_condition, parse_failure
from mcpwire.bench.worker_group import GeneratorFailed

__all__ = [
    "Call",
    "Change",
    "ClientCode",
    "CodeProcess",
    "Difference",
    "GeneratorFailed",
    "Load",
    "Progress",
    "Result",
    "Size",
    "Sizes",
    "Slice",
    "StartUp",
    "Subject",
    "Threshold",
    "compare",
    "differences",
    "find_max",
    "measure_code",
    "measure_size",
    "measure_start",
    "parse_condition",
    "parse_failure",
    "read_mix",
    "run",
]
