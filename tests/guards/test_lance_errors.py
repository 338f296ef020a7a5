"""The texts by which Lance's errors are told apart. One that changes is read as unknown, and turns red here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

from headgate.errors import InvalidInput, NotFound, StoreDamaged, Transient
from headgate.graph.storage.lance_errors import LanceProblem, as_error, classify

ROW = pa.table({"id": ["a"]})


def raised(action: Callable[[], object]) -> Exception:
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_a_missing_dataset(tmp_path: Path) -> None:
    error = raised(lambda: lance.dataset(str(tmp_path / "none")))
    assert (type(error), classify(error)) == (ValueError, LanceProblem.MISSING)
    assert isinstance(as_error(error, doing="open it"), NotFound)


def test_a_missing_version(tmp_path: Path) -> None:
    lance.write_dataset(ROW, tmp_path / "t")
    error = raised(lambda: lance.dataset(str(tmp_path / "t"), version=9))
    assert classify(error) is LanceProblem.MISSING


def test_an_existing_dataset(tmp_path: Path) -> None:
    lance.write_dataset(ROW, tmp_path / "t")
    error = raised(lambda: lance.write_dataset(ROW, tmp_path / "t", mode="create"))
    assert (type(error), classify(error)) == (OSError, LanceProblem.EXISTS)


def test_a_lost_file_is_damage_and_no_absence(tmp_path: Path) -> None:
    table = lance.write_dataset(ROW, tmp_path / "t")
    for path in (tmp_path / "t" / "data").iterdir():
        path.unlink()
    error = raised(table.to_table)
    assert classify(error) is LanceProblem.LOST_FILE
    assert isinstance(as_error(error, doing="read it"), StoreDamaged)


def test_a_filter_that_names_no_column(tmp_path: Path) -> None:
    table = lance.write_dataset(ROW, tmp_path / "t")
    error = raised(lambda: table.to_table(filter="nope = 1"))
    assert classify(error) is LanceProblem.INVALID
    assert isinstance(as_error(error, doing="read it"), InvalidInput)


def test_an_unknown_text_is_neither_absence_nor_conflict() -> None:
    error = OSError("a text nobody has seen")
    assert classify(error) is LanceProblem.UNKNOWN
    assert isinstance(as_error(error, doing="read it"), Transient)
