"""The one place that builds a SparkSession."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from headgate.errors import MissingExtra
from headgate.settings import SparkSettings
from headgate.spark import needs
from headgate.spark.progress import Report, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_PACKAGES = "spark.jars.packages"
_JOB_GROUP = "spark.jobGroup.id"
_LOOPBACK = "127.0.0.1"
_DEFAULTS = {
    "spark.app.name": "headgate",
    # Without it, a data source in Python gets no filters to push.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


class SparkSessions:
    """Starts a session when a task first asks for one, and hands the same one to all. Any thread may ask."""

    def __init__(
        self, settings: SparkSettings | None = None, *, on_lakefs: bool = False, session: SparkSession | None = None
    ) -> None:
        """`on_lakefs`: whether stores are on lakeFS, which Spark reaches through `s3a://`.

        A `session` that is passed is used as it is: nothing is set on it, and it is never stopped here.
        """
        self._settings, self._on_lakefs = settings or SparkSettings(), on_lakefs
        self._session: Any = session
        self._ours = session is None
        self._hadoop: dict[str, str] = {}
        self._guard = threading.Lock()

    def reach(self, options: Mapping[str, str]) -> None:
        if not self._ours:
            return
        with self._guard:
            self._hadoop.update(options)
            if self._session is not None:
                _set(self._session, options)

    def session(self, *, jobs: str) -> SparkSession:
        with self._guard:
            if self._session is None:
                self._session = self._build()
                _set(self._session, self._hadoop)
            session = self._session
        session.sparkContext.setJobGroup(jobs, jobs, interruptOnCancel=True)
        return session

    def cancel(self, jobs: str) -> None:
        with self._guard:
            session = self._session
        if session is None:
            return
        context = session.sparkContext
        # Also those that the body starts after this: it may be between two jobs.
        context._jsc.sc().cancelJobGroupAndFutureJobs(jobs)  # noqa: SLF001
        if context.getLocalProperty(_JOB_GROUP) == jobs:
            context.setLocalProperty(_JOB_GROUP, None)

    def watched(self, jobs: str, report: Report) -> AbstractContextManager[None]:
        return told(self._session, jobs, report)

    @property
    def pages(self) -> str:
        with self._guard:
            session = self._session
        return str(session.sparkContext.uiWebUrl or "") if session is not None else ""

    def close(self) -> None:
        """Stop the session, if it was started here."""
        with self._guard:
            session, self._session = self._session, None if self._ours else self._session
        if self._ours and session is not None:
            session.stop()

    def _build(self) -> SparkSession:
        needs.check(self._settings)
        from pyspark.sql import SparkSession

        local = self._settings.master.startswith("local")
        # Spark reads both from the environment alone.
        os.environ["PYSPARK_PYTHON"] = needs.workers_python(self._settings)
        if local:
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        builder = SparkSession.builder.master(self._settings.master)
        for name, value in options(self._settings, on_lakefs=self._on_lakefs).items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise MissingExtra(
                message=f"Spark did not start on {self._settings.master}: {_first_line(error)}",
                hint="check spark.master and [spark.conf]; `headgate doctor` shows Java and the packages",
                extra="spark",
            ) from error
        if needs.installed("pylance") is not None:
            from headgate.spark.source import register_source

            register_source(session)
        log.info("Spark %s runs on %s; its pages are at %s", session.version, self._settings.master, _pages(session))
        return session


def options(settings: SparkSettings, *, on_lakefs: bool) -> dict[str, str]:
    """The options a session is built with: ours, and over them what the settings say."""
    given = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in settings.conf.items()
    }
    found = {**_DEFAULTS, **given}
    if on_lakefs and settings.s3a == "fetch" and "hadoop-aws" not in given.get(_PACKAGES, ""):
        found[_PACKAGES] = ",".join(filter(None, [given.get(_PACKAGES), f"org.apache.hadoop:hadoop-aws:{hadoop()}"]))
    return found


def hadoop() -> str:
    """The version of the Hadoop that is part of the installed Spark: `hadoop-aws` must be of the very same one."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    for jar in jars.glob("hadoop-client-api-*.jar"):
        if found := re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name):
            return found.group(1)
    raise MissingExtra(
        message=f"{jars} has no hadoop-client-api, so the version of hadoop-aws cannot be told",
        hint='put hadoop-aws on Spark\'s path and set spark.s3a = "installed"',
        extra="spark",
    )


def _set(session: Any, hadoop_options: Mapping[str, str]) -> None:
    # In Hadoop's own configuration they are found by DataFrames and by RDDs, and in no listing of Spark's options.
    configuration = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    with _unlogged():
        for name, value in hadoop_options.items():
            configuration.set(name, value)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep what this thread sends to the JVM out of the log: Py4J writes every command to it, at the level of debug."""
    here = threading.get_ident()

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    loggers = [logging.getLogger(name) for name in ("py4j.clientserver", "py4j.java_gateway")]
    for logger in loggers:
        logger.addFilter(elsewhere)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(elsewhere)


def _pages(session: Any) -> str:
    return str(session.sparkContext.uiWebUrl or "no address")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
