"""What turns one commit into another: `pairing` says which tables and columns belong together, `rows` finds the rows
that differ, `between` is the changes of two commits for people and programs, `feed` follows a branch.
"""

from headgate.graph.changes.between import Changes, RowChange, changes_between
from headgate.graph.changes.feed import FeedEntry, feed

__all__ = ["Changes", "FeedEntry", "RowChange", "changes_between", "feed"]
