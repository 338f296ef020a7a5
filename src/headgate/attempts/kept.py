"""Failed attempts that were moved aside, so that they can be looked at and run again.

ROOT/.failed/EXECUTION/report.json   input, refs, phase, error, traceback, versions
ROOT/.failed/EXECUTION/body.log      what the body printed and logged
ROOT/.failed/EXECUTION/root/         the files as the body left them, if they are not too large
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from headgate.attempts.workspace import BODY_LOG, KEPT, MARKER, USER_ROOT, LocalWorkspace, remove_tree
from headgate.clock import Clock
from headgate.errors import NotFound

log = logging.getLogger(__name__)
REPORT = "report.json"


class KeepFailed(StrEnum):
    NONE = "none"
    LAST = "last"
    """The last one of each task."""
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class KeepLimits:
    """How much is kept of failed attempts. The oldest go first."""

    mode: KeepFailed = KeepFailed.LAST
    max_bytes: int = 2 * 1024**3
    """Of all kept attempts together; the files of one that is larger than this alone are not kept."""
    max_age: timedelta = timedelta(days=14)


@dataclass(frozen=True, kw_only=True)
class KeptAttempt:
    """One attempt that was moved aside."""

    folder: Path
    report: Mapping[str, Any]

    @property
    def execution(self) -> str:
        return self.folder.name

    @property
    def task(self) -> str:
        return str(self.report.get("task", ""))

    @property
    def root(self) -> Path | None:
        """The files as the body left them; None where they were too large to keep."""
        root = self.folder / USER_ROOT
        return root if root.is_dir() else None

    @property
    def output(self) -> str:
        """What the body printed and logged."""
        path = self.folder / BODY_LOG
        return path.read_text(errors="replace") if path.exists() else ""


class KeptAttempts:
    """The kept attempts below one workspace root."""

    def __init__(self, workspace_root: Path, limits: KeepLimits, *, clock: Clock) -> None:
        self._folder, self._limits, self._clock = workspace_root / KEPT, limits, clock

    def keep(self, workspace: LocalWorkspace, report: Mapping[str, Any]) -> Path | None:
        """Move a workspace aside with its report; None if failed attempts are not kept."""
        if self._limits.mode is KeepFailed.NONE:
            return None
        if _size(workspace.root) > self._limits.max_bytes:
            log.warning("the files of %s are too large to keep; its report is kept", workspace.folder.name)
            remove_tree(workspace.root)
        (workspace.folder / REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False, default=str))
        self._folder.mkdir(exist_ok=True)
        final = self._folder / workspace.folder.name
        workspace.folder.rename(final)
        (final / MARKER).unlink(missing_ok=True)
        self.prune()
        return final

    def all(self) -> list[KeptAttempt]:
        """Newest last."""
        return sorted(self._read(), key=lambda kept: kept.execution)

    def get(self, execution: str) -> KeptAttempt:
        found = [kept for kept in self._read() if kept.execution.startswith(execution)]
        if len(found) != 1:
            raise NotFound(
                message=f"no kept attempt is called {execution!r}" if not found else f"{execution!r} names several",
                hint="`headgate attempts` shows which were kept; keep_failed says how many are",
                kind="attempt",
                name=execution,
            )
        return found[0]

    def prune(self) -> None:
        """Remove what is too old, too much, or, under `last`, followed by a later failure of the same task."""
        too_old = self._clock.now() - self._limits.max_age
        room, tasks = self._limits.max_bytes, set[str]()
        for kept in reversed(self.all()):
            room -= _size(kept.folder)
            superseded = self._limits.mode is KeepFailed.LAST and kept.task in tasks
            tasks.add(kept.task)
            if superseded or room < 0 or _kept_at(kept) < too_old:
                remove_tree(kept.folder)

    def _read(self) -> Iterator[KeptAttempt]:
        if not self._folder.is_dir():
            return
        for folder in self._folder.iterdir():
            try:
                report = json.loads((folder / REPORT).read_bytes())
            except (OSError, ValueError):
                report = {}
            yield KeptAttempt(folder=folder, report=report if isinstance(report, dict) else {})


def _kept_at(kept: KeptAttempt) -> datetime:
    try:
        return datetime.fromisoformat(str(kept.report["ended_at"]))
    except (KeyError, ValueError):
        from datetime import UTC

        return datetime.fromtimestamp(kept.folder.stat().st_mtime, UTC)


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_size
            except OSError:
                continue
    return total
