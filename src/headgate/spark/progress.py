"""How far the jobs of a thread have come: told while they run, by asking Spark now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[str, int, int], None]
"""Takes what is being done, and how many tasks of how many are."""
_EVERY = 0.25


@contextmanager
def told(spark: Any, jobs: str, report: Report | None) -> Iterator[None]:
    """Report how the jobs of a name advance while the block runs."""
    if report is None:
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(spark.sparkContext.statusTracker(), jobs, report, done), name="headgate-jobs", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(tracker: Any, jobs: str, report: Report, done: threading.Event) -> None:
    last: tuple[str, int, int] | None = None
    while not done.wait(_EVERY):
        found = advance(tracker, jobs)
        if found is not None and found != last:
            last = found
            report(*found)


def advance(tracker: Any, jobs: str) -> tuple[str, int, int] | None:
    """What the newest running stage of a name's jobs is, and its tasks done of all; None if none runs."""
    stages = []
    for number in tracker.getJobIdsForGroup(jobs):
        job = tracker.getJobInfo(number)
        if job is not None and job.status == "RUNNING":
            stages += [info for stage in job.stageIds if (info := tracker.getStageInfo(stage)) is not None]
    active = [info for info in stages if info.numActiveTasks]
    if not active:
        return None
    newest = max(active, key=lambda info: info.stageId)
    return str(newest.name), int(newest.numCompletedTasks), int(newest.numTasks)
