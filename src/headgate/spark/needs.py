"""What this machine lacks for a Spark session, found out before a job fails for it."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Callable, Iterator

from headgate.errors import MissingExtra, Problem
from headgate.settings import SparkSettings
from headgate.spark.java import INSTALL_JAVA, java_problem

INSTALL = "pip install 'headgate[spark]'"
WORKERS_PYTHON = "spark.pyspark.python"
_TOO_NEW_PANDAS = 3


def problems(
    settings: SparkSettings,
    *,
    version_of: Callable[[str], str | None] | None = None,
    java: Callable[[], str | None] = java_problem,
) -> Iterator[Problem]:
    """All that keeps a session from starting, or its jobs from running."""
    version_of = version_of or installed
    if version_of("pyspark") is None:
        yield Problem("pyspark", "it is not installed", INSTALL)
    if version_of("pyarrow") is None:
        yield Problem("pyarrow", "it is not installed: Spark hands rows to Python through it", INSTALL)
    pandas = version_of("pandas")
    if pandas is not None and int(pandas.partition(".")[0]) >= _TOO_NEW_PANDAS:
        yield Problem("pandas", f"it is version {pandas}, which PySpark cannot use", "pip install 'pandas<3'")
    if (wrong := java()) is not None:
        yield Problem("Java", wrong, INSTALL_JAVA)
    python = workers_python(settings)
    if settings.master.startswith("local") and shutil.which(python) is None:
        yield Problem(
            WORKERS_PYTHON, f"{python} is no program here", f"take it out of [spark.conf], or name {sys.executable}"
        )


def check(settings: SparkSettings) -> None:
    """`MissingExtra` with everything that is wrong at once."""
    found = tuple(problems(settings))
    if found:
        raise MissingExtra(
            message=f"Spark cannot run here: {'; '.join(f'{one.where}: {one.message}' for one in found)}",
            hint="; ".join(dict.fromkeys(one.fix for one in found)),
            extra="spark",
            problems=found,
        )


def workers_python(settings: SparkSettings) -> str:
    """Which Python runs in Spark's workers: this one, which has our packages, unless the settings name another."""
    named = settings.conf.get(WORKERS_PYTHON)
    return str(named) if named else sys.executable


def installed(distribution: str) -> str | None:
    """The version of an installed distribution; None if there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
