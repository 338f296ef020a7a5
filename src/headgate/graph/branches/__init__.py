"""Branches of a graph: `making` creates and deletes them. Tables fork when they are first written to."""

from headgate.graph.branches.making import Branch, create_branch, delete_branch, list_branches

__all__ = ["Branch", "create_branch", "delete_branch", "list_branches"]
