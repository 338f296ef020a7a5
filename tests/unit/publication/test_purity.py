"""The kernel is pure: it imports nothing of ours, and nothing that reaches a clock, a disk or a network."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import headgate.publication

FOLDER = Path(headgate.publication.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
# What a pure function may be made of. A new name here needs a reason that holds without a machine underneath.
PURE = {"__future__", "collections.abc", "dataclasses", "enum", "json", "math", "typing"}
IMPURE_BUILTINS = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"}


def _imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def _called_names(tree: ast.AST) -> set[str]:
    return {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def test_the_kernel_is_where_we_look() -> None:
    assert {"decision", "abandonment", "readback", "budget", "values"} <= {module.stem for module in MODULES}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_kernel_module_imports_only_the_kernel_and_pure_parts_of_python(module: Path) -> None:
    foreign = {n for n in _imports(ast.parse(module.read_text())) if not n.startswith("headgate.publication")}
    assert foreign <= PURE


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_kernel_module_calls_nothing_that_reaches_the_machine(module: Path) -> None:
    assert not _called_names(ast.parse(module.read_text())) & IMPURE_BUILTINS


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_kernel_module_keeps_no_state(module: Path) -> None:
    tree = ast.parse(module.read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]


@pytest.mark.parametrize(
    ("source", "import_found", "call_found"),
    [("def f():\n    import time", {"time"}, set()), ("from . import x", {"."}, set()), ("open('x')", set(), {"open"})],
)
def test_the_walk_finds_what_it_looks_for(source: str, import_found: set[str], call_found: set[str]) -> None:
    tree = ast.parse(source)
    assert _imports(tree) == import_found
    assert _called_names(tree) == call_found
