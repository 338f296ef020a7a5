"""The Arrow shape of each table: `id`, for edges `src` and `dst`, then the declared properties."""

from __future__ import annotations

import pyarrow as pa

from headgate.graph.schema.model import Kind, Property, PropertyType, TableType

PROPERTY_ID = b"headgate:property"
"""Field metadata: the property's stable id, by which a renamed column is still known."""

_SCALARS = {
    Kind.STRING: pa.string(),
    Kind.BOOL: pa.bool_(),
    Kind.I32: pa.int32(),
    Kind.I64: pa.int64(),
    Kind.U32: pa.uint32(),
    Kind.U64: pa.uint64(),
    Kind.F32: pa.float32(),
    Kind.F64: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.DATETIME: pa.timestamp("us", tz="UTC"),
    Kind.BLOB: pa.large_binary(),
    # Plain text, so that widening an enum touches no data.
    Kind.ENUM: pa.string(),
}


def arrow_type(declared: PropertyType) -> pa.DataType:
    if declared.is_list:
        return pa.list_(pa.field("item", arrow_type(declared.element), nullable=False))
    if declared.kind is Kind.VECTOR:
        return pa.list_(pa.float32(), declared.size)
    return _SCALARS[declared.kind]


def arrow_field(item: Property) -> pa.Field:
    metadata = {PROPERTY_ID: str(item.id).encode()} if item.id else None
    return pa.field(item.name, arrow_type(item.type), nullable=item.nullable, metadata=metadata)


def arrow_schema(table: TableType) -> pa.Schema:
    """The columns of a type's table, in their order."""
    system = [pa.field(name, pa.string(), nullable=False) for name in table.system_columns]
    return pa.schema([*system, *(arrow_field(item) for item in table.properties)])
