"""Versioned files: the `Lake` interface, the embedded lake, transfer."""
