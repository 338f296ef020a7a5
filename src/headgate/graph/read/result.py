"""What a query returns: an Arrow table with the shapes people ask for."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.errors import MissingExtra

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN_ROWS = 20
_SHOWN_TEXT = 200


@dataclass(frozen=True)
class QueryResult:
    """The rows a query found at one commit."""

    table: pa.Table
    commit: str = ""
    """The ref that was read."""

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches(max_chunksize=4_096):
            yield from batch.to_pylist()

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict for each row."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def to_json_rows(self) -> list[dict[str, Any]]:
        """A dict for each row in the JSON that parameters and loads take back: times as text, blobs as base64."""
        return [{name: _as_json(value) for name, value in row.items()} for row in self]

    def to_pandas(self) -> pandas.DataFrame:
        try:
            return self.table.to_pandas()
        except ImportError as error:
            raise _missing("pandas") from error

    def to_polars(self) -> polars.DataFrame:
        try:
            import polars
        except ImportError as error:
            raise _missing("polars") from error
        return polars.from_arrow(self.table)

    def __repr__(self) -> str:
        shape = f"{len(self):,} rows, columns {', '.join(self.columns)}"
        return f"<QueryResult at {self.commit}: {shape}>" if self.commit else f"<QueryResult: {shape}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        shown = self.table.slice(0, _SHOWN_ROWS).to_pylist()
        body = "".join(f"<tr>{''.join(_cell(row[name]) for name in self.columns)}</tr>" for row in shown)
        more = len(self) - len(shown)
        foot = f"<p>{len(self):,} rows{f', {more:,} not shown' if more else ''}</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    return value


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"<td>{html.escape(text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + '…')}</td>"


def _missing(name: str) -> MissingExtra:
    return MissingExtra(message=f"{name} is not installed", hint=f"pip install {name}, or use to_arrow()", extra=name)
