"""What the read side believes of DuckDB: push-down into an Arrow dataset, no way out, exact sums, statement kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from headgate.graph.read.database import cursor


class Recorder(pads.Dataset):  # type: ignore[misc]
    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.asked: list[tuple[Any, str]] = []

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def scanner(self, columns: Any = None, filter: Any = None, **_: Any) -> pads.Scanner:  # noqa: A002
        self.asked.append((columns, str(filter)))
        return pads.dataset(self._table).scanner(columns=columns, filter=filter)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with cursor() as made:
        yield made


def test_a_registered_dataset_is_asked_for_columns_and_filters(connection: duckdb.DuckDBPyConnection) -> None:
    recorder = Recorder(pa.table({"id": ["a", "b"], "n": [1, 2], "unused": [3, 4]}))
    connection.register("t", recorder)
    assert connection.sql("select n from t where id = 'a' and n > 0").fetchall() == [(1,)]
    ((columns, condition),) = recorder.asked
    assert columns == ["n"]
    assert "id" in condition
    assert "(n > 0)" in condition


def test_what_is_registered_on_one_cursor_is_not_seen_on_another(connection: duckdb.DuckDBPyConnection) -> None:
    connection.register("mine", pa.table({"a": [1]}))
    with cursor() as other, pytest.raises(duckdb.CatalogException, match="Table with name mine does not exist"):
        other.sql("select * from mine")


@pytest.mark.parametrize(
    "text", ["select * from read_text('/etc/passwd')", "attach '/tmp/x.db'", "install icu", "set threads = 1"]
)
def test_there_is_no_way_to_files_and_settings(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    with pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException)):
        connection.sql(text).fetchall()


def test_python_variables_are_no_tables(connection: duckdb.DuckDBPyConnection) -> None:
    hidden = pa.table({"a": [1]})
    with pytest.raises(duckdb.CatalogException):
        connection.sql("select * from hidden")
    assert hidden.num_rows == 1


def test_a_sum_out_of_range_raises_instead_of_wrapping(connection: duckdb.DuckDBPyConnection) -> None:
    connection.register("t", pa.table({"n": pa.array([2**63 - 1, 1], pa.int64())}))
    with pytest.raises((duckdb.OutOfRangeException, duckdb.ConversionException)):
        connection.sql("select cast(sum(n) as bigint) from t").to_arrow_table()


def test_hashes_come_in_the_order_of_the_rows(connection: duckdb.DuckDBPyConnection) -> None:
    texts = pa.table({"text": [str(number % 1_000) for number in range(500_000)]})
    connection.register("t", texts)
    hashes = connection.sql("select hash(text) as h from t").to_arrow_table()["h"].to_numpy()
    assert (hashes[:1_000] == hashes[499_000:]).all()
    assert len(set(hashes[:1_000].tolist())) == 1_000


def test_a_statement_says_what_it_is(connection: duckdb.DuckDBPyConnection) -> None:
    kinds = [statement.type for statement in connection.extract_statements("select 1; explain select 1; drop table t")]
    assert kinds == [duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.DROP]


def test_times_with_a_zone_need_no_extension(connection: duckdb.DuckDBPyConnection) -> None:
    times = pa.table({"t": pa.array([0, 1], pa.timestamp("us", tz="UTC"))})
    connection.register("t", times)
    result = connection.sql("select max(t) as t from t").to_arrow_table()
    assert result["t"].cast(pa.timestamp("us", tz="UTC")).to_pylist() == [times["t"][1].as_py()]
