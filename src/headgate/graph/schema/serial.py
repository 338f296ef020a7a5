"""A schema as the JSON text of the manifest's schema row; fields of a later version are ignored."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter, ValidationError

from headgate.errors import StoreDamaged
from headgate.graph.schema.model import Schema


@cache
def _adapter() -> TypeAdapter[Schema]:
    return TypeAdapter(Schema)


def schema_to_json(schema: Schema) -> str:
    return _adapter().dump_json(schema).decode()


def schema_from_json(text: str) -> Schema:
    """The schema that `schema_to_json` wrote."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise StoreDamaged(
            message=f"the stored schema cannot be read: {first['msg']} at {'.'.join(map(str, first['loc']))}",
            hint="headgate repair explains what is wrong with the graph",
        ) from error
