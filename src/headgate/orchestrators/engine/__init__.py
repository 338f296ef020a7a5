"""Workflows on one machine: definitions as Conductor takes them, and the pure functions that say what comes next.

`definitions` reads a workflow and refuses what is not supported, `scheduler` decides from the state alone,
`headgate.orchestrators.local` keeps that state in SQLite, and `runner` runs the attempts of a workflow to its end.
"""

from headgate.orchestrators.engine.definitions import read_definition
from headgate.orchestrators.engine.rules import TaskRule
from headgate.orchestrators.engine.scheduler import End, Schedule, TaskView, WorkflowState, next_tasks
from headgate.orchestrators.engine.steps import WorkflowDefinition

__all__ = [
    "End",
    "Schedule",
    "TaskRule",
    "TaskView",
    "WorkflowDefinition",
    "WorkflowState",
    "next_tasks",
    "read_definition",
]
