"""Named points between two effects, at which a test stops, kills or fails the process.

Off, a point costs one look at a module variable. `headgate.testing` arms them; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Failpoint(StrEnum):
    """Every point, by its area and the two events it lies between. New ones are added here, never as literals."""

    ATTEMPT_BEFORE_DOWNLOAD = "attempt.after_workspace_before_download"
    ATTEMPT_DURING_DOWNLOAD = "attempt.between_downloaded_files"
    ATTEMPT_IN_BODY = "attempt.body_started_before_it_returns"
    ATTEMPT_AFTER_BODY = "attempt.after_body_before_stage"
    ATTEMPT_STAGING_CREATED = "attempt.after_staging_branch_before_upload"
    ATTEMPT_HALF_UPLOADED = "attempt.between_staged_files"
    ATTEMPT_STAGED = "attempt.after_stage_before_second_fence"
    ATTEMPT_HEAD_READ = "attempt.after_head_read_before_second_fence"
    ATTEMPT_AFTER_SECOND_FENCE = "attempt.after_second_fence_before_publish"
    ATTEMPT_PUBLISHED = "attempt.after_publish_before_completion"
    ATTEMPT_AFTER_LAST_FENCE = "attempt.after_last_fence_before_completion"
    ATTEMPT_COMPLETED = "attempt.after_completion_before_cleanup"
    ATTEMPT_STAGING_DELETED = "attempt.after_staging_deleted_before_workspace_removed"
    WORKSPACE_BEGUN = "workspace.after_folder_before_marker_locked"
    WORKSPACE_HALF_REMOVED = "workspace.between_removed_entries"
    DATABASE_COMMITTED = "database.after_commit_before_answer"
    DISK_CHANGED = "disk.after_one_change_before_the_next"
    GRAPH_STAGED = "graph.after_stage_before_sidecar"
    GRAPH_SIDECAR_CREATED = "graph.after_sidecar_before_commit"
    GRAPH_FORKED = "graph.after_fork_before_commit"
    GRAPH_BETWEEN_TABLES = "graph.between_table_commits"
    GRAPH_TABLES_COMMITTED = "graph.after_table_commits_before_publish"
    GRAPH_PUBLISHED = "graph.after_publish_before_sidecar_deleted"


_armed: Callable[[Failpoint], None] | None = None


def failpoint(point: Failpoint) -> None:
    """Does nothing, unless a test has armed the points of this process."""
    if _armed is not None:
        _armed(point)


def arm(action: Callable[[Failpoint], None] | None) -> None:
    """Call `action` at every point from now on; None turns them off."""
    global _armed
    _armed = action
