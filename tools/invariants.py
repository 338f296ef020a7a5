"""Which tests show which invariant: `python -m tools.invariants`.

A test names its invariants in its name (`test_invariant_2_…`, `test_invariants_2_3_and_4_…`) or in a docstring that
says `Invariant 2`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IN_NAME = re.compile(r"^test_invariants?_((?:\d|_and_\d|_\d)+)")
IN_TEXT = re.compile(r"\bInvariants? (\d(?:, \d)*(?:,? and \d)?)")


def named_in(source: str) -> Iterator[tuple[int, str]]:
    """Each invariant a test module names, with the test that names it (or `module` for the module's own docstring)."""
    tree = ast.parse(source)
    for number in _numbers(IN_TEXT, ast.get_docstring(tree) or ""):
        yield number, "module"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            found = {*_numbers(IN_NAME, node.name), *_numbers(IN_TEXT, ast.get_docstring(node) or "")}
            yield from ((number, node.name) for number in sorted(found))


def _numbers(pattern: re.Pattern[str], text: str) -> set[int]:
    return {int(digit) for match in pattern.finditer(text) for digit in re.findall(r"\d", match.group(1))}


def shown_by(root: Path) -> dict[int, list[str]]:
    """`file::test` of every test that names an invariant, by the invariant's number."""
    found: dict[int, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for number, test in named_in(path.read_text()):
            found.setdefault(number, []).append(f"{path.relative_to(root).as_posix()}::{test}")
    return found


def main() -> None:
    for number, tests in sorted(shown_by(ROOT).items()):
        print(f"invariant {number}: {len(tests)}")
        for test in tests:
            print(f"  {test}")


if __name__ == "__main__":
    main()
