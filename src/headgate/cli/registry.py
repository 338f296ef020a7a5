"""Every command of `headgate`: where it lives and what it does, in one table.

`headgate --help` and shell completion are answered from this table alone; the module of a command is imported when
that command is used.

To add a command to a group: write it in the group's module, and add its row here. To add a group: make a module
`headgate/cli/NAME.py` with `app = typer.Typer()`, put commands on it with `@app.command()` (or a group of commands with
`app.add_typer(sub, name="graph")`), and add a row per command here. A command

- imports what is heavy (Spark, Lance, a server's client) inside its function, never at the top of the module;
- asks `headgate.cli.invocation.current()` for the settings;
- takes `console.JsonFlag` if it reads, `console.DryRunFlag` if it changes, `console.YesFlag` if it is dangerous;
- raises an error of `headgate.errors` where it cannot go on: `main` prints it and finds the exit code.

A test holds each row against its module.
"""

from __future__ import annotations

from typing import NamedTuple

WORK = "Work"
LOOK = "Look"
BRANCHES = "Branches"
FILES = "Files"
TABLES = "Tables"
UPKEEP = "Upkeep"
SET_UP = "Set-up"
PANELS = (WORK, LOOK, BRANCHES, FILES, TABLES, UPKEEP, SET_UP)
"""The groups in the order `--help` shows them."""


class Command(NamedTuple):
    name: str
    module: str
    panel: str
    help: str


COMMANDS: tuple[Command, ...] = (
    Command("init", "headgate.cli.start", WORK, "Write a project: settings, tasks, a schema, a workflow and a test."),
    Command("demo", "headgate.cli.start", WORK, "Show what Headgate does, on the embedded parts in a folder."),
    Command("check", "headgate.cli.work", WORK, "Show the tasks of a module, or everything that is wrong with it."),
    Command("extract", "headgate.cli.work", WORK, "Write the TaskDefs of a module as a Conductor server takes them."),
    Command(
        "register",
        "headgate.cli.serving",
        WORK,
        "Tell the Conductor server about the tasks of a module, and show what that changes.",
    ),
    Command(
        "worker", "headgate.cli.serving", WORK, "Work on tasks that a Conductor server hands out, until told to stop."
    ),
    Command("fence", "headgate.cli.fence", UPKEEP, "Install, show or remove the fence of a lakeFS repository."),
    Command(
        "repair",
        "headgate.cli.fence",
        UPKEEP,
        "Show what keeps a branch from being published to, and put it away on request.",
    ),
    Command("graph", "headgate.cli.graph", TABLES, "Typed tables: schema, queries, SQL, loads and mutations."),
    Command(
        "run",
        "headgate.cli.running",
        WORK,
        "Run a task, a chain of tasks or a workflow: on this machine, or on the server where the settings name one.",
    ),
    Command("replay", "headgate.cli.running", WORK, "Run the body of a past attempt again; nothing is published."),
    Command("attempts", "headgate.cli.running", WORK, "List the attempts recorded on this machine, or show one."),
    Command("workflows", "headgate.cli.workflows", WORK, "List the workflows of this machine, or show one; end one."),
    Command("status", "headgate.cli.look", LOOK, "Show what runs, which heads were never accepted, what was left."),
    Command("why", "headgate.cli.look", LOOK, "Tell which attempt, inputs and code produced a ref, and walk upstream."),
    Command("rewind", "headgate.cli.upkeep", BRANCHES, "Move a branch's head back to an earlier ref."),
    Command("gc", "headgate.cli.upkeep", UPKEEP, "Reclaim workspaces and staging branches whose attempts are over."),
    Command("budget", "headgate.cli.look", SET_UP, "Show how long publishes took, and a PublishBudget to paste."),
    Command("log", "headgate.cli.history", LOOK, "Show the commits of a branch, newest first."),
    Command("show", "headgate.cli.history", LOOK, "Show one commit: who made it, from what, and what it changed."),
    Command("diff", "headgate.cli.history", LOOK, "Show what turns one ref into another."),
    Command("branch", "headgate.cli.branches", BRANCHES, "List, create, delete and merge branches."),
    Command("lake", "headgate.cli.lake", FILES, "Files of a lake: ls, cat, put, get, import, export, and its upkeep."),
    Command("optimize", "headgate.cli.graph_upkeep", UPKEEP, "Compact tables, indices and manifest of a graph."),
    Command(
        "cleanup",
        "headgate.cli.graph_upkeep",
        UPKEEP,
        "Remove what only older commits of a graph show: they can no longer be read.",
    ),
    Command("verify", "headgate.cli.lake", UPKEEP, "Read everything; say what is damaged, and which commits it hurts."),
    Command("doctor", "headgate.cli.setup", SET_UP, "Tell what is there, what is missing and how to get it."),
    Command("config", "headgate.cli.setup", SET_UP, "Show each setting, its value and where it came from."),
    Command("version", "headgate.cli.setup", SET_UP, "Show the version and what it runs on."),
)
