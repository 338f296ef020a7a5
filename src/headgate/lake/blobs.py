"""Bytes by their BLAKE3 digest, one file each, written so that a blob is either whole and lasting or not there.

A blob is written under a temporary name, synchronised, renamed, and its folder synchronised; only then may anything
refer to it. Synchronising is done for many blobs at once, by several threads, which a disk answers in one go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from headgate.errors import StoreDamaged
from headgate.lake.disk import DISK, Disk, disk_error, disk_faults
from headgate.lake.files import CHUNK, WORKERS, changed_meanwhile, clone, in_parallel, read_some
from headgate.lake.interface import FileStat, LocalFile, Progress, Source

_BATCH = 32
"""Files open at once in one thread between writing and synchronising."""


@dataclass(frozen=True)
class Blob:
    checksum: str
    size: int


@dataclass(frozen=True)
class _Written:
    """A blob under its temporary name; `fd` is open until it has been synchronised."""

    blob: Blob
    temporary: str
    fd: int


class BlobStore:
    """A folder of blobs. Any number of processes may put and read; removing is upkeep's alone."""

    def __init__(self, folder: Path, *, disk: Disk = DISK) -> None:
        self.folder = folder
        self._blobs = str(folder / "blobs")
        self._incoming = str(folder / "incoming")
        self._disk = disk
        self._clones = True

    def create(self) -> None:
        """Make the folders, all of them, so that no put has to make (and synchronise) one."""
        with disk_faults(self.folder, "create the blob store"):
            os.makedirs(self._incoming, exist_ok=True)
            for number in range(256):
                os.makedirs(f"{self._blobs}/{number:02x}", exist_ok=True)
            for folder in (self._blobs, str(self.folder)):
                self._disk.sync_folder(folder)

    def path(self, checksum: str) -> str:
        return f"{self._blobs}/{checksum[:2]}/{checksum[2:]}"

    def size(self, checksum: str) -> int | None:
        """The size of the blob's file; None if there is none."""
        try:
            return os.stat(self.path(checksum)).st_size
        except OSError:
            return None

    def has(self, blob: Blob) -> bool:
        return self.size(blob.checksum) == blob.size

    # writing
    def put_all(
        self,
        sources: Sequence[tuple[str, Source]],
        *,
        owner: str,
        on_blob: Callable[[Blob], None] | None = None,
        progress: Progress | None = None,
    ) -> list[Blob]:
        """Keep the bytes of every source (named for messages); all of them last when this returns.

        `owner` is a lease: temporary files carry its id, and upkeep leaves them alone while it lives. `on_blob` is
        told of each blob before it is looked for, so that the lease can pin it.
        """
        batches = [sources[at : at + _BATCH] for at in range(0, len(sources), _BATCH)]
        if len(sources) > 1:  # one file a thread is better than one thread for all
            size = max(1, min(_BATCH, -(-len(sources) // WORKERS)))
            batches = [sources[at : at + size] for at in range(0, len(sources), size)]

        def put(numbered: tuple[int, Sequence[tuple[str, Source]]]) -> list[Blob]:
            number, batch = numbered
            return self._put_batch(batch, f"{self._incoming}/{owner}.{number}", on_blob, progress)

        put_batches = in_parallel(put, list(enumerate(batches)))
        blobs = [blob for batch in put_batches for blob in batch]
        folders = sorted({os.path.dirname(self.path(blob.checksum)) for blob in blobs})
        with disk_faults(self._blobs, "synchronise"):
            in_parallel(self._disk.sync_folder, folders)
        return blobs

    def put_unlasting(self, data: bytes, checksum: str) -> None:
        """Keep bytes whose digest is known, under their own name at once: a crash may leave a blob that is not whole.

        For a store whose readers take such a blob for a missing one; a temporary name would cost them a third more.
        """
        path = self.path(checksum)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        except FileExistsError:
            return
        except OSError as fault:
            raise disk_error(fault, path, "write") from fault
        try:
            self._disk.write(fd, data)
        except BaseException as fault:
            _unlink_quietly(path)
            if isinstance(fault, OSError):
                raise disk_error(fault, path, "write") from fault
            raise
        finally:
            os.close(fd)

    def _put_batch(
        self,
        batch: Sequence[tuple[str, Source]],
        temporary: str,
        on_blob: Callable[[Blob], None] | None,
        progress: Progress | None,
    ) -> list[Blob]:
        written: list[_Written] = []
        blobs: list[Blob] = []
        try:
            for number, (name, source) in enumerate(batch):
                item = self._write(name, source, f"{temporary}.{number}", on_blob)
                if isinstance(item, _Written):
                    written.append(item)
                    blobs.append(item.blob)
                else:
                    blobs.append(item)
                if progress is not None:
                    progress(1, blobs[-1].size)
            with disk_faults(self._blobs, "synchronise a file in"):
                for item in written:
                    self._disk.sync_file(item.fd)
            with disk_faults(self._blobs, "name a file in"):
                for item in written:
                    self._disk.rename(item.temporary, self.path(item.blob.checksum))
        except BaseException:
            for item in written:
                _unlink_quietly(item.temporary)
            raise
        finally:
            for item in written:
                os.close(item.fd)
        return blobs

    def _write(
        self, name: str, source: Source, temporary: str, on_blob: Callable[[Blob], None] | None
    ) -> _Written | Blob:
        """The source under a temporary name, or just its blob if that is here already."""
        if isinstance(source, bytes):
            return self._write_bytes(source, temporary, on_blob)
        with _opened(name, source) as (fd, before):
            if before.size <= CHUNK:
                data = read_some(fd, before.size + 1)
                _check_unchanged(name, source, before, fd, len(data))
                return self._write_bytes(data, temporary, on_blob)
            with disk_faults(temporary, "write"):
                out = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
            try:
                with disk_faults(temporary, "write"):
                    blob = self._stream(fd, out)
                _check_unchanged(name, source, before, fd, blob.size)
                if on_blob is not None:
                    on_blob(blob)
                if not self.has(blob) or self.check(blob) is not None:
                    return _Written(blob, temporary, out)
            except BaseException:
                os.close(out)
                _unlink_quietly(temporary)
                raise
            os.close(out)
            _unlink_quietly(temporary)
            return blob

    def _write_bytes(self, data: bytes, temporary: str, on_blob: Callable[[Blob], None] | None) -> _Written | Blob:
        blob = Blob(blake3(data).hexdigest(), len(data))
        if on_blob is not None:
            on_blob(blob)
        if self.has(blob) and self._holds(blob, data):
            return blob
        with disk_faults(temporary, "write"):
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
            try:
                self._disk.write(fd, data)
            except BaseException:
                os.close(fd)
                _unlink_quietly(temporary)
                raise
        return _Written(blob, temporary, fd)

    def _holds(self, blob: Blob, data: bytes) -> bool:
        """Whether the blob that is here has these bytes: one that was damaged is written again."""
        with suppress(StoreDamaged, OSError), self.open(blob.checksum) as file:
            return file.read(len(data) + 1) == data
        return False

    def _stream(self, fd: int, out: int) -> Blob:
        """Clone where the file system can, and hash the clone, which nobody else can change; else hash and copy."""
        digest, size = blake3(), 0
        cloned = clone(fd, out)
        reader = out if cloned else fd
        buffer = memoryview(bytearray(CHUNK))
        while count := os.readv(reader, [buffer]):
            digest.update(buffer[:count])
            size += count
            if not cloned:
                self._disk.write(out, buffer[:count])
        return Blob(digest.hexdigest(), size)

    # reading
    @contextmanager
    def open(self, checksum: str) -> Iterator[BinaryIO]:
        try:
            file = open(self.path(checksum), "rb")  # noqa: SIM115
        except FileNotFoundError:
            raise missing(checksum) from None
        except OSError as fault:
            raise disk_error(fault, self.path(checksum), "read") from fault
        with file:
            yield file

    def copy_out(self, blob: Blob, into: Path | str) -> FileStat:
        """Write the blob, verified, to the new file `into`: by clone where the file system can, else by copy."""
        try:
            fd = os.open(self.path(blob.checksum), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise missing(blob.checksum) from None
        except OSError as fault:
            raise disk_error(fault, self.path(blob.checksum), "read") from fault
        try:
            return self._copy_out(fd, blob, into)
        finally:
            os.close(fd)

    def _copy_out(self, fd: int, blob: Blob, into: Path | str) -> FileStat:
        small = os.read(fd, blob.size + 1) if blob.size <= CHUNK else None
        if small is not None and (len(small) != blob.size or blake3(small).hexdigest() != blob.checksum):
            raise damaged(blob.checksum)
        out = -1
        try:
            out = os.open(into, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            if small is not None:
                self._place(small, fd, out)
            elif self._stream(fd, out) != blob:
                raise damaged(blob.checksum)
            return FileStat.of(os.fstat(out))
        except BaseException as fault:
            if out >= 0:
                _unlink_quietly(into)
            if isinstance(fault, OSError) and not isinstance(fault, FileExistsError):
                raise disk_error(fault, into, "write") from fault
            raise
        finally:
            if out >= 0:
                os.close(out)

    def _place(self, data: bytes, fd: int, out: int) -> None:
        """Give a new file the bytes that were just read from `fd`; where files cannot be cloned, ask only once."""
        if self._clones:
            self._clones = clone(fd, out)
        if not self._clones:
            self._disk.write(out, data)

    # upkeep
    def check(self, blob: Blob) -> str | None:
        """What is wrong with a blob: missing, damaged; None if its bytes are its own."""
        try:
            with self.open(blob.checksum) as file:
                digest, size = blake3(), 0
                while data := file.read(CHUNK):
                    digest.update(data)
                    size += len(data)
        except StoreDamaged:
            return "missing"
        except OSError as fault:
            return f"unreadable: {fault.strerror}"
        return None if (digest.hexdigest(), size) == (blob.checksum, blob.size) else "damaged"

    def all(self) -> Iterator[Blob]:
        """Every blob there is a file of, in no order."""
        for number in range(256):
            with os.scandir(f"{self._blobs}/{number:02x}") as entries:
                for entry in entries:
                    try:
                        yield Blob(f"{number:02x}{entry.name}", entry.stat().st_size)
                    except FileNotFoundError:
                        continue

    def remove(self, checksum: str) -> None:
        """For upkeep alone, under the lock that every commit takes."""
        with suppress(FileNotFoundError):
            self._disk.unlink(self.path(checksum))

    def remove_incoming(self, living: Callable[[], Iterable[str]]) -> int:
        """Remove the temporary files whose owners are gone; how many there were.

        Who lives is asked after the files were listed: a file is always younger than its owner's lease.
        """
        with os.scandir(self._incoming) as entries:
            names = [entry.name for entry in entries]
        owners = set(living())
        gone = [name for name in names if name.split(".")[0] not in owners]
        for name in gone:
            _unlink_quietly(f"{self._incoming}/{name}")
        return len(gone)


@contextmanager
def _opened(name: str, source: LocalFile) -> Iterator[tuple[int, FileStat]]:
    with disk_faults(source.path, "read"):
        fd = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        before = FileStat.of(os.fstat(fd))
        if source.seen is not None and before != source.seen:
            raise changed_meanwhile(name)
        yield fd, before
    finally:
        os.close(fd)


def _check_unchanged(name: str, source: LocalFile, before: FileStat, fd: int, read: int) -> None:
    after = FileStat.of(os.fstat(fd))
    if after != before or read != before.size:
        raise changed_meanwhile(name)


def missing(checksum: str) -> StoreDamaged:
    return StoreDamaged(
        message=f"the blob {checksum} is missing",
        hint="`headgate verify` names the commits it belongs to; import the files again or restore a backup",
        damaged=(checksum,),
    )


def damaged(checksum: str) -> StoreDamaged:
    return StoreDamaged(
        message=f"the blob {checksum} does not have the bytes it was stored with",
        hint="`headgate verify` names the commits it belongs to; import the files again or restore a backup",
        damaged=(checksum,),
    )


def _unlink_quietly(path: Path | str) -> None:
    with suppress(OSError):
        os.unlink(path)
