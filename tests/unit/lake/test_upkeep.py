"""Verify and gc: damage is found and located; only what nothing needs is removed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.unit.lake.disks import HookedDisk

from headgate.errors import NotFound
from headgate.lake import Changes, EmbeddedLake, LocalFile
from headgate.publication import Ref


def put(lake: EmbeddedLake, branch: str = "main", **puts: bytes) -> Ref:
    return lake.commit("songs", branch, Changes(puts=puts), message="put")


def blob_of(lake: EmbeddedLake, ref: Ref, path: str) -> Path:
    (item,) = lake.objects("songs", ref, prefix=path)
    return Path(lake.blobs.path(item.checksum))


class TestVerify:
    def test_a_whole_lake(self, lake: EmbeddedLake) -> None:
        put(lake, a=b"1", b=b"22", c=b"1")
        report = lake.verify()
        assert report.whole
        assert (report.commits, report.objects, report.bytes) == (2, 2, 3)

    def test_a_missing_blob_hurts_the_commits_that_have_it(self, lake: EmbeddedLake) -> None:
        first = put(lake, a=b"1", b=b"2")
        second = put(lake, a=b"changed")
        third = put(lake, b=b"changed too")
        lake.create_branch("songs", "old", at=second)
        blob_of(lake, first, "b").unlink()
        report = lake.verify()
        assert {(d.ref, d.path, d.what, d.branches) for d in report.damage} == {
            (first, "b", "missing", ()),
            (second, "b", "missing", ("old",)),
        }
        assert third not in {d.ref for d in report.damage}

    @pytest.mark.parametrize("bytes_now", [b"x", b"", b"longer than it was"])
    def test_a_damaged_blob(self, lake: EmbeddedLake, bytes_now: bytes) -> None:
        ref = put(lake, a=b"1")
        blob = blob_of(lake, ref, "a")
        blob.chmod(0o644)
        blob.write_bytes(bytes_now)
        (damage,) = lake.verify().damage
        assert (damage.repository, damage.ref, damage.path, damage.what, damage.branches) == (
            "songs",
            ref,
            "a",
            "damaged",
            ("main",),
        )

    @pytest.mark.parametrize(
        ("sql", "what"),
        [
            ("DELETE FROM nodes WHERE hash = ?", "missing"),
            ("UPDATE nodes SET data = '[0,[]]' WHERE hash = ?", "damaged"),
        ],
    )
    def test_a_hurt_tree(self, lake: EmbeddedLake, sql: str, what: str) -> None:
        ref = put(lake, a=b"1")
        with lake.database.write() as connection:
            (root,) = connection.execute("SELECT root FROM commits WHERE ref = ?", (ref,)).fetchone()
            connection.execute(sql, (bytes.fromhex(root),))
        (damage,) = lake.verify().damage
        assert (damage.ref, damage.path, damage.checksum, damage.what) == (ref, "", root, what)

    @pytest.mark.parametrize("data", [b"1", bytes(3_000_000)])
    @pytest.mark.parametrize("missing", [True, False])
    def test_putting_the_bytes_again_heals(
        self, lake: EmbeddedLake, tmp_path: Path, data: bytes, missing: bool
    ) -> None:
        (tmp_path / "file").write_bytes(data)
        source = LocalFile(tmp_path / "file")
        ref = lake.commit("songs", "main", Changes(puts={"a": source}), message="m")
        blob = blob_of(lake, ref, "a")
        if missing:
            blob.unlink()
        else:
            blob.chmod(0o644)
            blob.write_bytes(b"x" * len(data))
        assert not lake.verify().whole
        lake.commit("songs", "main", Changes(puts={"other": source}), message="m")
        assert lake.verify().whole


class TestGc:
    def test_what_a_branch_reaches_stays(self, lake: EmbeddedLake) -> None:
        first = put(lake, a=b"1")
        second = put(lake, a=b"2")
        done = lake.gc()
        assert (done.commits, done.blobs, done.nodes) == (0, 0, 0)
        assert lake.verify().whole
        assert [c.ref for c in lake.log("songs", second)][:2] == [second, first]

    def test_what_no_branch_reaches_goes(self, lake: EmbeddedLake) -> None:
        base = put(lake, a=b"1")
        lake.create_branch("songs", "b", at=base)
        lost = put(lake, "b", b=b"22", shared=b"1")
        lake.delete_branch("songs", "b")
        dry = lake.gc(dry_run=True)
        assert lake.commit_at("songs", lost).ref == lost
        done = lake.gc()
        assert dry == done
        assert (done.commits, done.blobs, done.bytes) == (1, 1, 2)
        with pytest.raises(NotFound):
            lake.commit_at("songs", lost)
        assert lake.verify().whole
        assert lake.gc().commits == 0

    def test_young_commits_may_be_kept(self, lake: EmbeddedLake) -> None:
        base = put(lake, a=b"1")
        lake.create_branch("songs", "b", at=base)
        lost = put(lake, "b", b=b"2")
        lake.delete_branch("songs", "b")
        assert lake.gc(keep_seconds=3600).commits == 0
        assert lake.commit_at("songs", lost).ref == lost

    def test_what_a_living_reader_reads_stays(self, lake: EmbeddedLake) -> None:
        """Invariant 7."""
        base = put(lake, a=b"1")
        lake.create_branch("songs", "b", at=base)
        lost = put(lake, "b", b=b"2")
        with lake.reading("songs", lost):
            lake.delete_branch("songs", "b")
            assert lake.gc().commits == 0
            with lake.open("songs", lost, "b") as file:
                assert file.read() == b"2"
        assert lake.gc().commits == 1

    def test_what_a_living_writer_has_put_stays(self, tmp_path: Path, lake: EmbeddedLake) -> None:
        """Invariant 7: gc between the blobs and the commit that refers to them takes nothing."""
        seen = []

        def collect(call: str, path: str) -> None:
            if call == "sync_folder":
                seen.append(lake.gc())

        with EmbeddedLake(tmp_path / "lake", disk=HookedDisk(before=collect)) as writer:
            put(writer, a=b"new", b=b"newer")
        assert seen
        assert all(done.blobs == 0 and done.incoming == 0 for done in seen)
        assert max(done.kept_for_the_living for done in seen) == 2
        assert lake.verify().whole

    def test_a_commit_never_points_at_a_blob_that_was_taken(self, tmp_path: Path, lake: EmbeddedLake) -> None:
        """Even if something took it without looking at leases: the commit looks again, under the lock."""
        taken: list[str] = []

        def take(call: str, path: str) -> None:
            if call == "sync_folder" and not taken:
                for blob in list(lake.blobs.all()):
                    taken.append(blob.checksum)
                    lake.blobs.remove(blob.checksum)

        with EmbeddedLake(tmp_path / "lake", disk=HookedDisk(after=take)) as writer:
            ref = put(writer, a=b"new")
        assert taken
        assert lake.verify().whole
        assert [item.path for item in lake.objects("songs", ref)] == ["a"]

    def test_writers_and_gc_at_once(self, lake: EmbeddedLake) -> None:
        over = threading.Event()
        done = []

        def collect() -> None:
            while not over.wait(0.005):
                done.append(lake.gc())

        collector = threading.Thread(target=collect)
        collector.start()
        try:
            for number in range(40):
                name = f"headgate-staging-{number}"
                lake.create_branch("songs", name, at=lake.head("songs", "main").ref)
                put(lake, name, **{f"x{number % 3}": str(number % 5).encode(), "n": str(number).encode()})
                if number % 2:
                    lake.merge("songs", name, "main", expected_head=lake.head("songs", "main").ref, message="publish")
                lake.delete_branch("songs", name)
        finally:
            over.set()
            collector.join()
        assert sum(one.commits for one in done) > 0
        assert lake.verify().whole


def test_a_deleted_staging_name_never_comes_back(lake: EmbeddedLake) -> None:
    """Invariant 4: a revoked publish cannot be brought back by making its branch again."""
    from headgate.errors import AlreadyExists

    head = lake.head("songs", "main").ref
    lake.create_branch("songs", "headgate-staging-x", at=head)
    lake.revoke("songs", "headgate-staging-x", "headgate-staging-never-made", target="main")
    for name in ("headgate-staging-x", "headgate-staging-never-made"):
        with pytest.raises(AlreadyExists, match="never used again"):
            lake.create_branch("songs", name, at=head)
    lake.create_branch("songs", "mine", at=head)
    lake.delete_branch("songs", "mine")
    lake.create_branch("songs", "mine", at=head)
