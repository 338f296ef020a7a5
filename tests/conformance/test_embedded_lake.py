"""The embedded lake does what every lake must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.lake import EmbeddedLake
from headgate.testing.conformance.lake import LakeConformance


class TestEmbeddedLake(LakeConformance):
    @pytest.fixture
    def lake(self, tmp_path: Path) -> Iterator[EmbeddedLake]:
        with EmbeddedLake(tmp_path / "lake", create=True) as lake:
            yield lake
