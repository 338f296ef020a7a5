"""Running a task in a test as it runs in production, and what there is to assert on afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from headgate.attempts import AttemptReport
from headgate.publication import Ref
from headgate.tasks import task_of
from headgate.testing.place import Files, Place, Target


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a task ended, and what its branch holds since."""

    status: str | None
    """`COMPLETED`, `FAILED` or `FAILED_WITH_TERMINAL_ERROR`, as the orchestrator was told."""
    result: Any
    """What the next task gets of it: the result as JSON data. None unless it completed."""
    changed: Mapping[str, str]
    """What the body did to each path: `added`, `changed` or `removed`; to a graph, what it did to each type."""
    files: Mapping[str, bytes]
    """All files at the branch's head."""
    rows: Mapping[str, list[dict[str, Any]]]
    """The rows of the graph's head, by type; empty if the test has no graph."""
    history: tuple[Ref, ...]
    """The branch from the input ref on, oldest first: one ref if nothing was published, two if something was.
    Of the graph if the task writes one, of the lake if not."""
    report: AttemptReport = field(repr=False)
    """Everything else: the phases with their times, the decision about the head, the warnings."""

    @property
    def ok(self) -> bool:
        return self.report.ok

    @property
    def reason(self) -> str:
        """Why it failed, in the words the orchestrator was told."""
        return self.report.reason

    @property
    def error(self) -> BaseException | None:
        return self.report.error

    def text(self, path: str) -> str:
        """One file at the branch's head."""
        return self.files[path].decode()


class TaskRunner:
    """Runs tasks, one after the other, on a branch of its own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._target: Target | None = None

    def __call__(
        self,
        task: Callable[..., Any],
        *,
        files: Files | None = None,
        schema: str | None = None,
        rows: Iterable[Mapping[str, Any]] = (),
        params: BaseModel | Mapping[str, Any] | None = None,
    ) -> Ran:
        """Run one attempt of `task` from the branch's head. It does not raise if the task fails: see `Ran.status`.

        `files` (contents by path, or a folder) are committed first, on top of what the branch has. `schema` makes a
        new graph beside it, and `rows` (`{"type": "Song", "data": {…}}`) are loaded into the graph.
        """
        declaration = task_of(task)
        target = self._start_from(files, schema, list(rows))
        workflow = self._place.submit(declaration, target, params)
        attempt = self._place.poll(declaration, workflow)
        assert attempt is not None
        report = self._place.run(declaration, attempt)
        tables, graph_history = self._graph_now(target)
        on_graph = declaration.writes == "graph" or "workspace" not in declaration.stores
        return Ran(
            status=report.status,
            result=report.result,
            changed=dict(_kind_of(line, of_graph=declaration.writes == "graph") for line in report.changes),
            files=self._place.files(target),
            rows=tables,
            history=graph_history if on_graph else self._place.history(target),
            report=report,
        )

    def _start_from(self, files: Files | None, schema: str | None, rows: list[Mapping[str, Any]]) -> Target:
        place, target = self._place, self._target
        if target is None:
            target = place.new_target(files)
        elif files:
            target = place.with_files(target, files)
        else:
            target = replace(target, input_ref=place.head(target))
        if schema is not None:
            target = place.with_graph(target, schema)
        if target.graph is not None:
            target = place.with_rows(target, rows)
        self._target = target
        return target

    def _graph_now(self, target: Target) -> tuple[dict[str, list[dict[str, Any]]], tuple[Ref, ...]]:
        """The rows of every type, and the history from the input ref on."""
        if target.graph is None:
            return {}, ()
        with self._place.open_graph(target.graph) as graph:
            now = graph.snapshot()
            tables = {found.name: now.table(found.name).to_table().to_pylist() for found in now.schema.tables()}
            history = [Ref(commit.id) for commit in graph.log()]
        refs = history[: history.index(target.graph_ref) + 1] if target.graph_ref in history else history
        return tables, tuple(reversed(refs))


def _kind_of(line: str, *, of_graph: bool) -> tuple[str, str]:
    if of_graph:
        name, _, told = line.partition(": ")
        return name, told
    kind, _, path = line.partition(" ")
    return path, kind
