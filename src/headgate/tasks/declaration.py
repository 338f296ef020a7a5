"""A declared task: everything the runtime has to know about it, in one frozen value."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from headgate.errors import Problem
from headgate.publication import Replace
from headgate.tasks.controls import PublishBudget, TaskControls
from headgate.tasks.specs import GraphSpec, StoreSpec, WorkspaceSpec


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a body is written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class TaskDeclaration:
    """A typed function plus what `@task` says about it."""

    name: str
    function: Callable[..., Any]
    module: str
    source: Source
    params: type[BaseModel]
    result: type[BaseModel]
    arguments: tuple[str, ...]
    """What the body takes, in order: of `workspace`, `graph`, `params`, `context`, `spark`."""
    spark_workspace: bool = False
    """Whether `workspace` is handed over as paths for Spark and not as a downloaded folder."""
    merge_workspace: bool = False
    """Whether `workspace` is a branch to be merged and not a downloaded folder."""
    workspace: WorkspaceSpec | None = None
    graph: GraphSpec | None = None
    controls: TaskControls = field(default_factory=TaskControls)
    owner_email: str | None = None
    """None for the one in the settings."""
    description: str = ""
    warnings: tuple[Problem, ...] = ()
    """What is allowed but looks wrong; for `check` and for the start of a worker."""

    @property
    def stores(self) -> dict[str, StoreSpec]:
        """The declared stores by the name of their argument and input key."""
        declared: dict[str, StoreSpec | None] = {"workspace": self.workspace, "graph": self.graph}
        return {name: spec for name, spec in declared.items() if spec is not None}

    @property
    def writes(self) -> str | None:
        """Which store is published to: `workspace`, `graph`, or None for a task that only reads."""
        return next((name for name, spec in self.stores.items() if not spec.read_only), None)

    @property
    def replace(self) -> Replace:
        """Which heads on top of the input ref an attempt of this task may replace."""
        return Replace(self.stores[self.writes].replace) if self.writes else Replace.AUTO

    @property
    def budget(self) -> PublishBudget:
        """The declared publish budget, or the default one."""
        return self.controls.publish or PublishBudget()

    @property
    def takes_spark(self) -> bool:
        return "spark" in self.arguments

    @property
    def takes_context(self) -> bool:
        return "context" in self.arguments

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def input_keys(self) -> tuple[str, ...]:
        return (*self.stores, "params")

    @property
    def output_keys(self) -> tuple[str, ...]:
        return (*self.stores, "result")

    def call(self, available: Mapping[str, Any]) -> Any:
        """Run the body with those of `available` that it takes, an `async` one to its end; what it raises passes.

        Works under a running event loop: the coroutine then gets a loop and a thread of its own.
        """
        returned = self.function(**{name: available[name] for name in self.arguments})
        if not inspect.iscoroutine(returned):
            return returned
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(returned)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"headgate-{self.name}") as thread:
            return thread.submit(copy_context().run, asyncio.run, returned).result()
