"""How each server is built, configured and started. The versions here are the ones that are tested."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.servers.installs import Install, from_go_module, from_maven
from tools.servers.running import LOOPBACK, Command, Server, ServerFailed, answers, data_folder, free_port
from tools.servers.toolchains import NotInstalled, java

LAKEFS = Install(
    "lakefs",
    "1.84.0",
    "lakefs",
    from_go_module(
        "github.com/treeverse/lakefs",
        "1.84.0",
        command="./cmd/lakefs",
        binary="lakefs",
        version_symbol="github.com/treeverse/lakefs/pkg/version.Version",
    ),
)
CONDUCTOR = Install(
    "conductor",
    "3.32.3",
    "conductor-server.jar",
    from_maven("org.conductoross:conductor-server:3.32.3:jar:boot", filename="conductor-server.jar"),
)
S3 = Install(
    "s3",
    "1.8.0",
    "versitygw",
    from_go_module("github.com/versity/versitygw", "1.8.0", command="./cmd/versitygw", binary="versitygw"),
)
CONDUCTOR_JAVA = 21
SPARK_JAVA = 17
_TRIES = 3  # a port can be taken between finding and using it


def lakefs_server(
    *,
    actions: bool = True,
    blockstore: Server | None = None,
    blocks: Path | None = None,
    metadata: Path | None = None,
    keeps_running: bool = False,
) -> Server:
    """A lakeFS with one administrator. `blockstore` is an S3 server to keep objects in; without one, a local folder.

    Objects in S3 can be read by presigned URLs, those in a local folder cannot. `blocks` and `metadata` are folders
    for the objects and for the database, where they are not to lie with the rest of the server's data.
    """
    binary = LAKEFS.require()
    return _started(
        lambda: _lakefs(binary, actions=actions, blockstore=blockstore, blocks=blocks, metadata=metadata), keeps_running
    )


def conductor_server(*, keeps_running: bool = False) -> Server:
    """A Conductor with its default SQLite database."""
    jar, runtime = CONDUCTOR.require(), java(CONDUCTOR_JAVA)
    return _started(lambda: _conductor(jar, runtime), keeps_running)


def s3_server(*, keeps_running: bool = False) -> Server:
    """An S3 server on a local folder, with conditional puts."""
    binary = S3.require()
    return _started(lambda: _s3(binary), keeps_running)


def spark_cluster(*, keeps_running: bool = False) -> Server:
    """A Spark standalone master with one worker of two cores; `url` is the master's `spark://` address."""
    launcher, runtime = _spark_class(), java(SPARK_JAVA)
    return _started(lambda: _spark(launcher, runtime), keeps_running)


def _lakefs(
    binary: Path, *, actions: bool, blockstore: Server | None, blocks: Path | None, metadata: Path | None
) -> Server:
    port, data = free_port(), data_folder("lakefs")
    key, secret = "AKIA" + secrets.token_hex(8).upper(), secrets.token_hex(20)
    store: dict[str, object] = {"type": "local", "local": {"path": str(blocks or data / "blocks")}}
    if blockstore is not None:
        credentials = {"access_key_id": blockstore.access_key, "secret_access_key": blockstore.secret_key}
        store = {
            "type": "s3",
            "s3": {
                "endpoint": blockstore.url,
                "region": "us-east-1",
                "force_path_style": True,
                "discover_bucket_region": False,
                "credentials": credentials,
            },
        }
    config = {
        "listen_address": f"{LOOPBACK}:{port}",
        "logging": {"level": "ERROR", "output": "-"},
        "database": {"type": "local", "local": {"path": str(metadata or data / "metadata")}},
        "blockstore": store,
        "auth": {"encrypt": {"secret_key": secrets.token_hex(32)}},
        "stats": {"enabled": False},
        "security": {"check_latest_version": False},
        "actions": {"enabled": actions},
        "committed": {"local_cache": {"dir": str(data / "cache"), "size_bytes": 1 << 28}},
        "installation": {"user_name": "admin", "access_key_id": key, "secret_access_key": secret},
    }
    file = data / "lakefs.yaml"
    file.write_text(json.dumps(config, indent=1))
    file.chmod(0o600)
    url = f"http://{LOOPBACK}:{port}"
    run = Command(argv=[str(binary), "--config", str(file), "run"], healthy=answers(f"{url}/_health"))
    return Server(
        part="lakefs",
        version=LAKEFS.version,
        url=url,
        data=data,
        access_key=key,
        secret_key=secret,
        commands=[run],
        facts={"actions": "on" if actions else "off", "blockstore": "s3" if blockstore else "local"},
    )


def _conductor(jar: Path, runtime: Path) -> Server:
    port, data = free_port(), data_folder("conductor")
    url = f"http://{LOOPBACK}:{port}"
    argv = [str(runtime), "-Xmx1g", "-jar", str(jar), f"--server.port={port}", f"--server.address={LOOPBACK}"]
    run = Command(argv=argv, healthy=answers(f"{url}/health"))
    return Server(
        part="conductor", version=CONDUCTOR.version, url=url, data=data, commands=[run], facts={"api": f"{url}/api"}
    )


def _s3(binary: Path) -> Server:
    port, data = free_port(), data_folder("s3")
    key, secret = "headgate", secrets.token_hex(20)
    for folder in ("objects", "meta"):
        (data / folder).mkdir()
    url = f"http://{LOOPBACK}:{port}"
    run = Command(
        argv=[
            str(binary),
            *("--port", f"{LOOPBACK}:{port}", "--region", "us-east-1"),
            *("posix", "--sidecar", str(data / "meta"), str(data / "objects")),
        ],
        env={"ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret},
        healthy=answers(url, statuses=(200, 403)),
    )
    return Server(
        part="s3",
        version=S3.version,
        url=url,
        data=data,
        access_key=key,
        secret_key=secret,
        commands=[run],
        facts={"region": "us-east-1"},
    )


def _spark(launcher: Path, runtime: Path) -> Server:
    port, pages, worker_pages, data = free_port(), free_port(), free_port(), data_folder("spark")
    master = f"spark://{LOOPBACK}:{port}"
    home = {"JAVA_HOME": str(runtime.parents[1]), "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    heard = answers(f"http://{LOOPBACK}:{pages}/json/")
    first = Command(
        argv=[
            *(str(launcher), "org.apache.spark.deploy.master.Master"),
            *("--host", LOOPBACK, "--port", str(port), "--webui-port", str(pages)),
        ],
        env=home,
        healthy=heard,
    )
    second = Command(
        argv=[
            *(str(launcher), "org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--cores", "2"),
            *("--memory", "1g", "--webui-port", str(worker_pages), "--work-dir", str(data / "work"), master),
        ],
        env=home,
        healthy=answers(f"http://{LOOPBACK}:{worker_pages}/json/"),
    )
    return Server(
        part="spark",
        version=_spark_version(),
        url=master,
        data=data,
        commands=[first, second],
        facts={"pages": f"http://{LOOPBACK}:{pages}"},
    )


def _spark_class() -> Path:
    try:
        import pyspark
    except ImportError:
        raise NotInstalled("PySpark is not installed", command="pip install 'headgate[spark]'") from None
    return Path(pyspark.__file__).parent / "bin" / "spark-class"


def _spark_version() -> str:
    from importlib.metadata import version

    return version("pyspark")


def _install_spark() -> Path:
    launcher = _spark_class()
    java(SPARK_JAVA)
    return launcher


def _install_conductor() -> Path:
    java(CONDUCTOR_JAVA)
    return CONDUCTOR.ensure()


def _started(make: Callable[[], Server], keeps_running: bool) -> Server:
    for last in [*[False] * (_TRIES - 1), True]:
        server = make()
        server.keeps_running = keeps_running
        try:
            server.start()
        except ServerFailed as failed:
            server.remove()
            if last or "address already in use" not in str(failed):
                raise
        except BaseException:
            server.remove()
            raise
        else:
            return server
    raise AssertionError("unreachable")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A server by name: how it gets here, and how it starts."""

    install: Callable[[], Path]
    serve: Callable[..., Server]
    about: str


PARTS: Mapping[str, Part] = {
    "lakefs": Part(install=LAKEFS.ensure, serve=lakefs_server, about=f"lakeFS {LAKEFS.version}, built with Go"),
    "conductor": Part(
        install=_install_conductor,
        serve=conductor_server,
        about=f"Conductor {CONDUCTOR.version}, from Maven, Java {CONDUCTOR_JAVA} or newer",
    ),
    "s3": Part(install=S3.ensure, serve=s3_server, about=f"versitygw {S3.version}, built with Go"),
    "spark": Part(install=_install_spark, serve=spark_cluster, about=f"Spark standalone of PySpark, Java {SPARK_JAVA}"),
}
