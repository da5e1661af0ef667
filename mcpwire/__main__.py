"""Run the command line as ``python -m mcpwire``."""

from mcpwire.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
