"""How wire types are decoded, encoded, explained and shown.

::

    the classes' annotations ── spec ──┬── decoders ──┐
    what is forgiven ──────── forgive ─┤              ├── wire: decode, encode
                                       ├── encoders ──┘
                                       └── explain: where a value is wrong
                                             └── repair: leave that out, if it may be

Nothing here is imported before a value is decoded, encoded or shown, except `base` and
`names`, which the types themselves stand on.
"""
