"""Make a commit the head of its branch: check what it rests on and write it, on one version of the manifest.

A caller gets the commit, a `Conflict` that was read in the manifest, or `OutcomeUnknown` with the commit id. The id
is made once, before the first try, so that however often an answer is lost the commit is there at most once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import (
    Conflict,
    Contention,
    ExpectedHeadMismatch,
    ExpectedVersionMismatch,
    NotFound,
    OutcomeUnknown,
)
from headgate.graph.manifest.migrate import migrate
from headgate.graph.manifest.rows import (
    Audit,
    Commit,
    Head,
    HeadMark,
    Ids,
    Pin,
    PublishRow,
    Row,
    SchemaRow,
    TableRow,
    Tombstone,
    stamp_time,
)
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest, MergeContended, MergeUnknown

RELOCATION = "relocation"
RETRIES = 5
"""A publish loses its race to at most a few others before its branch's lock hands them out one by one."""


@dataclass(frozen=True)
class TableAt:
    """A table at a version of its own history, or of one of its forks."""

    version: int
    fork: str = ""
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Everything one publish writes, and everything that must still hold when it does."""

    branch: str
    commit: str
    base: HeadMark
    """The head the write was made from: its own commit, if published, came after this."""
    incarnation: str | None = None
    """The very branch it was made on, which a later one of the same name is not; None does not ask."""
    writer: str
    actor: str = ""
    message: str = ""
    publish_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    content: bool = True
    expected: Mapping[str, TableAt] = field(default_factory=dict)
    """The pins of every table it changes and of every table its validation read."""
    expected_schema: int | None = None
    """The publish order of the schema it was checked against."""
    if_head: bool = False
    """Whether `base` must still be the head."""
    unless: str = ""
    """Another commit that settles the matter if it is there: what a roll back takes back."""
    pins: Mapping[str, TableAt] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    tables: tuple[TableRow, ...] = ()
    schema: SchemaRow | None = None
    ids: tuple[int, int] | None = None
    """The first free id of types and properties: what it was taken to be, and what it becomes."""
    merged_parent: str = ""
    """The commit of another branch that this one brings in."""
    audit: Audit | None = None
    replaces: str = ""
    """A commit that is marked as superseded: this one's parent is `onto` instead."""
    onto: str = ""
    relocates: bool = False
    """Nothing but a move of the head from `replaces` back to `onto`: it is known by a row of its operation."""


@dataclass(frozen=True)
class Published:
    """The commit that the branch shows, and whether an earlier write with the same publish id made it."""

    commit: Commit
    state: ManifestState = field(repr=False)
    repeated: bool = False


def publish(manifest: Manifest, publication: Publication, *, clock: Clock = SYSTEM_CLOCK) -> Published:
    """Publish, trying again while others move the manifest in ways that do not matter to this write."""
    in_doubt = ""
    tries = RETRIES + 1
    for _ in range(tries):
        stored = manifest.stored()
        state = manifest.formats.upgraded(stored)
        made = find_commit(manifest, state, publication)
        if made is not None:
            return Published(made, state)
        manifest.formats.check(state)
        if not manifest.formats.is_current(stored, publication.branch):
            migrate(manifest, publication.branch)
            continue
        if publication.publish_id and (first := find_publish(manifest, state, publication.publish_id, clock=clock)):
            return Published(first, state, repeated=True)
        check_expectations(state, publication)
        created_at = stamp_time(clock.now())
        rows = candidate(state, publication, created_at=created_at)
        if publication.replaces:
            rows = superseding(manifest, state, publication, rows, created_at=created_at)
        if publication.merged_parent:
            rows += merging(manifest, stored, publication)
        try:
            after = manifest.merge(state, rows)
        except MergeContended:
            continue
        except MergeUnknown as error:
            in_doubt = str(error) or repr(error)
            continue
        made = find_commit(manifest, after, publication)
        if made is not None:
            return Published(made, after)
        in_doubt = "the manifest does not show a merge that it accepted"
    if in_doubt:
        raise OutcomeUnknown(
            message=f"the answer to a publish on branch {publication.branch} was lost: {in_doubt}",
            publish_id=publication.commit,
            hint="look for this commit in the branch's log before writing again",
        )
    raise Contention(
        message=f"other writers were first in all tries to publish on branch {publication.branch}",
        tries=tries,
        hint="try again later",
    )


def find_commit(manifest: Manifest, state: ManifestState, publication: Publication) -> Commit | None:
    """The commit of this publication, or the one that settles it, if in the lineage: superseded rows count."""
    if publication.relocates:
        moved = relocated(manifest, state, publication.commit, branch=publication.branch, since=publication.base)
        return _stored(manifest, state, publication.onto) if moved else None
    for commit in (publication.unless, publication.commit):
        found = in_lineage(manifest, state, commit, branch=publication.branch, since=publication.base)
        if found is not None:
            return found
    return None


def relocated(manifest: Manifest, state: ManifestState, operation: str, *, branch: str, since: HeadMark) -> bool:
    """Whether an operation has moved the head back, which leaves no commit but a row of its own."""
    found: Row | None = state.find_audit(operation)
    if found is None and not state.holds_all_since(branch, since.order):
        found = manifest.history.find(f"audit:{operation}")
    return isinstance(found, Audit) and found.recovery_kind == RELOCATION


def _stored(manifest: Manifest, state: ManifestState, commit: str) -> Commit:
    found = state.find_commit(commit) or manifest.history.find_commit(commit)
    if found is None:
        raise NotFound(message=f"there is no commit {commit}", kind="commit", name=commit)
    return found


def in_lineage(manifest: Manifest, state: ManifestState, commit: str, *, branch: str, since: HeadMark) -> Commit | None:
    """A commit that can only have been published after `since`, if it was."""
    if not commit:
        return None
    found = state.find_commit(commit)
    if found is None and not state.holds_all_since(branch, since.order):
        return manifest.history.find_commit(commit)
    return found


def find_publish(manifest: Manifest, state: ManifestState, publish_id: str, *, clock: Clock) -> Commit | None:
    """The commit that used this publish id first; none if that is longer ago than publish ids are kept."""
    used = state.find_publish(publish_id)
    if used is None:
        row = manifest.history.find(f"publish:{publish_id}")
        used = row if isinstance(row, PublishRow) else None
    if used is None or used.created_at < stamp_time(clock.now() - manifest.publish_ids_kept):
        return None
    return state.find_commit(used.commit) or manifest.history.find_commit(used.commit)


def check_expectations(state: ManifestState, publication: Publication) -> None:
    """Raise the `Conflict` that stands in this publication's way, if there is one."""
    head = state.find_head(publication.branch)
    if head is not None and (head.closed or publication.incarnation not in (None, head.incarnation)):
        raise deleted(publication.branch)
    head = state.head(publication.branch)
    if publication.if_head and head.mark != publication.base:
        raise ExpectedHeadMismatch(
            message=f"branch {publication.branch} has moved since this write was prepared",
            branch=publication.branch,
            expected=publication.base.commit,
            actual=head.commit,
            hint="read the new head and write again",
        )
    if publication.replaces:
        refuse_descendants(state, publication.branch, publication.replaces)
    schema = state.schema(publication.branch)
    if publication.expected_schema not in (None, schema.order):
        assert publication.expected_schema is not None
        raise schema_mismatch(publication.branch, expected=publication.expected_schema, actual=schema.order)
    if publication.ids is not None and publication.ids[0] != state.next_id:
        raise schema_mismatch(publication.branch, expected=publication.ids[0], actual=state.next_id)
    pins = state.pins(publication.branch)
    for table, expected in publication.expected.items():
        pin = pins.get(table)
        if pin is None or (pin.version, pin.fork) != (expected.version, expected.fork):
            raise version_mismatch(state, table, expected=expected.version, actual=pin.version if pin else None)


def refuse_descendants(state: ManifestState, branch: str, commit: str) -> None:
    """Raise if another branch has a commit that is to be replaced: making one, and a merge, meet its head row."""
    gone = state.find_commit(commit)
    order = gone.order if gone else 0
    for row in state.rows.values():
        if isinstance(row, Commit) and row.merged_parent == commit:
            raise Conflict(
                message=f"{commit} was merged into branch {row.branch} and cannot be replaced any more",
                hint="start a new workflow from the current head",
            )
        if not isinstance(row, Head) or row.closed:
            continue
        if row.parent_branch == branch and row.base_order >= order:
            raise Conflict(
                message=f"branch {row.branch} was made from {commit}, which cannot be replaced any more",
                hint="start a new workflow from the current head",
            )


def deleted(branch: str) -> Conflict:
    return Conflict(
        message=f"branch {branch} has been deleted since this write was prepared",
        hint="read what has the name now, if anything, and write again",
    )


def schema_mismatch(branch: str, *, expected: int, actual: int | None) -> ExpectedVersionMismatch:
    return ExpectedVersionMismatch(
        message=f"the schema of branch {branch} has changed since this write was prepared",
        table="schema",
        expected=expected,
        actual=actual,
        hint="read the new schema and write again",
    )


def version_mismatch(state: ManifestState, table: str, *, expected: int, actual: int | None) -> ExpectedVersionMismatch:
    name = state.table(table).name
    return ExpectedVersionMismatch(
        message=f"table {name} has changed since this write was prepared",
        table=name,
        expected=expected,
        actual=actual,
        hint="read the new head and write again",
    )


def candidate(state: ManifestState, publication: Publication, *, created_at: str) -> list[Row]:
    """The rows of one try: the parent is the head of this very state."""
    branch, head = publication.branch, state.head(publication.branch)
    order = max(head.order, head.inherited) + 1
    rows: list[Row] = [
        replace(head, commit=publication.commit, order=order),
        Commit(
            branch=branch,
            order=order,
            id=publication.commit,
            parent=head.commit,
            merged_parent=publication.merged_parent,
            writer=publication.writer,
            actor=publication.actor,
            message=publication.message,
            publish_id=publication.publish_id,
            metadata=dict(publication.metadata),
            created_at=created_at,
            content=publication.content,
            tables=tuple(sorted({*publication.pins, *publication.removed})),
        ),
    ]
    rows += [
        Pin(branch=branch, order=order, table=name, version=at.version, fork=at.fork, rows=at.rows)
        for name, at in publication.pins.items()
    ]
    rows += [Tombstone(branch=branch, order=order, table=name) for name in publication.removed]
    rows += [replace(table, branch=branch, order=order) for table in publication.tables]
    if publication.schema is not None:
        rows.append(replace(publication.schema, branch=branch, order=order))
    if publication.ids is not None:
        rows.append(Ids(next_id=publication.ids[1]))
    if publication.audit is not None:
        rows.append(replace(publication.audit, branch=branch, order=order, created_at=created_at))
    if publication.publish_id:
        rows.append(
            PublishRow(
                branch=branch,
                order=order,
                publish_id=publication.publish_id,
                commit=publication.commit,
                created_at=created_at,
            )
        )
    return rows


def merging(manifest: Manifest, stored: ManifestState, publication: Publication) -> list[Row]:
    """The head row of the branch that is merged, as it is: so the merge meets whoever replaces the commit it takes."""
    source = _stored(manifest, stored, publication.merged_parent)
    if source.superseded_by:
        raise Conflict(
            message=f"commit {source.id} of branch {source.branch} was replaced while it was merged",
            hint="merge the branch as it is now",
        )
    head = stored.find_head(source.branch)
    meets = head is not None and head.commit == source.id and head.branch != publication.branch
    return [head] if head is not None and meets else []


def superseding(
    manifest: Manifest, state: ManifestState, publication: Publication, rows: list[Row], *, created_at: str
) -> list[Row]:
    """The rows of a publish that takes a commit's place: it is marked, and the parent is what it was made on."""
    gone = _stored(manifest, state, publication.replaces)
    marked = replace(gone, superseded_by=publication.onto if publication.relocates else publication.commit)
    kept = [row for row in rows if not (publication.relocates and isinstance(row, Commit | PublishRow))]
    out: list[Row] = [marked]
    for row in kept:
        if isinstance(row, Commit):
            out.append(replace(row, parent=publication.onto))
        elif isinstance(row, Head) and publication.relocates:
            out.append(replace(row, commit=publication.onto))
        else:
            out.append(row)
    if publication.relocates:
        out.append(
            Audit(
                branch=publication.branch,
                order=max(row.order for row in kept),
                operation_id=publication.commit,
                recovery_kind=RELOCATION,
                recovery_for_actor=publication.actor,
                graph_commit_id=publication.onto,
                created_at=created_at,
            )
        )
    return out
