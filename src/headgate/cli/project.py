"""The project that `headgate init` writes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from headgate.errors import AlreadyExists, InvalidInput

FILES = {
    "headgate.toml": "headgate.toml.in",
    "tasks.py": "tasks.py.in",
    "schema.pg": "schema.pg.in",
    "workflow.json": "workflow.json.in",
    "test_tasks.py": "test_tasks.py.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
}
"""Each file of the project and the template it is made from."""


def write_project(folder: Path) -> list[Path]:
    """Write the whole project into the folder."""
    return write_files(folder, FILES)


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files from their templates, and return them. Nothing is overwritten: one that is there is an error."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(message=f"{folder} is not a folder", hint="name a folder, or one that is not there yet")
    taken = [name for name in files if (folder / name).exists()]
    if taken:
        raise AlreadyExists(
            message=f"{folder} already has {', '.join(taken)}",
            hint="name another folder, or move them away",
            kind="file",
        )
    templates = resources.files("headgate.cli") / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in files.items():
            (folder / name).write_text((templates / template).read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            message=f"{error.filename or folder} cannot be written: {error.strerror}",
            hint="name a folder you may write to",
        ) from error
    return [folder / name for name in files]
