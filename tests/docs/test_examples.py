"""The pages' examples run as they stand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.docs.examples import ROOT, Page, matches, split_console

PAGES = [
    "README.md",
    "docs/guide/writing-tasks.md",
    "docs/guide/testing-tasks.md",
    "docs/guide/running.md",
    "docs/guide/attempts.md",
    "docs/guide/graph-schema.md",
    "docs/guide/graph-schema-changes.md",
    "docs/guide/graph-queries.md",
    "docs/guide/graph-writes.md",
    "docs/guide/graph-branches.md",
    "docs/operations/looking-after.md",
    "docs/operations/graph-upkeep.md",
]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_as_it_stands(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    page = Page(ROOT / name, tmp_path)
    examples = page.examples()
    assert examples
    before = set(sys.modules)
    try:
        for example in examples:
            example.evaluate()
    finally:
        for name in set(sys.modules) - before:  # a page's own modules are gone with its folder
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("", "anything", True),
        ("one\ntwo", "one\ntwo\n", True),
        ("one", "one\ntwo\n", False),
        ("one …", "one 4711\n", True),
        ("one …", "two\n", False),
        ("…\nlast", "first\nsecond\nlast\n", True),
        ("first\n…", "first\n", True),
        ("a.b", "axb", False),
    ],
)
def test_an_example_is_compared_line_by_line(expected: str, found: str, same: bool) -> None:
    assert matches(expected, found) is same


def test_a_console_block_is_commands_with_what_they_print() -> None:
    block = "$ one \\\n    more\nout\n$ two\n"
    assert split_console(block) == [("one \\\n    more", "out"), ("two", "")]


@pytest.mark.parametrize(
    "block", ["```console\n$ false\n```\n", "```console\n$ echo one\ntwo\n```\n", "```python\nassert False\n```\n"]
)
def test_an_example_that_is_wrong_fails(block: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(AssertionError):
        for example in Page(page, tmp_path).examples():
            example.evaluate()


def test_a_block_with_a_file_name_becomes_that_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# songs/tasks.py\nX = 1\n```\n\n```console\n$ cat songs/tasks.py | tail -1\nX = 1\n```\n"
    )
    for example in Page(page, tmp_path).examples():
        example.evaluate()
