"""A ranged run in a container of its own, as the stack starts them, and no key anywhere.

The launcher is that of deploy/docker.yaml with what the image would hold mounted in place of the image.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
import sqlalchemy as sa
import yaml

from tests.conftest import Databases
from tests.fixtures.handmade_model import HandmadeModel
from tests.fixtures.web_client import WebClient, free_port, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
SKILLS = ROOT / "tests" / "fixtures" / "handmade" / "skills"
KEY, PASSWORD = "sk-marked-and-never-shown", "password-marked-and-never-shown"
SYSTEM = ("/bin", "/etc", "/lib", "/lib64", "/usr")


class Installation:
    """A home folder with a server, secrets in files, and the web UI with its daemon."""

    def __init__(self, folder: Path, url: str, api_base: str) -> None:
        self.home, self.name = folder / "home", f"facettry-{uuid.uuid4().hex[:8]}"
        self.url = sa.make_url(url)
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        (self.secrets / "facet_api_key").write_text(KEY)
        (self.secrets / "facet_postgres_password").write_text(PASSWORD)
        self.web = WebClient(free_port())
        sections = folder / "sections.yaml"
        sections.write_text(yaml.safe_dump(self._launcher(folder)))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FACET_")},
            "PYTHONPATH": str(ROOT),
            "FACET_HOME": str(self.home),
            "FACET_SECRETS": str(self.secrets),
            "FACET_POSTGRES_URL": url,
            "FACET_MODEL": "openai/handmade",
            "FACET_API_BASE": api_base,
            "FACET_UI_PORT": str(self.web.port),
            "FACET_DAGSTER": str(sections),
        }

    def _launcher(self, folder: Path) -> dict[str, Any]:
        """That of the stack. Root may look into the folder of the database's socket, which is another user's."""
        text = (ROOT / "deploy" / "docker.yaml").read_text().replace("${FACET_NAMES}", '"${FACET_NAMES}"')
        sections: dict[str, Any] = yaml.safe_load(text)
        config = sections["run_launcher"]["config"]
        config |= {"image": self.name, "networks": ["host"]}
        interpreter = str(Path(sys.executable).resolve().parent.parent)
        read = sorted({*SYSTEM, sys.prefix, sys.base_prefix, interpreter, str(ROOT)})
        write = sorted({str(folder), str(self.url.query["host"])})
        config["container_kwargs"] |= {
            "auto_remove": False,
            "cap_add": ["DAC_OVERRIDE"],
            "group_add": [],
            "labels": {"facet.stack": self.name},
            "working_dir": str(ROOT),
            "entrypoint": [sys.executable, "-m", "facet_dagster.within"],
            "volumes": [
                *(f"{path}:{path}:ro" for path in read if Path(path).exists() and not path.startswith("/usr/")),
                *(f"{path}:{path}" for path in write),
            ],
        }
        return sections

    def facet(self, *words: str) -> None:
        command = [sys.executable, "-m", "facet_dagster.cli", *words]
        done = subprocess.run(
            command, env=self.environment, cwd=self.home.parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.fixture(scope="module")
def image(home: Installation) -> Iterator[Any]:
    """Empty folders for what is mounted; every container made from it is removed at the end."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in ("proc", "sys", "dev", "tmp", *(path.strip("/") for path in SYSTEM)):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
    client = docker.from_env()
    # The launcher gives a command by its name alone.
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    client.api.import_image_from_data(file.getvalue(), repository=home.name, changes=[f"ENV PATH={path}"])
    yield client
    for container in client.containers.list(all=True, filters={"label": f"facet.stack={home.name}"}):
        container.remove(force=True)
    client.images.remove(home.name)
    client.close()


@pytest.fixture(scope="module")
def model() -> Iterator[HandmadeModel]:
    with HandmadeModel() as made:
        yield made


@pytest.fixture(scope="module")
def home(databases: Databases, model: HandmadeModel) -> Iterator[Installation]:
    url = databases.new()
    with tempfile.TemporaryDirectory(prefix="facet-launcher-", ignore_cleanup_errors=True) as folder:
        yield Installation(Path(folder), url, model.api_base)
    databases.drop(url)


@pytest.fixture(scope="module")
def ui(home: Installation, image: Any) -> Iterator[WebClient]:
    """Web UI and daemon, with some skills to work on."""
    home.facet("ingest", str(SKILLS))
    command = [sys.executable, "-m", "facet_dagster.cli", "ui"]
    with (home.home / "ui.log").open("wb") as log:
        process = subprocess.Popen(command, env=home.environment, cwd=home.home, stdout=log, stderr=log)
        try:
            wait_for(home.web.answers, 300)
            yield home.web
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


@pytest.fixture(scope="module")
def containers(ui: WebClient, home: Installation, image: Any) -> list[dict[str, Any]]:
    """Two ranged runs of all buckets, the second one asks a model; what the engine tells of their containers."""
    for asset in ("skills", "scenario_hypotheses"):
        run_id = ui.launch(asset, keys=("00", "ff"))
        status, log = ui.finished(run_id), ui.log(run_id)
        shown = [c.logs().decode(errors="replace")[-3000:] for c in _of(image, home)]
        assert status == "SUCCESS", log[-3000:] + "".join(shown)
        assert f"with image {home.name}" in log
    return [container.attrs for container in _of(image, home)]


def _of(client: Any, home: Installation) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": f"facet.stack={home.name}"}))


def test_a_ranged_run_goes_through_a_container_of_its_own(
    containers: list[dict[str, Any]], home: Installation, model: HandmadeModel
) -> None:
    assert len(containers) == 2
    for container in containers:
        host = container["HostConfig"]
        assert container["State"]["ExitCode"] == 0
        assert host["CapDrop"] == ["ALL"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert host["Memory"] > 0
        assert host["PidsLimit"] > 0
    assert model.calls > 0
    rows = _rows(home.url)
    assert len({row for row in rows if ",ASSET_MATERIALIZATION," in row and "scenario_hypotheses" in row}) == 256


def test_no_secret_stands_in_what_is_written_or_shown(
    containers: list[dict[str, Any]], home: Installation, ui: WebClient
) -> None:
    """Run configuration, tags, metadata, events, ledger, logs, artifacts, command lines, containers."""
    told = json.dumps(containers)
    assert "FACET_API_BASE" in told
    rows = _rows(home.url)
    assert any("handmade" in row for row in rows)
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert any("--instance-ref" in line for line in lines)
    texts = {"containers": told, "database": "\n".join(rows), "command lines": "\n".join(lines)}
    for path in home.home.rglob("*"):
        if path.is_file():
            texts[str(path)] = path.read_bytes().decode(errors="replace")
    for secret in (KEY, PASSWORD):
        assert [where for where, text in texts.items() if secret in text] == []


def test_what_is_typed_into_the_web_ui_reaches_no_path(
    containers: list[dict[str, Any]], home: Installation, ui: WebClient
) -> None:
    """A batch, a partition and a resource's folder by the names of files outside."""
    outside = home.home.parent / "escaped"
    up = f"{'../' * 12}{str(outside).lstrip('/')}"
    selector = '{repositoryName: "__repository__", repositoryLocationName: "facet_dagster"}'
    added = ui.query(
        'mutation($key: String!) { addDynamicPartition(partitionsDefName: "seed", partitionKey: $key, '
        f"repositorySelector: {selector}) {{ __typename }} }}",
        key=up,
    )
    assert added["addDynamicPartition"]["__typename"] == "AddDynamicPartitionSuccess"
    resources = {"resources": {"store": {"config": {"folder": str(outside)}}}}
    batch = {"ops": {"seed_selection": {"config": {"batch": up, "count": 1}}}}
    runs = [
        ui.launch("skills", keys=("00", "0f"), config=resources),
        ui.launch("seed_selection", config=batch),
        ui.launch("seed", keys=(up, up)),
    ]
    assert ui.finished(runs[0]) == "SUCCESS"
    assert ui.finished(runs[2]) == "FAILURE"  # there is no such seed
    ui.finished(runs[1])
    assert not outside.exists()


def _rows(url: sa.URL) -> list[str]:
    """Every row of every table, as text."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        found = [
            row for name in tables for row in connection.execute(sa.text(f'SELECT t::text FROM "{name}" t')).scalars()
        ]
    engine.dispose()
    return found
