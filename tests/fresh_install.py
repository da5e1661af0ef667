"""Install mcpwire as a user does, from a wheel into a new environment, and use it.

The checkout is not on the path there: a file that the wheel lacks is missing. Run by
`make fresh` and by `make test`; needs `make peers` for the server.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/docs"))

from documents import blocks, commands, file_name, pairs  # noqa: E402 - found through the line above

WORK = ROOT / ".build/fresh"
SERVER_FOLDER = ROOT / ".peers/node"
SERVER = "npx -y @modelcontextprotocol/server-everything"
NODE_BIN = Path(sys.executable).parent
RUNTIME = {"anyio", "attrs", "httptools", "httpx", "msgspec", "orjson"}
TIMEOUT_S = 120.0


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        command = " ".join(map(str, words))
        sys.exit(f"exit code {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> Path:
    """Build the wheel and check its contents."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", WORK, ".")
    (wheel,) = WORK.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    allowed = ("mcpwire/", metadata.removesuffix("METADATA"))
    foreign = [name for name in names if not name.startswith(allowed)]
    expect(not foreign, f"the wheel holds {foreign}")
    expect("mcpwire/py.typed" in names, "the wheel lacks mcpwire/py.typed")
    needs = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", text, re.MULTILINE)
    expect(set(needs) == RUNTIME, f"the wheel needs {sorted(needs)}")
    return wheel


def install(wheel: Path) -> Path:
    """Return the folder of programs of a new environment with nothing but the wheel."""
    environment = WORK / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    constraints = ROOT / ".ci/constraints.txt"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "-q", "-c", constraints, wheel)
    run(*pip, "check")
    return environment / "bin"


def try_readme(programs: Path, env: dict[str, str]) -> None:
    """Run all commands of the README, in a folder with the files that it shows."""
    folder = WORK / "readme"
    folder.mkdir()
    for block in blocks("README.md"):
        if name := file_name(block):
            (folder / name).write_text(block.text, encoding="utf-8")
    for block, shown in pairs("README.md"):
        if block.language == "python":
            output = run(programs / "python", "-c", block.text, cwd=folder, env=env)
        else:
            shell = (f"echo '$ {each}'; {each} 2>&1 || :" for each in commands(block))
            output = run("/bin/sh", "-c", "\n".join(shell), cwd=folder, env=env)
        expected = output if shown is None else shown.text
        expect(output == expected, f"{block} printed\n{output}")


def expect(holds: bool, message: str) -> None:  # noqa: FBT001 - an assertion of a script
    if not holds:
        sys.exit(message)


def main() -> None:
    programs = install(build())
    # npx finds the server installed in its working folder and contacts no registry.
    env = {
        "PATH": f"{programs}:{NODE_BIN}:{os.environ['PATH']}",
        "HOME": str(WORK),
        "npm_config_offline": "true",
    }
    listed = run(programs / "mcpwire", "ls", SERVER, cwd=SERVER_FOLDER, env=env)
    expect("echo(message: str)" in listed, f"`mcpwire ls` printed\n{listed}")
    call = (programs / "mcpwire", "call", SERVER, "get-sum", "a=2", "b=3")
    answered = run(*call, cwd=SERVER_FOLDER, env=env)
    expect("The sum of 2 and 3 is 5." in answered, f"`call` printed\n{answered}")
    try_readme(programs, env)


if __name__ == "__main__":
    main()
