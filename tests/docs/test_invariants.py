"""The page of invariants tells the truth: what it names exists, and names the invariant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.invariants import named_in, shown_by

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts" / "invariants.md"
NUMBERS = range(1, 10)


def _sections() -> dict[int, str]:
    parts = re.split(r"^## (\d+)$", PAGE.read_text(), flags=re.M)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_page_has_every_invariant_once_and_in_order() -> None:
    assert list(_sections()) == list(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_file_the_page_names_shows_that_invariant(number: int) -> None:
    for name in re.findall(r"`(tests/[^`]+)`", _sections()[number]):
        assert number in {found for found, _ in named_in((ROOT / name).read_text())}, name


@pytest.mark.parametrize("number", NUMBERS)
def test_every_invariant_is_named_by_at_least_one_test(number: int) -> None:
    assert shown_by(ROOT).get(number)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test_invariant_2_holds(): ...", [(2, "test_invariant_2_holds")]),
        ("def test_invariants_2_3_and_4_hold(): ...", [(n, "test_invariants_2_3_and_4_hold") for n in (2, 3, 4)]),
        ('def test_x():\n    """Invariant 7: nothing goes."""', [(7, "test_x")]),
        ('"""Invariants 1 and 6."""', [(1, "module"), (6, "module")]),
        ("def helper_invariant_2(): ...", []),
    ],
)
def test_the_reader_of_tests_finds_the_invariants_they_name(source: str, found: list[tuple[int, str]]) -> None:
    assert list(named_in(source)) == found
