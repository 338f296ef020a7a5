"""The benchmarks' own machinery: bars, the JSON line, the report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from bench import __main__ as report
from bench import harness
from bench.bars import BENCHMARKS, Bar, Verdict, judge


def test_every_bar_of_a_result_gets_a_verdict_and_a_missing_field_falls_short() -> None:
    verdicts = {v.bar.field: v.word for v in judge("fence_race", {"rounds": 5, "one_winner": 5, "soft_broken": 0})}
    assert verdicts == {
        "one_winner": "holds",
        "lost_accepted": "not shown",
        "lost_after_retry": "not shown",
        "soft_broken": "falls short",
    }


@pytest.mark.parametrize(
    ("relation", "at_limit", "above", "below"),
    [("<=", True, False, True), (">=", True, True, False), (">", False, True, False), ("==", True, False, False)],
)
def test_each_relation_of_a_bar_holds_on_its_own_side(relation: str, at_limit: bool, above: bool, below: bool) -> None:
    holds = [Verdict(Bar("x", relation, 2), value, 2).holds for value in (2, 3, 1)]
    assert holds == [at_limit, above, below]


def test_every_relation_in_the_table_is_known_and_every_field_limit_is_named() -> None:
    for name, benchmark in BENCHMARKS.items():
        everything = {bar.field: 1.0 for bar in benchmark.bars} | {"rounds": 1.0}
        assert all(verdict.limit is not None for verdict in judge(name, everything)), name


def test_a_truth_value_is_no_number() -> None:
    assert [v.word for v in judge("graph_publish", {"ratio": True})] == ["not shown"]


def test_rounds_are_interleaved_and_every_other_one_goes_backwards() -> None:
    order: list[str] = []
    times = harness.interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_a_ratio_is_of_medians() -> None:
    assert harness.ratio({"ours": [2.0, 4.0, 90.0], "bare": [2.0, 1.0, 3.0]}, "ours", "bare") == 2.0


def _measure(args: argparse.Namespace) -> harness.Result:
    print("progress that is no result")
    return {"ratio": args.scale * 1.0, "maps": {"10k": 4.0}}


def _main(*argv: str) -> None:
    arguments = [harness.argument("--scale", 1, "a factor"), harness.argument("--fast", False, "a switch")]
    harness.main(_measure, name="graph_publish", about="a test", arguments=arguments, argv=argv)


def test_with_json_the_last_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    _main("--json", "--scale", "2", "--fast")
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"ratio": 2.0, "maps": {"10k": 4.0}}


def test_without_json_a_person_sees_each_value_with_its_bar(capsys: pytest.CaptureFixture[str]) -> None:
    _main("--scale", "2")
    out = capsys.readouterr().out
    assert "<= 1.3: falls short" in out
    assert "maps.10k" in out


def test_a_picture_is_drawn_where_it_is_asked_for(tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "bars.png"
    _main("--json", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stdout", ["", "no json\n", "[1]\n", '{"a": 1}\ndone\n'])
def test_a_benchmark_that_does_not_end_in_an_object_is_broken(stdout: str) -> None:
    with pytest.raises(ValueError, match="last line"):
        report.parse_last_line(stdout)


def test_the_report_shows_what_holds_what_falls_short_what_broke_and_what_is_missing(tmp_path: Path) -> None:
    runs = [
        report.Run("graph_publish", 1.0, {"ratio": 1.1, "first_ms": 2}),
        report.Run("graph_load", 1.0, {"ratio": 9.0}),
        report.Run("engine", 1.0, error="Traceback <boom>"),
    ]
    page = report.write_report(runs, ["chaos"], tmp_path).read_text()
    assert "1.3: holds" in page
    assert "3: falls short" in page
    assert "1000 MB: not shown" in page
    assert "Traceback &lt;boom&gt;" in page
    assert "chaos" in page
    assert json.loads((tmp_path / "report.json").read_text())["graph_load"]["ratio"] == 9.0
