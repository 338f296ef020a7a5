"""Whether the Python of a session's workers can do our work: asked once for a session, before rows are staged."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from typing import TYPE_CHECKING

from headgate.errors import MissingExtra, Problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPARED = ("headgate", "pyarrow", "pylance", "duckdb", "numpy")
"""What driver and workers have to have in one version: they hash the same texts and write the same files."""
_FIX = "install headgate[spark] in the workers' Python, in the driver's versions, or set spark.pyspark.python"
_checked: set[str] = set()


def versions() -> dict[str, str]:
    """What this process runs with."""
    import duckdb as _duckdb  # noqa: F401 - that they can be imported is what is asked
    import lance as _lance  # noqa: F401

    import headgate.graph as _graph  # noqa: F401

    found = {name: _version(name) for name in COMPARED}
    return {**found, "python": ".".join(platform.python_version_tuple()[:2])}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "no version"


def check_workers(spark: SparkSession) -> None:
    """`MissingExtra` with everything that is wrong with the workers; a session that passed is not asked again."""
    context = spark.sparkContext
    if context.applicationId in _checked:
        return
    tasks = max(2, int(context.defaultParallelism))
    try:
        told = context.parallelize(range(tasks), tasks).map(lambda _: versions()).collect()
    except Exception as error:
        raise MissingExtra(
            message=f"the workers of {context.master} cannot run our code: {_reason(str(error))}",
            hint=_FIX,
            extra="spark",
        ) from error
    problems = differing(versions(), told)
    if problems:
        raise MissingExtra(
            message=f"the workers of {context.master} differ from the driver: "
            + "; ".join(f"{one.where} {one.message}" for one in problems),
            hint=_FIX,
            extra="spark",
            problems=problems,
        )
    _checked.add(context.applicationId)


def differing(here: dict[str, str], there: list[dict[str, str]]) -> tuple[Problem, ...]:
    """What is not the same on some worker."""
    found = {
        name: sorted({one.get(name, "missing") for one in there} - {version}) for name, version in sorted(here.items())
    }
    return tuple(
        Problem(name, f"is {', '.join(others)} there and {here[name]} here", _FIX)
        for name, others in found.items()
        if others
    )


def _reason(text: str) -> str:
    """The line of a long error that says what happened."""
    for pattern in (r"ModuleNotFoundError: (.+)", r"ImportError: (.+)", r"\[PYTHON_VERSION_MISMATCH\] (.+)"):
        if found := re.search(pattern, text):
            return found.group(1).strip()
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        return f"there is no program {found.group(1)}"
    return (text.strip().splitlines() or ["no reason"])[0]
