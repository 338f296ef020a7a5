"""Checks on the files of a workspace, before and after the body.

A guardrail is any callable `(Path) -> None` that raises when the files are not in order. Those here raise
`GuardrailFailed`; they are frozen values, so that two equal declarations are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headgate.errors import GuardrailFailed, MissingExtra, Problem
from headgate.tasks.declaring import declared_at, report
from headgate.tasks.paths import check_glob, check_path, files_below, glob_matches

_SHOWN = 5


@runtime_checkable
class ChecksNames(Protocol):
    """A guardrail that needs no bytes: the paths of the files are enough, wherever the files are."""

    def check_names(self, paths: Collection[str]) -> None: ...


def require_file(path: str) -> Callable[[Path], None]:
    """The workspace has this file."""
    _checked("require_file", check_path, path)
    return _RequireFile(path)


def require_dir(path: str) -> Callable[[Path], None]:
    """The workspace has this folder."""
    _checked("require_dir", check_path, path.removesuffix("/"))
    return _RequireDir(path.removesuffix("/"))


def require_glob(pattern: str, *, min_count: int = 1, max_count: int | None = None) -> Callable[[Path], None]:
    """At least `min_count` and at most `max_count` files match."""
    _checked("require_glob", check_glob, pattern)
    if min_count < 0 or (max_count is not None and max_count < min_count):
        _report(
            "require_glob",
            f"min_count={min_count} and max_count={max_count} cannot both hold",
            "use 0 <= min_count <= max_count",
        )
    return _RequireGlob(pattern, min_count, max_count)


def forbid_glob(pattern: str) -> Callable[[Path], None]:
    """No file matches."""
    _checked("forbid_glob", check_glob, pattern)
    return _ForbidGlob(pattern)


def require_parquet_schema(pattern: str, schema: Mapping[str, Any] | Any) -> Callable[[Path], None]:
    """Every matching Parquet file has these columns with these types; at least one file matches.

    `schema` is a `pyarrow.Schema`, or names with types as text: `{"id": "string", "plays": "int64"}`. Further columns
    are allowed with the mapping, and refused with a `pyarrow.Schema`.
    """
    _checked("require_parquet_schema", check_glob, pattern)
    if isinstance(schema, Mapping):
        return _RequireParquetSchema(
            pattern, tuple((str(name), str(kind)) for name, kind in schema.items()), exact=False
        )
    columns = tuple((field.name, str(field.type)) for field in schema)
    return _RequireParquetSchema(pattern, columns, exact=True)


def _checked(name: str, check: Callable[[str], str], value: str) -> None:
    try:
        check(value)
    except ValueError as error:
        message, _, fix = str(error).partition("; ")
        _report(name, message, fix)


def _report(name: str, message: str, fix: str) -> None:
    report(f"{name} is declared wrongly", [Problem(declared_at(), f"{name}: {message}", fix)])


def _fail(guardrail: object, message: str, hint: str, problems: Sequence[Problem] = ()) -> GuardrailFailed:
    return GuardrailFailed(message=message, hint=hint, guardrail=str(guardrail), problems=tuple(problems))


def _matching(paths: Collection[str], pattern: str) -> list[str]:
    return [path for path in paths if glob_matches(pattern, path)]


def _has_folder(paths: Collection[str], folder: str) -> bool:
    return any(path.startswith(f"{folder}/") for path in paths)


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN])
    return f"{shown} and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else shown


@dataclass(frozen=True)
class _RequireFile:
    path: str

    def __str__(self) -> str:
        return f"require_file({self.path!r})"

    def __call__(self, workspace: Path) -> None:
        found = workspace / self.path
        if found.is_dir():
            raise _fail(self, f"{self.path} is a folder, not a file", "write a file of that name")
        if not found.is_file():
            raise self._absent()

    def check_names(self, paths: Collection[str]) -> None:
        if self.path not in paths:
            raise self._absent()

    def _absent(self) -> GuardrailFailed:
        return _fail(self, f"the workspace has no file {self.path}", "add the file, or drop the guardrail")


@dataclass(frozen=True)
class _RequireDir:
    path: str

    def __str__(self) -> str:
        return f"require_dir({self.path!r})"

    def __call__(self, workspace: Path) -> None:
        if not (workspace / self.path).is_dir():
            raise self._absent()

    def check_names(self, paths: Collection[str]) -> None:
        if not _has_folder(paths, self.path):
            raise self._absent()

    def _absent(self) -> GuardrailFailed:
        return _fail(self, f"the workspace has no folder {self.path}", "add a file below it, or drop the guardrail")


@dataclass(frozen=True)
class _RequireGlob:
    pattern: str
    min_count: int
    max_count: int | None

    def __str__(self) -> str:
        bound = "" if self.max_count is None else f", max_count={self.max_count}"
        return f"require_glob({self.pattern!r}, min_count={self.min_count}{bound})"

    def __call__(self, workspace: Path) -> None:
        self.check_names(list(files_below(workspace)))

    def check_names(self, paths: Collection[str]) -> None:
        found = _matching(paths, self.pattern)
        if len(found) < self.min_count:
            message = f"{len(found)} files match {self.pattern}, and at least {self.min_count} must"
            raise _fail(self, message, "add the missing files")
        if self.max_count is not None and len(found) > self.max_count:
            message = f"{len(found)} files match {self.pattern}, and at most {self.max_count} may: {_some(found)}"
            raise _fail(self, message, "remove the files that are too many")


@dataclass(frozen=True)
class _ForbidGlob:
    pattern: str

    def __str__(self) -> str:
        return f"forbid_glob({self.pattern!r})"

    def __call__(self, workspace: Path) -> None:
        self.check_names(list(files_below(workspace)))

    def check_names(self, paths: Collection[str]) -> None:
        if found := _matching(paths, self.pattern):
            raise _fail(self, f"{len(found)} files match {self.pattern}: {_some(found)}", "remove them")


@dataclass(frozen=True)
class _RequireParquetSchema:
    pattern: str
    columns: tuple[tuple[str, str], ...]
    exact: bool

    def __str__(self) -> str:
        return f"require_parquet_schema({self.pattern!r}, …)"

    def __call__(self, workspace: Path) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise MissingExtra(
                message="require_parquet_schema reads Parquet files, and pyarrow is not installed",
                hint="pip install 'headgate[graph]'",
                extra="graph",
            ) from error
        paths = _matching(list(files_below(workspace)), self.pattern)
        if not paths:
            raise _fail(self, f"no file matches {self.pattern}", "write at least one such file")
        problems: list[Problem] = []
        for path in paths:
            try:
                found = {field.name: str(field.type) for field in parquet.read_schema(workspace / path)}
            except (ArrowException, OSError) as error:
                problems.append(Problem(path, f"it is no Parquet file ({error})", "write Parquet"))
                continue
            problems += self._differences(path, found)
        if problems:
            count = len({problem.where for problem in problems})
            message = f"{count} of {len(paths)} files that match {self.pattern} do not have the schema"
            raise _fail(self, message, "write the columns with these types", problems)

    def _differences(self, path: str, found: Mapping[str, str]) -> list[Problem]:
        out = []
        for name, kind in self.columns:
            if name not in found:
                out.append(Problem(path, f"the column {name} is missing", f"it should be {kind}"))
            elif found[name] != kind:
                out.append(Problem(path, f"the column {name} is {found[name]}", f"it should be {kind}"))
        if self.exact:
            known = {name for name, _ in self.columns}
            out += [Problem(path, f"the column {name} is not in the schema") for name in found if name not in known]
        return out
