"""Change the schema of a branch, and its tables with it.

`apply` makes one commit of it, `stored_rows` holds what is newly asked of rows against those that are there. What can
change at all is decided by `headgate.graph.schema.plan`.
"""
