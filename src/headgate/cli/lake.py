"""Files of a lake: make one, look into it, bring files in and out, upkeep."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.cli.branches import list_branches
from headgate.cli.graph_input import is_graph
from headgate.cli.stores import named, open_repository
from headgate.cli.transfers import watched
from headgate.errors import InvalidInput, NotFound, Unsupported

if TYPE_CHECKING:
    from headgate.lake import EmbeddedLake
    from headgate.lake.interface import Changes, Lake
    from headgate.publication import Ref

app = typer.Typer()
lake = typer.Typer(no_args_is_help=True, help="Files of a lake: ls, cat, put, get, import, export, and its upkeep.")
app.add_typer(lake, name="lake")
lake.command("branches")(list_branches)

Store = Annotated[str, typer.Argument(metavar="STORE", help="A lake of the settings.")]
AnyStore = Annotated[str, typer.Argument(metavar="STORE", help="A lake of the settings, or a graph.")]
AtRef = Annotated[str, typer.Argument(metavar="STORE[@REF]", help="A lake, and a branch or ref in it.")]
AtBranch = Annotated[str, typer.Argument(metavar="STORE[@BRANCH]", help="A lake, and a branch in it.")]
Prefix = Annotated[str, typer.Option("--prefix", help="Only what lies under this, or where it goes.")]
Message = Annotated[str, typer.Option("--message", "-m", help="What the commit says.")]


@lake.command()
def init(
    store: Store,
    dry_run: console.DryRunFlag = False,
) -> None:
    """Make the repository of a store: on its lakeFS, or in its embedded lake, which is made if it is not there."""
    settings = invocation.current().settings.store(store)
    if settings.kind != "lake" or settings.repository is None:
        raise Unsupported(message=f"the store {store!r} is not a lake", hint="`headgate graph init` makes a graph")
    if settings.lake == "embedded" and settings.root is not None:
        _init_embedded(settings.root, settings.repository, dry_run=dry_run)
        return
    with open_repository(store) as (server, repository):
        _make_repository(server, repository, where=server.name, dry_run=dry_run)


def _init_embedded(root: Path, repository: str, *, dry_run: bool) -> None:
    from headgate.lake import EmbeddedLake

    if dry_run:
        console.note(f"would make the repository {repository} in {root}")
        return
    with EmbeddedLake(root, create=True) as made:
        _make_repository(made, repository, where=str(root), dry_run=False)


def _make_repository(opened: Lake, repository: str, *, where: str, dry_run: bool) -> None:
    if repository in opened.repositories():
        console.note(f"{repository} is in {where} already")
    elif dry_run:
        console.note(f"would make the repository {repository} in {where}")
    else:
        opened.create_repository(repository)
        console.note(f"made the repository {repository} in {where}")


@lake.command()
def repos(json: console.JsonFlag = False) -> None:
    """Show the lakes of the settings and the repositories in them."""
    settings = invocation.current().settings
    rows: list[dict[str, str]] = []
    for name in sorted(settings.stores):
        if settings.stores[name].kind != "lake":
            continue
        try:
            with open_repository(name) as (opened, repository):
                there = repository in opened.repositories()
                rows.append({"store": name, "repository": repository, "lake": opened.name, "there": str(there).lower()})
        except NotFound:
            rows.append({"store": name, "repository": "", "lake": "", "there": "false"})
    console.show_either(
        rows,
        as_json_text=json,
        draw=lambda: console.table(["store", "repository", "lake", "there"], [tuple(row.values()) for row in rows]),
    )


@lake.command()
def ls(
    store: AtRef,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only what lies under this.")] = "",
    long: Annotated[bool, typer.Option("--long", "-l", help="With sizes and checksums.")] = False,
    json: console.JsonFlag = False,
) -> None:
    """List the objects at a ref."""
    with _at(store) as (opened, repository, ref):
        objects = opened.objects(repository, ref, prefix=prefix)
        if json:
            console.show_json([item._asdict() for item in objects])
            return
        for item in objects:
            console.say(f"{item.checksum}  {item.size:>12}  {item.path}" if long else item.path)


@lake.command()
def cat(store: AtRef, path: Annotated[str, typer.Argument(help="The object.")]) -> None:
    """Write the bytes of an object to stdout."""
    with _at(store) as (opened, repository, ref), opened.open(repository, ref, path) as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@lake.command()
def put(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file; - for what comes on stdin.")],
    store: AtBranch,
    path: Annotated[str, typer.Argument(help="The path the object gets.")],
    message: Message = "",
    dry_run: console.DryRunFlag = False,
) -> None:
    """Commit one file to a branch."""
    from headgate.lake.interface import Changes, LocalFile, Source

    source: Source
    if file == "-":
        source = sys.stdin.buffer.read()
    else:
        if not Path(file).is_file():
            raise NotFound(message=f"there is no file {file!r}", hint="name a file", kind="file", name=file)
        source = LocalFile(Path(file).resolve())
    _publish(store, Changes(puts={path: source}), message=message or f"Put {path}", dry_run=dry_run)


@lake.command()
def get(
    store: AtRef,
    path: Annotated[str, typer.Argument(help="The object.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there.")],
) -> None:
    """Write an object to a file."""
    from headgate.lake.interface import Wanted

    with _at(store) as (opened, repository, ref):
        found = [item for item in opened.objects(repository, ref, prefix=path) if item.path == path]
        if not found:
            raise NotFound(
                message=f"there is no object {path!r} at {ref}",
                hint=f"`headgate lake ls {store}` lists them",
                kind="object",
                name=path,
            )
        try:
            list(opened.fetch(repository, ref, [Wanted(found[0], str(file))]))
        except FileExistsError:
            raise InvalidInput(message=f"{file} is there already", hint="name another file, or remove it") from None


@lake.command("import")
def import_folder(
    source: Annotated[str, typer.Argument(metavar="FOLDER|STORE@REF", help="Where the files come from.")],
    store: AtBranch,
    prefix: Prefix = "",
    delete: Annotated[bool, typer.Option("--delete", help="Remove the objects that the source does not have.")] = False,
    message: Message = "",
    dry_run: console.DryRunFlag = False,
) -> None:
    """Commit the files of a folder, or of another lake's ref, to a branch."""
    from headgate.lake.workspace import changes_against

    with _folder_of(source) as folder:
        with _at(store) as (opened, repository, ref):
            present = opened.objects(repository, ref, prefix=prefix)
            changes = changes_against(folder, present, prefix=prefix, delete=delete)
        if changes:
            _publish(store, changes, message=message or f"Import {source}", dry_run=dry_run)
        else:
            console.note("nothing to change: the branch has these files already")


@lake.command("export")
def export_folder(
    store: AtRef,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    prefix: Prefix = "",
    dry_run: console.DryRunFlag = False,
) -> None:
    """Write the objects at a ref to a folder."""
    with _at(store) as (opened, repository, ref):
        if dry_run:
            items = list(opened.objects(repository, ref, prefix=prefix))
            console.note(f"would write {len(items)} files, {sum(item.size for item in items)} bytes, to {folder}")
            return
        _download(opened, repository, ref, folder, prefix)


@app.command()
@lake.command()
def verify(store: AnyStore, json: console.JsonFlag = False) -> None:
    """Read everything; say what is damaged, and which commits it hurts."""
    if is_graph(store):
        from headgate.cli.graph_upkeep import verify_graph

        verify_graph(store, json=json)
        return
    with _embedded(store) as opened, watched("verify", summary=True) as progress:
        report = opened.verify(progress=progress)
    console.show_either(report, as_json_text=json, draw=lambda: "\n".join(_verdict(report)))
    if not report.whole:
        raise typer.Exit(8)


def _verdict(report: Any) -> Iterator[str]:
    for damage in report.damage:
        heads = f" (head of {', '.join(damage.branches)})" if damage.branches else ""
        yield f"{damage.what}: {damage.path or 'tree'} of {damage.repository}@{damage.ref}{heads}"
    state = "all whole" if report.whole else f"{len(report.damage)} things are hurt"
    yield f"{report.commits} commits, {report.objects} blobs, {report.bytes} bytes: {state}"


@lake.command("gc")
def collect(
    store: Store,
    keep_hours: Annotated[float, typer.Option("--keep-hours", help="Keep commits younger than this.")] = 24.0,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Remove commits and blobs that no branch reaches and nobody uses."""
    with _embedded(store) as opened:
        done = opened.gc(keep_seconds=keep_hours * 3600, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    console.show_either(
        done,
        as_json_text=json,
        draw=lambda: f"{verb} {done.commits} commits, {done.nodes} nodes, {done.blobs} blobs, {done.bytes} bytes",
    )


@contextmanager
def _at(text: str) -> Iterator[tuple[Lake, str, Ref]]:
    name, at = named(text)
    with open_repository(name) as (opened, repository):
        yield opened, repository, opened.resolve(repository, at)


@contextmanager
def _embedded(store: str) -> Iterator[EmbeddedLake]:
    from headgate.lake import EmbeddedLake

    with open_repository(named(store)[0]) as (opened, _):
        if not isinstance(opened, EmbeddedLake):
            raise Unsupported(message=f"the store {store!r} is kept by a server", hint="do its upkeep there")
        yield opened


@contextmanager
def _folder_of(source: str) -> Iterator[Path]:
    """The folder itself, or a ref of another lake brought into one for a while."""
    if Path(source).is_dir():
        yield Path(source).resolve()
    elif "@" in source:
        with tempfile.TemporaryDirectory(prefix="headgate-import-") as folder:
            with _at(source) as (opened, repository, ref):
                _download(opened, repository, ref, Path(folder), "")
            yield Path(folder)
    else:
        raise NotFound(
            message=f"there is no folder {source!r}", hint="name a folder, or STORE@REF", kind="folder", name=source
        )


def _download(opened: Lake, repository: str, ref: Ref, folder: Path, prefix: str) -> None:
    from headgate.lake.transfer import download

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput(message=f"{folder} is not empty", hint="name a new or empty folder")
    except FileExistsError:
        raise InvalidInput(message=f"{folder} is a file", hint="name a new or empty folder") from None
    with watched("download", summary=True) as progress:
        baseline = download(opened, repository, ref, into=folder, prefix=prefix, progress=progress)
    console.note(f"wrote {len(baseline.files)} files to {folder}")


def _publish(store: str, changes: Changes, *, message: str, dry_run: bool) -> None:
    """Commit to a branch of our own and merge that, so that the branch moves at once, and only from where it was."""
    from headgate.ids import ULIDS
    from headgate.lake.interface import STAGING_PREFIX

    name, branch = named(store)
    with open_repository(name) as (opened, repository):
        head = opened.head(repository, branch)
        puts, deletes = len(changes.puts), len(tuple(changes.deletes))
        if dry_run:
            console.note(f"would put {puts} and delete {deletes} objects on {branch}, which is at {head.ref}")
            return
        staging = f"{STAGING_PREFIX}import-{ULIDS.new().lower()}"
        opened.create_branch(repository, staging, at=head.ref)
        try:
            with watched("upload", summary=True) if puts > 1 else nullcontext() as progress:
                opened.commit(repository, staging, changes, message=message, progress=progress)
            ref = opened.merge(repository, staging, branch, expected_head=head.ref, message=message)
        finally:
            opened.delete_branch(repository, staging)
    console.say(ref)
