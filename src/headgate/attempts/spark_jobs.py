"""A body with Spark: whose jobs they are, and that none outlives its body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.attempts.report import Run
from headgate.attempts.runtime import Runtime
from headgate.errors import MissingExtra
from headgate.tasks.context import TaskContext
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.protocols import SparkProvider
from headgate.tasks.signals import TaskCancelled


def spark_for(runtime: Runtime, declaration: TaskDeclaration) -> SparkProvider | None:
    """What gives this task its session; None for one that takes none."""
    if not declaration.takes_spark:
        return None
    if runtime.spark is None:
        raise MissingExtra(
            message=f"task {declaration.name} needs Spark, and this worker has none",
            hint="pip install 'headgate[spark]' and Java 17 or later",
            extra="spark",
        )
    return runtime.spark


@contextmanager
def spark_jobs(spark: SparkProvider | None, run: Run, context: TaskContext) -> Iterator[None]:
    """Run a body's jobs inside: they are stopped when the attempt is no longer wanted, and what still runs when the
    body has returned is stopped before anything is staged."""
    if spark is None:
        yield
        return
    if spark.pages:
        context.logger.info(f"Spark shows its jobs at {spark.pages}")

    def report(what: str, done: int, total: int) -> None:
        context.progress(done, total, what)

    stopping = run.cancellation.stopping(lambda: spark.cancel(run.execution))
    with stopping, spark.watched(run.execution, report):
        try:
            yield
        except Exception as error:
            if run.cancellation.is_set():
                raise TaskCancelled() from error
            raise
        finally:
            spark.cancel(run.execution)
