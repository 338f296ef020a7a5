"""Running a workflow to its end in this process: poll, run the attempt, go on with what follows from it.

Attempts run one after the other, those of a fork's branches in turn: bodies share the process, its working folder and
its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.report import AttemptReport
from headgate.attempts.runtime import Runtime
from headgate.errors import NotFound
from headgate.orchestrators.local import LocalOrchestrator
from headgate.orchestrators.local_records import WorkflowRecord
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.declaring import nearest
from headgate.tasks.protocols import PolledAttempt

SHORTEST_WAIT = 0.05
LONGEST_WAIT = 1.0
"""Seconds between two looks at a workflow in which others may act, too: a person who cancels it, say."""


def run_workflow(
    orchestrator: LocalOrchestrator,
    runtime: Runtime,
    declarations: Mapping[str, TaskDeclaration],
    workflow: WorkflowRecord,
    *,
    on_attempt: Callable[[PolledAttempt], None] = lambda attempt: None,
    on_report: Callable[[AttemptReport], None] = lambda report: None,
) -> WorkflowRecord:
    """Run a workflow that was started or resumed here until it is over; `Fenced` if another one takes it over."""
    check_runnable(orchestrator, declarations, workflow)
    while True:
        polled = orchestrator.poll(None, workflow=workflow.id, epoch=workflow.epoch)
        if polled is not None:
            on_attempt(polled)
            on_report(run_attempt(runtime, declarations[polled.task_name], polled))
            continue
        now = orchestrator.workflow(workflow.id)
        if now.over:
            return now
        due = orchestrator.next_due(workflow.id)
        wait = LONGEST_WAIT if due is None else (due - runtime.clock.now()).total_seconds()
        # What is due and was not handed out is held back by a limit of its task, which others may have used up.
        runtime.wait(min(wait if wait > 0 else SHORTEST_WAIT, LONGEST_WAIT))


def check_runnable(
    orchestrator: LocalOrchestrator, declarations: Mapping[str, TaskDeclaration], workflow: WorkflowRecord
) -> None:
    """`NotFound` if a task of the workflow is declared by none of the modules it runs with."""
    for name in orchestrator.task_names(workflow.id):
        if name not in declarations:
            raise NotFound(
                message=f"workflow {workflow.id} needs the task {name!r}, which no module at hand declares",
                hint=nearest(name, declarations),
                kind="task",
                name=name,
            )
