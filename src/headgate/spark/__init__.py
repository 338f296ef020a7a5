"""The data pipeline on Spark.

`session` builds the one session, from what `java` finds and `needs` asks for; `workers` asks its workers.

Reading: `source` is the data source `headgate`, with `options`, `pinned`, `reading` and `filters`; `frames` gives views
and GraphFrames, `changed` what differs between commits.

Writing: `transaction` is one commit of several DataFrames. `staging` and `splits` write rows on the executors,
`claims`, `sources` and `verdicts` decide about their keys, `checks` and `finish` are the plans, `writing` is the data
source's writer, `load` and `streaming` are built on it. `choice` says which engine loads.

What is public is imported when it is first asked for: Spark starts processes that import this package and need little.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.spark.changed import changes_frame
    from headgate.spark.load import spark_load
    from headgate.spark.session import SparkSessions
    from headgate.spark.source import register_source
    from headgate.spark.streaming import batches_into, each_batch

_HOMES = {
    "SparkSessions": "session",
    "batches_into": "streaming",
    "changes_frame": "changed",
    "each_batch": "streaming",
    "register_source": "source",
    "spark_load": "load",
}

__all__ = ["SparkSessions", "batches_into", "changes_frame", "each_batch", "register_source", "spark_load"]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
