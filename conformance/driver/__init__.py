"""Runner of the official conformance suite, with stricter verdicts."""
