"""What prefix, include and exclude leave out is never read, changed or deleted, whatever a body does."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.attempts.kit import Kit, Params, Result, declared

from headgate.lake import Changes, Source
from headgate.tasks import WorkspaceSpec

SEGMENT = st.sampled_from(["a", "b", "songs", "x.txt", "y.bin"])
PATHS = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
GLOBS = st.lists(st.sampled_from(["**", "**/*.txt", "a/**", "*.bin", "songs/*", "b/**/x.txt"]), min_size=1, max_size=2)


def without_clashes(paths: set[str]) -> set[str]:
    """No path is a folder of another: a disk cannot hold both."""
    return {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}


@settings(max_examples=40)
@given(
    present=st.sets(PATHS, max_size=8).map(without_clashes),
    prefix=st.sampled_from(["/", "a/", "songs/"]),
    include=st.none() | GLOBS,
    exclude=st.none() | GLOBS,
    wipe=st.booleans(),
    written=st.sets(PATHS, max_size=4),
)
def test_what_is_left_out_is_untouched(
    present: set[str],
    prefix: str,
    include: list[str] | None,
    exclude: list[str] | None,
    wipe: bool,
    written: set[str],
) -> None:
    spec = WorkspaceSpec(prefix=prefix, include=include, exclude=exclude)
    takes = spec.selection.takes
    seen: set[str] = set()

    def body(workspace: Path, params: Params) -> Result:
        files = [path for path in workspace.rglob("*") if path.is_file()]
        seen.update(path.relative_to(workspace).as_posix() for path in files)
        if wipe:
            for path in files:
                path.unlink()
        for name in written:
            target = workspace / name
            if not target.is_dir() and not any(parent.is_file() for parent in target.parents):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text("written")
        return Result(files=0)

    folder = Path(tempfile.mkdtemp())
    kit = Kit.make(folder)
    try:
        puts: dict[str, Source] = {path: f"as {path} was".encode() for path in present}
        if puts:
            kit.lake.commit(kit.repository, "main", Changes(puts=puts), message="more")
        before = kit.files()
        task = declared(body, workspace=spec)
        report = kit.run(task, kit.submit(task, ref=kit.head()))
        after = kit.files()
        assert seen == {path for path in before if takes(path)}
        assert {path: data for path, data in before.items() if not takes(path)} == {
            path: data for path, data in after.items() if not takes(path)
        }
        if not report.ok:
            assert report.phase == "stage"
            assert after == before
        kit.assert_nothing_left()
    finally:
        kit.close()
        shutil.rmtree(folder)
