"""What changes when a message crosses from one revision, or one connection, to another.

Everything that a gateway passes on stays as it came, but for what belongs to one hop:
ids, progress tokens, the `_meta` of the revision, and the forms of a few questions.
"""
