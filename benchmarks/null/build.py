"""Compile a C program of this folder and print the path of the executable.

    python benchmarks/null/build.py [stdio_null | http_null | pipe_loop]

The compiler is `$CC`, else the machine's `cc`, `gcc` or `clang`, else that of PyPI's
`ziglang` (`pip install ziglang`). The executable is in `.build/null/` and is compiled
again when the source, `answers.h` or the compiler command changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).resolve().parent
BUILD_FOLDER: Final = HERE.parent.parent / ".build" / "null"
FLAGS: Final = ("-O2", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra")


class NoCompiler(Exception):
    """No C compiler was found; the message has the remedy."""


def find_compiler() -> list[str]:
    """Return the command that starts a C compiler.

    Raises:
        NoCompiler: No compiler was found.
    """
    if from_environment := os.environ.get("CC"):
        command = shlex.split(from_environment)
        if shutil.which(command[0]):
            return command
        raise NoCompiler(
            f"$CC names {from_environment!r}, which is no program on this machine"
        )
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise NoCompiler(
        "the null servers are written in C and no compiler was found: install gcc or "
        "clang, set $CC, or run `pip install ziglang` in this environment"
    )


def compiler_version() -> str:
    """Return the first line of the compiler's `--version`."""
    command = [*find_compiler(), "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.partition("\n")[0].strip()


def build(name: str = "stdio_null") -> Path:
    """Return the path of the executable; compile it if needed.

    Raises:
        NoCompiler: No compiler was found.
        CalledProcessError: The compiler failed.
    """
    source = HERE / f"{name}.c"
    compiler = find_compiler()
    shared = (HERE / "answers.h").read_bytes()
    parts = (source.read_bytes(), shared, " ".join((*compiler, *FLAGS)).encode())
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    program = BUILD_FOLDER / f"{name}-{digest}"
    if program.exists():
        return program
    BUILD_FOLDER.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: concurrent builds must not find half a file.
    partial_path = BUILD_FOLDER / f".{name}-{os.getpid()}"
    command = [*compiler, *FLAGS, "-o", str(partial_path), str(source)]
    subprocess.run(command, check=True)
    partial_path.replace(program)
    return program


def leg_argument(words: str) -> str:
    """Return the argument of a variant that calls a null server, for `leg.parse_leg`.

    Args:
        words: Shape and era, and the placement if it is not ``anywhere``.
    """
    shape, era, placement = (*words.split(), "anywhere")[:3]
    server = build("stdio_null" if shape == "stdio" else "http_null")
    return f"{shape} {era} {placement} {server}"


@contextmanager
def exit_on_compile_error(name: str) -> Iterator[dict[str, Any]]:
    """Yield the compiler's version for the result; exit with a message on failure."""
    try:
        yield {"compiler": compiler_version()}
    except (NoCompiler, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_{name}.py: {error}")


def main() -> int:
    try:
        print(build(*sys.argv[1:2]))
    except NoCompiler as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"build.py: could not compile: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
