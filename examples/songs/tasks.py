"""The tasks of the songs workflow: take metadata in, build features, load a graph, ask it a question.

Each task is a function of its input alone, so that a retry publishes the same files. Heavy libraries are imported
neither here nor in the plain bodies; `features_on_spark` gets its session from the runtime.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field, computed_field

from headgate import (
    GraphTransaction,
    ReadOnly,
    RetryPolicy,
    SparkWorkspace,
    TaskContext,
    TaskControls,
    TaskTerminalError,
    TimeoutPolicy,
    WorkspaceSpec,
    guardrails,
    task,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = "songs@example.org"
CATALOGUE = Path(__file__).with_name("catalogue.jsonl")
FEATURES = "features/songs.jsonl"
ANY_FEATURES = "features/**/*.json*"
"""One file of the plain task, or the parts that Spark wrote."""


class Song(BaseModel):
    """What a recording's file says about it."""

    id: str = Field(pattern=r"^song-\d{6}$")
    title: str = Field(min_length=1)
    artist: str = Field(min_length=1)
    genre: str
    seconds: float = Field(gt=0)
    sample_rate: Literal[44100, 48000] = Field(alias="sampleRate")
    channels: Literal[1, 2]
    tempo: int = Field(gt=0)
    loudness: float = Field(le=0)


class Features(BaseModel):
    """A song as numbers that can be compared."""

    id: str
    title: str
    artist: str
    seconds: float
    tempo: int
    pace: Literal["slow", "medium", "fast"]
    energy: float
    """How far tempo and loudness lie above the average of all songs, in standard deviations."""


class IngestParams(BaseModel):
    genres: list[str] = []
    """Only these; all if empty."""


class Ingested(BaseModel):
    songs: int
    seconds: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def hours(self) -> float:
        return round(self.seconds / 3600, 3)


def catalogue() -> Iterator[Song]:
    for line in CATALOGUE.read_text().splitlines():
        yield Song.model_validate_json(line)


@task(owner_email=OWNER, workspace=WorkspaceSpec(prefix="songs/", post=[guardrails.require_glob("songs/*.json")]))
def ingest(workspace: Path, params: IngestParams, context: TaskContext) -> Ingested:
    """Take the metadata of the catalogue in, one file a song."""
    songs = [song for song in catalogue() if not params.genres or song.genre in params.genres]
    if not songs:
        raise TaskTerminalError(f"the catalogue has no song of {', '.join(params.genres)}")
    folder = workspace / "songs"
    folder.mkdir(exist_ok=True)
    for number, song in enumerate(songs, 1):
        (folder / f"{song.id}.json").write_text(song.model_dump_json(by_alias=True) + "\n")
        context.progress(number, len(songs), song.title)
    context.logger.info("songs taken in", songs=len(songs))
    return Ingested(songs=len(songs), seconds=round(sum(song.seconds for song in songs), 2))


class FeatureParams(BaseModel):
    slow_below: int = Field(default=90, gt=0)
    fast_from: int = Field(default=130, gt=0)


class Built(BaseModel):
    songs: int
    mean_energy: float


@task(
    owner_email=OWNER,
    workspace=WorkspaceSpec(
        include=["songs/*.json", "features/**"],
        pre=[guardrails.require_glob("songs/*.json")],
        post=[guardrails.require_file(FEATURES), guardrails.forbid_glob("**/*.tmp")],
    ),
)
def features(workspace: Path, params: FeatureParams) -> Built:
    """Turn the songs into features, in plain Python."""
    songs = [Song.model_validate_json(path.read_text()) for path in sorted((workspace / "songs").glob("*.json"))]
    tempo = _Scale([song.tempo for song in songs])
    loudness = _Scale([song.loudness for song in songs])
    built = [
        Features(
            id=song.id,
            title=song.title,
            artist=song.artist,
            seconds=song.seconds,
            tempo=song.tempo,
            pace="slow" if song.tempo < params.slow_below else "fast" if song.tempo >= params.fast_from else "medium",
            energy=round((tempo.of(song.tempo) + loudness.of(song.loudness)) / 2, 4),
        )
        for song in songs
    ]
    target = workspace / FEATURES
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(one.model_dump_json() + "\n" for one in built))
    return Built(songs=len(built), mean_energy=_rounded(fmean(one.energy for one in built)))


def _rounded(value: float) -> float:
    return round(value, 4) + 0.0  # a mean that rounds to nothing is no -0.0


class _Scale:
    """Values as distances from their mean, in standard deviations."""

    def __init__(self, values: list[int] | list[float]) -> None:
        self.mean, self.spread = fmean(values), pstdev(values) or 1.0

    def of(self, value: float) -> float:
        return (value - self.mean) / self.spread


@task(
    owner_email=OWNER,
    workspace=WorkspaceSpec(include=["songs/*.json", "features/**"]),
    controls=TaskControls(
        retry=RetryPolicy(count=2, logic="EXPONENTIAL_BACKOFF", delay_seconds=10, max_delay_seconds=120),
        timeout=TimeoutPolicy(seconds=3600, response_seconds=600),
    ),
)
def features_on_spark(workspace: SparkWorkspace, params: FeatureParams, spark: SparkSession) -> Built:
    """Turn the songs into features, on Spark: the same numbers for any number of songs."""
    from pyspark.sql import functions as f

    songs = spark.read.json(workspace.read_path("songs/"))
    # Two numbers a column go to the driver; the songs themselves stay where they are.
    measured = songs.agg(f.avg("tempo"), f.stddev_pop("tempo"), f.avg("loudness"), f.stddev_pop("loudness")).first()
    tempo = (f.col("tempo") - measured[0]) / (measured[1] or 1.0)
    loudness = (f.col("loudness") - measured[2]) / (measured[3] or 1.0)
    pace = (
        f.when(f.col("tempo") < params.slow_below, "slow")
        .when(f.col("tempo") >= params.fast_from, "fast")
        .otherwise("medium")
    )
    built = songs.select(
        "id",
        "title",
        "artist",
        "seconds",
        "tempo",
        pace.alias("pace"),
        f.round((tempo + loudness) / 2, 4).alias("energy"),
    ).orderBy("id")
    built.write.mode("overwrite").json(workspace.write_path("features/"))
    count, mean = built.agg(f.count("id"), f.avg("energy")).first()
    return Built(songs=count, mean_energy=_rounded(mean or 0.0))


def read_features(workspace: Path) -> Iterator[Features]:
    """The features that either task has published."""
    for path in sorted((workspace / "features").rglob("[!._]*.json*")):  # Spark leaves notes beside its parts
        for line in path.read_text().splitlines():
            yield Features.model_validate_json(line)


class LoadParams(BaseModel):
    pass


class Loaded(BaseModel):
    artists: int
    songs: int


@task(
    owner_email=OWNER,
    workspace=ReadOnly(WorkspaceSpec(prefix="features/", pre=[guardrails.require_glob(ANY_FEATURES)])),
    graph=["Artist", "Song", "Sings"],
)
def load_graph(workspace: Path, graph: GraphTransaction, params: LoadParams) -> Loaded:
    """Load artists, songs and who sings what; a song that is there already is replaced."""
    songs = sorted(read_features(workspace), key=lambda song: song.id)
    artists = sorted({song.artist for song in songs})
    graph.merge("Artist", [{"name": name} for name in artists])
    graph.merge(
        "Song",
        [{"number": song.id, **song.model_dump(include={"title", "seconds", "tempo", "energy"})} for song in songs],
    )
    graph.merge("Sings", [{"from": song.artist, "to": song.id} for song in songs])
    return Loaded(artists=len(artists), songs=len(songs))


class AskParams(BaseModel):
    top: int = Field(default=3, ge=1, le=100)


class ArtistEnergy(BaseModel):
    artist: str
    energy: float
    songs: int


class Answer(BaseModel):
    artists: list[ArtistEnergy]


@task(owner_email=OWNER, graph=ReadOnly(["Artist", "Song", "Sings"]))
def most_energetic(graph: GraphTransaction, params: AskParams) -> Answer:
    """Which artists have the most energy, on average over their songs."""
    energy = {row["id"]: row["energy"] for row in graph.read("Song", columns=["id", "energy"]).to_pylist()}
    by_artist: dict[str, list[float]] = {}
    for row in graph.read("Sings", columns=["src", "dst"]).to_pylist():
        by_artist.setdefault(row["src"], []).append(energy[row["dst"]])
    ranked = sorted(by_artist.items(), key=lambda item: (-fmean(item[1]), item[0]))
    return Answer(
        artists=[
            ArtistEnergy(artist=artist, energy=round(fmean(values), 4), songs=len(values))
            for artist, values in ranked[: params.top]
        ]
    )
