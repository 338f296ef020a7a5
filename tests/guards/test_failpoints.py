"""Failpoints are constants, each of them is stopped at by some test, and off nothing is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import failpoints
from headgate.failpoints import Failpoint, failpoint

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")])
OWN = ROOT / "src" / "headgate" / "failpoints.py"


def calls(path: Path) -> Iterator[tuple[int, ast.expr]]:
    """What `failpoint` is called with, or handed to be called with later: `callback(failpoint, POINT)`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        names = [argument.id if isinstance(argument, ast.Name) else "" for argument in node.args]
        if isinstance(node.func, ast.Name) and node.func.id == "failpoint":
            yield node.lineno, node.args[0]
        elif "failpoint" in names:
            yield node.lineno, node.args[names.index("failpoint") + 1]


def is_constant(argument: ast.expr) -> bool:
    return (
        isinstance(argument, ast.Attribute)
        and isinstance(argument.value, ast.Name)
        and argument.value.id == "Failpoint"
        and argument.attr in Failpoint.__members__
    )


def test_every_point_is_named_by_a_constant() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {ast.unparse(argument)}"
        for path in SOURCES
        for line, argument in calls(path)
        if not is_constant(argument)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "constant"),
    [
        ("failpoint(Failpoint.ATTEMPT_IN_BODY)", True),
        ("later(failpoint, Failpoint.ATTEMPT_IN_BODY)", True),
        ("failpoint('attempt.body')", False),
        ("failpoint(Failpoint('attempt.body'))", False),
        ("failpoint(Failpoint.NO_SUCH)", False),
        ("later(failpoint, name)", False),
    ],
)
def test_the_guard_tells_constants_from_literals(line: str, constant: bool, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(line)
    [(_, argument)] = calls(tmp_path / "code.py")
    assert is_constant(argument) is constant


def test_no_text_of_a_point_is_written_anywhere_else() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {point}"
        for path in [*SOURCES, *TESTS]
        if path != OWN
        for point in Failpoint
        if f'"{point}"' in path.read_text()
    ]
    assert found == []


def test_every_point_is_in_the_code() -> None:
    passed = {argument.attr for path in SOURCES for _, argument in calls(path) if isinstance(argument, ast.Attribute)}
    assert set(Failpoint.__members__) - passed == set()


def stopped_at(text: str) -> set[str]:
    """The points a test names; a kind of them counts as all of that kind."""
    named = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    names = {name for name in Failpoint.__members__ if name in named}
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    if "CrashHarness" in used and {"WINDOWS", "WRITES"} <= used:
        from headgate.testing.crash import WINDOWS, WRITES

        names |= {point.name for point in (*WINDOWS, *WRITES)}
    return names


def test_every_point_is_stopped_at_by_a_test() -> None:
    """The crash tests fail on a window they do not reach; here, that no point is left to nobody."""
    reached = set().union(*(stopped_at(path.read_text()) for path in TESTS if path != Path(__file__)))
    assert set(Failpoint.__members__) - reached == set()


def test_off_nothing_is_called_and_armed_everything_is() -> None:
    seen: list[Failpoint] = []
    failpoint(Failpoint.ATTEMPT_IN_BODY)
    failpoints.arm(seen.append)
    try:
        failpoint(Failpoint.ATTEMPT_STAGED)
    finally:
        failpoints.arm(None)
    failpoint(Failpoint.ATTEMPT_PUBLISHED)
    assert seen == [Failpoint.ATTEMPT_STAGED]
