"""What `headgate doctor` looks at on a lakeFS server: its version, the fence, targets, rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.cli.checks import Finding, State
from headgate.errors import HeadgateError
from headgate.settings import Settings

if TYPE_CHECKING:
    from headgate.lake.lakefs import LakeFSLake
    from headgate.lake.lakefs.installing import FenceStatus, TargetStatus


def fences(settings: Settings) -> Iterator[Finding]:
    """Version, fence and targets of every store on lakeFS; what cannot be found out is a finding."""
    repositories = repositories_on_lakefs(settings)
    if not repositories:
        return
    from headgate.lake.opening import open_lakefs

    try:
        lake = open_lakefs(settings)
    except HeadgateError:
        return  # the check of the store itself says what is not set
    with lake:
        try:
            version = lake.api.facts().version
        except HeadgateError:
            return  # nor is it news that the server does not answer
        yield from _version(version)
        for repository in repositories:
            yield from _repository(lake, repository)


def rights(settings: Settings, role: str) -> Iterator[Finding]:
    """Each right that a role needs, tried with the keys of the settings."""
    from headgate.lake.lakefs.rights import Role, Verdict, try_rights
    from headgate.lake.opening import open_lakefs

    states = {Verdict.GRANTED: State.OK, Verdict.REFUSED: State.BROKEN, Verdict.UNTRIED: State.MISSING}
    with open_lakefs(settings) as lake:
        for repository in repositories_on_lakefs(settings):
            for tried in try_rights(lake.api, repository, Role(role)):
                yield Finding(
                    subject=f"{repository}: {tried.right.name}",
                    state=states[tried.verdict],
                    detail=f"{tried.verdict}: {tried.right.purpose}" + (f" ({tried.detail})" if tried.detail else ""),
                    fix=f"grant {tried.right.name} to the {role}" if tried.verdict is Verdict.REFUSED else "",
                )


def protocol(settings: Settings) -> Iterator[Finding]:
    """Every case of the publication protocol, by real attempts on fresh branches of each repository on lakeFS."""
    from headgate.cli.protocol import run_protocol
    from headgate.lake.opening import open_lakefs

    with open_lakefs(settings) as lake:
        for repository in repositories_on_lakefs(settings):
            start = lake.resolve(repository, lake.api.default_branch(repository))
            for case in run_protocol(lake, repository, start):
                yield Finding(
                    subject=f"{repository}: {case.name}",
                    state=State.OK if case.holds else State.BROKEN,
                    detail=case.detail,
                    fix="" if case.holds else "do not publish to this server; report what the detail says",
                )


def repositories_on_lakefs(settings: Settings) -> list[str]:
    stores = (settings.store(name) for name in settings.stores)
    return sorted({store.repository for store in stores if store.lake == "lakefs" and store.repository})


def _version(version: str) -> Iterator[Finding]:
    from headgate.lake.lakefs.proof import OLDEST, is_too_old

    oldest = ".".join(map(str, OLDEST))
    if is_too_old(version):
        yield Finding(
            subject="lakeFS", state=State.BROKEN, detail=f"version {version}", fix=f"upgrade to {oldest} or later"
        )
    else:
        yield Finding(subject="lakeFS", state=State.OK, detail=f"version {version}; the fence needs {oldest}")


def _repository(lake: LakeFSLake, repository: str) -> Iterator[Finding]:
    from headgate.lake.lakefs.installing import Installing

    subject = f"fence of {repository}"
    try:
        found = Installing(lake.api, repository).status()
    except HeadgateError as error:
        yield Finding(subject=subject, state=State.BROKEN, detail=error.message, fix=error.hint)
        return
    yield _strength(subject, found)
    for target in found.targets:
        yield from _target(repository, target)
    if found.without_hook:
        shown = ", ".join(found.without_hook[:5]) + (", …" if len(found.without_hook) > 5 else "")
        yield Finding(
            subject=f"branches of {repository}",
            state=State.MISSING,
            detail=f"{len(found.without_hook)} do not carry the fence, so that merges from them are not held: {shown}",
            fix="make them again from the target, or merge the target into them",
        )


def _strength(subject: str, found: FenceStatus) -> Finding:
    if found.proved:
        return Finding(subject=subject, state=State.OK, detail="hard: the server refused a stale merge")
    return Finding(
        subject=subject,
        state=State.MISSING,
        detail="soft: the server took a stale merge, so that it runs no hooks",
        fix="set actions.enabled in the server's configuration",
    )


def _target(repository: str, target: TargetStatus) -> Iterator[Finding]:
    from headgate.lake.lakefs.installing import HookState

    subject = f"{repository}@{target.branch}"
    if target.dirty:
        detail = f"uncommitted changes, so that nothing can be published: {', '.join(target.dirty)}"
        yield Finding(subject=subject, state=State.BROKEN, detail=detail, fix=f"headgate repair {subject}")
    if target.protected:
        detail = "protected: merges are taken, but an abandoned publication cannot be replaced"
        fix = "remove the protection rule (the fence refuses direct commits), or start new workflows from the head"
        yield Finding(subject=subject, state=State.MISSING, detail=detail, fix=fix)
    if target.gate.shut:
        detail = f"its gate is shut, at {target.gate.epoch}: a replacement is under way, or its worker is gone"
        yield Finding(subject=subject, state=State.MISSING, detail=detail, fix="headgate gc")
    if target.hook is HookState.OURS:
        yield Finding(subject=subject, state=State.OK, detail="carries the fence")
    else:
        fix = "upgrade headgate here" if target.hook is HookState.NEWER else f"headgate fence install {subject}"
        yield Finding(subject=subject, state=State.MISSING, detail=f"its fence is {target.hook}", fix=fix)
