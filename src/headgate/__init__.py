"""Headgate: typed tasks read an immutable snapshot of versioned data and publish a new version.

Importing this package configures nothing and imports nothing heavy; the public names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate._version import __version__

if TYPE_CHECKING:
    from headgate.errors import HeadgateError as HeadgateError
    from headgate.tasks import GraphSpec as GraphSpec
    from headgate.tasks import ReadOnly as ReadOnly
    from headgate.tasks import TaskContext as TaskContext
    from headgate.tasks import TaskControls as TaskControls
    from headgate.tasks import TaskFailed as TaskFailed
    from headgate.tasks import TaskTerminalError as TaskTerminalError
    from headgate.tasks import WorkspaceSpec as WorkspaceSpec
    from headgate.tasks import task as task

_EXPORTS = {
    "GraphSpec": "headgate.tasks",
    "HeadgateError": "headgate.errors",
    "ReadOnly": "headgate.tasks",
    "TaskContext": "headgate.tasks",
    "TaskControls": "headgate.tasks",
    "TaskFailed": "headgate.tasks",
    "TaskTerminalError": "headgate.tasks",
    "WorkspaceSpec": "headgate.tasks",
    "task": "headgate.tasks",
}

__all__ = [
    "GraphSpec",
    "HeadgateError",
    "ReadOnly",
    "TaskContext",
    "TaskControls",
    "TaskFailed",
    "TaskTerminalError",
    "WorkspaceSpec",
    "__version__",
    "task",
]


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        from importlib import import_module

        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
