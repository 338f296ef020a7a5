"""`config`, `doctor` and `version`, and that bad settings end every command with one message and its exit code."""

from __future__ import annotations

import base64
import http.server
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import checks
from headgate.cli.checks import Finding, State
from headgate.settings import Settings

Run = Callable[..., Any]

TOML = """\
[stores.songs]
lake = "embedded"
[stores.music]
graph = "./music"
[profile.prod]
orchestrator = "conductor"
[profile.prod.stores.songs]
lake = "lakefs"
"""


def findings(run: Run, *args: str) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in json.loads(run("doctor", "--json", *args).out)}


def test_version_as_text_and_as_json(headgate: Run) -> None:
    assert headgate("version").out.startswith("headgate ")
    assert set(json.loads(headgate("version", "--json").out)) == {"headgate", "python", "platform"}


def test_config_shows_each_value_and_where_it_came_from(headgate: Run, project: Path, monkeypatch: Any) -> None:
    (project / "headgate.toml").write_text(TOML)
    (project / ".env").write_text("CONDUCTOR_AUTH_SECRET=hush-hush\n")
    monkeypatch.setenv("HEADGATE_LOG_LEVEL", "error")
    shown = headgate("config")
    assert shown.code == 0
    rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines() if line.strip()}
    assert rows["stores.songs.lake"] == ["embedded", "headgate.toml:2"]
    assert rows["log.level"] == ["error", "HEADGATE_LOG_LEVEL"]
    assert rows["conductor.auth_secret"] == ["********", ".env:1", "CONDUCTOR_AUTH_SECRET"]
    assert "hush-hush" not in shown.out + headgate("config", "--json").out


def test_config_as_json_has_every_setting(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text(TOML)
    told = json.loads(headgate("config", "--json", "--profile", "prod").out)
    assert told["file"] == str(project / "headgate.toml")
    assert told["profile"] == "prod"
    by_name = {row["setting"]: row for row in told["settings"]}
    assert by_name["stores.songs.lake"]["value"] == "lakefs"
    assert by_name["conductor.server_url"] == {"setting": "conductor.server_url", "value": None, "source": "default"}
    assert by_name["(aws credentials)"]["source"].startswith("none set")


def test_config_names_the_aws_source(headgate: Run, monkeypatch: Any) -> None:
    folder = Path(os.environ["HOME"]) / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text("[work]\naws_access_key_id = AKIA\naws_secret_access_key = hush-hush\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert f"{folder / 'credentials'} [work]" in headgate("config").out
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    assert "AWS_ACCESS_KEY_ID" in headgate("config").out


def test_an_unknown_variable_is_warned_about_and_nothing_else(headgate: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("HEADGATE_SERVICE_PORT", "80")
    shown = headgate("config")
    assert shown.code == 0
    assert shown.err == "warning: HEADGATE_SERVICE_PORT is not a setting\n"


@pytest.mark.parametrize(
    ("name", "text", "error", "hint"),
    [
        ("headgate.toml", "[stores.songs\n", "headgate.toml:1: not TOML", "correct line 1"),
        ("headgate.toml", "[stores.songs]\nlak = 1\nlake = 'embedded'", "headgate.toml:2: unknown key 'lak'", "'lake'"),
        (
            ".env",
            "X=1\nCONDUCTOR_AUTH_SECRET=<secret>\n",
            ".env:2 CONDUCTOR_AUTH_SECRET: conductor.auth_secret",
            "real",
        ),
        (".env", "HEADGATE_LOG_LEVEL=loud\n", ".env:1 HEADGATE_LOG_LEVEL: log.level: input should be 'debug'", ""),
        (".env", "no variable here\n", ".env:1: not a variable", "NAME=value"),
    ],
)
def test_bad_settings_get_one_message_with_the_place_and_the_fix(
    name: str, text: str, error: str, hint: str, headgate: Run, project: Path
) -> None:
    (project / name).write_text(text)
    shown = headgate("config")
    assert shown.code == 4
    assert shown.out == ""
    [first, second] = shown.err.splitlines()
    assert first.startswith(f"error: {error}")
    assert second.startswith("hint: ")
    assert hint in second


def test_a_profile_that_is_not_there_ends_with_the_nearest(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text(TOML)
    shown = headgate("config", "--profile", "prd")
    assert shown.code == 4
    assert shown.err.endswith("hint: did you mean 'prod'?\n")


def test_doctor_finds_everything_in_order_on_the_embedded_parts(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text(TOML)
    told = findings(headgate)
    assert headgate("doctor").code == 0
    assert told["Python"]["state"] == "ok"
    assert told["store songs"]["state"] == "ok"
    assert told["store music"]["detail"].startswith(str(project / "music"))
    assert told["orchestrator"]["detail"].startswith("embedded")
    assert not (project / ".headgate").exists()
    assert {path.name for path in project.iterdir()} == {"headgate.toml"}


def test_doctor_says_what_to_set_where_a_server_has_no_address(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text(TOML)
    shown = headgate("doctor", "--profile", "prod")
    assert shown.code == 4
    assert "CONDUCTOR_SERVER_URL" in shown.out
    assert "lakefs.endpoint, lakefs.access_key_id, lakefs.secret_access_key" in shown.out


def test_doctor_goes_on_where_the_settings_are_broken(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text("[stores.songs\n")
    told = findings(headgate)
    assert headgate("doctor").code == 4
    assert told["headgate.toml"]["state"] == "broken"
    assert "headgate.toml:1" in told["headgate.toml"]["detail"]
    assert "Python" in told


class Server:
    """Answers where a lakeFS and a Conductor server do, to the right credentials; keeps what it was asked."""

    lakefs_login = "Basic " + base64.b64encode(b"AKIA:hush-hush").decode()
    conductor_login = (("keyId", "me"), ("keySecret", "hush-hush"))

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.address = ""

    def status(self, path: str, login: str | None, body: bytes) -> int:
        self.asked.append(path)
        match path:
            case "/health" | "/api/v1/healthcheck":
                return 200
            case "/api/v1/user":
                return 200 if login == self.lakefs_login else 401
            case "/api/token":
                return 200 if json.loads(body) == dict(self.conductor_login) else 401
        return 500


@pytest.fixture
def server() -> Iterator[Server]:
    answering = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(answering.status(self.path, self.headers.get("Authorization"), body))
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        answering.address = f"http://127.0.0.1:{listening.server_port}"
        yield answering
        listening.shutdown()
        thread.join()


def test_doctor_asks_the_servers_of_the_profile(headgate: Run, project: Path, monkeypatch: Any, server: Server) -> None:
    (project / "headgate.toml").write_text(TOML)
    (project / ".env").write_text(
        f"CONDUCTOR_SERVER_URL={server.address}/api\nCONDUCTOR_AUTH_KEY=me\nCONDUCTOR_AUTH_SECRET=hush-hush\n"
        f"LAKECTL_SERVER_ENDPOINT_URL={server.address}\nLAKECTL_CREDENTIALS_ACCESS_KEY_ID=AKIA\n"
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=hush-hush\n"
    )
    told = findings(headgate, "--profile", "prod")
    assert (told["orchestrator"]["state"], told["store songs"]["state"]) == ("ok", "ok")
    assert {"/api/v1/healthcheck", "/api/v1/user", "/health", "/api/token"} <= set(server.asked)


@pytest.mark.parametrize(
    ("setting", "subject"),
    [
        ("LAKEFS_ACCESS_KEY_ID", "store songs"),
        ("LAKEFS_SECRET_ACCESS_KEY", "store songs"),
        ("CONDUCTOR_AUTH_KEY", "orchestrator"),
        ("CONDUCTOR_AUTH_SECRET", "orchestrator"),
    ],
)
def test_credentials_that_a_server_refuses_are_broken(
    setting: str, subject: str, headgate: Run, project: Path, monkeypatch: Any, server: Server
) -> None:
    test_doctor_asks_the_servers_of_the_profile(headgate, project, monkeypatch, server)
    monkeypatch.setenv(f"HEADGATE_{setting}", "wrong-wrong")
    told = findings(headgate, "--profile", "prod")
    assert told[subject]["state"] == "broken"
    assert setting.lower().rsplit("_", 1)[0].split("_")[-1] in told[subject]["fix"]
    assert "wrong-wrong" not in str(told)


def test_a_server_that_answers_badly_or_not_at_all_is_broken(server: Server) -> None:
    assert "status 500" in checks.answers("s", f"{server.address}/x", setting="a.b").detail
    silent = checks.answers("s", "http://127.0.0.1:1/health", setting="a.b")
    assert silent.state is State.BROKEN
    assert "a.b" in silent.fix
    assert checks.answers("s", "no address", setting="a.b").state is State.BROKEN


def test_a_folder_that_cannot_be_written_is_broken(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("")
    finding = checks.writable("state", tmp_path / "file" / "below", setting="state")
    assert finding.state is State.BROKEN
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert "cannot be written" in checks.writable("state", tmp_path, setting="state").detail


def test_too_little_space_is_broken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE_BYTES", 10**30)
    told = {finding.subject: finding for finding in checks.folders(Settings(state=tmp_path))}
    assert told["disk space"].state is State.BROKEN


def java_that_says(folder: Path, text: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('openjdk version "17.0.9" 2023-10-17', State.OK),
        ('openjdk version "21" 2023-09-19', State.OK),
        ('java version "1.8.0_392"', State.MISSING),
        ("what?", State.MISSING),
    ],
)
def test_java_is_told_by_its_version(text: str, state: State, tmp_path: Path, monkeypatch: Any) -> None:
    java_that_says(tmp_path, text)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    [finding] = checks.java(Settings())
    assert finding.state is state


def test_without_java_the_way_to_get_it_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    [finding] = checks.java(Settings())
    assert finding.state is State.MISSING
    assert "install Java 17" in finding.fix


def test_an_extra_with_an_absent_part_names_the_command(monkeypatch: Any) -> None:
    monkeypatch.setattr(checks, "_extras", lambda: {"graph": ["pylance-that-is-not-there", "pydantic"]})
    [finding] = checks.extras(Settings())
    assert finding.detail == "without pylance-that-is-not-there"
    assert finding.fix == "pip install 'headgate[graph]'"


def test_the_extras_are_those_of_the_package() -> None:
    assert {"graph", "spark", "server"} <= set(checks._extras())


def test_a_check_added_by_name_is_run(monkeypatch: Any) -> None:
    monkeypatch.setattr(checks, "CHECKS", (f"{__name__}:one_more",))
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this())
    assert checks.examine(Settings()) == [Finding(subject="one more", state=State.OK, detail="here")]


def one_more(_: Settings) -> list[Finding]:
    return [Finding(subject="one more", state=State.OK, detail="here")]


def _this() -> Any:
    import types

    module = types.ModuleType(__name__)
    module.__dict__["one_more"] = one_more
    return module


def test_the_log_settings_take_effect(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text('[log]\nlevel = "warning"\nfile = "h.log"\nmax_mb = 0.0002\nkeep = 1\n')
    headgate("config")
    for number in range(9):
        logging.getLogger("headgate").info("quiet")
        logging.getLogger("headgate").warning("loud", extra={"number": number})
    written = "".join(path.read_text() for path in project.glob("h.log*"))
    assert "loud" in written
    assert "quiet" not in written
    assert {path.name for path in project.iterdir()} == {"headgate.toml", "h.log", "h.log.1", "h.log.lock"}


def test_debug_lowers_the_level(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text('[log]\nlevel = "error"\nfile = "h.log"\n')
    headgate("config", "--debug")
    logging.getLogger("headgate").debug("fine detail")
    assert "fine detail" in (project / "h.log").read_text()


def test_the_secrets_of_the_settings_stay_out_of_the_log(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text('[log]\nfile = "h.log"\n[conductor]\nauth_secret = "hush-hush"\n')
    headgate("config")
    logging.getLogger("headgate").warning("sent hush-hush")
    assert "sent ********" in (project / "h.log").read_text()


def test_doctor_says_what_spark_lacks(monkeypatch: Any) -> None:
    from headgate.settings import SparkSettings
    from headgate.spark import needs

    have = {"pyspark": "4.3.0", "pyarrow": "21.0.0", "pandas": "2.2.3"}
    monkeypatch.setattr(needs, "installed", have.get)
    [found] = checks.spark(Settings(spark=SparkSettings(master="local[3]")))
    assert (found.state, found.detail) == (State.OK, "4.3.0 on local[3]")
    have["pandas"] = "3.0.0"
    [broken] = checks.spark(Settings())
    assert broken.state is State.BROKEN
    assert (broken.detail, broken.fix) == (
        "pandas: it is version 3.0.0, which PySpark cannot use",
        "pip install 'pandas<3'",
    )
    have.clear()
    assert list(checks.spark(Settings())) == []
