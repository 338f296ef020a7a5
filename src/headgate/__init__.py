"""Headgate: typed tasks read an immutable snapshot of versioned data and publish a new version.

Importing this package configures nothing and imports nothing heavy; the public names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate._version import __version__

if TYPE_CHECKING:
    from headgate.errors import HeadgateError as HeadgateError
    from headgate.tasks import ExecutionLimits as ExecutionLimits
    from headgate.tasks import GraphSpec as GraphSpec
    from headgate.tasks import GraphTransaction as GraphTransaction
    from headgate.tasks import PublishBudget as PublishBudget
    from headgate.tasks import ReadOnly as ReadOnly
    from headgate.tasks import RetryPolicy as RetryPolicy
    from headgate.tasks import SparkWorkspace as SparkWorkspace
    from headgate.tasks import TaskContext as TaskContext
    from headgate.tasks import TaskControls as TaskControls
    from headgate.tasks import TaskFailed as TaskFailed
    from headgate.tasks import TaskTerminalError as TaskTerminalError
    from headgate.tasks import TimeoutPolicy as TimeoutPolicy
    from headgate.tasks import WorkspaceSpec as WorkspaceSpec
    from headgate.tasks import guardrails as guardrails
    from headgate.tasks import task as task

_EXPORTS = {
    "HeadgateError": "headgate.errors",
    "ExecutionLimits": "headgate.tasks",
    "GraphSpec": "headgate.tasks",
    "GraphTransaction": "headgate.tasks",
    "PublishBudget": "headgate.tasks",
    "ReadOnly": "headgate.tasks",
    "RetryPolicy": "headgate.tasks",
    "SparkWorkspace": "headgate.tasks",
    "TaskContext": "headgate.tasks",
    "TaskControls": "headgate.tasks",
    "TaskFailed": "headgate.tasks",
    "TaskTerminalError": "headgate.tasks",
    "TimeoutPolicy": "headgate.tasks",
    "WorkspaceSpec": "headgate.tasks",
    "guardrails": "headgate.tasks",
    "task": "headgate.tasks",
}

__all__ = [
    "ExecutionLimits",
    "GraphSpec",
    "GraphTransaction",
    "HeadgateError",
    "PublishBudget",
    "ReadOnly",
    "RetryPolicy",
    "SparkWorkspace",
    "TaskContext",
    "TaskControls",
    "TaskFailed",
    "TaskTerminalError",
    "TimeoutPolicy",
    "WorkspaceSpec",
    "__version__",
    "guardrails",
    "task",
]


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        from importlib import import_module

        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
