"""Suites an implementation of a store or an orchestrator must pass; one module each, imported only by tests."""
