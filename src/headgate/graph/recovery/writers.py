"""Every kind of write that changes a branch's tables. Each leaves a sidecar, and each is killed by the tests."""

from __future__ import annotations

from enum import StrEnum


class Writer(StrEnum):
    """Named in the sidecar and in the commit. A new kind needs a job in `headgate.testing.graph_jobs` besides."""

    MUTATE = "mutate"
    LOAD = "load"
    TRANSACTION = "transaction"
    TASK = "task"
    """A task attempt's: recovery only ever rolls it back, since the retry decides."""
    SCHEMA = "schema"
    ENSURE_INDICES = "ensure_indices"
    OPTIMIZE = "optimize"
    REPAIR = "repair"
    MERGE = "merge"
    REWIND = "rewind"
