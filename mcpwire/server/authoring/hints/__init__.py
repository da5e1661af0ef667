"""Type hints made usable: what msgspec reads of them, and their JSON Schemas."""
