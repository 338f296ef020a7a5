"""Columns of a type as Spark has them, and whether a DataFrame has them: said at once, before any job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headgate.errors import InvalidInput, Problem
from headgate.graph.language.diagnostics import nearest
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, Kind, PropertyType, Schema, TableType
from headgate.graph.write.parts import How
from headgate.graph.write.shape import FROM, TO

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_WHOLE = frozenset({"ByteType", "ShortType", "IntegerType", "LongType"})
_TAKEN: dict[Kind, frozenset[str]] = {
    Kind.STRING: frozenset({"StringType"}),
    Kind.ENUM: frozenset({"StringType"}),
    Kind.BOOL: frozenset({"BooleanType"}),
    Kind.I32: _WHOLE,
    Kind.I64: _WHOLE,
    Kind.U32: _WHOLE,
    Kind.U64: _WHOLE | {"DecimalType"},
    Kind.F32: frozenset({"FloatType", "DoubleType"}),
    Kind.F64: _WHOLE | {"FloatType", "DoubleType"},
    Kind.DATE: frozenset({"DateType"}),
    Kind.DATETIME: frozenset({"TimestampType"}),
    Kind.BLOB: frozenset({"BinaryType"}),
}
_GIVEN = {
    Kind.STRING: "string",
    Kind.ENUM: "string",
    Kind.BOOL: "boolean",
    Kind.I32: "int",
    Kind.I64: "bigint",
    Kind.U32: "bigint",
    Kind.U64: "decimal(20,0)",
    Kind.F32: "float",
    Kind.F64: "double",
    Kind.DATE: "date",
    Kind.DATETIME: "timestamp",
    Kind.BLOB: "binary",
}


def spark_type(declared: PropertyType) -> str:
    """The Spark type that a property is read as: unsigned numbers in the next type that holds them."""
    if declared.is_list:
        return f"array<{spark_type(declared.element)}>"
    return "array<float>" if declared.kind is Kind.VECTOR else _GIVEN[declared.kind]


def spark_columns(table: TableType) -> dict[str, str]:
    """Every column of a type, in order, with its Spark type."""
    system = dict.fromkeys(table.system_columns, "string")
    return {**system, **{item.name: spark_type(item.type) for item in table.properties}}


def check_frame(schema: Schema, table: TableType, given: StructType, how: How) -> None:
    """Raise one error with every column that is unknown, missing or of a wrong type."""
    found = tuple(_removal_problems(table, given) if how is How.DELETE else _problems(schema, table, given))
    if found:
        told = "; ".join(f"{one.where} {one.message}" for one in found)
        raise InvalidInput(
            message=f"the DataFrame does not fit {table.name}: {told}",
            problems=found,
            hint="select, rename or cast its columns; no job was started",
        )


def _problems(schema: Schema, table: TableType, given: StructType) -> Iterator[Problem]:
    names = [column.name for column in given]
    known = {item.name: item.type for item in table.properties}
    sides: dict[str, str] = {}
    if isinstance(table, EdgeType):
        sides = {side: side if side in names else other for side, other in ((SRC, FROM), (DST, TO))}
    for name in {name for name in names if names.count(name) > 1}:
        yield Problem(name, "is there more than once", "drop one")
    for column in given:
        name, kind = column.name, column.dataType
        if name in known:
            if not takes(known[name], kind):
                yield Problem(name, f"is {kind.simpleString()}, and {known[name]} takes {spark_type(known[name])}")
        elif name in sides.values():
            assert isinstance(table, EdgeType)
            yield from _end_problems(schema, table.src if name == sides[SRC] else table.dst, name, kind)
        elif name == ID and not table.key:
            if type(kind).__name__ != "StringType":
                yield Problem(name, f"is {kind.simpleString()}, and an id is string")
        else:
            close = nearest(name, [*known, *sides])
            told = "is made of the key, and is not given" if name == ID else f"is no property of {table.name}"
            yield Problem(name, told, close)
    for item in table.properties:
        if item.name not in names and not item.nullable and item.default is None:
            yield Problem(item.name, "is required, and is missing")
    for side, name in sides.items():
        if name not in names:
            yield Problem(side, "is required, and is missing")


def _end_problems(schema: Schema, node: str, name: str, kind: DataType) -> Iterator[Problem]:
    found = schema.find_node(node)
    assert found is not None
    if len(found.key) > 1:
        if type(kind).__name__ != "ArrayType":
            yield Problem(name, f"is {kind.simpleString()}, and names a {node} by an array of its key's values")
        return
    declared = found.property(found.key[0]).type if found.key else PropertyType(Kind.STRING)
    if not takes(declared, kind):
        yield Problem(name, f"is {kind.simpleString()}, and the key of {node} takes {spark_type(declared)}")


def _removal_problems(table: TableType, given: StructType) -> Iterator[Problem]:
    columns = {column.name: column.dataType for column in given}
    if ID in columns:
        if type(columns[ID]).__name__ != "StringType":
            yield Problem(ID, f"is {columns[ID].simpleString()}, and an id is string")
        return
    if not table.key:
        yield Problem(ID, f"is missing: rows of {table.name} are removed by their id")
    for name in table.key:
        if name not in columns:
            yield Problem(name, f"is missing: rows of {table.name} are removed by id, or by {', '.join(table.key)}")
        elif not takes(table.property(name).type, columns[name]):
            yield Problem(name, f"is {columns[name].simpleString()}, and the key takes {table.property(name).type}")


def takes(declared: PropertyType, kind: Any) -> bool:
    """Whether values of a Spark type can be values of a declared one; single values are looked at when staged."""
    name = type(kind).__name__
    if name == "NullType":
        return True
    if declared.is_list:
        return name == "ArrayType" and takes(declared.element, kind.elementType)
    if declared.kind is Kind.VECTOR:
        return name == "ArrayType" and type(kind.elementType).__name__ in ("FloatType", "DoubleType")
    return name in _TAKEN[declared.kind]
