"""What a task author imports from the root of the package: a handful of names, loaded on first use."""

import subprocess
import sys

import headgate

PUBLIC = [
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


def test_the_public_names_are_these() -> None:
    assert sorted(headgate.__all__) == PUBLIC
    assert dir(headgate) == PUBLIC


def test_each_of_them_is_there() -> None:
    for name in PUBLIC:
        assert getattr(headgate, name) is not None
    assert headgate.guardrails.require_file("a")


def test_importing_the_root_loads_no_models() -> None:
    program = "import sys, headgate; print(sorted({'pydantic', 'typer', 'rich', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
