"""What the servers tool decides by itself: which processes are its own, what is installed, what a missing tool says."""

import os
import sys
from pathlib import Path

import pytest
from tools.servers import state
from tools.servers.installs import Install
from tools.servers.running import Command, Pid, Server, ServerFailed
from tools.servers.toolchains import MissingToolchain, NotInstalled, go, java, java_version


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SERVERS_CACHE", str(tmp_path / "cache"))


def sleeping_server(data: Path) -> Server:
    program = "import pathlib, time; pathlib.Path('up').touch(); time.sleep(600)"
    command = Command(argv=[sys.executable, "-c", program], healthy=(data / "up").exists)
    return Server(part="sleeper", version="1", url="", data=data, commands=[command])


def test_an_install_is_made_once_and_only_when_whole() -> None:
    made: list[Path] = []

    def make(into: Path) -> None:
        made.append(into)
        (into / "server").write_text("binary")

    install = Install("part", "1.0", "server", make)
    with pytest.raises(NotInstalled, match=r"python -m tools\.servers install part"):
        install.require()
    assert install.ensure() == install.ensure() == install.require()
    assert len(made) == 1


def test_an_install_that_fails_half_way_leaves_nothing_that_looks_installed() -> None:
    def make(into: Path) -> None:
        (into / "half").write_text("")
        raise RuntimeError("the build failed")

    install = Install("part", "1.0", "server", make)
    with pytest.raises(RuntimeError, match="the build failed"):
        install.ensure()
    assert not install.folder.exists()


def test_an_install_that_makes_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="made no server"):
        Install("part", "1.0", "server", lambda into: None).ensure()


def test_a_missing_tool_names_the_command_that_enables_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingToolchain, match="apt-get install golang"):
        go()
    with pytest.raises(MissingToolchain, match="no Java 21 or newer"):
        java(21)


def test_java_is_judged_by_what_it_says(tmp_path: Path) -> None:
    for said, version in [('openjdk version "21.0.2" 2024-01-16', 21), ('java version "1.8.0_402"', 8), ("no", 0)]:
        fake = tmp_path / f"java-{version}"
        fake.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        fake.chmod(0o755)
        assert java_version(fake) == version
    assert java_version(tmp_path / "missing") == 0


def test_a_process_id_that_names_another_process_now_is_not_ours() -> None:
    assert Pid(os.getpid(), created=1.0).process() is None


def test_a_server_stops_what_it_started_and_starts_again_on_its_data(tmp_path: Path) -> None:
    server = sleeping_server(tmp_path)
    server.start()
    (first,) = server.pids
    assert server.running
    server.kill()
    assert not server.running
    assert first.process() is None
    server.start()
    assert server.running
    server.remove()
    assert not tmp_path.exists()


def test_a_server_that_ends_early_fails_with_its_log(tmp_path: Path) -> None:
    command = Command(argv=[sys.executable, "-c", "raise SystemExit('no licence')"], healthy=lambda: False)
    server = Server(part="broken", version="1", url="", data=tmp_path, commands=[command])
    with pytest.raises(ServerFailed, match="no licence"):
        server.start()
    assert not server.pids


def test_the_state_of_up_is_read_back_by_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "STATE_FOLDER", tmp_path / "state")
    data = tmp_path / "data"
    data.mkdir()
    server = sleeping_server(data)
    server.start()
    path = state.save(server)
    assert path.stat().st_mode & 0o077 == 0
    found = state.load("sleeper")
    assert found is not None
    assert found.running
    found.remove()
    state.forget("sleeper")
    assert not server.running
    assert state.load("sleeper") is None
    server.stop()
