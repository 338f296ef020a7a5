"""Setting up the logging of this process. The CLI and the worker do it; a library never does."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any, TextIO

from headgate.logs.files import RotatingFile
from headgate.logs.identity import identity
from headgate.logs.redact import Redactor

_ours: list[logging.Handler] = []
_levels_before: dict[str, int] = {}


def configure(
    *,
    level: str = "info",
    file: Path | None = None,
    max_bytes: int = 50_000_000,
    keep: int = 5,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
    everything: bool = False,
) -> None:
    """Lines for people on `stream` (stderr if nothing is said), JSON lines in `file`; replaces an earlier set-up.

    Other libraries are heard from warnings up, with `everything` at the same level as Headgate itself.
    """
    import structlog

    unconfigure()
    redactor = Redactor(secrets)
    stream = stream or sys.stderr
    terminal = logging.StreamHandler(stream)
    people = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
    )
    terminal.setFormatter(_formatter(redactor, people, time_format="%H:%M:%S", utc=False))
    _ours.append(terminal)
    if file is not None:
        lines = RotatingFile(file, max_bytes=max_bytes, keep=keep)
        as_json = structlog.processors.JSONRenderer(ensure_ascii=False)
        lines.setFormatter(_formatter(redactor, as_json, time_format="iso", utc=True))
        _ours.append(lines)

    wanted = logging.getLevelNamesMapping()[level.upper()]
    for name, threshold in (("headgate", wanted), ("", wanted if everything else max(wanted, logging.WARNING))):
        logger = logging.getLogger(name)
        _levels_before[name] = logger.level
        logger.setLevel(threshold)
    for handler in _ours:
        logging.getLogger().addHandler(handler)
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def unconfigure() -> None:
    """Take back what `configure` set up, and close its file."""
    root = logging.getLogger()
    for handler in _ours:
        root.removeHandler(handler)
        handler.close()
    _ours.clear()
    for name, level in _levels_before.items():
        logging.getLogger(name).setLevel(level)
    _levels_before.clear()


def _formatter(redactor: Redactor, renderer: Any, *, time_format: str, utc: bool) -> logging.Formatter:
    import structlog

    def with_identity(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        # Another handler's formatter leaves these two on a record; they are no facts.
        return {**identity(), **{name: value for name, value in event.items() if name not in ("message", "asctime")}}

    def without_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        return {name: redactor.fact(name, value) for name, value in event.items()}

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
        processors=[
            with_identity,
            structlog.processors.TimeStamper(fmt=time_format, utc=utc, key="timestamp"),
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            without_secrets,
            renderer,
        ],
    )
