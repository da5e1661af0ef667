"""The parts of the catalog: one list, whose a URI is, tools made of other things."""
