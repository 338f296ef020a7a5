"""What the engine has to know about a task besides its input: retries, waits, time limits, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from headgate.tasks.declaration import TaskDeclaration


@dataclass(frozen=True, kw_only=True)
class TaskRule:
    """How often a failed task is handed out again, after how long, how long a lease lasts, and its other limits."""

    count: int = 3
    logic: Literal["FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"] = "FIXED"
    delay_seconds: float = 60.0
    max_delay_seconds: float = 0.0
    jitter_ms: int = 0
    backoff_scale: int = 1
    response_seconds: float = 600.0
    policy: Literal["TIME_OUT_WF", "RETRY", "ALERT_ONLY"] = "TIME_OUT_WF"
    seconds: float = 0.0
    poll_seconds: float = 0.0
    total_seconds: float = 0.0
    concurrent: int = 0
    """How many attempts of the task may be in progress at once; 0 for any number."""
    rate_per_window: int = 0
    """How many attempts of the task may be handed out in a window of time; 0 for any number."""
    window_seconds: float = 1.0
    writes: str | None = None
    """The input key of the store the task publishes to, if it publishes."""
    durable: bool = True
    """Whether handing it out and taking its result wait for the disk.

    A store must never know more of a task than the orchestrator does after power loss. Who publishes nothing may be
    run again; a killed process forgets nothing either way.
    """

    def wait_before_retry(self, retry_count: int) -> float:
        """Seconds from the end of the attempt with that retry count to the next one, jitter left out.

        An exponential wait doubles each time, whatever the scale: so do the servers.
        """
        wait = self.delay_seconds
        if self.logic == "LINEAR_BACKOFF":
            wait *= self.backoff_scale * (retry_count + 1)
        elif self.logic == "EXPONENTIAL_BACKOFF":
            wait *= 2**retry_count
        return min(wait, self.max_delay_seconds) if self.max_delay_seconds else wait


def rule_of(declaration: TaskDeclaration, *, retries: int | None = None) -> TaskRule:
    """The rule a declaration makes; `retries` stands in for its own count."""
    retry, timeout, limits = declaration.controls.retry, declaration.controls.timeout, declaration.controls.limits
    return TaskRule(
        count=retry.count if retries is None else retries,
        logic=retry.logic,
        delay_seconds=retry.delay_seconds,
        max_delay_seconds=retry.max_delay_seconds,
        jitter_ms=retry.jitter_ms,
        backoff_scale=retry.backoff_scale,
        response_seconds=timeout.response_seconds,
        policy=timeout.policy,
        seconds=timeout.seconds,
        poll_seconds=timeout.poll_seconds,
        total_seconds=timeout.total_seconds,
        concurrent=limits.concurrent,
        rate_per_window=limits.rate_per_window,
        window_seconds=limits.window_seconds,
        writes=declaration.writes,
        durable=declaration.writes is not None,
    )


def rules_as_text(rules: Mapping[str, TaskRule]) -> str:
    return json.dumps({name: asdict(rule) for name, rule in rules.items()}, separators=(",", ":"))


def rules_from_text(text: str) -> dict[str, TaskRule]:
    return {name: TaskRule(**fields) for name, fields in json.loads(text).items()}


def target_of(rule: TaskRule, task_input: Mapping[str, Any]) -> str | None:
    """The store and branch a task with this input publishes to; None for a task that only reads."""
    return None if rule.writes is None else target_in(rule.writes, task_input.get(rule.writes))


def target_in(kind: str, block: Any) -> str | None:
    """`workspace songs@main`, from a store's input block; None if it names none."""
    if not isinstance(block, Mapping):
        return None
    store, branch = block.get("repository" if kind == "workspace" else "graph"), block.get("branch")
    return f"{kind} {store}@{branch}" if isinstance(store, str) and isinstance(branch, str) else None
