"""Rules of sessions over HTTP that need no I/O: ids of events, history, batches."""
