"""Logging, configured only by the CLI and the worker."""
