"""Sandbox on a Docker Engine, local or remote: nothing is shared with a container but archives."""

from __future__ import annotations

import contextlib
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from docker.errors import APIError

from facet_dagster.adapters.docker_build import Builder, BuildNetwork, BuildOrder
from facet_dagster.adapters.docker_container import CannotStart, Container
from facet_dagster.adapters.docker_containers import Containers, Mounts, labels_of
from facet_dagster.adapters.docker_context import (
    REPOSITORY,
    content_tag,
    external_bases,
    fetch_line,
    packable,
    unshared_tag,
)
from facet_dagster.adapters.docker_describe import Counts, EngineFacts, counts, engine_facts
from facet_dagster.adapters.docker_disk import DiskGuard, DiskLimits
from facet_dagster.adapters.docker_engine import NOT_FOUND, Engine, engine_errors, retried
from facet_dagster.adapters.docker_exchange import Cargo
from facet_dagster.adapters.docker_labels import DEPLOYMENT, OWNER, RUN
from facet_dagster.adapters.docker_pause import PauseNetworks
from facet_dagster.adapters.docker_reads import Reads
from facet_dagster.adapters.docker_reaper import Reaper, remove_image, remove_own
from facet_dagster.adapters.docker_removal import Removals
from facet_dagster.adapters.docker_session import DockerSession, opened
from facet_dagster.adapters.docker_share import EngineShare
from facet_dagster.adapters.docker_slots import default_slots_dir
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge, folders_of, pack
from facet_dagster.domain.trial import End, ImageInfo, Limits, Reaped
from facet_dagster.errors import OverLimits, SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built, Run, RunOutcome

_BUILD_LIMITS = Limits(memory=4 * 1024**3, cpus=2.0, pids=1024, disk=4 * 1024**3, archive=256 * 1024**2, entries=20_000)
_NO_FETCH = "This line has the builder use the network, which is off in builds: put the file into the build context"


class DockerSandbox:
    """One fresh container for each run. Thread-safe; connects on first use; ``close`` when done.

    ``pause_image`` is a trusted image with ``sleep`` (the base image): with it, trials join the network
    namespace of an idle container, which starts them faster. ``slots_dir`` holds the machine-wide slots.
    BuildKit is used unless the engine refuses it or ``classic_builder`` is set; files go by mounted folders
    unless the engine does not see ours or ``shared_folders`` is off. Trouble that may pass is waited out for
    ``patience`` seconds. ``build_limits`` hold for each step of a build and, ``archive`` and ``entries``, for
    its context; its seconds come with each call. ``deployment`` is a label.
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
        shared_folders: bool = True,
        build_limits: Limits = _BUILD_LIMITS,
        disk: DiskLimits = DiskLimits(),  # noqa: B008 - frozen
        patience: float = 30.0,
        deployment: str = "",
    ) -> None:
        self.run_id = uuid.uuid4().hex
        self._owner = owner or current_owner()
        self._labels = {OWNER: self._owner, RUN: self.run_id, DEPLOYMENT: deployment}
        self._build_network, self._build_limits, self._patience = build_network, build_limits, patience
        self._engine = Engine(workers, disk.floor)
        self._builder = Builder(self._engine, classic=classic_builder)
        self._removals = Removals(self._engine)
        self._pauses = PauseNetworks(self._engine, pause_image, self._labels, self._removals)
        self._slots_dir, self._slot_counts = slots_dir or default_slots_dir(), (build_slots, trial_slots)
        self._disk_limits, self._reads = disk, Reads()
        self._mounts = Mounts(pause_image, wanted=shared_folders)
        # Also at the end of the process, when nobody called close().
        self._finalizer = weakref.finalize(self, _close, self._pauses, self._removals, self._engine)

    def close(self) -> None:
        """Remove idle and lost containers and close connections. A later call connects anew."""
        _close(self._pauses, self._removals, self._engine)
        if "_share" in self.__dict__:
            self._share.exchange.close()

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

    def build(
        self, context: BuildContext, *, subject: str, attempt: int = 0, seconds: float = 600.0, fresh: bool = False
    ) -> Built | BuildFailed:
        began = time.monotonic()
        dockerfile = context.files.get("Dockerfile", b"").decode(errors="replace")
        if self._build_network == "none" and (line := fetch_line(dockerfile)):
            return BuildFailed(line, None, _NO_FETCH, time.monotonic() - began)
        bases = {name: self._image_id(name) for name in external_bases(dockerfile)}
        missing = next((name for name, ident in bases.items() if ident is None), None)
        if missing is not None:
            return BuildFailed(f"FROM {missing}", None, self._missing(missing), time.monotonic() - began)
        try:
            context = packable(context, self._build_limits)
            tar = pack(context.files, executable=context.executable, folders=folders_of(context.files))
        except ArchiveError as error:
            return BuildFailed("context", None, str(error), time.monotonic() - began)
        tag = content_tag(context, {name: ident for name, ident in bases.items() if ident})
        if fresh:
            tag = unshared_tag()
        labels = labels_of(self._labels, subject, attempt)
        with self._share.alone_with(tag):
            if self._image_id(tag) is not None:
                return Built(tag, reused=True, seconds=time.monotonic() - began)
            work = partial(self._build, tag, tar, dockerfile, labels, seconds, fresh=fresh)
            return retried(self._engine, self._patience, work)

    def run(self, run: Run) -> RunOutcome:
        cargo = Cargo.of(run)
        with self._share.trials.take() as slot:
            # A program reaches nothing outside of its container, so one that was lost is run again.
            return retried(self._engine, self._patience, lambda: self._run(run, cargo, slot))

    @contextlib.contextmanager
    def open(self, run: Run) -> Iterator[DockerSession]:
        cargo = Cargo.of(run)
        with self._share.sessions.take():
            self._disk.before_run()
            with opened(self._engine, run, lambda: self._containers.filled(run, cargo, "none")) as session:
                yield session

    def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
        try:
            return retried(self._engine, self._patience, lambda: self._read(image, path, limits or Limits()))
        except ArchiveTooLarge as error:
            raise OverLimits(f"{path} of image {image} is over its limits: {error}") from error

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
        with self._share.holds.hold(image):
            yield self._image_id(image) is not None

    def remove_image(self, image: str) -> None:
        remove_image(self._engine, self._share.holds, image)

    def reap(self, *, images: bool = False, everything: bool = False) -> Reaped:
        reaped = Reaper(self._engine, self._share.holds).reap(images=images, everything=everything)
        self._share.exchange.reap(everything=everything)
        return reaped

    @cached_property
    def _share(self) -> EngineShare:
        builds, trials = self._slot_counts
        return EngineShare(self._engine, self._slots_dir, self._owner, builds=builds, trials=trials)

    @cached_property
    def _containers(self) -> Containers:
        return Containers(self._engine, self._share.exchange, self._labels, self._mounts, self._removals)

    @cached_property
    def _disk(self) -> DiskGuard:
        return DiskGuard(self._engine, self._share.holds, self._disk_limits, self._share.folder)

    def _build(
        self, tag: str, tar: bytes, dockerfile: str, labels: Mapping[str, str], seconds: float, *, fresh: bool
    ) -> Built | BuildFailed:
        with self._share.builds.take():
            self._disk.before_build()
            began = time.monotonic()
            cpus = min(self._build_limits.cpus, self._engine.cpus)
            limits = self._build_limits.model_copy(update={"seconds": seconds, "cpus": cpus})
            result = self._builder.build(
                BuildOrder(tag, tar, dockerfile, labels, self._build_network, limits, fresh=fresh)
            )
            self._disk.trim_cache()
        if isinstance(result, BuildFailed):
            return result
        if self._image_id(tag) is None:
            raise SandboxError(f"The engine ended the build of {tag} without an image", transient=True)
        return Built(tag, reused=False, seconds=time.monotonic() - began, executed=result)

    def _run(self, run: Run, cargo: Cargo, slot: int) -> RunOutcome:
        self._disk.before_run()
        try:
            with self._containers.filled(run, cargo, self._pauses.network(slot)) as container:
                return _outcome(container, run)
        except CannotStart as fault:
            return RunOutcome(fault.result, dict.fromkeys((*run.collect, *run.outbox)))
        except SandboxError:
            self._pauses.forget(slot)  # it may be what is broken
            raise

    def _read(self, image: str, path: str, limits: Limits) -> bytes | None:
        ident = self._image_id(image) or image  # where there is none, the engine says so
        run = Run(image=ident, argv=("true",), subject="read", limits=limits)

        def anew() -> bytes | None:
            with self._containers.bare(run) as container:
                return container.read(path, limits)

        return self._reads.through((ident, path, limits), anew)

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


def _outcome(container: Container, run: Run) -> RunOutcome:
    program = container.execute(run.limits)
    paths = (*run.collect, *run.outbox)
    try:
        return RunOutcome(program, {path: container.collect(path, run.limits) for path in paths})
    except ArchiveTooLarge as error:
        note = f"{program.output}\n[{error} to collect]"
        over = program.model_copy(update={"end": End.DISK, "output": note})
        return RunOutcome(over, dict.fromkeys(paths))


def _close(pauses: PauseNetworks, removals: Removals, engine: Engine) -> None:
    pauses.close()
    removals.catch_up()
    engine.close()
