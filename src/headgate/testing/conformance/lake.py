"""What every lake must do.

    from headgate.testing.conformance.lake import LakeConformance

    class TestMyLake(LakeConformance):
        @pytest.fixture
        def lake(self, tmp_path):
            with MyLake(tmp_path) as lake:
                yield lake

Tests make repositories with fresh names, so that `lake` may be a long-lived server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from headgate.errors import (
    AlreadyExists,
    ExpectedHeadMismatch,
    HeadgateError,
    InvalidInput,
    MergeConflict,
    NotFound,
    StoreDamaged,
)
from headgate.ids import ULIDS
from headgate.lake.interface import (
    MAIN,
    STAGING_PREFIX,
    Change,
    ChangeKind,
    Changes,
    FileStat,
    Lake,
    LakeObject,
    LocalFile,
    Source,
    Wanted,
)
from headgate.publication import Ref, Strength


def contents(lake: Lake, repository: str, ref: Ref, *, prefix: str = "") -> dict[str, bytes]:
    """Every object at a ref, read through the lake."""
    found = {}
    for item in lake.objects(repository, ref, prefix=prefix):
        with lake.open(repository, ref, item.path) as file:
            found[item.path] = file.read()
        assert len(found[item.path]) == item.size
    return found


def put(lake: Lake, repository: str, branch: str, *deletes: str, **puts: bytes) -> Ref:
    """Commit small objects; `__` in a keyword stands for a slash."""
    changes = Changes(puts={name.replace("__", "/"): data for name, data in puts.items()}, deletes=deletes)
    return lake.commit(repository, branch, changes, message="put")


def staging_name() -> str:
    return f"{STAGING_PREFIX}staging-{ULIDS.new().lower()}"


class LakeConformance:
    """Subclass it and supply the fixture `lake`."""

    @pytest.fixture
    def lake(self) -> Lake:
        raise NotImplementedError("supply a fixture `lake`")

    @pytest.fixture
    def repository(self, lake: Lake) -> str:
        name = f"conformance-{ULIDS.new().lower()}"
        lake.create_repository(name)
        return name

    @pytest.fixture
    def first(self, lake: Lake, repository: str) -> Ref:
        """A commit on main with two objects."""
        return put(lake, repository, MAIN, a=b"a1", songs__one=b"one")

    # repositories and branches
    def test_new_repository_has_an_empty_main(self, lake: Lake, repository: str) -> None:
        head = lake.head(repository, MAIN)
        assert head.branch == MAIN
        assert head.parents == ()
        assert list(lake.objects(repository, head.ref)) == []
        assert repository in lake.repositories()

    def test_repository_name_is_taken_once(self, lake: Lake, repository: str) -> None:
        with pytest.raises(AlreadyExists):
            lake.create_repository(repository)

    @pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "é", "a\nb"])
    def test_odd_names_are_refused(self, lake: Lake, repository: str, first: Ref, name: str) -> None:
        with pytest.raises(InvalidInput):
            lake.create_branch(repository, name, at=first)

    def test_missing_things_are_not_found(self, lake: Lake, repository: str, first: Ref) -> None:
        nowhere = Ref("0" * 64)
        tries: list[Callable[[], object]] = [
            lambda: lake.head(f"{repository}-no", MAIN),
            lambda: lake.head(repository, "no-such-branch"),
            lambda: lake.create_branch(repository, "b", at=nowhere),
            lambda: lake.commit_at(repository, nowhere),
            lambda: list(lake.objects(repository, nowhere)),
            lambda: list(lake.diff(repository, nowhere, first)),
            lambda: list(lake.log(repository, nowhere)),
            lambda: lake.open(repository, first, "no/such").__enter__(),
            lambda: lake.resolve(repository, "no-such-name"),
            lambda: put(lake, repository, "no-such-branch", a=b"x"),
        ]
        for attempt in tries:
            with pytest.raises(NotFound):
                attempt()

    def test_an_object_can_be_read_in_pieces_and_past_its_end(self, lake: Lake, repository: str, first: Ref) -> None:
        with lake.open(repository, first, "a") as file:
            assert [file.read(1), file.read(1), file.read(1), file.read()] == [b"a", b"1", b"", b""]

    def test_branches_are_listed_by_name(self, lake: Lake, repository: str, first: Ref) -> None:
        for name in ("beta", "alpha", "alpha-two"):
            lake.create_branch(repository, name, at=first)
        assert [b.name for b in lake.branches(repository)] == ["alpha", "alpha-two", "beta", MAIN]
        assert [(b.name, b.ref) for b in lake.branches(repository, prefix="al")] == [
            ("alpha", first),
            ("alpha-two", first),
        ]

    def test_branch_name_is_taken_once(self, lake: Lake, repository: str, first: Ref) -> None:
        lake.create_branch(repository, "b", at=first)
        with pytest.raises(AlreadyExists):
            lake.create_branch(repository, "b", at=first)

    def test_deleting_a_branch_says_whether_it_was_there(self, lake: Lake, repository: str, first: Ref) -> None:
        lake.create_branch(repository, "b", at=first)
        assert lake.delete_branch(repository, "b") is True
        assert lake.delete_branch(repository, "b") is False
        with pytest.raises(NotFound):
            lake.head(repository, "b")
        assert lake.commit_at(repository, first).ref == first

    def test_resolve_takes_branches_refs_and_their_beginnings(self, lake: Lake, repository: str, first: Ref) -> None:
        assert lake.resolve(repository, MAIN) == first
        assert lake.resolve(repository, first) == first
        assert lake.resolve(repository, first[:12]) == first

    # commits
    def test_commit_keeps_what_it_was_told(self, lake: Lake, repository: str, first: Ref) -> None:
        metadata = {"headgate.publish_id": "x1", "who": "Zoë"}
        ref = lake.commit(repository, MAIN, Changes(puts={"b": b"b1"}), message="Add b", metadata=metadata)
        commit = lake.commit_at(repository, ref)
        assert (commit.ref, commit.parents, commit.message) == (ref, (first,), "Add b")
        assert {key: commit.metadata[key] for key in metadata} == metadata
        assert commit.created_at.tzinfo is not None
        head = lake.head(repository, MAIN)
        assert (head.ref, head.only_parent, head.metadata["who"]) == (ref, first, "Zoë")

    def test_commits_are_immutable_snapshots(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 1: what is read at a ref never changes."""
        second = put(lake, repository, MAIN, "a", songs__one=b"changed", songs__two=b"two")
        assert contents(lake, repository, first) == {"a": b"a1", "songs/one": b"one"}
        assert contents(lake, repository, second) == {"songs/one": b"changed", "songs/two": b"two"}

    def test_branches_do_not_see_each_other(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 1: nothing staged is visible on the target."""
        lake.create_branch(repository, "b", at=first)
        put(lake, repository, "b", a=b"a2")
        assert lake.head(repository, MAIN).ref == first
        assert contents(lake, repository, first)["a"] == b"a1"

    def test_commit_of_nothing_is_refused(self, lake: Lake, repository: str, first: Ref) -> None:
        for changes in (Changes(), Changes(deletes=["no-such"]), Changes(puts={"a": b"a1"})):
            with pytest.raises(InvalidInput):
                lake.commit(repository, MAIN, changes, message="nothing")
        assert lake.head(repository, MAIN).ref == first

    def test_files_and_bytes_may_be_staged(self, lake: Lake, repository: str, tmp_path: Path) -> None:
        big = bytes(range(256)) * 12_000
        (tmp_path / "big").write_bytes(big)
        (tmp_path / "empty").write_bytes(b"")
        puts: dict[str, Source] = {
            "x/big": LocalFile(tmp_path / "big"),
            "x/empty": LocalFile(tmp_path / "empty"),
            "x/raw": b"raw",
        }
        done: list[tuple[int, int]] = []
        ref = lake.commit(
            repository, MAIN, Changes(puts=puts), message="put", progress=lambda files, size: done.append((files, size))
        )
        assert contents(lake, repository, ref) == {"x/big": big, "x/empty": b"", "x/raw": b"raw"}
        assert (sum(files for files, _ in done), sum(size for _, size in done)) == (3, len(big) + 3)

    def test_a_file_that_is_not_the_one_seen_is_refused(self, lake: Lake, repository: str, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"seen")
        seen = FileStat.of(file.stat())
        file.write_bytes(b"written later")
        before = lake.head(repository, MAIN).ref
        with pytest.raises(HeadgateError, match=r"songs/one.*changed while"):
            lake.commit(repository, MAIN, Changes(puts={"songs/one": LocalFile(file, seen)}), message="put")
        assert lake.head(repository, MAIN).ref == before

    @pytest.mark.parametrize("path", ["/a", "a//b", "../a", "a/./b", "a\nb", "\udcff", "x" * 1025])
    def test_odd_keys_are_refused(self, lake: Lake, repository: str, path: str) -> None:
        """Invariant 9."""
        with pytest.raises(InvalidInput):
            lake.commit(repository, MAIN, Changes(puts={path: b"x"}), message="odd")

    def test_unusual_keys_are_kept(self, lake: Lake, repository: str) -> None:
        puts = {name: name.encode() for name in ("Ünïcode/ß", "a b", "a%20b", "a+b&c=d", "*", "?x", "semi;colon", "~")}
        ref = lake.commit(repository, MAIN, Changes(puts=puts), message="unusual")
        assert contents(lake, repository, ref) == puts

    # reading
    def test_objects_come_in_order_with_checksums_that_tell_bytes_apart(self, lake: Lake, repository: str) -> None:
        ref = put(lake, repository, MAIN, b=b"same", a__z=b"same", a=b"diff", aa=b"same")
        items = list(lake.objects(repository, ref))
        assert [item.path for item in items] == ["a", "a/z", "aa", "b"]
        by_path = {item.path: item for item in items}
        assert by_path["b"].checksum == by_path["a/z"].checksum == by_path["aa"].checksum
        assert by_path["a"].checksum != by_path["b"].checksum
        assert all(item.size == 4 for item in items)

    def test_a_prefix_matches_whole_segments(self, lake: Lake, repository: str) -> None:
        ref = put(lake, repository, MAIN, audio__render__x=b"1", audio__render2__y=b"2", audio__z=b"3", b=b"4")
        assert list(contents(lake, repository, ref, prefix="audio/render")) == ["audio/render/x"]
        assert list(contents(lake, repository, ref, prefix="audio/render/")) == ["audio/render/x"]
        assert list(contents(lake, repository, ref, prefix="audio")) == [
            "audio/render/x",
            "audio/render2/y",
            "audio/z",
        ]
        assert list(contents(lake, repository, ref, prefix="nowhere")) == []

    def test_many_objects_are_listed_whole(self, lake: Lake, repository: str) -> None:
        puts = {f"many/{number % 7}/{number:05d}": str(number).encode() for number in range(1_500)}
        ref = lake.commit(repository, MAIN, Changes(puts=puts), message="many")
        assert [item.path for item in lake.objects(repository, ref)] == sorted(puts)
        ref = lake.commit(repository, MAIN, Changes(deletes=sorted(puts)[10:]), message="few")
        assert [item.path for item in lake.objects(repository, ref)] == sorted(puts)[:10]

    def test_fetch_writes_a_new_file_that_is_its_own(
        self, lake: Lake, repository: str, first: Ref, tmp_path: Path
    ) -> None:
        """Nothing a body does to its file reaches the store."""
        (item,) = lake.objects(repository, first, prefix="a")
        target = tmp_path / "a"
        with lake.reading(repository, first):
            [(stat, digest, _)] = lake.fetch(repository, first, [Wanted(item, str(target))])
        assert target.read_bytes() == b"a1"
        assert stat == FileStat.of(target.stat())
        assert digest == blake3(b"a1").hexdigest()
        target.chmod(0o644)
        with target.open("r+b") as file:
            file.write(b"XX")
        assert contents(lake, repository, first)["a"] == b"a1"

    def test_fetch_writes_many_in_the_order_they_are_wanted(self, lake: Lake, repository: str, tmp_path: Path) -> None:
        puts = {f"many/{number}": f"bytes {number}".encode() for number in range(20)}
        ref = lake.commit(repository, MAIN, Changes(puts=puts), message="many")
        items = list(lake.objects(repository, ref, prefix="many"))[::-1]
        for again in ("first", "again"):
            wanted = [Wanted(item, str(tmp_path / f"{again}-{number}")) for number, item in enumerate(items)]
            for (item, into), fetched in zip(wanted, lake.fetch(repository, ref, wanted), strict=True):
                assert Path(into).read_bytes() == puts[item.path]
                assert fetched[:2] == (FileStat.of(Path(into).stat()), blake3(puts[item.path]).hexdigest())

    def test_fetch_does_not_overwrite(self, lake: Lake, repository: str, first: Ref, tmp_path: Path) -> None:
        (item,) = lake.objects(repository, first, prefix="a")
        (tmp_path / "a").write_bytes(b"mine")
        with pytest.raises(FileExistsError):
            list(lake.fetch(repository, first, [Wanted(item, str(tmp_path / "a"))]))
        assert (tmp_path / "a").read_bytes() == b"mine"

    def test_fetch_verifies(self, lake: Lake, repository: str, first: Ref, tmp_path: Path) -> None:
        (item,) = lake.objects(repository, first, prefix="a")
        wrong = LakeObject(item.path, item.size + 1, item.checksum)
        with pytest.raises(StoreDamaged):
            list(lake.fetch(repository, first, [Wanted(wrong, str(tmp_path / "a"))]))
        assert not (tmp_path / "a").exists()

    def test_log_is_newest_first(self, lake: Lake, repository: str, first: Ref) -> None:
        second = put(lake, repository, MAIN, a=b"a2")
        third = put(lake, repository, MAIN, a=b"a3")
        refs = [commit.ref for commit in lake.log(repository, third)]
        assert refs[:3] == [third, second, first]
        assert len(refs) == 4

    def test_diff_names_what_changed(self, lake: Lake, repository: str, first: Ref) -> None:
        second = put(lake, repository, MAIN, "a", songs__one=b"other", songs__two=b"two!")
        assert list(lake.diff(repository, first, second)) == [
            Change(path="a", kind=ChangeKind.REMOVED),
            Change(path="songs/one", kind=ChangeKind.CHANGED, size=5),
            Change(path="songs/two", kind=ChangeKind.ADDED, size=4),
        ]
        assert [c.path for c in lake.diff(repository, first, second, prefix="songs")] == ["songs/one", "songs/two"]
        assert [(c.path, c.kind) for c in lake.diff(repository, second, first)] == [
            ("a", ChangeKind.ADDED),
            ("songs/one", ChangeKind.CHANGED),
            ("songs/two", ChangeKind.REMOVED),
        ]
        assert list(lake.diff(repository, second, second)) == []

    def test_diff_is_between_the_two_refs_and_not_from_their_base(
        self, lake: Lake, repository: str, first: Ref
    ) -> None:
        lake.create_branch(repository, "b", at=first)
        ours = put(lake, repository, MAIN, mine=b"1")
        theirs = put(lake, repository, "b", other=b"2")
        assert [(c.path, c.kind) for c in lake.diff(repository, ours, theirs)] == [
            ("mine", ChangeKind.REMOVED),
            ("other", ChangeKind.ADDED),
        ]

    # publishing
    def staged(self, lake: Lake, repository: str, at: Ref, **puts: bytes) -> str:
        branch = staging_name()
        lake.create_branch(repository, branch, at=at)
        put(lake, repository, branch, **puts)
        return branch

    def test_publish_is_one_commit_on_the_expected_head(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 3: input ref -> published is the visible history."""
        branch = self.staged(lake, repository, first, a=b"a2")
        put(lake, repository, branch, b=b"b1")
        ref = lake.merge(
            repository, branch, MAIN, expected_head=first, message="publish", metadata={"headgate.publish_id": "p1"}
        )
        head = lake.head(repository, MAIN)
        assert (head.ref, head.parents, head.metadata["headgate.publish_id"]) == (ref, (first,), "p1")
        assert contents(lake, repository, ref) == {"a": b"a2", "b": b"b1", "songs/one": b"one"}

    def test_merge_is_refused_when_the_head_moved(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 2: no publish without the publish fence."""
        branch = self.staged(lake, repository, first, a=b"a2")
        moved = put(lake, repository, MAIN, z=b"z")
        with pytest.raises(ExpectedHeadMismatch) as refused:
            lake.merge(repository, branch, MAIN, expected_head=first, message="publish")
        assert refused.value.expected == first
        assert lake.head(repository, MAIN).ref == moved

    def test_merge_with_nothing_to_merge_is_refused(self, lake: Lake, repository: str, first: Ref) -> None:
        lake.create_branch(repository, "same", at=first)
        with pytest.raises(InvalidInput):
            lake.merge(repository, "same", MAIN, expected_head=first, message="nothing")
        assert lake.head(repository, MAIN).ref == first

    def test_deleting_the_source_revokes_a_merge(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 4: after a revoke no late request takes effect."""
        branch = self.staged(lake, repository, first, a=b"a2")
        lake.revoke(repository, branch, target=MAIN)
        with pytest.raises(NotFound):
            lake.merge(repository, branch, MAIN, expected_head=first, message="late")
        with pytest.raises(NotFound):
            lake.move_head(repository, MAIN, to_branch=branch, expected_head=first)
        assert lake.head(repository, MAIN).ref == first

    def test_revoking_is_repeatable_and_needs_no_branch(self, lake: Lake, repository: str, first: Ref) -> None:
        branch = staging_name()
        lake.revoke(repository, branch, target=MAIN)
        lake.revoke(repository, branch, target=MAIN)
        assert lake.head(repository, MAIN).ref == first

    def test_replacement_moves_the_head_to_the_staged_commit(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 3: an abandoned commit is never the parent of a new one."""
        abandoned = self.staged(lake, repository, first, a=b"abandoned")
        head = lake.merge(repository, abandoned, MAIN, expected_head=first, message="abandoned")
        branch = self.staged(lake, repository, first, a=b"a2")
        staged = lake.head(repository, branch).ref
        assert lake.move_head(repository, MAIN, to_branch=branch, expected_head=head) == staged
        assert [commit.ref for commit in lake.log(repository, lake.head(repository, MAIN).ref)][:2] == [staged, first]

    def test_move_back_to_the_input_ref(self, lake: Lake, repository: str, first: Ref) -> None:
        head = put(lake, repository, MAIN, a=b"abandoned")
        branch = staging_name()
        lake.create_branch(repository, branch, at=first)
        assert lake.move_head(repository, MAIN, to_branch=branch, expected_head=head) == first
        assert lake.head(repository, MAIN).ref == first

    def test_move_is_refused_when_the_head_moved(self, lake: Lake, repository: str, first: Ref) -> None:
        branch = self.staged(lake, repository, first, a=b"a2")
        moved = put(lake, repository, MAIN, z=b"z")
        with pytest.raises(ExpectedHeadMismatch):
            lake.move_head(repository, MAIN, to_branch=branch, expected_head=first)
        assert lake.head(repository, MAIN).ref == moved

    # merging by people
    def test_merge_takes_both_sides(self, lake: Lake, repository: str, first: Ref) -> None:
        lake.create_branch(repository, "b", at=first)
        put(lake, repository, "b", "songs/one", theirs=b"t")
        ours = put(lake, repository, MAIN, a=b"a2")
        ref = lake.merge(repository, "b", MAIN, expected_head=ours, message="merge")
        assert contents(lake, repository, ref) == {"a": b"a2", "theirs": b"t"}

    def test_merge_names_every_conflict_and_changes_nothing(self, lake: Lake, repository: str, first: Ref) -> None:
        lake.create_branch(repository, "b", at=first)
        put(lake, repository, "b", "songs/one", a=b"theirs", new=b"theirs", free=b"x")
        ours = put(lake, repository, MAIN, a=b"ours", songs__one=b"ours", new=b"ours")
        with pytest.raises(MergeConflict) as conflict:
            lake.merge(repository, "b", MAIN, expected_head=ours, message="merge")
        assert set(conflict.value.paths) == {"a", "new", "songs/one"}
        assert lake.head(repository, MAIN).ref == ours

    def test_the_same_change_on_both_sides_is_no_conflict(self, lake: Lake, repository: str, first: Ref) -> None:
        lake.create_branch(repository, "b", at=first)
        put(lake, repository, "b", a=b"same", t=b"t")
        ours = put(lake, repository, MAIN, a=b"same")
        ref = lake.merge(repository, "b", MAIN, expected_head=ours, message="merge")
        assert contents(lake, repository, ref) == {"a": b"same", "songs/one": b"one", "t": b"t"}

    def test_a_merge_with_history_is_remembered(self, lake: Lake, repository: str, first: Ref) -> None:
        """A branch merged once and changed again merges again without false conflicts."""
        lake.create_branch(repository, "b", at=first)
        theirs = put(lake, repository, "b", a=b"a2")
        ours = put(lake, repository, MAIN, z=b"z")
        merged = lake.merge(repository, "b", MAIN, expected_head=ours, message="one", squash=False)
        assert lake.commit_at(repository, merged).parents == (ours, theirs)
        put(lake, repository, "b", a=b"a3")
        again = lake.merge(repository, "b", MAIN, expected_head=merged, message="two", squash=False)
        assert contents(lake, repository, again)["a"] == b"a3"
        every = [commit.ref for commit in lake.log(repository, again, first_parent=False)]
        assert len(every) == len(set(every))
        assert theirs in every
        assert every.index(merged) < every.index(ours) < every.index(first)
        assert theirs not in [commit.ref for commit in lake.log(repository, again)]

    # many at once
    def test_one_of_many_publishers_wins(self, lake: Lake, repository: str, first: Ref) -> None:
        """Invariant 2: from one expected head exactly one publish takes effect, where the fence is hard."""
        if lake.strength(repository) is not Strength.HARD:
            pytest.skip("a soft fence does not promise this")
        publishers = 6
        branches = [self.staged(lake, repository, first, **{f"p{n}": b"x"}) for n in range(publishers)]
        ready = threading.Barrier(publishers)
        won: list[Ref] = []
        lost: list[HeadgateError] = []

        def publish(branch: str) -> None:
            ready.wait()
            try:
                won.append(lake.merge(repository, branch, MAIN, expected_head=first, message=branch))
            except ExpectedHeadMismatch as refused:
                lost.append(refused)

        threads = [threading.Thread(target=publish, args=(branch,)) for branch in branches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert len(lost) == publishers - 1
        assert lake.head(repository, MAIN).ref == won[0]

    def test_commits_on_one_branch_at_once_all_stay(self, lake: Lake, repository: str, first: Ref) -> None:
        writers = 4
        ready = threading.Barrier(writers)
        refs: list[Ref] = []

        def write(number: int) -> None:
            ready.wait()
            refs.append(put(lake, repository, MAIN, **{f"w{number}": b"x"}))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        head = lake.head(repository, MAIN).ref
        assert {f"w{number}" for number in range(writers)} <= set(contents(lake, repository, head))
        assert set(refs) <= {commit.ref for commit in lake.log(repository, head)}
