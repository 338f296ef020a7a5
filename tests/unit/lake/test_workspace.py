"""From a lake to a workspace and back: what is written, what is found changed, what is refused."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.errors import InvalidInput, NotFound, StoreDamaged
from headgate.lake import Changes, EmbeddedLake, LakeObject, detect_changes, download
from headgate.lake.paths import key_problem
from headgate.lake.workspace import Baseline
from headgate.publication import Ref


def commit(lake: EmbeddedLake, **puts: bytes) -> Ref:
    return lake.commit(
        "songs", "main", Changes(puts={name.replace("__", "/"): data for name, data in puts.items()}), message="put"
    )


def files_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def paths(changes: Changes) -> tuple[set[str], set[str]]:
    return set(changes.puts), set(changes.deletes)


def test_download_writes_what_is_under_the_prefix(lake: EmbeddedLake, root: Path) -> None:
    ref = commit(lake, songs__one=b"1", songs__deep__two=b"22", songs2__x=b"x", other=b"o")
    told: list[tuple[int, int]] = []
    baseline = download(lake, "songs", ref, into=root, prefix="songs/", progress=lambda f, b: told.append((f, b)))
    assert files_of(root) == {"one": b"1", "deep/two": b"22"}
    assert set(baseline.files) == {"one", "deep/two"}
    assert baseline.key("one") == "songs/one"
    assert (sum(f for f, _ in told), sum(b for _, b in told)) == (2, 3)


def test_an_empty_prefix_is_everything_and_an_absent_one_nothing(lake: EmbeddedLake, root: Path) -> None:
    ref = commit(lake, a=b"1", b__c=b"2")
    assert download(lake, "songs", ref, into=root, prefix="nowhere").files == {}
    assert set(download(lake, "songs", ref, into=root).files) == {"a", "b/c"}


def test_a_missing_ref_is_not_found(lake: EmbeddedLake, root: Path) -> None:
    with pytest.raises(NotFound):
        download(lake, "songs", Ref("0" * 64), into=root)


def test_an_untouched_workspace_has_no_changes(lake: EmbeddedLake, root: Path) -> None:
    ref = commit(lake, **{f"f{n}": str(n).encode() for n in range(200)})
    baseline = download(lake, "songs", ref, into=root)
    assert not detect_changes(root, baseline)


def test_every_kind_of_change_is_found(lake: EmbeddedLake, root: Path) -> None:
    ref = commit(lake, s__same=b"same", s__grown=b"x", s__gone=b"gone", s__swapped=b"abc", s__became=b"file")
    baseline = download(lake, "songs", ref, into=root, prefix="s")
    (root / "grown").write_bytes(b"xx")
    (root / "gone").unlink()
    (root / "swapped").write_bytes(b"cba")
    (root / "became").unlink()
    (root / "became").mkdir()
    (root / "became" / "folder").write_bytes(b"1")
    (root / "new").write_bytes(b"")
    found = detect_changes(root, baseline)
    assert paths(found.changes) == (
        {"s/grown", "s/swapped", "s/became/folder", "s/new"},
        {"s/gone", "s/became"},
    )
    assert [(c.path, c.kind.value) for c in found.differences] == [
        ("s/became", "removed"),
        ("s/became/folder", "added"),
        ("s/gone", "removed"),
        ("s/grown", "changed"),
        ("s/new", "added"),
        ("s/swapped", "changed"),
    ]
    lake.create_branch("songs", "b", at=ref)
    staged = lake.commit("songs", "b", found.changes, message="stage")
    assert [c.path for c in lake.diff("songs", ref, staged)] == [c.path for c in found.differences]


def test_a_file_written_back_as_it_was_is_no_change(lake: EmbeddedLake, root: Path) -> None:
    baseline = download(lake, "songs", commit(lake, a=b"bytes"), into=root)
    (root / "a").unlink()
    (root / "a").write_bytes(b"bytes")
    found = detect_changes(root, baseline)
    assert not found
    assert found.read == 1


def test_only_files_that_may_have_changed_are_read(lake: EmbeddedLake, root: Path) -> None:
    """Invariant 8: hashing grows with what changed."""
    baseline = download(lake, "songs", commit(lake, **{f"f{n}": b"x" for n in range(50)}), into=root)
    later = Baseline(
        ref=baseline.ref,
        prefix="",
        files=baseline.files,
        settled_ns=max(r.stat.ctime_ns for r in baseline.files.values()) + 1,
    )
    (root / "f7").write_bytes(b"y")
    found = detect_changes(root, later)
    assert paths(found.changes) == ({"f7"}, set())
    assert found.read == 1


def test_a_change_in_the_same_tick_is_not_trusted(lake: EmbeddedLake, root: Path) -> None:
    """A stat that a same-tick write would leave as it was proves nothing: such files are read."""
    baseline = download(lake, "songs", commit(lake, a=b"old", b=b"old"), into=root)
    stat = baseline.files["a"].stat
    (root / "a").write_bytes(b"new")
    os.utime(root / "a", ns=(stat.mtime_ns, stat.mtime_ns))
    now = (root / "a").stat()
    hidden = baseline.files["a"]._replace(stat=stat._replace(ctime_ns=now.st_ctime_ns, inode=now.st_ino))
    fooled = Baseline(
        ref=baseline.ref,
        prefix="",
        files={**baseline.files, "a": hidden},
        settled_ns=now.st_ctime_ns,  # the file was written in the tick in which the download ended
    )
    assert paths(detect_changes(root, fooled).changes) == ({"a"}, set())


def test_include_and_exclude_decide_what_is_read_and_written(lake: EmbeddedLake, root: Path) -> None:
    ref = commit(lake, a__wav=b"1", b__txt=b"2", c__wav=b"3")

    def selects(path: str) -> bool:
        return path.endswith("wav")

    baseline = download(lake, "songs", ref, into=root, selects=selects)
    assert set(files_of(root)) == {"a/wav", "c/wav"}
    (root / "a/wav").unlink()
    found = detect_changes(root, baseline, selects=selects)
    assert paths(found.changes) == (set(), {"a/wav"})
    (root / "b").mkdir()
    (root / "b" / "txt").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match=r"b/txt.*include and exclude") as refused:
        detect_changes(root, baseline, selects=selects)
    assert [problem.where for problem in refused.value.problems] == ["b/txt"]


CONTENTS = st.dictionaries(
    st.builds("/".join, st.lists(st.sampled_from(["a", "b", "c.wav", "d.txt"]), min_size=1, max_size=3)),
    st.binary(max_size=3),
    max_size=8,
)


def without_overlaps(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {p: d for p, d in contents.items() if not any(q.startswith(p + "/") for q in contents)}


@given(before=CONTENTS, after=CONTENTS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_left_out_is_never_read_changed_or_deleted(
    lake: EmbeddedLake, tmp_path_factory: pytest.TempPathFactory, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    """Invariant 7: an object outside include and exclude stays as it is, whatever a body does inside them."""

    def selects(path: str) -> bool:
        return path.endswith(".wav")

    before = {**without_overlaps(before), "always": b"here"}
    wanted = {path: data for path, data in without_overlaps(after).items() if selects(path)}
    name = f"r{len(lake.repositories())}"
    lake.create_repository(name)
    ref = lake.commit(name, "main", Changes(puts=before), message="before")
    root = tmp_path_factory.mktemp("workspace")
    baseline = download(lake, name, ref, into=root, selects=selects)
    assert files_of(root) == {path: data for path, data in before.items() if selects(path)}
    for path in baseline.files:
        (root / path).unlink()
    for path, data in wanted.items():
        target = root / path
        if not target.is_dir() and not any(parent.is_file() for parent in target.parents):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    now = files_of(root)
    found = detect_changes(root, baseline, selects=selects)
    expected = {**{path: data for path, data in before.items() if not selects(path)}, **now}
    if found:
        ref = lake.commit(name, "main", found.changes, message="after")
    at_ref = {}
    for item in lake.objects(name, ref):
        with lake.open(name, ref, item.path) as file:
            at_ref[item.path] = file.read()
    assert at_ref == expected


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder every user may look into; those of pytest are its user's alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, who may read everything; any other user stays itself."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class TestRefused:
    """Invariant 9: what has no place in a lake is refused by name, and nothing is staged."""

    @pytest.fixture
    def baseline(self, lake: EmbeddedLake, root: Path) -> Baseline:
        return download(lake, "songs", commit(lake, a=b"1"), into=root)

    def refused(self, root: Path, baseline: Baseline) -> str:
        with pytest.raises(InvalidInput) as refused:
            detect_changes(root, baseline)
        assert len(refused.value.problems) == 1
        return str(refused.value)

    def test_symlink(self, root: Path, baseline: Baseline) -> None:
        (root / "link").symlink_to(root / "a")
        assert "link: it is a symbolic link" in self.refused(root, baseline)

    def test_symlink_to_a_folder(self, root: Path, baseline: Baseline, tmp_path: Path) -> None:
        (root / "link").symlink_to(tmp_path)
        assert "link: it is a symbolic link" in self.refused(root, baseline)

    def test_a_file_replaced_by_a_symlink(self, root: Path, baseline: Baseline) -> None:
        (root / "a").unlink()
        (root / "a").symlink_to("/etc/hostname")
        assert "a: it is a symbolic link" in self.refused(root, baseline)

    def test_fifo(self, root: Path, baseline: Baseline) -> None:
        os.mkfifo(root / "pipe")
        assert "pipe: it is a FIFO" in self.refused(root, baseline)

    def test_socket(self, root: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(root)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("sock")
            assert "sock: it is a socket" in self.refused(root, baseline)

    def test_device(self, root: Path, baseline: Baseline) -> None:
        try:
            os.mknod(root / "null", 0o600 | 0o020000, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("this user may not make devices")
        assert "null: it is a device" in self.refused(root, baseline)

    def test_name_that_is_not_utf8(self, root: Path, baseline: Baseline) -> None:
        (root / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
        assert r"caf\udce9" in self.refused(root, baseline)

    def test_name_with_a_newline(self, root: Path, baseline: Baseline) -> None:
        (root / "two\nlines").write_bytes(b"x")
        assert r"'two\nlines': it cannot be an object" in self.refused(root, baseline)

    @pytest.mark.parametrize("what", ["file", "folder"])
    def test_unreadable(self, baseline: Baseline, open_folder: Path, what: str) -> None:
        (open_folder / "a").write_bytes(b"1")
        (open_folder / "secret").mkdir()
        (open_folder / "secret" / "file").write_bytes(b"x")
        hidden = open_folder / "secret" / "file" if what == "file" else open_folder / "secret"
        hidden.chmod(0)
        with as_nobody():
            told = self.refused(open_folder, baseline)
        hidden.chmod(0o700)
        assert ("secret/file: it cannot be read" if what == "file" else "secret: the folder cannot be read") in told

    def test_all_of_them_are_named_at_once(self, root: Path, baseline: Baseline) -> None:
        for number in range(3):
            (root / f"link{number}").symlink_to("a")
        os.mkfifo(root / "pipe")
        with pytest.raises(InvalidInput) as refused:
            detect_changes(root, baseline)
        assert [problem.where for problem in refused.value.problems] == ["link0", "link1", "link2", "pipe"]


def test_a_workspace_whose_folder_is_gone(lake: EmbeddedLake, root: Path) -> None:
    baseline = download(lake, "songs", commit(lake, a=b"1"), into=root)
    shutil.rmtree(root)
    with pytest.raises(InvalidInput, match="folder is gone"):
        detect_changes(root, baseline)


def test_empty_folders_and_modes_are_not_kept(lake: EmbeddedLake, root: Path) -> None:
    baseline = download(lake, "songs", commit(lake, a=b"1"), into=root)
    (root / "empty").mkdir()
    (root / "a").chmod(0o755)
    assert not detect_changes(root, baseline)


def test_downloaded_files_are_ordinary_writable_files(lake: EmbeddedLake, root: Path) -> None:
    download(lake, "songs", commit(lake, a=b"1"), into=root)
    umask = os.umask(0)
    os.umask(umask)
    assert (root / "a").stat().st_mode & 0o777 == 0o666 & ~umask
    assert (root / "a").stat().st_nlink == 1


class OddLake:
    """A lake whose listing has keys an embedded lake would not take; everything else is the real one's."""

    def __init__(self, lake: EmbeddedLake, keys: list[str], item: LakeObject) -> None:
        self._lake, self._keys, self._item = lake, keys, item

    def __getattr__(self, name: str) -> object:
        return getattr(self._lake, name)

    def objects(self, repository: str, ref: Ref, *, prefix: str = "") -> object:
        found = (key for key in self._keys if not prefix or key.startswith(prefix + "/"))
        return (self._item._replace(path=key) for key in found)


@pytest.fixture
def item(lake: EmbeddedLake) -> LakeObject:
    ref = commit(lake, x=b"x")
    return next(lake.objects("songs", ref))


@pytest.mark.parametrize("key", ["p/../../escape", "p/a//b", "p/./a", "p/new\nline", "p/"])
def test_odd_keys_break_only_tasks_that_use_them(lake: EmbeddedLake, root: Path, item: LakeObject, key: str) -> None:
    odd = OddLake(lake, [key, "q/fine", "p/fine"], item)
    head = lake.head("songs", "main").ref
    assert set(download(odd, "songs", head, into=root, prefix="q").files) == {"fine"}  # type: ignore[arg-type]
    (root / "fine").unlink()
    if key.endswith("/"):  # a folder marker: passed over, never deleted
        baseline = download(odd, "songs", head, into=root, prefix="p")  # type: ignore[arg-type]
        assert set(baseline.files) == {"fine"}
    else:
        assert key_problem(key) is not None
        with pytest.raises(InvalidInput, match="cannot be a file of a workspace"):
            download(odd, "songs", head, into=root, prefix="p")  # type: ignore[arg-type]
    assert not (root.parent / "escape").exists()


@pytest.mark.parametrize("keys", [["a", "a/b"], ["a/b", "a"], ["a", "a-b", "a/b/c"]])
def test_a_file_where_a_folder_must_be(lake: EmbeddedLake, root: Path, item: LakeObject, keys: list[str]) -> None:
    odd = OddLake(lake, keys, item)
    with pytest.raises(InvalidInput, match="both an object and a folder"):
        download(odd, "songs", lake.head("songs", "main").ref, into=root)  # type: ignore[arg-type]


def test_keys_that_are_one_name_on_the_disk(lake: EmbeddedLake, root: Path, item: LakeObject) -> None:
    """A case-blind disk answers as this one does for a name that is taken."""
    (root / "taken").write_bytes(b"")
    (root / "folder").mkdir()
    head = lake.head("songs", "main").ref
    for key in ("taken", "folder/x"):
        with pytest.raises(InvalidInput, match="one name on the disk"):
            download(OddLake(lake, [key], item), "songs", head, into=root)  # type: ignore[arg-type]


def test_a_damaged_blob_stops_the_download_and_names_the_object(lake: EmbeddedLake, root: Path) -> None:
    ref = commit(lake, a=b"good", b=b"other")
    (item,) = lake.objects("songs", ref, prefix="a")
    blob = Path(lake.blobs.path(item.checksum))
    blob.chmod(0o644)
    blob.write_bytes(b"evil")
    with pytest.raises(StoreDamaged, match="a of songs@") as damage:
        download(lake, "songs", ref, into=root)
    assert damage.value.damaged == (item.checksum,)
    assert not (root / "a").exists()
