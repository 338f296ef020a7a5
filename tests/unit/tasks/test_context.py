import pickle

import pytest

from headgate.tasks import Progress, TaskCancelled, TaskContext, TaskFailed, TaskTerminalError


def test_progress_goes_to_whoever_watches() -> None:
    seen: list[Progress] = []
    TaskContext(on_progress=seen.append).progress(1, 3, "one of three")
    TaskContext().progress(1)
    assert seen == [Progress(done=1, total=3, message="one of three")]


def test_a_cancelled_body_can_look_and_leave() -> None:
    context, other = TaskContext(), TaskContext()
    context.raise_if_cancelled()
    assert not context.cancelled
    context.cancellation.set()
    assert context.cancelled
    assert not other.cancelled
    with pytest.raises(TaskCancelled):
        context.raise_if_cancelled()


@pytest.mark.parametrize("signal", [TaskFailed("why"), TaskTerminalError("why"), TaskCancelled("why"), TaskCancelled()])
def test_signals_cross_a_process_boundary(signal: TaskFailed) -> None:
    back = pickle.loads(pickle.dumps(signal))
    assert type(back) is type(signal)
    assert back.reason == signal.reason
