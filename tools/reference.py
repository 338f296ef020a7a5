"""Write the reference pages that are made from tables in the code.

python tools/reference.py            writes the pages
python tools/reference.py --check    exits 1 if a page is not what the code says
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headgate.errors import RESPONSES, HeadgateError
from headgate.tasks.failures import FAILURES

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


def _page(title: str, source: str, opening: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"# {title}", "", _MADE.format(source=source), "", opening, ""]
    lines += [_row(columns), _row(tuple("---" for _ in columns)), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/failure-table.md": failure_table,
    "docs/reference/errors.md": error_table,
}


def stale(root: Path = ROOT) -> list[str]:
    """The pages that are not what the code says."""
    return [page for page, made in PAGES.items() if not (root / page).is_file() or (root / page).read_text() != made()]


def main() -> int:
    found = stale()
    if "--check" in sys.argv[1:]:
        for page in found:
            print(f"error: {page} is stale; hint: python tools/reference.py")
        return 1 if found else 0
    for page in found:
        (ROOT / page).write_text(PAGES[page]())
        print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
