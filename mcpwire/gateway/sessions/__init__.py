"""Which session a request is of, and which servers it chose."""
