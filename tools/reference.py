"""Write the reference pages that are made from tables in the code.

python -m tools.reference            writes the pages
python -m tools.reference --check    exits 1 if a page is not what the code says
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headgate.cli.registry import COMMANDS, PANELS
from headgate.errors import RESPONSES, HeadgateError
from headgate.tasks.failures import FAILURES
from headgate.telemetry import METRICS
from tools.settings_page import settings_page

ROOT = Path(__file__).resolve().parent.parent
_MADE = "<!-- Made by tools/reference.py from {source}; change it there. -->"


def failure_table() -> str:
    rows = [
        (
            ", ".join(row.phases),
            row.told,
            f"`{row.ending}`" if row.ending.isupper() else str(row.ending),
            str(row.output),
            row.note,
            f"`{row.cause}`",
        )
        for row in FAILURES.values()
    ]
    return _page(
        "Failure table",
        "src/headgate/tasks/failures.py",
        "How an attempt ends when something goes wrong, by the phase it is in. `FAILED` is tried again as the task's "
        "retry policy says; `FAILED_WITH_TERMINAL_ERROR` is not, since the same input can only fail again. The last "
        "column is the name of the row in logs and metrics.",
        ("phase", "cause", "status", "output", "note", "name"),
        rows,
    )


def error_table() -> str:
    rows = [
        (
            f"`{cls.__name__}`",
            "" if cls is HeadgateError else f"`{cls.__mro__[1].__name__}`",
            (cls.__doc__ or "").partition("\n")[0],
            answer.action,
            str(answer.http),
            str(answer.exit_code),
            f"`{answer.orchestrator}`",
        )
        for cls, answer in RESPONSES.items()
    ]
    return _page(
        "Errors",
        "src/headgate/errors.py",
        "Every error says what happened, to what, and what to do. Catch a group to handle all errors that call for the "
        "same action; an error without a row of its own answers as its parent does. In a running attempt the phase "
        "decides with the error: see the [failure table](failure-table.md).",
        ("error", "group", "what it means", "what to do", "HTTP status", "exit code", "orchestrator status"),
        rows,
    )


def command_table() -> str:
    rows = [
        (row.panel, f"`headgate {row.name}`", row.help)
        for row in sorted(COMMANDS, key=lambda row: PANELS.index(row.panel))
    ]
    return _page(
        "Commands",
        "src/headgate/cli/registry.py",
        "`headgate COMMAND --help` tells the options of each. `--profile` and `--debug` may stand anywhere; "
        "commands that read take `--json`, those that change take `--dry-run`, dangerous ones ask and take `--yes`. "
        "Errors go to stderr as `error: …` and `hint: …`, with the exit code of their [kind](errors.md); a wrong "
        "command line ends with 2, an interrupted one with 130. `headgate --install-completion` teaches your shell.",
        ("group", "command", "what it does"),
        rows,
    )


def metric_table() -> str:
    rows = [
        (f"`{metric.name}`", str(metric.kind), ", ".join(f"`{label}`" for label in metric.labels), metric.about)
        for metric in METRICS
    ]
    return _page(
        "Metrics",
        "src/headgate/telemetry/metrics.py",
        "What a worker answers at `/metrics` of its `telemetry.address`. Names and labels stay as they are within a "
        "major version; no label holds a workflow, a task id, a branch or a repository. `outcome` is `completed`, or "
        "a name of the [failure table](failure-table.md). [Watching a worker](../operations/telemetry.md) tells how to "
        "turn it on, and what to look at.",
        ("metric", "kind", "labels", "what it tells"),
        rows,
    )


def _page(title: str, source: str, opening: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"# {title}", "", _MADE.format(source=source), "", opening, ""]
    lines += [_row(columns), _row(tuple("---" for _ in columns)), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/failure-table.md": failure_table,
    "docs/reference/errors.md": error_table,
    "docs/reference/commands.md": command_table,
    "docs/reference/settings.md": settings_page,
    "docs/reference/metrics.md": metric_table,
}


def stale(root: Path = ROOT) -> list[str]:
    """The pages that are not what the code says."""
    return [page for page, made in PAGES.items() if not (root / page).is_file() or (root / page).read_text() != made()]


def main() -> int:
    found = stale()
    if "--check" in sys.argv[1:]:
        for page in found:
            print(f"error: {page} is stale; hint: python -m tools.reference")
        return 1 if found else 0
    for page in found:
        (ROOT / page).write_text(PAGES[page]())
        print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
