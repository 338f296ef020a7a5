from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.attempts.kit import Kit

from headgate import failpoints


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit.make(tmp_path)
    yield kit
    failpoints.arm(None)
    kit.close()
