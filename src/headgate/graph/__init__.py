"""Typed tables published through one manifest: schema, queries, staging, publisher."""
