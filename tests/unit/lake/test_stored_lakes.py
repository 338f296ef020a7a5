"""Lakes written by every format we have had still open, read and take commits."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from headgate.errors import AlreadyExists
from headgate.lake import Changes, EmbeddedLake
from headgate.lake.embedded.records import MIGRATIONS
from headgate.publication import Ref

DATA = Path(__file__).parents[2] / "data"
STORED = sorted(DATA.glob("lake-format-*.tar.xz"))
FIRST = Ref("4316fe7f826d299e928b4eefc290f8d03d7a381a988b1b733eb813c1b670a65b")
HEAD = Ref("eb7fc9e4014448a3913c7f8c079a22f6b3db94b2077b6225346dedb935f3fcf0")


def test_there_is_one_of_every_format() -> None:
    assert len(STORED) == len(MIGRATIONS)


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
def test_a_stored_lake_opens(stored: Path, tmp_path: Path) -> None:
    with tarfile.open(stored) as archive:
        archive.extractall(tmp_path, filter="data")
    with EmbeddedLake(tmp_path / "lake") as lake:
        assert lake.verify().whole
        assert lake.head("songs", "main").ref == HEAD
        assert len(lake.head("songs", "main").parents) == 2
        assert lake.commit_at("songs", FIRST).metadata == {"who": "Zoë"}
        assert [c.path for c in lake.diff("songs", FIRST, HEAD)] == ["a", "many/007", "side"]
        with lake.open("songs", HEAD, "side") as file:
            assert file.read() == b"on the side"
        with pytest.raises(AlreadyExists):
            lake.create_branch("songs", "headgate-staging-x", at=HEAD)
        ref = lake.commit("songs", "main", Changes(puts={"many/300": b"new"}), message="More")
        assert len(list(lake.objects("songs", ref, prefix="many"))) == 300
        # The same set of objects has the same tree, in every format: nothing is stored twice.
        assert lake.gc().commits == 0
        assert lake.verify().whole
