"""Server under test by the official conformance suite.

It uses only public names of mcpwire: one function for each tool, resource and prompt
that the suite requests by name, all in `fixture/`.
"""

from __future__ import annotations

import argparse

from fixture import client_input, contents, documents, tasks
from fixture.app import server

# The features are listed in this order.
FEATURE_MODULES = (contents, client_input, documents, tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=3001)
    parser.add_argument("--stdio", action="store_true", help="serve there instead")
    options = parser.parse_args()
    if options.stdio:
        server.run()
    else:
        server.run(http=f"127.0.0.1:{options.port}")


if __name__ == "__main__":
    main()
