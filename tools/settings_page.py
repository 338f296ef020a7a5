"""The settings page, made from the settings model. `tools.reference` writes it."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headgate.settings import StoreSettings
from headgate.settings.fields import scalars
from headgate.settings.sources import AMBIENT_VARIABLES, PREFIX

INTRODUCTION = """\
# Settings

<!-- Made by tools/reference.py from src/headgate/settings/model.py; change it there. -->

Task code names no endpoint: it names stores, and `headgate.toml` says what stands behind the names. The file is looked
for in the current folder and in those above it. `headgate config` shows every value and where it came from.

```toml
[stores.songs]
lake = "embedded"

[stores.music]
graph = "./music"

[profile.prod]
orchestrator = "conductor"

[profile.prod.stores.songs]
lake = "lakefs"
```

A value is taken from the first of these that has it:

1. a variable `HEADGATE_…` in the environment;
2. the same in a `.env` file beside `headgate.toml`;
3. the profile chosen with `--profile` or `HEADGATE_PROFILE`;
4. the rest of `headgate.toml`;
5. what is set up for other tools: the variables in the last table, then `~/.lakectl.yaml`;
6. the default.

A profile that says what kind of store a name stands for replaces that store as a whole; otherwise it changes single
values. Relative paths are meant from the folder of `headgate.toml`, those in the environment from the current one. An
unknown key in a file is an error that names the nearest one; an unknown `HEADGATE_…` variable is a warning, since
container platforms add some. Secrets are never printed, and are kept out of the logs. Credentials for S3 come from the
AWS chain (`AWS_…`, `~/.aws`, roles), read by the libraries that use them.
"""


OPTIONS_OF_SPARK = """\
## `[spark.conf]`

Options of Spark's own, by their names; they win over those that Headgate sets. Values of options whose names speak of a
secret, a password, a token or an access key are kept out of what is printed and logged.

```toml
[spark.conf]
spark.sql.shuffle.partitions = 64
spark.driver.memory = "4g"
```
"""


def settings_page() -> str:
    parts = [INTRODUCTION]
    for title, under, section in _sections():
        rows = [
            f"| `{'.'.join((*under, *path))}` | {_type(field)} | {_default(field)} | {_sentence(field)} |"
            for path, field in section
        ]
        parts.append(
            "\n".join(
                [
                    f"## {title}\n",
                    "| setting | value | default | what it does |",
                    "| --- | --- | --- | --- |",
                    *rows,
                    "",
                ]
            )
        )
    ambient = [f"| `{name}` | `{'.'.join(path)}` |" for name, path in AMBIENT_VARIABLES.items()]
    parts.append("\n".join(["## Variables of other tools\n", "| variable | setting |", "| --- | --- |", *ambient, ""]))
    parts.append(
        f"The variable of a setting is `{PREFIX}` and its path in capitals: `log.level` is `{PREFIX}LOG_LEVEL`. "
        "Stores have\nno variables.\n"
    )
    return "\n".join([*parts, OPTIONS_OF_SPARK])


def _sections() -> Iterator[tuple[str, tuple[str, ...], list[tuple[tuple[str, ...], FieldInfo]]]]:
    by_table: dict[str, list[tuple[tuple[str, ...], FieldInfo]]] = {}
    for path, field in scalars():
        by_table.setdefault(path[0] if len(path) > 1 else "", []).append((path, field))
    yield "At the top", (), by_table.pop("")
    yield "`[stores.NAME]`", ("stores", "NAME"), list(scalars(StoreSettings))
    for table, rows in by_table.items():
        yield f"`[{table}]`", (), rows


def _sentence(field: FieldInfo) -> str:
    return re.sub(r"\s+", " ", field.description or "").replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    return "" if field.default is None else f"`{field.default}`"


def _type(field: FieldInfo) -> str:
    return _named(field.annotation)


def _named(annotation: Any) -> str:
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_named(arg) for arg in get_args(annotation) if arg is not type(None))
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    names = {
        "str": "text",
        "Path": "path",
        "SecretStr": "secret",
        "int": "number",
        "float": "number",
        "bool": "true or false",
    }
    return names.get(getattr(annotation, "__name__", ""), str(annotation))
