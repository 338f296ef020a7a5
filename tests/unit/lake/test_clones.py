"""On a file system that can, files are cloned: nothing is copied, and still nothing reaches the store."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.lake import Changes, EmbeddedLake, LocalFile, detect_changes, download

MEGABYTE = 1 << 20
pytestmark = pytest.mark.slow


@pytest.fixture
def cloning_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system that can clone, in a file."""
    maker = shutil.which("mkfs.btrfs")
    if maker is None:
        pytest.skip("there is no mkfs.btrfs here (Debian: btrfs-progs)")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(256 * MEGABYTE)
    subprocess.run([maker, "-q", image], check=True, capture_output=True)
    if subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


def used(folder: Path) -> int:
    os.sync()
    stat = os.statvfs(folder)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def test_clones_take_no_space_and_are_not_shared(cloning_disk: Path) -> None:
    big = os.urandom(30 * MEGABYTE)
    small = {f"s{n}": os.urandom(100_000) for n in range(50)}
    (cloning_disk / "big").write_bytes(big)
    root = cloning_disk / "workspace"
    root.mkdir()
    before = used(cloning_disk)
    with EmbeddedLake(cloning_disk / "lake", create=True) as lake:
        lake.create_repository("r")
        ref = lake.commit("r", "main", Changes(puts={"big": LocalFile(cloning_disk / "big")}), message="m")
        assert used(cloning_disk) - before < 5 * MEGABYTE
        ref = lake.commit("r", "main", Changes(puts=small), message="m")
        staged = used(cloning_disk)
        baseline = download(lake, "r", ref, into=root)
        assert used(cloning_disk) - staged < 3 * MEGABYTE
        assert (root / "big").read_bytes() == big
        assert all((root / name).read_bytes() == data for name, data in small.items())
        assert not detect_changes(root, baseline)
        for name in ("big", "s0"):
            with (root / name).open("r+b") as file:
                file.write(b"changed in place")
        assert lake.verify().whole
        found = detect_changes(root, baseline)
        assert [change.path for change in found.differences] == ["big", "s0"]
        lake.commit("r", "main", found.changes, message="m")
        assert lake.verify().whole
