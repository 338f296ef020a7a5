"""Where the libraries that speak to S3 will find credentials. Told, never read: they are theirs to read."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path


def aws_source(environ: Mapping[str, str] | None = None, home: Path | None = None) -> str:
    """The first link of the AWS chain that holds, in words."""
    environ = os.environ if environ is None else environ
    home = home or Path.home()
    if environ.get("AWS_ACCESS_KEY_ID"):
        return "AWS_ACCESS_KEY_ID"
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return "AWS_WEB_IDENTITY_TOKEN_FILE"
    profile = environ.get("AWS_PROFILE", "default")
    file = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    if _has_profile(file, profile):
        return f"{file} [{profile}]"
    if environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return "the container's role"
    return "none set; an instance role, where there is one"


def _has_profile(file: Path, profile: str) -> bool:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        return False
    return parser.has_option(profile, "aws_access_key_id")
