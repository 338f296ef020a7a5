"""The local workspace of one execution: a folder, its marker, and the lock that says its worker lives.

    ROOT/EXECUTION/.headgate-attempt.json   the marker, locked with flock for as long as the worker lives
    ROOT/EXECUTION/root/                    what the body sees
    ROOT/EXECUTION/body.log                 what the body printed and logged

A folder gets its final name only after its marker is written and locked: whoever finds a folder under a final name and
gets the lock knows that its worker is gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from headgate.attempts.cleanup import Cleanup
from headgate.errors import InvalidSettings, NotFound, RecoveryRequired
from headgate.failpoints import Failpoint, failpoint
from headgate.lake.disk import disk_error, keep_apart
from headgate.tasks.protocols import PolledAttempt

MARKER = ".headgate-attempt.json"
USER_ROOT = "root"
BODY_LOG = "body.log"
UNFINISHED = ".new-"
"""Folders whose marker is not locked yet begin so."""
KEPT = ".failed"
"""The folder of workspaces that were moved aside."""


@dataclass(frozen=True, kw_only=True)
class Marker:
    """Whose workspace it is."""

    execution: str
    orchestrator: str
    workflow: str
    task: str
    task_id: str
    retry_count: int
    worker: str
    pid: int
    process_started: str
    """The process's start time as the system counts it: a pid alone is reused."""
    started_at: str

    @classmethod
    def of(cls, attempt: PolledAttempt, *, execution: str, now: datetime) -> Marker:
        return cls(
            execution=execution,
            orchestrator=attempt.id.orchestrator,
            workflow=attempt.id.workflow,
            task=attempt.task_name,
            task_id=attempt.id.task_id,
            retry_count=attempt.id.retry_count,
            worker=attempt.id.worker_id,
            pid=os.getpid(),
            process_started=_process_started(os.getpid()),
            started_at=now.isoformat(),
        )

    @classmethod
    def read(cls, folder: Path) -> Marker:
        """The marker of a workspace folder; `RecoveryRequired` if it cannot be read as one."""
        path = folder / MARKER
        try:
            values = json.loads(path.read_bytes())
            return cls(**{name: values[name] for name in cls.__dataclass_fields__})
        except FileNotFoundError:
            raise NotFound(
                message=f"{folder} is no workspace: it has no {MARKER}", kind="workspace", name=folder.name
            ) from None
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise RecoveryRequired(
                message=f"{path} is damaged: {type(error).__name__}: {error}",
                hint=f"nothing was deleted; remove {folder} by hand if nobody needs it",
            ) from error


@dataclass(frozen=True, kw_only=True)
class LocalWorkspace:
    """An open workspace: its marker is locked by this process."""

    folder: Path
    marker: Marker

    @property
    def root(self) -> Path:
        """The folder the body reads and writes."""
        return self.folder / USER_ROOT

    @property
    def body_log(self) -> Path:
        return self.folder / BODY_LOG


def open_workspace(
    cleanup: Cleanup, root: Path, marker: Marker, *, dispose: Callable[[LocalWorkspace], None] | None = None
) -> LocalWorkspace:
    """A new workspace under `root`, owned by `cleanup` from the moment its folder exists.

    At the end `dispose` gets it (by default it is removed), while the lock is still held; then the lock is let go.
    """
    unfinished, final = root / f"{UNFINISHED}{marker.execution}", root / marker.execution
    with disk_told(root):
        root.mkdir(parents=True, exist_ok=True)
        keep_apart(root)
        unfinished.mkdir(0o700)
    cleanup.later(f"remove {unfinished}", remove_tree, unfinished)
    failpoint(Failpoint.WORKSPACE_BEGUN)
    with disk_told(unfinished):
        # Not inherited by programs the body starts; a forked child that goes on does keep the lock, since it may
        # go on to use the files.
        fd = os.open(unfinished / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        cleanup.later("let go of the marker", os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, json.dumps(asdict(marker), indent=2).encode())
        (unfinished / USER_ROOT).mkdir()
        workspace = LocalWorkspace(folder=final, marker=marker)
        cleanup.later(f"remove {final}", _disposed, workspace, dispose)
        unfinished.rename(final)
    return workspace


def _disposed(workspace: LocalWorkspace, dispose: Callable[[LocalWorkspace], None] | None) -> None:
    if dispose is not None and workspace.folder.exists():
        dispose(workspace)
    remove_workspace(workspace.folder)


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Whether the marker's lock could be had: only then is the workspace's worker gone. Held while the block lasts."""
    try:
        fd = os.open(folder / MARKER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        # The folder may have been removed and its lock let go between the open and the lock.
        yield (folder / MARKER).exists()
    finally:
        os.close(fd)


def remove_workspace(folder: Path) -> None:
    """Remove a workspace whose lock is held, its marker last: what a killed remover leaves is found by it, or empty."""
    if not folder.is_dir():
        return
    folder.chmod(stat.S_IRWXU)  # a body may have taken it away
    for entry in folder.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir():
            remove_tree(entry)
        else:
            entry.unlink()
        failpoint(Failpoint.WORKSPACE_HALF_REMOVED)
    (folder / MARKER).unlink(missing_ok=True)
    failpoint(Failpoint.WORKSPACE_HALF_REMOVED)
    folder.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a folder with whatever a body left in it; links are removed, never followed. Absent is fine."""
    if path.is_symlink():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except PermissionError:
        # A body may take its own rights away; only the owner's folders have to be writable to empty them.
        for folder, _, _ in os.walk(path):
            Path(folder).chmod(stat.S_IRWXU)
        shutil.rmtree(path)


@contextmanager
def disk_told(path: Path) -> Iterator[None]:
    """Faults of the local disk as errors of ours."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidSettings(
            message=f"the workspace root {path} is not a folder: {error.strerror}: {error.filename}",
            hint="set HEADGATE_WORKSPACE_ROOT to a folder",
            source="workspace.root",
        ) from error
    except OSError as error:
        raise disk_error(error, error.filename or path, "write the workspace") from error


@cache
def _process_started(pid: int) -> str:
    try:
        # The command, in parentheses, may hold spaces and parentheses: fields are counted from its end.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19]
    except (OSError, IndexError):
        import psutil

        return str(psutil.Process(pid).create_time())
