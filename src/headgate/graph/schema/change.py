"""What a change of a schema consists of: steps that can be made, and refusals with a code and a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headgate.graph.schema.model import Check, Constraint, Index, Key, Property, Range, Schema, TableType, Unique


class StepKind(StrEnum):
    """Every change that is made; anything else is refused."""

    ADD_TYPE = "add_type"
    RENAME_TYPE = "rename_type"
    DROP_TYPE = "drop_type"
    ADD_PROPERTY = "add_property"
    RENAME_PROPERTY = "rename_property"
    DROP_PROPERTY = "drop_property"
    WIDEN_ENUM = "widen_enum"
    ADD_INDEX = "add_index"
    ADD_CONSTRAINT = "add_constraint"
    """A unique, range or check: every stored row must satisfy it."""
    DROP_CONSTRAINT = "drop_constraint"
    DESCRIBE = "describe"
    """Texts, defaults of later rows, interfaces: nothing that is stored."""


class RefusalCode(StrEnum):
    KIND_CHANGED = "kind_changed"
    TYPE_IN_USE = "type_in_use"
    TYPE_CHANGED = "type_changed"
    NULLABILITY_CHANGED = "nullability_changed"
    DEFAULT_MISSING = "default_missing"
    KEY_CHANGED = "key_changed"
    ENUM_NARROWED = "enum_narrowed"
    ENDS_CHANGED = "ends_changed"
    CARDINALITY_CHANGED = "cardinality_changed"
    RENAME_UNKNOWN = "rename_unknown"
    RENAME_AMBIGUOUS = "rename_ambiguous"


@dataclass(frozen=True)
class Step:
    """One change, in the words of the new schema; what is dropped in those of the old."""

    kind: StepKind
    where: str
    """`Person` or `Person.age`."""
    told: str
    """The change, for people."""
    hard: bool = False
    """A drop after which the data can no longer be read at earlier commits."""

    def __str__(self) -> str:
        return self.told


@dataclass(frozen=True)
class Refusal:
    code: RefusalCode
    where: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason} ({self.code}); {self.fix}"


@dataclass(frozen=True)
class TableEdit:
    """How the columns of one stored table change."""

    old: TableType
    new: TableType
    added: tuple[Property, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """From the old name to the new."""
    dropped: tuple[str, ...] = ()
    constraints: tuple[Unique | Range | Check, ...] = ()
    """What is asked of stored rows from now on."""

    @property
    def changes_columns(self) -> bool:
        return bool(self.added or self.renamed or self.dropped)

    def old_name(self, name: str) -> str | None:
        """What a column was called; None if it is new."""
        if any(item.name == name for item in self.added):
            return None
        return next((was for was, now in self.renamed if now == name), name)


@dataclass(frozen=True)
class SchemaPlan:
    """The way from one schema to another. With a refusal there is none."""

    old: Schema = field(repr=False)
    new: Schema = field(repr=False)
    """With the ids that its types and properties will have."""
    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    edits: tuple[TableEdit, ...] = field(default=(), repr=False)
    """One for each type that stays."""
    added: tuple[TableType, ...] = field(default=(), repr=False)
    dropped: tuple[TableType, ...] = field(default=(), repr=False)

    @property
    def changes_nothing(self) -> bool:
        return not self.steps and not self.refusals


def told_constraint(item: Constraint) -> str:
    """A constraint as people write it."""
    match item:
        case Unique():
            return f"@unique({', '.join(item.properties)})"
        case Range():
            low, high = ("" if end is None else end for end in (item.low, item.high))
            return f"@range({item.property}, {low}..{high})"
        case Check():
            return f'@check({item.property}, "{item.pattern}")'
        case Key():
            return f"@key({', '.join(item.properties)})"
        case Index():
            return f"@index({item.property})"
