"""What a session is built with, and what is said before a job fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import MissingExtra
from headgate.orchestrators.machine import Machine
from headgate.settings import SparkSettings, load
from headgate.spark import SparkSessions, needs, session

INSTALLED = {"pyspark": "4.3.0", "pyarrow": "21.0.0", "pandas": "2.2.3"}


def wrong(settings: SparkSettings | None = None, *, java: str | None = None, **versions: str | None) -> list[str]:
    have = {**INSTALLED, **versions}
    return [one.where for one in needs.problems(settings or SparkSettings(), version_of=have.get, java=lambda: java)]


def test_a_machine_that_has_everything_lacks_nothing() -> None:
    assert wrong() == []
    assert wrong(pandas=None) == []


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = wrong(
        SparkSettings(conf={"spark.pyspark.python": "/nowhere/python"}),
        java="there is no Java on the PATH",
        pandas="3.0.1",
        pyarrow=None,
        pyspark=None,
    )
    assert found == ["pyspark", "pyarrow", "pandas", "Java", "spark.pyspark.python"]


def test_the_python_of_a_clusters_workers_is_not_looked_for_here() -> None:
    there = {"spark.pyspark.python": "/opt/cluster/python"}
    assert wrong(SparkSettings(master="spark://cluster:7077", conf=there)) == []


def test_no_job_is_tried_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingExtra, match="JAVA_HOME is .* and there is no Java") as raised:
        SparkSessions().session(jobs="one")
    assert raised.value.extra == "spark"
    assert "install Java" in str(raised.value.hint)


def test_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingExtra, match="is version 11, and Spark needs 17"):
        SparkSessions().session(jobs="one")


def test_options_of_the_settings_win_over_ours() -> None:
    built = session.options(SparkSettings(conf={"spark.log.level": "INFO"}), on_lakefs=False)
    assert built["spark.log.level"] == "INFO"
    assert built["spark.sql.python.filterPushdown.enabled"] == "true"
    assert "spark.jars.packages" not in built


def test_hadoop_aws_is_fetched_for_stores_on_lakefs_unless_it_is_installed() -> None:
    pytest.importorskip("pyspark")
    package = f"org.apache.hadoop:hadoop-aws:{session.hadoop()}"
    theirs = {"spark.jars.packages": "org.example:theirs:1.0"}
    assert session.options(SparkSettings(), on_lakefs=True)["spark.jars.packages"] == package
    both = session.options(SparkSettings(conf=theirs), on_lakefs=True)["spark.jars.packages"]
    assert both == f"org.example:theirs:1.0,{package}"
    pinned = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1"}
    assert session.options(SparkSettings(conf=pinned), on_lakefs=True)["spark.jars.packages"].count("hadoop-aws") == 1
    assert "spark.jars.packages" not in session.options(SparkSettings(s3a="installed"), on_lakefs=True)


def test_dotted_keys_of_the_file_are_one_name_and_secrets_stay_hidden(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(
        "[spark.conf]\nspark.sql.shuffle.partitions = 8\nspark.ui.enabled = false\n"
        '"spark.hadoop.fs.s3a.secret.key" = "hush"\n'
    )
    loaded = load(start=tmp_path, environ={}, home=tmp_path)
    built = session.options(loaded.settings.spark, on_lakefs=False)
    assert built["spark.sql.shuffle.partitions"] == "8"
    assert built["spark.ui.enabled"] == "false"
    assert built["spark.hadoop.fs.s3a.secret.key"] == "hush"
    assert "hush" not in str(list(loaded.rows()))
    assert "hush" in loaded.secrets()


def test_nothing_starts_before_a_task_asks_for_its_session(tmp_path: Path) -> None:
    loaded = load(start=tmp_path, environ={}, home=tmp_path)
    with Machine(loaded.settings) as machine:
        assert machine.runtime().spark is machine.spark
        machine.spark.reach({"fs.s3a.bucket.songs.endpoint": "http://127.0.0.1:1"})
        machine.spark.cancel("nothing")


class _Handed:
    """A session of the caller: whatever is asked of it is an error."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} of a session that was handed in")


def test_a_session_that_is_handed_in_is_neither_configured_nor_stopped() -> None:
    handed = SparkSessions(session=_Handed())  # type: ignore[arg-type]
    handed.reach({"fs.s3a.bucket.songs.endpoint": "http://127.0.0.1:1"})
    handed.close()


_REAL = """
import json, sys
from headgate.orchestrators.machine import Machine
from headgate.settings import load
with Machine(load().settings) as machine:
    spark = machine.spark.session(jobs="one")
    context = spark.sparkContext
    def python(rows):
        import sys
        yield sys.executable
    said = {
        "master": context.master,
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "pushdown": spark.conf.get("spark.sql.python.filterPushdown.enabled"),
        "python": context.parallelize([1], 1).mapPartitions(python).collect(),
        "same": machine.spark.session(jobs="two") is spark,
    }
print(json.dumps(said))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_the_session_runs_where_and_as_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(
        '[spark]\nmaster = "local[1]"\n[spark.conf]\nspark.sql.shuffle.partitions = 3\nspark.ui.enabled = false\n'
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HEADGATE_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", _REAL], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "master": "local[1]",
        "partitions": "3",
        "pushdown": "true",
        "python": [sys.executable],
        "same": True,
    }
