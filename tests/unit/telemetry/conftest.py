from __future__ import annotations

from tests.unit.attempts.conftest import kit

__all__ = ["kit"]
