"""The schema of a graph.

`model` says what a schema is, `parse` reads the language, `text` prints it, `values` checks values against it,
`keys` makes ids, `arrow` gives the tables' shape, `serial` stores it, `plan` finds the way from one to another.
"""
