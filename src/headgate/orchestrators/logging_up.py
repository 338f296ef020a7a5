"""Logging as the settings say, for the processes that are ours: the command line, the worker and its executors."""

from __future__ import annotations

from headgate import logs
from headgate.settings import Settings
from headgate.settings.fields import secrets_in


def set_up_logging(settings: Settings, *, debug: bool = False) -> None:
    """Lines for people on stderr, JSON lines in the file of the settings, secrets in neither."""
    log = settings.log
    logs.configure(
        level="debug" if debug else log.level,
        file=log.file,
        max_bytes=int(log.max_mb * 1_000_000),
        keep=log.keep,
        secrets=secrets_in(settings),
        everything=debug,
    )
