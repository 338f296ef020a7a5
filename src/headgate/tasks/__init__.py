"""Declaring work: `@task`, stores, guardrails, controls, the TaskDef, and the protocols upper layers implement.

`decorator` makes a `TaskDeclaration` of a function, `signature` checks it, `specs` and `controls` are what it declares.
`io` is the typed boundary at run time, `failures` the table of how an attempt ends, `taskdef` what a server is told,
`loading` finds the tasks of a module for the commands.
"""

from headgate.tasks import guardrails
from headgate.tasks.context import Progress, TaskContext
from headgate.tasks.controls import ExecutionLimits, PublishBudget, RetryPolicy, TaskControls, TimeoutPolicy
from headgate.tasks.declaration import Source, TaskDeclaration
from headgate.tasks.decorator import find_task, task, task_of, tasks_in
from headgate.tasks.failures import FAILURES, Cause, Ending, Failure, Phase, classify, reason_of
from headgate.tasks.io import GraphBlock, StoreBlock, TaskInput, WorkspaceBlock, build_output, read_input
from headgate.tasks.paths import Selection
from headgate.tasks.protocols import GraphTransaction, SparkWorkspace
from headgate.tasks.signals import TaskCancelled, TaskFailed, TaskTerminalError
from headgate.tasks.specs import GraphSpec, Guardrail, ReadOnly, StoreSpec, WorkspaceSpec

__all__ = [
    "FAILURES",
    "Cause",
    "Ending",
    "ExecutionLimits",
    "Failure",
    "GraphBlock",
    "GraphSpec",
    "GraphTransaction",
    "Guardrail",
    "Phase",
    "Progress",
    "PublishBudget",
    "ReadOnly",
    "RetryPolicy",
    "Selection",
    "Source",
    "SparkWorkspace",
    "StoreBlock",
    "StoreSpec",
    "TaskCancelled",
    "TaskContext",
    "TaskControls",
    "TaskDeclaration",
    "TaskFailed",
    "TaskInput",
    "TaskTerminalError",
    "TimeoutPolicy",
    "WorkspaceBlock",
    "WorkspaceSpec",
    "build_output",
    "classify",
    "find_task",
    "guardrails",
    "read_input",
    "reason_of",
    "task",
    "task_of",
    "tasks_in",
]
