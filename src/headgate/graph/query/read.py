"""A read, checked against a schema: variables with their types, steps, conditions, outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.graph.query.predicate import ColumnRef, Predicate
from headgate.graph.query.syntax import Hops, Parameter
from headgate.graph.schema.model import EdgeType, NodeType, TableType


@dataclass(frozen=True)
class Step:
    """One traversal: along an edge type from one variable to another, a fixed number of times or a range of them."""

    edge: EdgeType
    src: str
    dst: str
    hops: Hops | None = None
    edge_variable: str = ""

    @property
    def ends(self) -> tuple[str, str]:
        return self.src, self.dst


@dataclass(frozen=True)
class Match:
    """One block: what it binds, and what must hold. `absent` and `optional` see the variables of the block around."""

    nodes: tuple[tuple[str, NodeType], ...] = ()
    """Node variables that this block brings in."""
    steps: tuple[Step, ...] = ()
    where: tuple[Predicate, ...] = ()
    """Conditions on variables of this block and around it."""
    late: tuple[Predicate, ...] = ()
    """Conditions that look at variables of an optional block inside."""
    optional: tuple[Match, ...] = ()
    absent: tuple[Match, ...] = ()

    def brought(self) -> Iterator[tuple[str, TableType]]:
        """Every variable that is bound once the block is done, with its type."""
        yield from self.nodes
        yield from ((step.edge_variable, step.edge) for step in self.steps if step.edge_variable)
        for inner in self.optional:
            yield from inner.brought()


@dataclass(frozen=True)
class Output:
    """One column of the result: a property, a whole row, or an aggregate of either."""

    name: str
    column: ColumnRef | None = None
    variable: str = ""
    """Set where the whole row of a variable is meant."""
    function: str = ""
    """The aggregate; with neither column nor variable it is `count(*)`."""
    distinct: bool = False


@dataclass(frozen=True)
class Ordering:
    """By an output column, or by a property that is not among them."""

    output: str = ""
    column: ColumnRef | None = None
    descending: bool = False


@dataclass(frozen=True)
class CheckedRead:
    """A read whose names and types are right for a schema."""

    name: str
    parameters: tuple[Parameter, ...]
    match: Match
    outputs: tuple[Output, ...]
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    limit: int | str | None = None
    """A number, or the name of a parameter."""

    @property
    def is_aggregate(self) -> bool:
        return any(output.function for output in self.outputs)
