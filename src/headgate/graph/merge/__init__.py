"""Merge one branch into another: `bases` finds what both come from, `rows` compares a table three ways, `schema` does
the same for schemas, `resolve` settles what the whole graph's rules refuse, `merge` makes it one commit.
"""

from headgate.graph.merge.conflicts import ConflictKind, RowConflict
from headgate.graph.merge.merge import Merged, MergeRequest, merge_branch, plan_merge

__all__ = ["ConflictKind", "MergeRequest", "Merged", "RowConflict", "merge_branch", "plan_merge"]
