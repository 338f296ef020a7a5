"""Bytes to and from a lakeFS: streamed, verified, large ones past the server where the block store can sign URLs."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import urllib3
from blake3 import blake3

from headgate.errors import StoreDamaged, Transient
from headgate.lake.blobs import changed_meanwhile
from headgate.lake.disk import disk_error, disk_faults
from headgate.lake.files import CHUNK
from headgate.lake.interface import Fetched, FileStat, LakeObject, LocalFile, Source
from headgate.lake.lakefs.answers import error_of
from headgate.lake.lakefs.api import Api

PRESIGN_FROM = 8 << 20
"""Objects of this size and more go to and from the block store itself: below, the extra requests cost more."""

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
            yield io.BufferedReader(cast(io.RawIOBase, got), CHUNK)

    def fetch(self, repository: str, ref: str, item: LakeObject, *, into: Path | str) -> Fetched:
        """Write one object to a new file. A transfer that breaks off is begun again, a few times."""
        out = _create(into)
        try:
            for number in range(1, _TRIES + 1):
                try:
                    return self._fetch(repository, ref, item, out, into)
                except Transient:
                    if number == _TRIES:
                        raise
                    os.ftruncate(out, 0)
                    os.lseek(out, 0, os.SEEK_SET)
        except BaseException:
            Path(into).unlink()
            raise
        finally:
            os.close(out)
        raise AssertionError("unreachable")

    def _fetch(self, repository: str, ref: str, item: LakeObject, out: int, into: Path | str) -> Fetched:
        md5, digest, size = hashlib.md5(usedforsecurity=False), blake3(), 0
        checked = _MD5.fullmatch(item.checksum) is not None
        with self._stream(repository, ref, item) as got:
            while data := got.read(CHUNK):
                size += len(data)
                digest.update(data)
                if checked:
                    md5.update(data)
                with disk_faults(into, "write"):
                    _write_all(out, data)
        if size != item.size or (checked and md5.hexdigest() != item.checksum):
            raise StoreDamaged(
                message=f"the bytes of {item.path} at {ref} are not those that lakeFS lists: {size} bytes, not "
                f"{item.size}, or another checksum",
                hint="look at the object in lakeFS and at what lies between here and its block store",
                damaged=(item.path,),
            )
        return Fetched(FileStat.of(os.fstat(out)), digest.hexdigest())

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
        if size >= PRESIGN_FROM and not isinstance(body, bytes) and self._can_presign():
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
