"""Kill a process after its so-manieth write has reached an object store: between it and the server stands a proxy.

The storage interface counts calls; here every single object counts: a data file, a transaction, a version, a fork and
its reference.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from tools.servers.proxy import FaultProxy, Seen

from headgate.testing.graph_crash import Ended, Workers
from headgate.testing.graph_jobs import GraphJob


class RequestKills(Workers):
    """Workers whose writes are counted by a proxy, and who are killed before they get the answer to one."""

    def __init__(self, folder: Path, proxy: FaultProxy) -> None:
        super().__init__(folder)
        proxy.watch = self._seen
        self._lock = threading.Lock()
        self._known = threading.Event()
        self._pid = 0
        self._kill_after = 0
        self._writes: list[str] = []
        self._on = False

    def started(self, pid: int) -> None:
        self._pid = pid
        self._known.set()

    def run(self, place: str, job: GraphJob | None, kill_after: int) -> Ended:
        self._known.clear()
        with self._lock:
            self._writes, self._kill_after, self._on = [], kill_after, True
        try:
            ended = super().run(place, job, 0)
        finally:
            self._on = False
        return Ended(killed=ended.killed, writes=tuple(self._writes))

    def _seen(self, seen: Seen) -> None:
        if not self._on or seen.method not in ("PUT", "POST", "DELETE"):
            return
        with self._lock:
            self._writes.append(f"{seen.method} {seen.path}")
            due = len(self._writes) == self._kill_after
        if due:
            self._known.wait()
            os.kill(self._pid, signal.SIGKILL)
