import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import GuardrailFailed, InvalidTask, MissingExtra
from headgate.tasks.guardrails import forbid_glob, require_dir, require_file, require_glob, require_parquet_schema


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("songs/one.json", "songs/two.json", "songs/deep/three.json", "readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "folder.json").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "guardrail",
    [
        require_file("readme.txt"),
        require_file("songs/deep/three.json"),
        require_dir("songs"),
        require_dir("songs/deep/"),
        require_glob("songs/*.json"),
        require_glob("**/*.json", min_count=3, max_count=3),
        require_glob("*.parquet", min_count=0),
        forbid_glob("**/*.tmp"),
        forbid_glob("*.json"),
    ],
    ids=str,
)
def test_files_in_order_pass(workspace: Path, guardrail: Any) -> None:
    guardrail(workspace)


@pytest.mark.parametrize(
    ("guardrail", "told"),
    [
        (require_file("songs/four.json"), "no file songs/four.json"),
        (require_file("songs"), "songs is a folder"),
        (require_dir("readme.txt"), "no folder readme.txt"),
        (require_dir("nowhere"), "no folder nowhere"),
        (require_glob("*.json"), "0 files match"),
        (require_glob("songs/*.json", min_count=3), "2 files match songs/*.json, and at least 3 must"),
        (require_glob("**/*.json", max_count=1), "3 files match **/*.json, and at most 1 may: songs/deep/three.json"),
        (forbid_glob("songs/**"), "3 files match songs/**"),
    ],
    ids=str,
)
def test_files_out_of_order_are_named(workspace: Path, guardrail: Any, told: str) -> None:
    with pytest.raises(GuardrailFailed) as failed:
        guardrail(workspace)
    assert told in failed.value.message
    assert failed.value.hint
    assert failed.value.guardrail == str(guardrail)


def test_many_matches_are_counted_not_listed(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.tmp").write_text("")
    with pytest.raises(GuardrailFailed, match=r"20 files match \*\.tmp: 00\.tmp, .* and 15 more"):
        forbid_glob("*.tmp")(tmp_path)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: require_file("/etc/passwd"),
        lambda: require_file("../up"),
        lambda: require_file("C:/x"),
        lambda: require_file("a/./b"),
        lambda: require_file("a\\b"),
        lambda: require_dir(""),
        lambda: require_glob("songs/"),
        lambda: require_glob("**x"),
        lambda: require_glob("*", min_count=-1),
        lambda: require_glob("*", min_count=3, max_count=2),
        lambda: forbid_glob("/tmp/*"),
        lambda: require_parquet_schema("..", {}),
    ],
)
def test_a_guardrail_that_cannot_work_is_refused_where_it_is_declared(declare: Any) -> None:
    with pytest.raises(InvalidTask) as refused:
        declare()
    (problem,) = refused.value.problems
    assert problem.where.startswith(f"{__file__}:")
    assert problem.fix


def test_parquet_schemas(workspace: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"id": pyarrow.array(["a"]), "plays": pyarrow.array([1], pyarrow.int64())})
    (workspace / "tables").mkdir()
    parquet.write_table(table, workspace / "tables/one.parquet")
    require_parquet_schema("tables/*.parquet", {"id": "string"})(workspace)
    require_parquet_schema("tables/*.parquet", table.schema)(workspace)
    for wanted, told in (
        ({"id": "int64"}, "tables/one.parquet: the column id is string; it should be int64"),
        ({"length": "double"}, "the column length is missing; it should be double"),
        (table.schema.remove(1), "the column plays is not in the schema"),
    ):
        with pytest.raises(GuardrailFailed) as failed:
            require_parquet_schema("tables/*.parquet", wanted)(workspace)
        assert told in str(failed.value)
    with pytest.raises(GuardrailFailed, match="no file matches"):
        require_parquet_schema("nothing/*.parquet", {"id": "string"})(workspace)
    with pytest.raises(GuardrailFailed, match="it is no Parquet file"):
        require_parquet_schema("readme.txt", {"id": "string"})(workspace)


def test_without_pyarrow_the_extra_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="headgate\\[graph\\]"):
        require_parquet_schema("**", {"id": "string"})(workspace)
