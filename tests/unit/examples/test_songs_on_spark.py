"""The Spark variant of the songs' features gives the numbers of the plain one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.songs import tasks as songs

from headgate.tasks import TaskContext

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Folder:
    """A workspace for Spark on a local disk: it reads below one folder and writes below another."""

    def __init__(self, read: Path, write: Path) -> None:
        self._read, self._write = read, write

    def read_path(self, path: str) -> str:
        return str(self._read / path)

    def write_path(self, path: str) -> str:
        return str(self._write / path)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def test_both_variants_agree_and_either_can_be_loaded(spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    songs.ingest(source, songs.IngestParams(), TaskContext())
    plain = songs.features(source, songs.FeatureParams())
    on_spark = songs.features_on_spark(Folder(source, target), songs.FeatureParams(), spark)
    assert on_spark == plain
    rows = sorted(songs.read_features(target), key=lambda song: song.id)
    assert rows == list(songs.read_features(source))
