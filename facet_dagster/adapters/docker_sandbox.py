"""Sandbox on a Docker Engine, local or remote: nothing is shared with a container but archives."""

from __future__ import annotations

import contextlib
import time
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docker.errors import APIError

from facet_dagster.adapters.docker_build import Builder, BuildNetwork, BuildOrder
from facet_dagster.adapters.docker_container import CannotStart, Container, image_faults
from facet_dagster.adapters.docker_context import REPOSITORY, content_tag, external_bases
from facet_dagster.adapters.docker_describe import Counts, EngineFacts, counts, engine_facts
from facet_dagster.adapters.docker_engine import NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_holds import Holds
from facet_dagster.adapters.docker_labels import OWNER, RUN, SUBJECT
from facet_dagster.adapters.docker_limits import host_config
from facet_dagster.adapters.docker_pause import PauseNetworks
from facet_dagster.adapters.docker_reaper import Reaper, remove_image, remove_own
from facet_dagster.adapters.docker_session import DockerSession, opened
from facet_dagster.adapters.docker_slots import Slots, default_slots_dir, one_at_a_time
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge, Member, pack, placed
from facet_dagster.domain.trial import End, Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built, ImageInfo, Put, Reaped, Run, RunOutcome

_RETRIES = 2
_BUILD_LIMITS = Limits(memory=4 * 1024**3, cpus=2.0)


class DockerSandbox:
    """One fresh container for each run. Thread-safe; connects on first use; ``close`` when done.

    ``pause_image`` is a trusted image with ``sleep`` (the base image): with it, trials join the network
    namespace of an idle container, which starts them faster. ``slots_dir`` holds the machine-wide slots.
    A build starts only with ``free_gib`` free on the engine's disk. BuildKit is used unless the engine refuses
    it or ``classic_builder`` is set.
    """

    def __init__(
        self,
        owner: str | None = None,
        workers: int = 2,
        build_network: BuildNetwork = "default",
        *,
        pause_image: str | None = None,
        slots_dir: Path | None = None,
        build_slots: int = 2,
        trial_slots: int = 4,
        classic_builder: bool = False,
        free_gib: float = 2.0,
    ) -> None:
        self.run_id = uuid.uuid4().hex
        self._labels = {OWNER: owner or current_owner(), RUN: self.run_id}
        self._build_network, self._free_gib = build_network, free_gib
        self._slots_dir = slots_dir or default_slots_dir()
        self._engine = Engine(workers)
        self._build_slots = Slots(self._slots_dir, "build", build_slots, self._engine.check_stopping)
        self._trial_slots = Slots(self._slots_dir, "trial", trial_slots, self._engine.check_stopping)
        # Slots of their own: a block that holds a session open may run a trial inside it.
        self._session_slots = Slots(self._slots_dir, "session", trial_slots, self._engine.check_stopping)
        self._holds = Holds(self._slots_dir)
        self._builder = Builder(self._engine, classic=classic_builder)
        self._pauses = PauseNetworks(self._engine, pause_image, self._labels)
        # Also at the end of the process, when nobody called close().
        self._finalizer = weakref.finalize(self, _close, self._pauses, self._engine)

    def close(self) -> None:
        """Remove idle containers and close connections. A later call connects anew."""
        _close(self._pauses, self._engine)

    def describe(self) -> EngineFacts:
        """The engine behind this sandbox. Raises SandboxError."""
        return engine_facts(self._engine, self._builder.name)

    def counts(self, *, own: bool) -> Counts:
        """How much is on the engine, or how much of it this sandbox made (``own``). Raises SandboxError."""
        return counts(self._engine, self.run_id if own else None)

    def stop(self) -> None:
        self._engine.stopping.set()
        with contextlib.suppress(SandboxError):  # an engine that is gone runs nothing of ours that we could end
            remove_own(self._engine, self.run_id)

    def build(self, context: BuildContext, *, subject: str, seconds: float = 600.0) -> Built | BuildFailed:
        began = time.monotonic()
        dockerfile = context.files.get("Dockerfile", b"").decode(errors="replace")
        bases = {name: self._image_id(name) for name in external_bases(dockerfile)}
        missing = next((name for name, ident in bases.items() if ident is None), None)
        if missing is not None:
            return BuildFailed(f"FROM {missing}", None, self._missing(missing), time.monotonic() - began)
        try:
            tar = pack(context.files, executable=context.executable)
        except ArchiveError as error:
            return BuildFailed("context", None, str(error), time.monotonic() - began)
        tag = content_tag(context, {name: ident for name, ident in bases.items() if ident})
        with one_at_a_time(self._slots_dir, tag.rpartition(":")[2]):
            if self._image_id(tag) is not None:
                return Built(tag, reused=True, seconds=time.monotonic() - began)
            return self._build(tag, tar, subject, seconds)

    def run(self, run: Run) -> RunOutcome:
        members = _placed(run.put)
        with self._trial_slots.take() as slot:
            for attempt in range(_RETRIES + 1):
                container: Container | None = None
                try:
                    with self._container(run, self._pauses.network(slot)) as container:
                        return _outcome(container, run, members)
                except CannotStart as fault:
                    return RunOutcome(fault.result, dict.fromkeys(run.collect))
                except SandboxError as error:
                    self._engine.check_stopping()
                    may_have_run = container is not None and container.started
                    if may_have_run or not error.transient or attempt == _RETRIES:
                        raise
                    self._pauses.forget(slot)
                    time.sleep(0.2 * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    @contextlib.contextmanager
    def open(self, run: Run) -> Iterator[DockerSession]:
        members = _placed(run.put)
        with (
            self._session_slots.take(),
            opened(self._engine, run, members, lambda: self._container(run, "none")) as made,
        ):
            yield made

    def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
        run = Run(image=image, argv=("true",), subject="read", limits=limits or Limits())
        with self._container(run, "none") as container:
            try:
                return container.read(path, run.limits)
            except ArchiveTooLarge as error:
                raise SandboxError(f"{path} of image {image} is over its limits: {error}") from error

    def image(self, name: str) -> ImageInfo | None:
        found = self._inspect(name)
        if found is None:
            return None
        config = found.get("Config") or {}
        return ImageInfo(
            id=found["Id"],
            env=dict(entry.partition("=")[::2] for entry in config.get("Env") or ()),
            user=config.get("User") or "",
            labels=dict(config.get("Labels") or {}),
            size=int(found.get("Size") or 0),
        )

    @contextlib.contextmanager
    def hold(self, image: str) -> Iterator[bool]:
        with self._holds.hold(image):
            yield self._image_id(image) is not None

    def remove_image(self, image: str) -> None:
        remove_image(self._engine, self._holds, image)

    def reap(self, *, images: bool = False, everything: bool = False) -> Reaped:
        return Reaper(self._engine, self._holds).reap(images=images, everything=everything)

    def _build(self, tag: str, tar: bytes, subject: str, seconds: float) -> Built | BuildFailed:
        with self._build_slots.take():
            self._check_disk()
            began = time.monotonic()
            order = BuildOrder(
                tag=tag,
                tar=tar,
                labels={**self._labels, SUBJECT: subject},
                seconds=seconds,
                network=self._build_network,
                memory=_BUILD_LIMITS.memory,
                cpus=min(_BUILD_LIMITS.cpus, self._engine.cpus),
            )
            failed = self._builder.build(order)
        if failed is not None:
            return failed
        if self._image_id(tag) is None:
            raise SandboxError(f"The engine ended the build of {tag} without an image", transient=True)
        return Built(tag, reused=False, seconds=time.monotonic() - began)

    @contextlib.contextmanager
    def _container(self, run: Run, network: str) -> Iterator[Container]:
        """A container that is removed on every way out; a failing removal never hides an earlier error."""
        container = Container(self._engine, self._create(run, network))
        try:
            self._engine.check_stopping()  # ``stop`` looks once: what was made since then ends here
            yield container
        except BaseException:
            with contextlib.suppress(SandboxError):
                container.remove()
            raise
        container.remove()

    def _create(self, run: Run, network: str) -> str:
        config = host_config(run.limits, user=run.user, network=network, cpus=self._engine.cpus)
        with engine_errors("create a container"), image_faults():
            try:
                created = self._engine.api.create_container(
                    run.image,
                    entrypoint=list(run.argv),
                    user=run.user,
                    working_dir=run.workdir,
                    environment=dict(run.env),
                    labels={**self._labels, SUBJECT: run.subject},
                    healthcheck={"Test": ["NONE"]},
                    host_config=config,
                )
            except APIError as error:
                if error.status_code == NOT_FOUND and "image" in str(error.explanation).lower():
                    raise SandboxError(f"Image {run.image} is not on the engine: build it first") from error
                raise
        return str(created["Id"])

    def _inspect(self, name: str) -> dict[str, Any] | None:
        with engine_errors(f"inspect image {name}"):
            try:
                return dict(self._engine.api.inspect_image(name))
            except APIError as error:
                if error.status_code in (400, NOT_FOUND):  # 400: not the name of any image
                    return None
                raise

    def _image_id(self, name: str) -> str | None:
        found = self._inspect(name)
        return str(found["Id"]) if found else None

    def _missing(self, base: str) -> str:
        with engine_errors("list images"):
            tags = [tag for image in self._engine.api.images() for tag in image.get("RepoTags") or ()]
        names = sorted(t for t in tags if not t.startswith((f"{REPOSITORY}:", "<none>")))[:10]
        return f"base image {base} is not available; available: {', '.join(names) or 'none'}"

    def _check_disk(self) -> None:
        if self._engine.disk_is_short(self._free_gib):
            raise SandboxError(
                f"Less than {self._free_gib:g} GiB (or 2 % of inodes) is free in {self._engine.data_root}: "
                "free some disk space there before building"
            )


def _placed(puts: tuple[Put, ...]) -> dict[str, Member]:
    try:
        return {path: member for put in puts for path, member in placed(put.archive, put.target).items()}
    except ArchiveError as error:
        raise SandboxError(f"An archive cannot be put into a container: {error}") from error


def _outcome(container: Container, run: Run, members: dict[str, Member]) -> RunOutcome:
    container.put(members)
    program = container.execute(run.limits)
    try:
        return RunOutcome(program, container.collect(run.collect, run.limits))
    except ArchiveTooLarge as error:
        note = f"{program.output}\n[{error} to collect]"
        over = program.model_copy(update={"end": End.DISK, "output": note})
        return RunOutcome(over, dict.fromkeys(run.collect))


def _close(pauses: PauseNetworks, engine: Engine) -> None:
    pauses.close()
    engine.close()
