"""The values a publication is decided on: refs, heads, metadata, outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import NewType, TypeAlias

Ref = NewType("Ref", str)
"""An immutable commit id."""

PublishId = NewType("PublishId", str)
"""Names one try to publish; it is the execution id of the attempt that makes it."""


class Strength(StrEnum):
    """Who decides that the head is still the expected one."""

    SOFT = "soft"
    """The client, just before the update."""
    HARD = "hard"
    """The store, in the same step as the update."""


class Replace(StrEnum):
    """Which heads on top of the input ref an attempt may replace."""

    AUTO = "auto"
    """Only one that the orchestrator says was never accepted."""
    ANY = "any"
    """Any whose first parent is the input ref."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a branch points at: the commit, its parents in order, and the metadata it was made with."""

    branch: str
    ref: Ref
    parents: tuple[Ref, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_parent(self) -> Ref | None:
        """The parent of a commit with exactly one; a merge commit is not something an attempt publishes."""
        return self.parents[0] if len(self.parents) == 1 else None


METADATA_PREFIX = "headgate."


@dataclass(frozen=True, kw_only=True)
class CommitMetadata:
    """What every published commit says about the attempt that made it.

    Stores keep it as a flat text map. Keys are only ever added: a reader skips those it does not know, and treats
    a missing one as unknown, so that workers of neighbouring versions may publish to one branch.
    """

    publish_id: PublishId
    expected_head: Ref
    orchestrator: str
    workflow: str
    reference_task: str
    task_id: str
    iteration: int = 0
    retry_count: int = 0
    strength: Strength = Strength.HARD
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Every input ref of the attempt, by store: lineage across stores."""
    task_name: str = ""
    code_module: str = ""
    code_commit: str = ""
    code_dirty: bool | None = None

    def to_map(self) -> dict[str, str]:
        out: dict[str, str] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "inputs":
                value = json.dumps(dict(value), sort_keys=True, separators=(",", ":")) if value else ""
            elif isinstance(value, bool):
                value = "true" if value else "false"
            if value is not None and value != "":
                out[METADATA_PREFIX + f.name] = str(value)
        return out

    @classmethod
    def from_map(cls, metadata: Mapping[str, str]) -> CommitMetadata | None:
        """The metadata of a commit of ours; None for anybody else's or for a damaged one."""
        known = {
            f.name: metadata[METADATA_PREFIX + f.name] for f in fields(cls) if METADATA_PREFIX + f.name in metadata
        }
        required = ("publish_id", "expected_head", "orchestrator", "workflow", "reference_task", "task_id")
        if any(not known.get(name) for name in required):
            return None
        try:
            inputs = json.loads(known.get("inputs") or "{}")
            if not isinstance(inputs, dict) or not all(isinstance(ref, str) for ref in inputs.values()):
                return None
            return cls(
                publish_id=PublishId(known["publish_id"]),
                expected_head=Ref(known["expected_head"]),
                orchestrator=known["orchestrator"],
                workflow=known["workflow"],
                reference_task=known["reference_task"],
                task_id=known["task_id"],
                iteration=int(known.get("iteration", "0")),
                retry_count=int(known.get("retry_count", "0")),
                strength=Strength(known.get("strength", Strength.SOFT)),
                inputs=inputs,
                task_name=known.get("task_name", ""),
                code_module=known.get("code_module", ""),
                code_commit=known.get("code_commit", ""),
                code_dirty={"true": True, "false": False}.get(known.get("code_dirty", "")),
            )
        except (ValueError, RecursionError):
            return None

    @staticmethod
    def names(metadata: Mapping[str, str], publish_id: PublishId) -> bool:
        """Whether that publish made the commit. Looks at nothing else: damage elsewhere must not hide a commit."""
        return metadata.get(METADATA_PREFIX + "publish_id") == publish_id

    def with_strength(self, strength: Strength) -> CommitMetadata:
        return replace(self, strength=strength)


@dataclass(frozen=True, kw_only=True)
class Published:
    """The target branch shows this attempt's result."""

    ref: Ref
    strength: Strength = Strength.HARD


@dataclass(frozen=True, kw_only=True)
class NotPublished:
    """The publish did not take effect, and can no longer."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """It cannot be told whether the publish took effect; never a success."""

    reason: str
    publish_id: PublishId


Outcome: TypeAlias = Published | NotPublished | Unknown
