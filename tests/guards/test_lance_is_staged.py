"""Our own source: Lance's methods that commit as a side effect are used in one place, the manifest's merge."""

from __future__ import annotations

import ast
from pathlib import Path

import headgate

SOURCE = Path(headgate.__file__).parent
COMMITTING = {
    "add_bases", "add_columns", "alter_columns", "cleanup_old_versions", "commit_batch",
    "commit_existing_index_segments", "compact_files", "create_branch", "create_index", "create_scalar_index",
    "deep_clone", "delete_config_keys", "drop_columns", "drop_index", "execute_batches", "initialize_mem_wal",
    "merge_insert", "migrate_manifest_paths_v2", "optimize_indices", "replace_field_metadata", "replace_schema",
    "replace_schema_metadata", "shallow_clone", "truncate_table", "update_config", "update_field_metadata",
    "update_schema_metadata", "write_dataset",
}  # fmt: skip
ALLOWED = {
    ("graph/manifest/table.py", "merge_insert"): "the one compare-and-swap: only the inline form is one",
    ("graph/manifest/table.py", "cleanup_old_versions"): "below a barrier of the manifest's own table",
    ("graph/storage/forks.py", "create_branch"): "a fork that nothing shows before its pin is published",
    ("graph/storage/removal.py", "cleanup_old_versions"): "exactly the versions that cleanup names",
    (
        "graph/manifest/history.py",
        "cleanup_old_versions",
    ): "the history's own table, whose rows stand in its newest version",
    ("graph/storage/scratch.py", "shallow_clone"): "a scratch table of one transaction, in a folder of its own",
}
WRITES = {
    "graph/storage/tables.py",
    "graph/storage/columns.py",
    "graph/storage/compact.py",
    "graph/storage/indices.py",
    "graph/storage/forks.py",
    "graph/manifest/table.py",
    "graph/manifest/history.py",
}
"""Where `LanceDataset.commit` and `write_fragments` may be called: what stages, and what keeps the manifest."""


def calls(path: Path) -> list[tuple[str, str]]:
    tree = ast.parse(path.read_text())
    if not any(_imports_lance(node) for node in ast.walk(tree)):
        return []
    name = path.relative_to(SOURCE).as_posix()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.append((name, node.attr))
        elif isinstance(node, ast.Name):
            found.append((name, node.id))
    return found


def _imports_lance(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "lance" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lance"


def every_call() -> list[tuple[str, str]]:
    return [found for path in sorted(SOURCE.rglob("*.py")) for found in calls(path)]


def test_no_method_that_commits_inline_is_used_outside_the_manifest() -> None:
    found = {call for call in every_call() if call[1] in COMMITTING}
    assert found - ALLOWED.keys() == set()


def test_what_is_allowed_is_used() -> None:
    assert ALLOWED.keys() <= set(every_call())


def test_transactions_are_committed_by_the_storage_and_the_manifest_only() -> None:
    committing = {file for file, name in every_call() if name in ("write_fragments", "LanceOperation")}
    assert committing <= WRITES


def test_the_walk_sees_a_committing_call(tmp_path: Path) -> None:
    """The guard itself: a module that commits inline would be found."""
    module = SOURCE / "graph" / "storage" / "tables.py"
    assert ("graph/storage/tables.py", "LanceDataset") in calls(module)
