"""Bytes to and from a lakeFS: streamed, verified, large ones past the server where the block store can sign URLs."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import urllib3

from headgate.errors import StoreDamaged, Transient
from headgate.lake.disk import disk_error, disk_faults
from headgate.lake.files import CHUNK, changed_meanwhile
from headgate.lake.interface import Fetched, FileStat, LakeObject, LocalFile, Source
from headgate.lake.lakefs.answers import error_of
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.digests import Digested, RunningDigest, digest

PRESIGN_FROM = 8 << 20
"""Objects of this size and more go to and from the block store itself: below, the extra requests cost more."""

PRESIGN_UP_TO = 5 << 30
"""Block stores take no larger object in one signed request; such an upload goes through the server."""

_MD5 = re.compile(r"[0-9a-f]{32}")
_TRIES = 3


class Objects:
    """Reads and writes objects of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._presigns: bool | None = None

    @contextmanager
    def open(self, repository: str, ref: str, path: str) -> Iterator[BinaryIO]:
        with self._api.client.stream(
            *self._api.object_path(repository, ref),
            query={"path": path},
            doing=f"read {path} at {ref}",
            kind="object",
            name=path,
        ) as got:
            # A response closes itself at its end, and a buffer may ask once more.
            cast(urllib3.HTTPResponse, got).auto_close = False
            yield io.BufferedReader(cast(io.RawIOBase, got), CHUNK)

    def fetch(self, repository: str, ref: str, item: LakeObject, *, into: Path | str) -> tuple[Fetched, bytes | None]:
        """Write one object to a new file; with its bytes if they were few enough to be held at once."""
        out = _create(into)
        try:
            if item.size <= CHUNK:
                data = self._read(repository, ref, item)
                _check_bytes(ref, item, got := digest(data))
                with disk_faults(into, "write"):
                    _write_all(out, data)
                return Fetched(FileStat.of(os.fstat(out)), got.blake3), data
            return self._fetch_large(repository, ref, item, out, into), None
        except BaseException:
            Path(into).unlink()
            raise
        finally:
            os.close(out)

    def _read(self, repository: str, ref: str, item: LakeObject) -> bytes:
        return self._api.read_object(repository, ref, item.path)

    def _fetch_large(self, repository: str, ref: str, item: LakeObject, out: int, into: Path | str) -> Fetched:
        """A transfer that breaks off is begun again, a few times."""
        for number in range(1, _TRIES + 1):
            try:
                return self._stream_to(repository, ref, item, out, into)
            except Transient:
                if number == _TRIES:
                    raise
                os.ftruncate(out, 0)
                os.lseek(out, 0, os.SEEK_SET)
        raise AssertionError("unreachable")

    def _stream_to(self, repository: str, ref: str, item: LakeObject, out: int, into: Path | str) -> Fetched:
        with RunningDigest() as running:
            with self._stream(repository, ref, item) as got:
                while data := got.read(CHUNK):
                    running.feed(data)
                    with disk_faults(into, "write"):
                        _write_all(out, data)
            digests = running.result()
        _check_bytes(ref, item, digests)
        return Fetched(FileStat.of(os.fstat(out)), digests.blake3)

    @contextmanager
    def _stream(self, repository: str, ref: str, item: LakeObject) -> Iterator[urllib3.BaseHTTPResponse]:
        doing = f"read {item.path} at {ref}"
        if item.size >= PRESIGN_FROM and self._can_presign():
            url = self._api.presigned(repository, ref, item.path)
            with self._api.client.stream_from(url, doing=doing) as got:
                yield got
        else:
            with self._api.client.stream(
                *self._api.object_path(repository, ref),
                query={"path": item.path},
                doing=doing,
                kind="object",
                name=item.path,
            ) as got:
                yield got

    def put(self, repository: str, branch: str, path: str, source: Source) -> tuple[LakeObject, bytes | None]:
        """Stage one object; what it is there, and its bytes if they were few enough to be held at once."""
        if isinstance(source, bytes):
            return self._upload(repository, branch, path, source, len(source)), source
        with disk_faults(source.path, "read"):
            fd = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            before = _seen(path, source, file)
            if before.size <= CHUNK:
                data = file.read(before.size + 1)
                _check_same(path, file, before, len(data))
                return self._upload(repository, branch, path, data, len(data)), data
            staged = self._upload(repository, branch, path, file, before.size)
            _check_same(path, file, before, staged.size)
            return staged, None

    def _upload(self, repository: str, branch: str, path: str, body: bytes | IO[bytes], size: int) -> LakeObject:
        if PRESIGN_FROM <= size <= PRESIGN_UP_TO and not isinstance(body, bytes) and self._can_presign():
            return self._upload_presigned(repository, branch, path, body, size)
        answer = self._api.put_object(repository, branch, path, body, size=size)
        if answer.status != 201:
            raise error_of(
                answer, doing=f"stage {path} on {branch}", server=self._api.client.name, kind="branch", name=branch
            )

        told = answer.json()
        return LakeObject(path, int(told["size_bytes"]), str(told["checksum"]))

    def _upload_presigned(self, repository: str, branch: str, path: str, body: IO[bytes], size: int) -> LakeObject:
        place = self._api.backing(repository, branch, path)
        answer = self._api.client.put_to(str(place["presigned_url"]), body, size=size)
        if answer.status not in (200, 201, 204):
            raise error_of(answer, doing=f"upload {path} to the block store", server=self._api.client.name)
        checksum = answer.headers.get("ETag", "").strip('"')
        self._api.link(repository, branch, path, staging=place, checksum=checksum, size=size)
        return LakeObject(path, size, checksum)

    def _can_presign(self) -> bool:
        if self._presigns is None:
            self._presigns = self._api.facts().presigns
        return self._presigns


def _seen(path: str, source: LocalFile, file: BinaryIO | IO[bytes]) -> FileStat:
    stat = FileStat.of(os.fstat(file.fileno()))
    if source.seen is not None and stat != source.seen:
        raise changed_meanwhile(path)
    return stat


def _check_same(path: str, file: BinaryIO | IO[bytes], before: FileStat, read: int) -> None:
    if FileStat.of(os.fstat(file.fileno())) != before or read != before.size:
        raise changed_meanwhile(path)


def _check_bytes(ref: str, item: LakeObject, got: Digested) -> None:
    """Where the checksum is no plain MD5, as of an object uploaded in parts, only the size can be compared."""
    plain = _MD5.fullmatch(item.checksum) is not None
    if got.size != item.size or (plain and got.md5 != item.checksum):
        raise StoreDamaged(
            message=f"the bytes of {item.path} at {ref} are not those that lakeFS lists: {got.size} bytes with "
            f"{got.md5}, not {item.size} with {item.checksum}",
            hint="look at the object in lakeFS and at what lies between here and its block store",
            damaged=(item.path,),
        )


def _create(path: Path | str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise
    except OSError as fault:
        raise disk_error(fault, path, "write") from fault


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
