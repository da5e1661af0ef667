"""After a connection is lost: when it is opened again, and what is repeated."""
