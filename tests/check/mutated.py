"""The module of a fork server from which servers with mutants are forked."""

import mutants
import server

mutants.load()
assert server

if __name__ == "__main__":
    mutants.main()
