"""The steps of the demonstration over a graph: the published features loaded by a task, and a question asked."""

from __future__ import annotations

from headgate.cli.demo import Stage
from headgate.cli.demo_songs import ADDRESS, MODULE, told

STORE = "music"
TARGET = f"{STORE}@main"
QUERY = "examples/songs/questions.gq"


def load(stage: Stage) -> str:
    stage.headgate("graph", "init", STORE, "--schema", "examples/songs/schema.pg")
    [report] = stage.headgate_json("run", f"{MODULE}:load_graph", "--on", ADDRESS, "--on", TARGET)
    stage.published.append((TARGET, report["published"], f"{report['task']}: {told(report)}"))
    stage.look_next += [
        f"headgate log {STORE}",
        f"headgate graph query {STORE} {QUERY}",
        f"headgate graph sql {STORE} 'select count(*) from Song'",
    ]
    return f"{told(report)} became visible in {report['published'][:12]}, together"


def ask(stage: Stage) -> str:
    found = stage.headgate_json("graph", "query", STORE, QUERY)["rows"]
    return ", ".join(f"{row['artist']} {row['energy']:.2f}" for row in found)
