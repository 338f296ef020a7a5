"""Which keys a lake takes, and what lies under a prefix."""

from __future__ import annotations

import re

from headgate.errors import InvalidInput

MAX_KEY_BYTES = 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NAME = re.compile(r"^\w[-\w]*$", re.ASCII)
_MAX_NAME = 255


def key_problem(path: str) -> str | None:
    """Why `path` cannot be the key of an object; None if it can.

    Control characters are refused, the newline among them: such a key cannot be told apart in a list of keys, one a
    line, and the S3 protocol cannot carry it.
    """
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "it is absolute"
    if _CONTROL.search(path):
        return "it has a control character, such as a newline"
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        return "it has an empty, '.' or '..' segment"
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if len(encoded) > MAX_KEY_BYTES:
        return f"it is longer than {MAX_KEY_BYTES} bytes"
    return None


def check_key(path: str) -> str:
    problem = key_problem(path)
    if problem is not None:
        raise InvalidInput(
            message=f"{path!r} cannot be the path of an object: {problem}",
            hint="use a relative path like 'songs/one.wav'",
        )
    return path


def normal_prefix(prefix: str) -> str:
    """`prefix` without slashes at its ends; "" is everything."""
    normal = prefix.strip("/")
    if normal:
        check_key(normal)
    return normal


def under(prefix: str, path: str) -> bool:
    """Whether `path` lies under a normal prefix: whole segments, so `audio/render` has nothing of `audio/render2`."""
    return not prefix or path == prefix or path.startswith(prefix + "/")


def check_name(kind: str, name: str) -> str:
    """A name of a branch or a repository, in the characters that every lake takes."""
    if not _NAME.match(name) or len(name) > _MAX_NAME:
        raise InvalidInput(
            message=f"{name!r} cannot be the name of a {kind}",
            hint=f"use letters, digits, '-' and '_', not starting with '-', at most {_MAX_NAME}",
        )
    return name
