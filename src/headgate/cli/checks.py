"""What `headgate doctor` looks at: each check tells what is there, what is missing and how to get it.

A part adds checks of its own by writing a function `(Settings) -> Iterable[Finding]` and naming it in `CHECKS`; its
module is imported when the doctor runs. A check raises nothing: what it cannot find out is a finding.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from headgate.settings import Settings, StoreSettings
from headgate.spark.java import INSTALL_JAVA, find_java, java_problem, java_version

CHECKS: tuple[str, ...] = (
    "headgate.cli.checks:python",
    "headgate.cli.checks:extras",
    "headgate.cli.checks:java",
    "headgate.cli.checks:spark",
    "headgate.cli.checks:folders",
    "headgate.cli.checks:stores",
    "headgate.cli.lakefs_checks:fences",
    "headgate.cli.checks:orchestrator",
)

OLDEST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 1_000_000_000
_ANSWER_SECONDS = 3.0


class State(StrEnum):
    OK = "ok"
    MISSING = "missing"
    """Not there, and not needed by what the settings say."""
    BROKEN = "broken"
    """Needed, and not usable."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    subject: str
    state: State
    detail: str
    fix: str = ""


def examine(settings: Settings) -> list[Finding]:
    """The findings of every check, in their order."""
    findings: list[Finding] = []
    for named in CHECKS:
        module, _, function = named.partition(":")
        findings += getattr(import_module(module), function)(settings)
    return findings


def python(_: Settings) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        fix = f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or later"
        yield Finding(subject="Python", state=State.BROKEN, detail=version, fix=fix)
    else:
        yield Finding(subject="Python", state=State.OK, detail=f"{version} at {sys.executable}")


def extras(_: Settings) -> Iterator[Finding]:
    """Which of the optional parts are installed, as the package's own metadata names them."""
    for extra, needed in _extras().items():
        installed = {name: _version_of(name) for name in needed}
        absent = sorted(name for name, version in installed.items() if version is None)
        if absent:
            yield Finding(
                subject=f"headgate[{extra}]",
                state=State.MISSING,
                detail=f"without {', '.join(absent)}",
                fix=f"pip install 'headgate[{extra}]'",
            )
        else:
            told = ", ".join(f"{name} {version}" for name, version in sorted(installed.items()))
            yield Finding(subject=f"headgate[{extra}]", state=State.OK, detail=told)


def java(_: Settings) -> Iterator[Finding]:
    if (wrong := java_problem()) is not None:
        detail = f"{wrong}; Spark tasks cannot run"
        yield Finding(subject="Java", state=State.MISSING, detail=detail, fix=INSTALL_JAVA)
    else:
        found = find_java()
        assert found is not None
        yield Finding(subject="Java", state=State.OK, detail=f"{java_version(found)} at {found}")


def spark(settings: Settings) -> Iterator[Finding]:
    """Whether a session could start, where PySpark is there: Java and the extra have findings of their own."""
    from headgate.spark import needs

    version = needs.installed("pyspark")
    if version is None:
        return
    wrong = [one for one in needs.problems(settings.spark) if one.where != "Java"]
    for one in wrong:
        yield Finding(subject="Spark", state=State.BROKEN, detail=f"{one.where}: {one.message}", fix=one.fix)
    if not wrong:
        yield Finding(subject="Spark", state=State.OK, detail=f"{version} on {settings.spark.master}")


def folders(settings: Settings) -> Iterator[Finding]:
    yield writable("state", settings.state, setting="state")
    at = _existing(settings.state)
    free = shutil.disk_usage(at).free
    told = f"{free / 1e9:.1f} GB free at {at}"
    if free < LEAST_FREE_BYTES:
        fix = "free some space, or put `state` on another disk"
        yield Finding(subject="disk space", state=State.BROKEN, detail=told, fix=fix)
    else:
        yield Finding(subject="disk space", state=State.OK, detail=told)


def stores(settings: Settings) -> Iterator[Finding]:
    if not settings.stores:
        fix = 'name one in headgate.toml: [stores.songs] with lake = "embedded", or run headgate init'
        yield Finding(subject="stores", state=State.MISSING, detail="the settings name none", fix=fix)
    for name in settings.stores:
        yield from _store(name, settings.store(name), settings)


def _store(name: str, store: StoreSettings, settings: Settings) -> Iterable[Finding]:
    subject = f"store {name}"
    if store.lake == "embedded" and store.root is not None:
        return [writable(subject, store.root, setting=f"stores.{name}.root")]
    if store.lake == "lakefs":
        return [_lakefs(subject, settings)]
    if store.graph and "://" not in store.graph:
        return [writable(subject, Path(store.graph), setting=f"stores.{name}.graph")]
    return [Finding(subject=subject, state=State.OK, detail=f"graph at {store.graph} (not asked)")]


def orchestrator(settings: Settings) -> Iterator[Finding]:
    if settings.orchestrator == "embedded":
        yield Finding(subject="orchestrator", state=State.OK, detail=f"embedded, in {settings.state}")
        return
    url = settings.conductor.server_url
    if url is None:
        fix = "set conductor.server_url in headgate.toml, or CONDUCTOR_SERVER_URL"
        yield Finding(subject="orchestrator", state=State.BROKEN, detail="Conductor without an address", fix=fix)
        return
    health = url.rstrip("/").removesuffix("/api") + "/health"
    finding = answers("orchestrator", health, setting="conductor.server_url")
    key, secret = settings.conductor.auth_key, settings.conductor.auth_secret
    if finding.state is State.OK and key and secret:
        body = {"keyId": key, "keySecret": secret.get_secret_value()}
        token = f"{url.rstrip('/')}/token"
        finding = answers("orchestrator", token, method="POST", json=body, setting="conductor.auth_key and auth_secret")
    yield finding


def _lakefs(subject: str, settings: Settings) -> Finding:
    lakefs = settings.lakefs
    unset = [name for name in type(lakefs).model_fields if getattr(lakefs, name) is None]
    if unset:
        fix = "set it in headgate.toml or as HEADGATE_LAKEFS_…, or set up lakectl (LAKECTL_…, ~/.lakectl.yaml)"
        detail = f"lakeFS without {', '.join(f'lakefs.{name}' for name in unset)}"
        return Finding(subject=subject, state=State.BROKEN, detail=detail, fix=fix)
    import urllib3

    address = str(lakefs.endpoint).rstrip("/").removesuffix("/api/v1")
    finding = answers(subject, f"{address}/api/v1/healthcheck", setting="lakefs.endpoint")
    if finding.state is State.OK and lakefs.secret_access_key:
        login = urllib3.make_headers(basic_auth=f"{lakefs.access_key_id}:{lakefs.secret_access_key.get_secret_value()}")
        credentials = "lakefs.access_key_id and secret_access_key"
        finding = answers(subject, f"{address}/api/v1/user", headers=dict(login), setting=credentials)
    return finding


def answers(subject: str, url: str, *, setting: str, method: str = "GET", **request: Any) -> Finding:
    """Whether a server answers a request, and not with a refusal."""
    import urllib3

    with urllib3.PoolManager(retries=False, timeout=_ANSWER_SECONDS) as http:
        try:
            status = http.request(method, url, **request).status
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            detail = f"{url} does not answer: {error}"
            return Finding(subject=subject, state=State.BROKEN, detail=detail, fix=f"start it, or correct {setting}")
    if status in (401, 403):
        detail = f"{url} refuses the credentials"
        return Finding(subject=subject, state=State.BROKEN, detail=detail, fix=f"correct {setting}")
    if status >= 400:
        detail = f"{url} answers with status {status}"
        return Finding(subject=subject, state=State.BROKEN, detail=detail, fix=f"look at its log, or correct {setting}")
    return Finding(subject=subject, state=State.OK, detail=f"{url} answers")


def writable(subject: str, folder: Path, *, setting: str) -> Finding:
    """Whether a folder can be written, or made where it is not there yet. Nothing is left behind."""
    at = _existing(folder)
    if not at.is_dir():
        detail, fix = f"{at} is not a folder", f"move it away, or choose another place in {setting}"
        return Finding(subject=subject, state=State.BROKEN, detail=detail, fix=fix)
    if not os.access(at, os.W_OK | os.X_OK):
        detail, fix = f"{at} cannot be written", f"grant the right to write there, or choose another place in {setting}"
        return Finding(subject=subject, state=State.BROKEN, detail=detail, fix=fix)
    return Finding(subject=subject, state=State.OK, detail=str(folder) if at == folder else f"{folder} (not made yet)")


def _existing(path: Path) -> Path:
    return next(at for at in (path, *path.parents) if at.exists())


def _extras() -> dict[str, list[str]]:
    """The distributions each extra adds. `all` says nothing new."""
    by_extra: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("headgate") or []:
        marker = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", requirement)
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if marker and name and name.group() != "headgate" and marker.group(1) != "all":
            by_extra.setdefault(marker.group(1), []).append(name.group())
    return by_extra


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
