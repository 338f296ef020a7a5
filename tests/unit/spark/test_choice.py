"""Which engine loads, and why; small loads never start a JVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import InvalidInput, MissingExtra, Problem
from headgate.settings import SparkSettings
from headgate.spark import choice
from headgate.spark.choice import choose_engine

SETTINGS = SparkSettings()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "person.csv"
    path.write_text("key\nann\n")
    return path


def chosen(wanted: str, *data: str | Path, missing: bool = False) -> choice.Choice:
    problems = [Problem("Java", "there is none", "install it")] if missing else []
    return choose_engine(wanted, data, SETTINGS, problems=lambda _: problems)


def test_few_bytes_are_loaded_here(small: Path) -> None:
    assert chosen("auto", small) == choice.Choice("local", "0.0 MiB are loaded before Spark would have started")


def test_many_bytes_are_worth_a_session(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "WORTH_A_JVM", 5)
    assert chosen("auto", small).engine == "spark"
    without = chosen("auto", small, missing=True)
    assert (without.engine, "there is none" in without.why) == ("local", True)


def test_what_only_spark_reads(small: Path) -> None:
    assert chosen("auto", "table:db.person") == choice.Choice("spark", "table:db.person is read by Spark")
    assert chosen("auto", small, "s3a://bucket/person.parquet").engine == "spark"
    with pytest.raises(InvalidInput, match="can be read by Spark alone"):
        chosen("local", "table:db.person")
    with pytest.raises(MissingExtra, match="Java: there is none"):
        chosen("auto", "table:db.person", missing=True)


def test_what_is_asked_for_is_taken(small: Path) -> None:
    assert chosen("spark", small).engine == "spark"
    assert chosen("local", small).engine == "local"
    with pytest.raises(InvalidInput, match="engine is 'cuda'"):
        chosen("cuda", small)


def test_small_writes_never_import_pyspark(small: Path, tmp_path: Path) -> None:
    code = f"""
import sys
import headgate.graph as hg
from typer.testing import CliRunner
from headgate.cli.main import app
hg.init({str(tmp_path / "graph")!r}, "node Person {{ key: String @key }}").close()
done = CliRunner().invoke(app, ["graph", "load", {str(tmp_path / "graph")!r}, {str(small)!r}])
assert done.exit_code == 0, done.output
with hg.open({str(tmp_path / "graph")!r}) as graph, graph.transaction() as tx:
    tx.merge("Person", [{{"key": "bob"}}])
assert not [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")]
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
