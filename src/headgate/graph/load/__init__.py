"""Rows from files and Arrow into a graph: streamed in bounded memory, checked, published as one commit.

`sources` reads JSONL, CSV, Parquet and Arrow as chunks of one type each, `spool` keeps rows on disk where only the
last of several counts, `loader` shapes and writes them, `load` is the write.
"""

from headgate.graph.load.load import Loaded, load
from headgate.graph.load.loader import LoadMode

__all__ = ["LoadMode", "Loaded", "load"]
