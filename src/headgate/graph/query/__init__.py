"""The query language: its tree, parser, printer, checker, and the predicates reads and mutations share."""
