"""What the keys of a gate say."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.lake.lakefs import hook
from headgate.lake.lakefs.gate import GateRecord, GateState, gate_state, keys_below
from headgate.lake.publisher import Owner


def key(epoch: int, done: bool = False) -> str:
    return f"main/{epoch:012d}{'.done' if done else ''}"


def test_a_branch_without_keys_is_no_target() -> None:
    assert gate_state("main", []) == GateState(epoch=0, shut=False, known=False)


def test_the_last_key_decides() -> None:
    assert gate_state("main", [key(0, True)]) == GateState(epoch=0, shut=False, known=True)
    assert gate_state("main", [key(0, True), key(1)]) == GateState(epoch=1, shut=True, known=True)
    assert gate_state("main", [key(1), key(1, True)]) == GateState(epoch=1, shut=False, known=True)


def test_a_key_created_again_below_a_later_done_shuts_nothing() -> None:
    assert gate_state("main", [key(1), key(2), key(2, True)]).shut is False


def test_keys_of_another_form_are_nobodys() -> None:
    assert gate_state("main", ["main/x", "main/1", "main/0000000000aa", "main/00000000000¹"]) == GateState()


def test_only_keys_below_a_later_done_may_go() -> None:
    keys = [key(1), key(1, True), key(2), key(2, True), key(3)]
    assert keys_below("main", keys) == [key(1), key(1, True)]
    assert keys_below("main", [key(1)]) == []
    assert keys_below("main", [key(1), key(1, True)]) == []


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12))
def test_upkeep_never_changes_what_the_keys_say(epochs: list[tuple[int, bool]]) -> None:
    """Invariant 7: cleanup never changes what has been decided."""
    keys = {key(epoch, done) for epoch, done in epochs}
    left = keys - set(keys_below("main", keys))
    assert gate_state("main", left) == gate_state("main", keys)


def test_a_record_is_read_back_and_unknown_fields_are_skipped() -> None:
    owner = Owner(orchestrator="o", workflow="w", task_id="t", execution="e")
    record = GateRecord(epoch=3, owner=owner, ref="headgate-staging-x")
    assert GateRecord.from_bytes(3, record.to_bytes()) == record
    newer = record.to_bytes()[:-1] + b', "since": "tomorrow"}'
    assert GateRecord.from_bytes(3, newer) == record


def test_the_hook_says_which_protocol_it_speaks() -> None:
    assert hook.protocol_of(hook.BYTES) == hook.PROTOCOL
    assert hook.protocol_of(b"# headgate-fence-protocol: 7\nname: x\n") == 7
    assert hook.protocol_of(b"name: somebody else's\n") is None


def test_the_bytes_of_the_hook_change_only_on_purpose() -> None:
    """Publishers of neighbouring versions compare these bytes: a change of them needs a new protocol number."""
    assert (hook.PROTOCOL, hook.CHECKSUM) == (1, "21486de0e8f51825e29a01c692fc2c6c")
