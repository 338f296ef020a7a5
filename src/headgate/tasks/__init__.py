"""Declaring work: `@task`, stores, guardrails, controls, the TaskDef, and the protocols upper layers implement."""
