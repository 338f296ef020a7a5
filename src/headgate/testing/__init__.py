"""What we ship for tests: a pytest plug-in, conformance suites, the crash harness.

`plugin` gives pytest the fixture `run_task`, `running` is what it does; `retry_safety` kills a task in each window.
`crash` and `audit` do the same to the runtime itself, in `children` of the test's process; `place` is the lake and the
orchestrator they all work on. `graph_crash` kills the writers of `graph_jobs`, and recovery, after each durable write;
`store_faults` is a graph's store that fails on request. `conformance` holds the suites that an implementation of a
protocol must pass.

pytest imports this package in every run of every project that has Headgate installed: the names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.testing.retry_safety import assert_retry_safe as assert_retry_safe
    from headgate.testing.running import Ran as Ran
    from headgate.testing.running import TaskRunner as TaskRunner

_EXPORTS = {
    "Ran": "headgate.testing.running",
    "TaskRunner": "headgate.testing.running",
    "assert_retry_safe": "headgate.testing.retry_safety",
}

__all__ = ["Ran", "TaskRunner", "assert_retry_safe"]


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        from importlib import import_module

        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
