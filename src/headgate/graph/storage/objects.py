"""Small objects beside the tables: created once or not at all, listed, read, deleted.

A failure of the store is never taken for an absence. Names of files that are still being written do not show in a
listing. The clock of `now` is the store's own, the one that dates its objects.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from headgate.errors import AccessDenied, DiskFull, HeadgateError, Transient
from headgate.graph.storage.location import Location

_HIDDEN = ".tmp-"


@dataclass(frozen=True)
class StoredObject:
    """A name under the graph's root, and when the store says it was written."""

    name: str
    modified: datetime


class SmallObjects(Protocol):
    """Names are relative to the graph's root, with `/` between their parts."""

    def __hash__(self) -> int: ...

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create the object, whole or not at all; False if one of that name is there already."""
        ...

    def get(self, name: str) -> bytes | None:
        """What the object holds; None if there is none."""
        ...

    def delete(self, name: str) -> None:
        """Remove the object; one that is not there is fine."""
        ...

    def list(self, prefix: str) -> list[StoredObject]:
        """Every object below a folder, by name."""
        ...

    def now(self) -> datetime:
        """The present by the clock that dates the objects."""
        ...


def open_objects(location: Location) -> SmallObjects:
    return LocalObjects(location.path) if location.is_local else RemoteObjects(location)


class LocalObjects:
    """Objects as files: written under a hidden name, synced, then linked to their own."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target = self._root / name
        hidden = target.with_name(f"{_HIDDEN}{uuid4().hex}")
        with _told(f"write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with hidden.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(hidden, target)
                except FileExistsError:
                    return False
                return True
            finally:
                with contextlib.suppress(FileNotFoundError):
                    hidden.unlink()

    def get(self, name: str) -> bytes | None:
        with _told(f"read {self._root / name}"):
            try:
                return (self._root / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def delete(self, name: str) -> None:
        with _told(f"delete {self._root / name}"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (self._root / name).unlink()

    def list(self, prefix: str) -> list[StoredObject]:
        with _told(f"list {self._root / prefix}"):
            return sorted(self._walk(self._root / prefix), key=lambda found: found.name)

    def _walk(self, folder: Path) -> Iterator[StoredObject]:
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.name.startswith(_HIDDEN):
                continue
            if entry.is_dir():
                yield from self._walk(Path(entry.path))
                continue
            with contextlib.suppress(FileNotFoundError):
                modified = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
                yield StoredObject(Path(entry.path).relative_to(self._root).as_posix(), modified)

    def now(self) -> datetime:
        probe = self._root / f"{_HIDDEN}{uuid4().hex}"
        with _told(f"ask the time of {self._root}"):
            try:
                probe.touch()
                return datetime.fromtimestamp(probe.stat().st_mtime, UTC)
            finally:
                probe.unlink(missing_ok=True)


class RemoteObjects:
    """Objects of an S3 bucket: the store's own conditional put decides who creates."""

    def __init__(self, location: Location) -> None:
        from obstore.store import S3Store

        options = dict(location.options)
        client = {"allow_http": True} if options.pop("allow_http", "") == "true" else None
        config = {name.removeprefix("aws_"): value for name, value in options.items()}
        self._at = location.uri
        self._store: Any = S3Store(
            location.bucket,
            prefix=location.prefix or None,
            client_options=client,
            virtual_hosted_style_request=False,
            **config,
        )

    def put_if_absent(self, name: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _told(f"write {self._at}/{name}"):
            try:
                obstore.put(self._store, name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def get(self, name: str) -> bytes | None:
        import obstore

        with _told(f"read {self._at}/{name}"):
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        import obstore

        with _told(f"delete {self._at}/{name}"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def list(self, prefix: str) -> list[StoredObject]:
        import obstore

        with _told(f"list {self._at}/{prefix}"):
            found = [
                StoredObject(entry["path"], entry["last_modified"])
                for page in obstore.list(self._store, prefix)
                for entry in page
                if not entry["path"].rpartition("/")[2].startswith(_HIDDEN)
            ]
        return sorted(found, key=lambda item: item.name)

    def now(self) -> datetime:
        import obstore

        probe = f"{_HIDDEN}{uuid4().hex}"
        with _told(f"ask the time of {self._at}"):
            obstore.put(self._store, probe, b"", use_multipart=False)
            try:
                modified: datetime = obstore.head(self._store, probe)["last_modified"]
                return modified
            finally:
                obstore.delete(self._store, probe)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Failures of the disk or the object store as errors of ours, never as an absence."""
    try:
        yield
    except HeadgateError:
        raise
    except PermissionError as error:
        raise AccessDenied(
            message=f"cannot {what}: {_reason(error)}", hint="grant this process the right to read and write there"
        ) from error
    except OSError as error:
        if error.errno == 28:
            raise DiskFull(message=f"cannot {what}: no space is left", hint="free some space and try again") from error
        raise Transient(message=f"cannot {what}: {_reason(error)}", hint="try again") from error
    except Exception as error:
        if type(error).__module__.startswith("obstore"):
            raise Transient(message=f"cannot {what}: {_reason(error)}", hint="try again") from error
        raise


def _reason(error: BaseException) -> str:
    return str(error).partition("\n")[0]
