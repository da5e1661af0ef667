"""What a fork server imports so that servers with mutants start at once, and runs."""

import mutants
import server

mutants.load()
assert server

if __name__ == "__main__":
    mutants.main()
