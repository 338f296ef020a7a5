"""Which engine loads: this process, or Spark. Says why, and starts neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headgate.errors import InvalidInput, MissingExtra, Problem
from headgate.settings import SparkSettings
from headgate.spark import needs

Engine = Literal["local", "spark"]
ENGINES = ("auto", "local", "spark")
WORTH_A_JVM = 256 << 20
"""Files of fewer bytes are loaded before a session would have started."""


@dataclass(frozen=True)
class Choice:
    engine: Engine
    why: str


def choose_engine(
    wanted: str,
    data: Sequence[str | Path],
    settings: SparkSettings,
    *,
    problems: Callable[[SparkSettings], Iterable[Problem]] = needs.problems,
) -> Choice:
    """What loads this data: what was asked for, or what suits it."""
    if wanted not in ENGINES:
        raise InvalidInput(message=f"engine is {wanted!r}", hint=f"use {', '.join(ENGINES)}")
    only_spark = [str(given) for given in data if _only_spark(str(given))]
    if wanted == "local":
        if only_spark:
            raise InvalidInput(
                message=f"{only_spark[0]} can be read by Spark alone", hint="use --engine spark, or a local file"
            )
        return Choice("local", "it was asked for")
    if wanted == "spark":
        return Choice("spark", "it was asked for")
    size = sum(Path(given).stat().st_size for given in data if not _only_spark(str(given)) and Path(given).is_file())
    if not only_spark and size < WORTH_A_JVM:
        return Choice("local", f"{_told(size)} are loaded before Spark would have started")
    missing = list(problems(settings))
    if missing and only_spark:
        raise MissingExtra(
            message=f"{only_spark[0]} can be read by Spark alone, and {missing[0].where}: {missing[0].message}",
            hint=missing[0].fix,
            extra="spark",
        )
    if missing:
        return Choice("local", f"Spark cannot run here: {missing[0].where}: {missing[0].message}")
    return Choice("spark", f"{only_spark[0]} is read by Spark" if only_spark else f"{_told(size)} are worth a session")


def _only_spark(given: str) -> bool:
    return given.startswith("table:") or "://" in given


def _told(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
