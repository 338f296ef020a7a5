"""What annotations say about a type or property without changing what it accepts."""

from __future__ import annotations

from dataclasses import replace

from headgate.graph.language.diagnostics import Diagnostics
from headgate.graph.schema.model import Annotations
from headgate.graph.schema.syntax import Annotation, Value


def read_about(item: Annotation, about: Annotations, diagnostics: Diagnostics) -> Annotations | None:
    """`about` with what one annotation says, or None if it is of another kind."""
    if item.name not in ("rename_from", "description", "instruction"):
        return None
    args = item.args or ()
    if len(args) != 1 or not isinstance(args[0], Value) or not isinstance(args[0].value, str):
        diagnostics.add(item.at, f"@{item.name} takes one text", f'such as @{item.name}("…")')
        return about
    if getattr(about, item.name) is not None:
        diagnostics.add(item.at, f"@{item.name} is given twice", "keep one")
    if item.name == "rename_from":
        return replace(about, rename_from=args[0].value)
    if item.name == "description":
        return replace(about, description=args[0].value)
    return replace(about, instruction=args[0].value)
