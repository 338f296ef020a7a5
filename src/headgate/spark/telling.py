"""Rows that a check refused, as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.errors import Problem
from headgate.graph.schema.model import DST, SRC, EdgeType
from headgate.graph.write.base import Base
from headgate.spark.claims import Source


def told_problem(base: Base, sources: Sequence[Source], row: Mapping[str, Any]) -> Problem:
    """One refused row: which it is, and why."""
    source = sources[row["source"]]
    claim = source.claims[row["claim"]]
    table = base.type(source.type)
    name, text = table.name, row["text"]
    side = claim.columns[0]
    node = ""
    if isinstance(table, EdgeType):
        node = {SRC: table.src, DST: table.dst}.get(side, "")
    edge = next((edge for edge in base.schema.edges if edge.src == name), None)
    match row["code"]:
        case "twice":
            told = f"{name} {text} is given more than once"
        case "clash":
            told = f"{name} {text} is touched by more than one write of the transaction"
        case "taken":
            told = f"there is a {name} {text} already"
        case "endpoint":
            told = f"{side} names {node} {text}, which does not exist"
        case "dangling":
            told = f"{name} {row['id']} would be left without its {side} {node} {text}"
        case "unique":
            told = f"{', '.join(claim.columns)} {text} is given more than once, or another row has it already"
        case "above":
            limit = table.cardinality.max if isinstance(table, EdgeType) else None
            told = f"{node} {text} would have more than {limit} {name}"
        case _:
            least = edge.cardinality.min if edge else 0
            told = f"{name} {text} would have too few {edge.name if edge else 'edges'}, and needs {least}"
    return Problem(where=f"{source.type} {row['id']}", message=told)
