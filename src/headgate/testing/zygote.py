"""What the process imports that the crash harness forks its children from. It uses nothing of it, and so may fork."""

from __future__ import annotations

import warnings

import headgate.testing.graph_crash  # noqa: F401 - imported for the children

# Lance warns at every fork. It has no thread yet in this process, which never calls it.
warnings.filterwarnings("ignore", message="lance is not fork-safe")
