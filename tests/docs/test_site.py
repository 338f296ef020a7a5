"""The documentation site builds without a warning, and has every page in its navigation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.bars import as_markdown

from headgate.errors import RESPONSES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_nothing_of_other_hosts(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    page = (tmp_path / "index.html").read_text()
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//[^"]+', page)


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:", 1)[1]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert pages - set(re.findall(r": (\S+\.md)$", nav, flags=re.M)) == set()


def test_the_troubleshooting_page_tells_of_every_error_and_its_exit_code() -> None:
    page = (DOCS / "reference" / "troubleshooting.md").read_text()
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    for error, response in RESPONSES.items():
        told = [section for section in sections if re.search(rf"^`{error.__name__}`$", section, flags=re.M)]
        assert len(told) == 1, error.__name__
        codes = re.findall(r"\d+", told[0].splitlines()[0])
        assert str(response.exit_code) in codes, error.__name__


def test_every_decision_tells_its_context_its_alternatives_and_how_it_is_tested() -> None:
    for page in DOCS.glob("decisions/0*.md"):
        headings = set(re.findall(r"^## (.+)$", page.read_text(), flags=re.M))
        assert {"Context", "Decision", "Alternatives", "Consequences", "How it is tested"} <= headings, page.name


def test_the_page_of_benchmarks_has_the_bars_that_are_in_force() -> None:
    """`python -m bench --table` prints what belongs there."""
    assert as_markdown() in (DOCS / "reference" / "benchmarks.md").read_text()
