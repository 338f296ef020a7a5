"""Headgate: typed tasks read an immutable snapshot of versioned data and publish a new version.

Importing this package configures nothing and imports nothing heavy; the public names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate._version import __version__

if TYPE_CHECKING:
    from headgate.errors import HeadgateError as HeadgateError

_EXPORTS = {
    "HeadgateError": "headgate.errors",
}

__all__ = ["HeadgateError", "__version__"]


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        from importlib import import_module

        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
