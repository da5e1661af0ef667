"""The version of this package, where both the build and the code find it."""

__version__ = "0.1.0.dev0"
