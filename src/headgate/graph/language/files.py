"""Reading a text file of either language; what cannot be read is an error that names the file."""

from __future__ import annotations

from pathlib import Path

from headgate.errors import InvalidInput, NotFound
from headgate.graph.language.diagnostics import Source


def read_source(path: Path) -> Source:
    """The text of a file under the name it was asked for."""
    try:
        return Source(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError:
        raise NotFound(message=f"there is no file {path}", hint="check the path", kind="file", name=str(path)) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(
            message=f"{path} is not UTF-8 text: byte {error.start} is wrong", hint="save it as UTF-8"
        ) from None
    except OSError as error:
        raise InvalidInput(message=f"{path} cannot be read: {error.strerror}", hint="name a readable file") from error
