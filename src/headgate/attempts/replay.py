"""Running a past attempt's guardrails and body again, here, on the same input; nothing is published or reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from headgate.attempts.body import body_boundary
from headgate.attempts.cleanup import Cleanup
from headgate.attempts.names import StagingName
from headgate.attempts.runtime import Runtime
from headgate.attempts.spark_jobs import spark_for
from headgate.attempts.stores import AttemptStore, open_stores
from headgate.attempts.workspace import Marker, open_workspace
from headgate.errors import Unsupported
from headgate.publication import Replace
from headgate.tasks.context import TaskContext
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.io import dump_result, read_input
from headgate.tasks.protocols import AttemptId, PolledAttempt

_NOBODY = AttemptId(
    orchestrator="replay", workflow="replay", task_id="replay", retry_count=0, poll_count=1, worker_id="replay"
)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the body did this time."""

    changes: tuple[str, ...] = ()
    result: Any = None
    error: Exception | None = None


def replay(
    runtime: Runtime,
    declaration: TaskDeclaration,
    task_input: Mapping[str, Any],
    *,
    on_error: Callable[[TracebackType | None], None] | None = None,
) -> Replayed:
    """Download the input ref again and run guardrails and body on it; `on_error` may look while the files are there."""
    execution = runtime.ids.new()
    attempt = PolledAttempt(
        id=_NOBODY, task_name=declaration.name, reference_task=declaration.name, input=dict(task_input)
    )
    given = read_input(declaration, task_input)
    with Cleanup() as cleanup:
        marker = Marker.of(attempt, execution=execution, now=runtime.clock.now())
        workspace = open_workspace(cleanup, runtime.options.workspace_root, marker)
        stores = open_stores(
            runtime.stores,
            given,
            declaration=declaration,
            attempt=attempt,
            name=StagingName.of(attempt, execution),
            workspace=workspace,
            orchestrator=runtime.orchestrator,
            replace=Replace.AUTO,
        )
        _refuse_staging(declaration, stores.values())
        arguments: dict[str, Any] = {key: store.open(cleanup) for key, store in stores.items()}
        arguments |= {"params": given.params, "context": TaskContext(task_name=declaration.name, execution=execution)}
        if (spark := spark_for(runtime, declaration)) is not None:
            arguments["spark"] = spark.session(jobs=execution)
        try:
            with body_boundary(task=declaration.name, kept_at=workspace.body_log):
                for store in stores.values():
                    store.check_before()
                result = dump_result(declaration, declaration.call(arguments))
                for store in stores.values():
                    store.check_after()
        except Exception as error:
            if on_error is not None:
                on_error(error.__traceback__)
            return Replayed(error=error)
        changes = tuple(change for store in stores.values() for change in store.changes())
        return Replayed(changes=changes, result=result)


def _refuse_staging(declaration: TaskDeclaration, stores: Iterable[AttemptStore]) -> None:
    if any(store.stages_in_body for store in stores):
        raise Unsupported(
            message=f"task {declaration.name} writes on a staging branch of the lake, and a replay makes none",
            hint="bring its input into an embedded lake with `headgate lake export` and `import`, and run it there",
        )
