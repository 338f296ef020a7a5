"""The data pipeline on Spark.

`java` finds the Java that Spark would start, `needs` tells what this machine lacks for a session, `session` builds it.
"""

from headgate.spark.session import SparkSessions

__all__ = ["SparkSessions"]
