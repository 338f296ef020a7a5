"""A graph's address: a local folder or `s3://bucket/prefix`, with what the object store needs to be reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.errors import InvalidInput, Unsupported

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
    "AWS_REGION": "aws_region",
    "AWS_DEFAULT_REGION": "aws_region",
    "AWS_ENDPOINT_URL": "aws_endpoint",
    "AWS_ENDPOINT_URL_S3": "aws_endpoint",
}


@dataclass(frozen=True)
class Location:
    """Where a graph is. `uri` is absolute and has no slash at its end."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What reaches an object store: keys, region, endpoint. Empty for a folder."""

    @classmethod
    def parse(cls, uri: str | Path, options: Mapping[str, str] | None = None) -> Location:
        """Read an address; options that are not given come from the usual `AWS_*` variables."""
        text = str(uri)
        if not text:
            raise InvalidInput(message="the graph's address is empty", hint="give a folder or s3://bucket/prefix")
        scheme, found, rest = text.partition("://")
        if not found:
            return cls(str(Path(text).expanduser().absolute()))
        if scheme == "file":
            return cls(str(Path(rest).absolute()))
        if scheme != "s3":
            raise Unsupported(
                message=f"{text} is not an address of a graph: {scheme}:// is not known",
                hint="give a folder or s3://bucket/prefix",
            )
        if not rest.strip("/"):
            raise InvalidInput(message=f"{text} names no bucket", hint="write s3://bucket/prefix")
        return cls(f"s3://{rest.strip('/')}", _s3_options(options or {}))

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    @property
    def path(self) -> Path:
        """The folder; only a local graph has one."""
        if not self.is_local:
            raise Unsupported(message=f"{self.uri} is not a local folder", hint="this needs a graph in a folder")
        return Path(self.uri)

    @property
    def bucket(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[0]

    @property
    def prefix(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[2]

    def child(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def __str__(self) -> str:
        return self.uri


def _s3_options(given: Mapping[str, str]) -> dict[str, str]:
    options = {ours: os.environ[theirs] for theirs, ours in _ENVIRONMENT.items() if os.environ.get(theirs)}
    options.update(given)
    if options.get("aws_endpoint", "").startswith("http://"):
        options.setdefault("allow_http", "true")
    options.setdefault("aws_region", "us-east-1")
    return options
