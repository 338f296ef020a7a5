"""Where settings come from, in which order, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import InvalidSettings, NotFound
from headgate.settings import Loaded, load
from headgate.settings.fields import variable_names

TOML = """\
[stores.songs]
lake = "embedded"
[stores.music]
graph = "./music"

[log]
level = "warning"

[profile.prod]
orchestrator = "conductor"
[profile.prod.stores.songs]
lake = "lakefs"
[profile.prod.log]
level = "error"
"""


class Place:
    """A project folder and a home folder, both empty at first."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "project"
        self.home = tmp_path / "home"
        self.folder.mkdir()
        self.home.mkdir()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def load(self, environ: dict[str, str] | None = None, **options: Any) -> Loaded:
        return load(**{"start": self.folder, "environ": environ or {}, "home": self.home, **options})

    def refusal(self, environ: dict[str, str] | None = None, **options: Any) -> InvalidSettings:
        with pytest.raises(InvalidSettings) as refused:
            self.load(environ, **options)
        return refused.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def source(loaded: Loaded, name: str) -> tuple[str | None, str]:
    return {row[0]: row[1:] for row in loaded.rows()}[name]


def test_without_any_source_the_defaults_hold(place: Place) -> None:
    loaded = place.load()
    assert loaded.file is None
    assert loaded.settings.stores == {}
    assert source(loaded, "log.level") == ("info", "default")


def test_each_source_wins_over_the_ones_below_it(place: Place) -> None:
    place.write("headgate.toml", TOML)
    place.write(".env", "# levels\nHEADGATE_LOG_LEVEL=debug\n")
    assert source(place.load({"HEADGATE_LOG_LEVEL": "error"}), "log.level") == ("error", "HEADGATE_LOG_LEVEL")
    assert source(place.load(), "log.level") == ("debug", ".env:2 HEADGATE_LOG_LEVEL")
    place.write(".env", "")
    assert source(place.load(profile="prod"), "log.level") == ("error", "headgate.toml:14")
    assert source(place.load(), "log.level") == ("warning", "headgate.toml:7")


def test_what_people_have_for_other_tools_comes_last_but_before_the_defaults(place: Place) -> None:
    (place.home / ".lakectl.yaml").write_text(
        "credentials:\n  access_key_id: AKIA\n  secret_access_key: s3cr3t\nserver:\n  endpoint_url: http://a\n"
    )
    assert source(place.load(), "lakefs.endpoint") == ("http://a", "~/.lakectl.yaml")
    environ = {"LAKECTL_SERVER_ENDPOINT_URL": "http://b", "CONDUCTOR_SERVER_URL": "http://c/api"}
    loaded = place.load(environ)
    assert source(loaded, "lakefs.endpoint") == ("http://b", "LAKECTL_SERVER_ENDPOINT_URL")
    assert source(loaded, "lakefs.access_key_id") == ("AKIA", "~/.lakectl.yaml")
    assert source(loaded, "conductor.server_url") == ("http://c/api", "CONDUCTOR_SERVER_URL")
    place.write("headgate.toml", '[lakefs]\nendpoint = "http://d"\n')
    assert source(place.load(environ), "lakefs.endpoint") == ("http://d", "headgate.toml:2")
    environ["HEADGATE_LAKEFS_ENDPOINT"] = "http://e"
    assert source(place.load(environ), "lakefs.endpoint") == ("http://e", "HEADGATE_LAKEFS_ENDPOINT")


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("CONDUCTOR_SERVER_URL", "conductor.server_url"),
        ("CONDUCTOR_AUTH_KEY", "conductor.auth_key"),
        ("CONDUCTOR_AUTH_SECRET", "conductor.auth_secret"),
        ("LAKECTL_SERVER_ENDPOINT_URL", "lakefs.endpoint"),
        ("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "lakefs.access_key_id"),
        ("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "lakefs.secret_access_key"),
    ],
)
def test_the_variables_of_other_tools_are_read_from_the_environment_and_from_dotenv(
    variable: str, setting: str, place: Place
) -> None:
    assert source(place.load({variable: "value"}), setting)[1] == variable
    place.write(".env", f"{variable}=value\n")
    assert source(place.load(), setting)[1] == f".env:1 {variable}"


def test_the_profile_comes_from_the_option_else_from_the_variable(place: Place) -> None:
    place.write("headgate.toml", TOML + '[profile.test]\norchestrator = "embedded"\n')
    assert place.load().profile is None
    assert place.load({"HEADGATE_PROFILE": "prod"}).settings.orchestrator == "conductor"
    assert place.load({"HEADGATE_PROFILE": "prod"}, profile="test").profile == "test"


def test_a_profile_that_names_a_stores_kind_replaces_the_store(place: Place) -> None:
    place.write(
        "headgate.toml",
        '[stores.a]\nlake = "embedded"\nroot = "x"\n[profile.p.stores.a]\nlake = "lakefs"\n'
        '[profile.q.stores.a]\nrepository = "r"\n',
    )
    assert place.load(profile="p").settings.store("a").root is None
    assert place.load(profile="q").settings.store("a").root == place.folder / "x"


def test_the_file_is_found_from_a_folder_below_and_paths_are_meant_from_it(place: Place) -> None:
    place.write("headgate.toml", TOML)
    below = place.folder / "a" / "b"
    below.mkdir(parents=True)
    settings = place.load({"HEADGATE_LOG_FILE": "here.log"}, start=below).settings
    assert settings.store("music").graph == str(place.folder / "music")
    assert settings.store("songs").root == place.folder / ".headgate" / "lake"
    assert settings.log.file == below / "here.log"


def test_an_address_with_a_scheme_is_no_path(place: Place) -> None:
    place.write("headgate.toml", '[stores.music]\ngraph = "s3://bucket/music"\n')
    assert place.load().settings.store("music").graph == "s3://bucket/music"


def test_a_store_that_is_not_there_names_the_nearest(place: Place) -> None:
    place.write("headgate.toml", TOML)
    with pytest.raises(NotFound) as refused:
        place.load().settings.store("sogns")
    assert refused.value.hint == "did you mean 'songs'?"


def test_a_store_without_any_settings_says_how_to_name_one(place: Place) -> None:
    with pytest.raises(NotFound) as refused:
        place.load().settings.store("songs")
    assert "[stores.songs]" in refused.value.hint


def test_a_profile_that_is_not_there_names_the_nearest(place: Place) -> None:
    place.write("headgate.toml", TOML)
    with pytest.raises(NotFound, match="did you mean 'prod'"):
        place.load(profile="prd")
    with pytest.raises(NotFound, match="has prod"):
        place.load(profile="zzz")


@pytest.mark.parametrize(
    ("text", "where", "said", "fix"),
    [
        ('[stores.songs]\nlak = "embedded"\n', "headgate.toml:2", "unknown key 'lak' in [stores.songs]", "'lake'"),
        ('[store.songs]\nlake = "embedded"\n', "headgate.toml:2", "unknown key 'store'", "'stores'"),
        ("[log]\nzzz = 1\n", "headgate.toml:2", "unknown key 'zzz' in [log]", "known are level"),
    ],
)
def test_an_unknown_key_is_told_with_file_line_and_nearest_name(
    text: str, where: str, said: str, fix: str, place: Place
) -> None:
    place.write("headgate.toml", text)
    told = [str(place.refusal())] if not place.refusal().problems else place.refusal().lines()
    assert any(where in line and said in line and fix in line for line in told)


def test_an_unknown_key_of_a_profile_that_is_not_in_use_is_an_error_too(place: Place) -> None:
    place.write("headgate.toml", "[profile.prod.log]\nlevl = 'info'\n")
    refusal = place.refusal()
    assert refusal.message == "headgate.toml:2: unknown key 'levl' in [log]"
    assert refusal.hint == "did you mean 'level'?"


def test_an_unknown_variable_is_a_warning(place: Place) -> None:
    loaded = place.load({"HEADGATE_LOG_LEVLE": "info", "HEADGATE_PORT_8080_TCP": "tcp://10.0.0.1"})
    assert loaded.warnings == (
        "HEADGATE_LOG_LEVLE is not a setting; did you mean HEADGATE_LOG_LEVEL?",
        "HEADGATE_PORT_8080_TCP is not a setting",
    )


@pytest.mark.parametrize("text", ["changeme", "<your secret>", "xxx", "XXXXXXXX", "your-secret-here", "TODO", "..."])
def test_a_placeholder_in_dotenv_is_told_with_its_line_and_never_shown(text: str, place: Place) -> None:
    place.write(".env", f"A=1\nCONDUCTOR_AUTH_SECRET={text}\n")
    refusal = place.refusal()
    assert refusal.message == ".env:2 CONDUCTOR_AUTH_SECRET: conductor.auth_secret is still a placeholder"
    assert "real value" in refusal.hint
    assert text not in str(refusal)


def test_a_placeholder_that_another_source_overrides_does_no_harm(place: Place) -> None:
    place.write(".env", "CONDUCTOR_AUTH_SECRET=changeme\n")
    assert place.load({"HEADGATE_CONDUCTOR_AUTH_SECRET": "real"}).settings.conductor.auth_secret is not None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[stores.songs]\nlake = embedded\n", 2),
        ("[stores.songs\n", 1),
        ('a = 1\nb = "no end\n', 2),
        ("[a]\nx = 1\n[a]\n", 3),
        ("x = [1,\n\n", 3),
    ],
)
def test_a_toml_syntax_error_is_told_with_file_and_line(text: str, line: int, place: Place) -> None:
    place.write("headgate.toml", text)
    refusal = place.refusal()
    assert refusal.message.startswith(f"headgate.toml:{line}: not TOML: ")
    assert str(place.folder / "headgate.toml") in refusal.hint


def test_a_broken_line_in_dotenv_is_told_with_its_number(place: Place) -> None:
    place.write(".env", "A=1\nthis is not a variable\n")
    refusal = place.refusal()
    assert refusal.message.startswith(".env:2: not a variable")
    assert "NAME=value" in refusal.hint


def test_broken_yaml_of_lakectl_is_told_with_its_line(place: Place) -> None:
    (place.home / ".lakectl.yaml").write_text("server:\n  endpoint_url: [\n")
    assert ".lakectl.yaml:3: not YAML" in place.refusal().message


def test_a_file_that_is_not_text_is_told(place: Place) -> None:
    (place.folder / "headgate.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in place.refusal().message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[stores.songs]\n", "a store has either"),
        ('[stores.songs]\nlake = "embedded"\ngraph = "x"\n', "a store has either"),
        ('[stores.songs]\nlake = "s3"\n', "stores.songs.lake: input should be 'embedded' or 'lakefs'"),
        ('[stores.songs]\nlake = "lakefs"\nroot = "x"\n', "root is for"),
        ('[stores.songs]\ngraph = "x"\nrepository = "x"\n', "repository is for lakes"),
        ("[log]\nkeep = 0\n", "headgate.toml:2: log.keep: input should be greater than or equal to 1"),
        ("stores = 3\n", "headgate.toml:1: stores: input should be"),
        ('[profile]\nprod = "conductor"\n', "a profile is a table"),
        ("profile = 3\n", "a profile is a table"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(text: str, said: str, place: Place) -> None:
    place.write("headgate.toml", text)
    assert said in str(place.refusal())


def test_all_problems_are_told_at_once(place: Place) -> None:
    place.write("headgate.toml", '[log]\nkeep = 0\nlevl = "info"\n[stores.a]\nlake = "x"\n')
    refusal = place.refusal()
    assert [problem.where for problem in refusal.problems] == ["headgate.toml:5", "headgate.toml:2", "headgate.toml:3"]


def test_secrets_are_never_printed(place: Place) -> None:
    loaded = place.load({"CONDUCTOR_AUTH_SECRET": "hush-hush", "HEADGATE_LAKEFS_SECRET_ACCESS_KEY": "hush-hush"})
    assert loaded.settings.conductor.auth_secret is not None
    assert loaded.settings.conductor.auth_secret.get_secret_value() == "hush-hush"
    assert loaded.secrets() == ["hush-hush", "hush-hush"]
    assert "hush-hush" not in f"{loaded} {loaded!r} {list(loaded.rows())} {loaded.settings.model_dump_json()}"


def test_a_wrong_secret_is_refused_without_showing_it(place: Place) -> None:
    place.write("headgate.toml", "[conductor]\nauth_secret = 12345678\n")
    assert "12345678" not in str(place.refusal())


def test_every_setting_with_a_fixed_name_has_a_variable_of_its_own() -> None:
    names = variable_names()
    assert len(set(names.values())) == len(names)
    assert names["HEADGATE_LOG_LEVEL"] == ("log", "level")


def test_an_empty_variable_counts_as_not_set(place: Place) -> None:
    assert source(place.load({"HEADGATE_LOG_LEVEL": ""}), "log.level") == ("info", "default")


def test_an_inner_table_and_a_dotted_key_have_their_lines(place: Place) -> None:
    place.write("headgate.toml", 'log.levl = "info"\nstores.a = { lake = "embedded", rot = "x" }\n')
    assert {problem.where for problem in place.refusal().problems} == {"headgate.toml:1", "headgate.toml:2"}


def test_a_store_without_a_repository_of_its_own_uses_its_name(place: Place) -> None:
    place.write("headgate.toml", '[stores.a]\nlake = "embedded"\n[stores.b]\nlake = "lakefs"\nrepository = "r"\n')
    settings = place.load().settings
    assert settings.store("a").repository == "a"
    assert settings.store("b").repository == "r"
