from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.lake import EmbeddedLake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[EmbeddedLake]:
    """An embedded lake with the repository `songs`."""
    with EmbeddedLake(tmp_path / "lake", create=True) as lake:
        lake.create_repository("songs")
        yield lake


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder to download into."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder
