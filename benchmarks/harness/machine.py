"""Description of the machine for a result file, without names of hosts or users."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("pymcpwire", "attrs", "orjson")


def cpu_model() -> str:
    """Return the name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def package_versions() -> dict[str, str]:
    """Return the versions of the packages on the measured path."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def commit() -> str:
    """Return the measured commit, with "+changes" if the package had changes."""
    folder = Path(__file__).parent
    git = ["git", "-C", str(folder)]
    revision = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    if revision.returncode:
        return "unknown"
    package = str(folder.parent.parent / "mcpwire")
    status = subprocess.run(
        [*git, "status", "--porcelain", "--", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return revision.stdout.strip() + ("+changes" if status.stdout.strip() else "")


def event_loop() -> str:
    """Return the names of asyncio's default event loop and selector."""
    loop = asyncio.new_event_loop()
    try:
        selector = getattr(loop, "_selector", None)
        return f"{type(loop).__name__}({type(selector).__name__})"
    finally:
        loop.close()


def describe() -> dict[str, Any]:
    """Return the description of the machine and the software."""
    kernel = re.match(r"[\d.]+", platform.release())
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {kernel[0].rstrip('.') if kernel else ''}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "event_loop": event_loop(),
        "packages": package_versions(),
        "pinned": hasattr(os, "sched_setaffinity"),
    }
