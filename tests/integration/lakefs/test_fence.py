"""The fence on a real server: what it refuses, how it is installed, what it cannot see, what happens without it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.lakefs.conftest import Place, connect, make_place
from tools.servers import Server
from tools.servers.proxy import Fault, FaultProxy

from headgate.cli.main import run
from headgate.errors import (
    AccessDenied,
    Contention,
    InvalidInput,
    RecoveryRequired,
    StaleAttemptError,
    Transient,
    Unsupported,
)
from headgate.lake.interface import MAIN, Changes
from headgate.lake.lakefs import LakeFSLake, hook
from headgate.lake.lakefs.gate import GateRecord
from headgate.lake.lakefs.installing import ORCHESTRATOR, HookState, Installing
from headgate.lake.lakefs.proof import is_too_old
from headgate.lake.opening import open_lakefs
from headgate.lake.publisher import Owner
from headgate.publication import Head, HeadStatus, Ref, Strength, judge_head
from headgate.settings import load

pytestmark = pytest.mark.real


@dataclass
class Attempt:
    """A publisher that says what it was told to."""

    execution: str = "me"
    others_run: bool = False
    stale: bool = False

    @property
    def owner(self) -> Owner:
        return Owner(orchestrator="o", workflow="w", task_id="t", execution=self.execution)

    def still_runs(self, other: Owner) -> bool:
        return self.others_run

    def confirm(self, head: Head) -> None:
        if self.stale:
            raise StaleAttemptError(message="another attempt is current")


def installing(place: Place) -> Installing:
    waited: list[float] = []
    return Installing(place.lake.api, place.repository, wait=waited.append)


def commit_by_hand(place: Place, branch: str, path: str = "by-hand") -> int:
    place.lake.api.put_object(place.repository, branch, path, b"x", size=1)
    return place.lake.api.commit(place.repository, branch, message="by hand", metadata={}).status


@pytest.fixture
def abandoned(place: Place) -> Ref:
    return place.publish(place.stage(b"abandoned"), expected=place.first)


# ---------------------------------------------------------------------------------------------------------- the hook
def test_a_publish_carries_the_hook_and_says_hard(place: Place) -> None:
    assert place.lake.strength(place.repository) is Strength.HARD
    published = place.publish(place.stage(b"a2"), expected=place.first)
    assert place.lake.api.hook_ran(place.repository, published)
    assert installing(place).hook_at(published) is HookState.OURS
    assert [item.path for item in place.lake.objects(place.repository, published)] == ["a"]
    assert [change.path for change in place.lake.diff(place.repository, place.first, published)] == ["a"]


def test_hooks_are_never_part_of_a_workspace(place: Place) -> None:
    with pytest.raises(InvalidInput, match="never part of a workspace"):
        place.lake.commit(place.repository, MAIN, Changes(puts={hook.PATH: b"x"}), message="x")


def test_a_staging_branch_whose_hook_was_changed_is_not_merged(place: Place) -> None:
    branch = place.stage(b"a2")
    api = place.lake.api
    api.put_object(place.repository, branch, hook.PATH, b"name: nothing\n", size=14)
    with pytest.raises(RecoveryRequired, match="does not carry the fence"):
        place.publish(branch, expected=place.first)
    assert place.head() == place.first


def test_a_fence_of_a_newer_protocol_is_never_silently_soft(place: Place) -> None:
    branch = place.stage(b"a2")
    newer = hook.BYTES.replace(b"protocol: 1", b"protocol: 2")
    place.lake.api.put_object(place.repository, branch, hook.PATH, newer, size=len(newer))
    with pytest.raises(Unsupported, match="newer protocol"):
        place.publish(branch, expected=place.first)


def test_a_merge_while_the_gate_is_shut_releases_it_if_its_owner_is_over(place: Place) -> None:
    gate, branch = place.gate(), place.stage(b"a2")
    gate.register()
    epoch = gate.shut(Attempt("gone").owner, "headgate-staging-gone")
    asked = Attempt(others_run=True)
    with pytest.raises(Contention):
        place.lake.merge(place.repository, branch, MAIN, expected_head=place.first, message="m", publisher=asked)
    assert gate.state().shut
    with pytest.raises(Contention):
        place.lake.merge(place.repository, branch, MAIN, expected_head=place.first, message="m", publisher=Attempt())
    assert not gate.state().shut
    assert gate.state().epoch == epoch
    assert place.publish(branch, expected=place.first) == place.head()


@pytest.mark.parametrize("records", [999, 1000, 1001, 2001])
def test_the_last_of_many_records_decides_however_they_are_paged(place: Place, records: int) -> None:
    """The hook lists a thousand at a time."""
    gate = place.gate()
    gate.register()

    def put(number: int) -> int:
        key = f"{MAIN}/{number:012d}.done"
        return place.lake.api.put_object(place.repository, hook.GATES_BRANCH, key, b"{}", size=2).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(put, range(1, records))) == {201}
    shut = f"{MAIN}/{records:012d}"
    branch = place.stage(b"a2")
    place.lake.api.put_object(place.repository, hook.GATES_BRANCH, shut, b"{}", size=2)
    with pytest.raises(Contention):
        place.publish(branch, expected=place.first)
    gate.done(records)
    assert place.publish(branch, expected=place.first) == place.head()
    assert gate.collect() == records
    assert gate.state().epoch == records


def test_a_hard_fence_is_refused_where_the_server_runs_no_hooks(lakefs_without_actions: Server) -> None:
    with connect(lakefs_without_actions, fence="hard") as lake:
        place = make_place(connect(lakefs_without_actions, fence="soft"))
        with pytest.raises(RecoveryRequired, match="took a stale merge"):
            lake.strength(place.repository)


def test_a_soft_fence_is_said_plainly(lakefs_without_actions: Server, caplog: pytest.LogCaptureFixture) -> None:
    with connect(lakefs_without_actions, fence="auto") as lake:
        place = make_place(lake)
        assert lake.strength(place.repository) is Strength.SOFT
        assert "is soft" in caplog.text
        assert not [branch.name for branch in lake.branches(place.repository, prefix="headgate-probe-")]


# ------------------------------------------------------------------------------------------------ replacing, relocating
def test_a_replacement_leaves_the_gate_open_and_upkeep_takes_old_records(place: Place, abandoned: Ref) -> None:
    for number in range(3):
        moved = place.lake.move_head(
            place.repository,
            MAIN,
            to_branch=place.stage(str(number).encode()),
            expected_head=place.head(),
            publisher=Attempt(str(number)),
        )
        assert place.head() == moved
    assert place.gate().state().epoch == 3
    assert installing(place).collect() == 5
    assert place.gate().state().epoch == 3
    assert not place.gate().state().shut


def test_a_stale_attempt_is_stopped_behind_the_gate(place: Place, abandoned: Ref) -> None:
    """Invariant 2: a publish happens only if both fences hold."""
    with pytest.raises(StaleAttemptError):
        place.lake.move_head(
            place.repository,
            MAIN,
            to_branch=place.stage(b"a2"),
            expected_head=abandoned,
            publisher=Attempt(stale=True),
        )
    assert place.head() == abandoned
    assert not place.gate().state().shut


def test_a_gate_of_a_running_attempt_is_left_alone(place: Place, abandoned: Ref) -> None:
    gate = place.gate()
    gate.register()
    epoch = gate.shut(Attempt("other").owner, "headgate-staging-other")
    with pytest.raises(Contention, match="task t of workflow w"):
        place.lake.move_head(
            place.repository,
            MAIN,
            to_branch=place.stage(b"a2"),
            expected_head=abandoned,
            publisher=Attempt(others_run=True),
        )
    assert gate.state().shut
    assert gate.state().epoch == epoch


def test_a_record_created_again_below_a_later_one_is_given_up(place: Place) -> None:
    """A replacer that paused before it made its record, while others went on and upkeep ran."""
    gate = place.gate()
    gate.register()
    for number in (1, 2):
        epoch = gate.shut(Attempt(str(number)).owner, f"headgate-staging-{number}")
        gate.release(GateRecord(epoch=epoch, owner=Attempt(str(number)).owner, ref=f"headgate-staging-{number}"))
    gate.collect()
    paused = GateRecord(epoch=1, owner=Attempt("paused").owner, ref="headgate-staging-paused")
    place.lake.api.put_object(
        place.repository,
        hook.GATES_BRANCH,
        f"{MAIN}/000000000001",
        paused.to_bytes(),
        size=len(paused.to_bytes()),
        create_only=True,
    )
    assert not gate.state().shut
    assert place.publish(place.stage(b"a2"), expected=place.first) == place.head()


def test_a_protected_target_is_refused_with_the_choice(place: Place, abandoned: Ref) -> None:
    place.lake.client.expect(
        "PUT",
        "repositories",
        place.repository,
        "settings",
        "branch_protection",
        payload=[{"pattern": MAIN}, {"pattern": "watched"}],
        doing="protect",
    )
    assert installing(place).status().targets[0].protected
    place.lake.create_branch(place.repository, "watched", at=place.first)
    while place.lake.api.put_object(place.repository, "watched", "x", b"x", size=1).status != 403:
        pass  # the server goes by its old rules for a while
    branch = place.stage(b"a2")
    with pytest.raises(AccessDenied) as refused:
        place.lake.move_head(place.repository, MAIN, to_branch=branch, expected_head=abandoned)
    assert "remove the protection rule" in refused.value.hint
    assert place.head() == abandoned
    assert not place.gate().state().shut


# -------------------------------------------------------------------------------------------------------- dirty target
def test_a_dirty_target_is_named_and_nothing_is_published(place: Place, abandoned: Ref) -> None:
    place.lake.api.put_object(place.repository, MAIN, "left/over", b"x", size=1)
    with pytest.raises(Transient, match="left/over") as dirty:
        place.publish(place.stage(b"a2", at=abandoned), expected=abandoned)
    assert f"headgate repair {place.repository}@{MAIN}" in dirty.value.hint
    with pytest.raises(Transient, match="left/over"):
        place.lake.move_head(place.repository, MAIN, to_branch=place.stage(b"a2"), expected_head=abandoned)
    with pytest.raises(Transient, match="left/over"):
        place.lake.revoke(place.repository, "headgate-staging-none", target=MAIN)
    assert not place.gate().state().shut
    assert place.head() == abandoned


# ------------------------------------------------------------------------------------------------- install and remove
def test_install_brings_the_hook_through_a_merge_that_nobody_replaces(place: Place) -> None:
    made = installing(place).install(MAIN)
    assert made == place.head()
    head = place.lake.head(place.repository, MAIN)
    assert head.only_parent == place.first
    assert head.metadata["headgate.orchestrator"] == ORCHESTRATOR
    assert judge_head(head, orchestrator="any", fate=None).status is HeadStatus.FOREIGN
    assert installing(place).install(MAIN) is None
    assert [b.name for b in place.lake.branches(place.repository)] == [MAIN]


def test_install_ends_direct_commits_on_the_target_and_on_no_other_branch(place: Place) -> None:
    Installing(place.lake.api, place.repository).install(MAIN)
    place.lake.create_branch(place.repository, "feature", at=place.head())
    assert commit_by_hand(place, "feature") == 201
    before = place.head()
    assert commit_by_hand(place, MAIN) == 412
    assert place.head() == before


def test_install_refuses_while_an_attempt_is_staging(place: Place) -> None:
    branch = place.stage(b"a2")
    with pytest.raises(Transient, match=branch):
        installing(place).install(MAIN)


def test_remove_takes_it_away_and_people_write_again(place: Place) -> None:
    installing(place).install(MAIN)
    made = installing(place).remove(MAIN)
    assert made == place.head()
    assert installing(place).hook_at(place.head()) is HookState.ABSENT
    assert installing(place).remove(MAIN) is None


def test_status_tells_what_is_in_force_and_what_it_cannot_see(place: Place) -> None:
    place.lake.create_branch(place.repository, "old", at=place.first)
    installing(place).install(MAIN)
    status = installing(place).status()
    assert status.proved
    assert [(target.branch, target.hook, target.gate.known) for target in status.targets] == [
        (MAIN, HookState.OURS, True)
    ]
    assert status.without_hook == ("old",)


def test_an_edited_hook_is_told_from_an_older_and_a_newer_one(place: Place) -> None:
    api = place.lake.api
    seen = {}
    for name, data in {
        "changed": hook.BYTES + b"# mine\n",
        "older": hook.BYTES.replace(b"protocol: 1", b"protocol: 0"),
        "newer": hook.BYTES.replace(b"protocol: 1", b"protocol: 9"),
    }.items():
        place.lake.create_branch(place.repository, name, at=place.first)
        api.put_object(place.repository, name, hook.PATH, data, size=len(data))
        seen[name] = installing(place).hook_at(name)
    assert seen == {"changed": HookState.CHANGED, "older": HookState.OLDER, "newer": HookState.NEWER}


# ------------------------------------------------------------------------------------------------------- command line
@pytest.fixture
def project(lakefs: Server, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "headgate.toml").write_text(f'[stores.songs]\nlake = "lakefs"\nrepository = "{place.repository}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_LAKEFS_ENDPOINT", lakefs.url)
    monkeypatch.setenv("HEADGATE_LAKEFS_ACCESS_KEY_ID", lakefs.access_key)
    monkeypatch.setenv("HEADGATE_LAKEFS_SECRET_ACCESS_KEY", lakefs.secret_key)
    monkeypatch.setattr("headgate.lake.lakefs.installing.ACTIONS_CACHE_SECONDS", 0.0)
    return tmp_path


def test_the_commands_install_show_and_remove(project: Path, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fence", "install", "songs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strength"] == "hard"
    assert run(["fence", "status", f"{place.repository}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"][0]["hook"] == "in place"
    assert run(["fence", "status", "songs"]) == 0
    assert "hook in place" in capsys.readouterr().out
    assert run(["fence", "remove", "songs", "--yes"]) == 0
    assert "gone" in capsys.readouterr().out


def test_init_makes_the_repository_once(project: Path, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{place.repository}-new"
    (project / "headgate.toml").write_text(f'[stores.new]\nlake = "lakefs"\nrepository = "{name}"\n')
    assert run(["lake", "init", "new", "--dry-run"]) == 0
    assert name not in place.lake.repositories()
    assert run(["lake", "init", "new"]) == 0
    assert name in place.lake.repositories()
    capsys.readouterr()
    assert run(["lake", "init", "new"]) == 0
    assert "already" in capsys.readouterr().err


def test_repair_shows_and_drops_what_is_uncommitted(
    project: Path, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", "songs@main"]) == 0
    assert "nothing uncommitted" in capsys.readouterr().out
    place.lake.api.put_object(place.repository, MAIN, "left/over", b"x", size=1)
    assert run(["repair", "songs@main"]) == 0
    assert "left/over" in capsys.readouterr().out
    assert list(place.lake.api.uncommitted(place.repository, MAIN))
    assert run(["repair", "songs@main", "--drop"]) == 4
    assert run(["repair", "songs@main", "--drop", "--yes"]) == 0
    assert not list(place.lake.api.uncommitted(place.repository, MAIN))


@pytest.mark.parametrize(("fence", "strength"), [("auto", Strength.HARD), ("soft", Strength.SOFT)])
def test_the_fence_setting_takes_effect(
    project: Path, place: Place, fence: str, strength: Strength, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_LAKEFS_FENCE", fence)
    lake: LakeFSLake
    with open_lakefs(load().settings) as lake:
        assert lake.strength(place.repository) is strength


# -------------------------------------------------------------------------------------------------------------- doctor
def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    code = run(["doctor", "--json", *arguments])
    return code, {found["subject"]: found for found in json.loads(capsys.readouterr().out)}


def test_doctor_tells_version_fence_and_targets(
    project: Path, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.lake.create_branch(place.repository, "old", at=place.first)
    _, found = findings(capsys)
    target = f"{place.repository}@main"
    assert found["lakeFS"]["detail"].startswith("version 1.84.0")
    assert found[f"fence of {place.repository}"]["state"] == "ok"
    assert found[target]["fix"] == f"headgate fence install {target}"
    assert "old" in found[f"branches of {place.repository}"]["detail"]
    installing(place).install(MAIN)
    place.lake.api.put_object(place.repository, MAIN, "left/over", b"x", size=1)
    status = installing(place).status()
    assert status.targets[0].dirty == ("left/over",)
    code, found = findings(capsys)
    assert code == 4
    assert not [b.name for b in place.lake.branches(place.repository, prefix="headgate-probe-")]


def test_doctor_runs_every_case_of_the_protocol(
    project: Path, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = findings(capsys, "--protocol")
    cases = {subject: told for subject, told in found.items() if subject.startswith(f"{place.repository}: ")}
    assert len(cases) == 8
    assert {told["state"] for told in cases.values()} == {"ok"}, cases
    assert code == 0
    assert [b.name for b in place.lake.branches(place.repository)] == [MAIN]
    assert place.head() == place.first


@pytest.mark.parametrize("role", ["reader", "author", "worker", "operator"])
def test_doctor_tries_the_rights_of_a_role(
    project: Path, place: Place, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    code, found = findings(capsys, "--as", role)
    rights = [told for subject, told in found.items() if subject.startswith(f"{place.repository}: ")]
    assert {told["state"] for told in rights} == {"ok"}
    assert code == 0
    assert [b.name for b in place.lake.branches(place.repository)] == [MAIN]


def test_doctor_names_the_right_that_is_refused(
    project: Path,
    place: Place,
    proxy: FaultProxy,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_LAKEFS_ENDPOINT", proxy.url)
    proxy.next("PUT", r"/hard_reset", Fault.ANSWER, status=403)
    code, found = findings(capsys, "--as", "worker")
    refused = [subject for subject, told in found.items() if told["state"] == "broken"]
    assert refused == [f"{place.repository}: fs:RevertBranch"]
    assert found[refused[0]]["fix"] == "grant fs:RevertBranch to the worker"
    assert code == 4


def test_a_server_that_is_too_old_is_refused() -> None:
    assert is_too_old("1.83.0")
    assert is_too_old("0.99.1")
    assert not is_too_old("1.84.0")
    assert not is_too_old("2.0.0")
    assert not is_too_old("dev")
