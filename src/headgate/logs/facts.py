"""Loggers of the standard library that take facts by keyword, as structlog's do."""

from __future__ import annotations

import logging
from typing import Any

_OPTIONS = ("exc_info", "stack_info", "stacklevel", "extra")
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class FactsLogger:
    """A logger for bodies: `log.info("songs taken in", songs=3)`. Facts become attributes of the record."""

    def __init__(self, logger: logging.Logger, **facts: Any) -> None:
        self._logger = logger
        self._facts = facts

    def bind(self, **facts: Any) -> FactsLogger:
        """A logger that says these facts on each of its lines too."""
        return FactsLogger(self._logger, **(self._facts | facts))

    def debug(self, event: str, *args: Any, **facts: Any) -> None:
        self._log(logging.DEBUG, event, args, facts)

    def info(self, event: str, *args: Any, **facts: Any) -> None:
        self._log(logging.INFO, event, args, facts)

    def warning(self, event: str, *args: Any, **facts: Any) -> None:
        self._log(logging.WARNING, event, args, facts)

    def error(self, event: str, *args: Any, **facts: Any) -> None:
        self._log(logging.ERROR, event, args, facts)

    def exception(self, event: str, *args: Any, **facts: Any) -> None:
        self._log(logging.ERROR, event, args, {"exc_info": True, **facts})

    def _log(self, level: int, event: str, args: tuple[Any, ...], facts: dict[str, Any]) -> None:
        options = {name: facts.pop(name) for name in _OPTIONS if name in facts}
        extra = {_free(name): value for name, value in (self._facts | facts).items()}
        options["extra"] = {**(options.get("extra") or {}), **extra}
        options["stacklevel"] = options.get("stacklevel", 1) + 2
        self._logger.log(level, event, *args, **options)


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a record says besides its message."""
    return {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}


class FactsFormatter(logging.Formatter):
    """The message, and after it the facts as `name=value`: for files that people read."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        facts = " ".join(f"{name}={value}" for name, value in facts_of(record).items())
        told = super().formatMessage(record)
        return f"{told} {facts}" if facts else told


def _free(name: str) -> str:
    """A record has attributes of its own that a fact must not take."""
    return f"fact_{name}" if name in _OF_EVERY_RECORD else name
