"""Running the examples of a Markdown page, in order, in one folder.

A `python` block whose first line is a comment with a file name is written to that file; any other is executed, all in
one namespace. A `toml` block is written the same way. In a `console` block each `$ ` line is run by bash, and must
succeed and print what stands below it: `…` inside a line stands for any text, and alone on a line for any lines. Blocks
of any other language are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).resolve().parents[2]
FILE_NAME = re.compile(r"^# ([\w./-]+\.\w+)$")
ANY = "…"


class Page:
    """A page's examples and the folder they run in."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.namespace: dict[str, object] = {"__name__": "__example__"}
        # A `headgate.toml` or a variable of the person who runs the tests is no part of the page.
        # A page's reader has no HEADGATE_ variable, and is not inside a run of pytest.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADGATE_", "PYTEST_"))}
        self.environment = kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(folder),
            "COLUMNS": "120",
            "NO_COLOR": "1",
        }

    def examples(self) -> list[Example]:
        parsers = [
            CodeBlockParser("python", self.run_python),
            CodeBlockParser("toml", self.write_file),
            CodeBlockParser("console", self.run_console),
        ]
        return list(Document.parse(str(self.path), *parsers).examples())

    def run_python(self, example: Example) -> None:
        if FILE_NAME.match(example.parsed.splitlines()[0]):
            self.write_file(example)
        else:
            lines = "\n" * example.line  # so that a traceback names the line of the page
            exec(compile(lines + example.parsed, str(self.path), "exec"), self.namespace)

    def write_file(self, example: Example) -> None:
        named = FILE_NAME.match(example.parsed.splitlines()[0])
        if named is None:
            raise AssertionError(f"{self.path.name}:{example.line}: the block names no file in its first line")
        target = self.folder / named.group(1)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(example.parsed)

    def run_console(self, example: Example) -> None:
        for command, expected in split_console(example.parsed):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            where = f"{self.path.name}:{example.line}: $ {command}\n{done.stdout}"
            assert done.returncode == 0, f"exit {done.returncode}: {where}"
            assert matches(expected, done.stdout), f"expected:\n{expected}\n\nfound:\n{where}"


def split_console(block: str) -> list[tuple[str, str]]:
    """Each command with what it is to print; a line that ends in a backslash goes on in the next."""
    found: list[tuple[str, list[str]]] = []
    going_on = False
    for line in block.splitlines():
        if going_on:
            command, told = found[-1]
            found[-1] = (f"{command}\n{line}", told)
        elif line.startswith("$ "):
            found.append((line[2:], []))
        elif not found:
            raise AssertionError(f"a console block starts with a command, not with {line!r}")
        else:
            found[-1][1].append(line)
        going_on = line.endswith("\\") and not found[-1][1]
    return [(command, "\n".join(told)) for command, told in found]


def matches(expected: str, found: str) -> bool:
    """Whether `found` is what a page says; nothing said means that nothing is looked at."""
    if not expected.strip():
        return True
    pattern = []
    for line in expected.strip().splitlines():
        if line.strip() == ANY:
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(".*".join(re.escape(part) for part in line.rstrip().split(ANY)) + r"[ \t]*\n")
    return re.fullmatch("".join(pattern), found.strip() + "\n") is not None
