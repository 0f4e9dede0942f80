"""Sandbox on a Docker Engine, local or remote: nothing is shared with a container but archives."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from docker.errors import APIError

from facet_dagster.adapters.docker_build import Builder, BuildNetwork, BuildOrder
from facet_dagster.adapters.docker_container import CannotStart, Container, image_faults
from facet_dagster.adapters.docker_context import REPOSITORY, content_tag, external_bases
from facet_dagster.adapters.docker_disk import DiskGuard, DiskLimits
from facet_dagster.adapters.docker_engine import NOT_FOUND, Engine, engine_errors, retried
from facet_dagster.adapters.docker_exchange import Cargo, SharedFolders, sees_our_files
from facet_dagster.adapters.docker_labels import ATTEMPT, DEPLOYMENT, OWNER, RUN, SUBJECT
from facet_dagster.adapters.docker_limits import host_config
from facet_dagster.adapters.docker_pause import PauseNetworks
from facet_dagster.adapters.docker_reaper import Reaper, remove_image
from facet_dagster.adapters.docker_share import EngineShare
from facet_dagster.adapters.docker_slots import default_slots_dir
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge, pack
from facet_dagster.domain.trial import End, Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built, ImageInfo, Reaped, Run, RunOutcome

_BUILD_LIMITS = Limits(memory=4 * 1024**3, cpus=2.0)


class DockerSandbox:
    """One fresh container for each run. Thread-safe; connects on first use; ``close`` when done.

    ``pause_image`` is a trusted image with ``sleep`` (the base image): with it, trials join the network
    namespace of an idle container, which starts them faster. ``slots_dir`` holds the machine-wide slots.
    BuildKit is used unless the engine refuses it or ``classic_builder`` is set; files go by mounted folders
    unless the engine does not see ours or ``shared_folders`` is off. Trouble that may pass is waited out for
    ``patience`` seconds. ``deployment`` is a label.
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
        disk: DiskLimits | None = None,
        patience: float = 30.0,
        deployment: str = "",
    ) -> None:
        self.run_id = uuid.uuid4().hex
        self._owner = owner or current_owner()
        self._labels = {OWNER: self._owner, RUN: self.run_id, DEPLOYMENT: deployment}
        self._build_network, self._patience = build_network, patience
        self._engine = Engine(workers)
        self._builder = Builder(self._engine, classic=classic_builder)
        self._pauses = PauseNetworks(self._engine, pause_image, self._labels)
        self._slots_dir, self._slot_counts = slots_dir or default_slots_dir(), (build_slots, trial_slots)
        self._disk_limits, self._pause_image = disk or DiskLimits(), pause_image
        self._trying = threading.Lock()
        self._sees: bool | None = None if shared_folders else False
        # Also at the end of the process, when nobody called close().
        self._finalizer = weakref.finalize(self, _close, self._pauses, self._engine)

    def close(self) -> None:
        """Remove idle containers and close connections. A later call connects anew."""
        _close(self._pauses, self._engine)
        if "_share" in self.__dict__:
            self._share.exchange.close()

    def build(
        self, context: BuildContext, *, subject: str, attempt: int = 0, seconds: float = 600.0
    ) -> Built | BuildFailed:
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
        labels = self._labels_of(subject, attempt)
        with self._share.alone_with(tag):
            if self._image_id(tag) is not None:
                return Built(tag, reused=True, seconds=time.monotonic() - began)
            return retried(self._engine, self._patience, lambda: self._build(tag, tar, labels, seconds))

    def run(self, run: Run) -> RunOutcome:
        cargo = Cargo.of(run)
        with self._share.trials.take() as slot:
            # A program reaches nothing outside of its container, so one that was lost is run again.
            return retried(self._engine, self._patience, lambda: self._run(run, cargo, slot))

    def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
        run = Run(image=image, argv=("true",), subject="read", limits=limits or Limits())
        with self._container(run, None) as container:
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
    def _disk(self) -> DiskGuard:
        return DiskGuard(self._engine, self._share.holds, self._disk_limits, self._share.folder)

    def _build(self, tag: str, tar: bytes, labels: Mapping[str, str], seconds: float) -> Built | BuildFailed:
        with self._share.builds.take():
            self._disk.before_build()
            began = time.monotonic()
            order = BuildOrder(
                tag=tag,
                tar=tar,
                labels=labels,
                seconds=seconds,
                network=self._build_network,
                memory=_BUILD_LIMITS.memory,
                cpus=min(_BUILD_LIMITS.cpus, self._engine.cpus),
            )
            failed = self._builder.build(order)
            self._disk.trim_cache()
        if failed is not None:
            return failed
        if self._image_id(tag) is None:
            raise SandboxError(f"The engine ended the build of {tag} without an image", transient=True)
        return Built(tag, reused=False, seconds=time.monotonic() - began)

    def _run(self, run: Run, cargo: Cargo, slot: int) -> RunOutcome:
        self._disk.before_run()
        try:
            with self._shared(run, cargo) as shared, self._container(run, slot, shared) as container:
                if shared is None:
                    container.put(cargo.members)
                return _outcome(container, run, shared)
        except CannotStart as fault:
            return RunOutcome(fault.result, dict.fromkeys((*run.collect, *run.outbox)))
        except SandboxError:
            self._pauses.forget(slot)  # it may be what is broken
            raise

    def _shared(self, run: Run, cargo: Cargo) -> AbstractContextManager[SharedFolders | None]:
        if not cargo.folders or not self._mounts_work(run.image):
            return contextlib.nullcontext()
        return self._share.exchange.shared(cargo)

    def _mounts_work(self, image: str) -> bool:
        with self._trying:
            if self._sees is None:
                trusted = self._pause_image if self._pause_image and self._image_id(self._pause_image) else image
                self._sees = sees_our_files(self._engine, self._share.exchange, trusted, self._labels)
            return self._sees

    @contextlib.contextmanager
    def _container(self, run: Run, slot: int | None, shared: SharedFolders | None = None) -> Iterator[Container]:
        """A container that is removed on every way out; a failing removal never hides an earlier error."""
        network = "none" if slot is None else self._pauses.network(slot)
        container = Container(self._engine, self._create(run, network, shared.mounts() if shared else []))
        try:
            yield container
        except BaseException:
            with contextlib.suppress(SandboxError):
                container.remove()
            raise
        container.remove()

    def _labels_of(self, subject: str, attempt: int) -> dict[str, str]:
        return {**self._labels, SUBJECT: subject, ATTEMPT: str(attempt)}

    def _create(self, run: Run, network: str, mounts: list[dict[str, Any]]) -> str:
        config = host_config(run.limits, user=run.user, network=network, cpus=self._engine.cpus)
        with engine_errors("create a container"), image_faults():
            try:
                created = self._engine.api.create_container(
                    run.image,
                    entrypoint=list(run.argv),
                    user=run.user,
                    working_dir=run.workdir,
                    environment=dict(run.env),
                    labels=self._labels_of(run.subject, run.attempt),
                    healthcheck={"Test": ["NONE"]},
                    host_config={**config, "Mounts": mounts},
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


def _outcome(container: Container, run: Run, shared: SharedFolders | None) -> RunOutcome:
    program = container.execute(run.limits, shared.size if shared else None)
    paths = (*run.collect, *run.outbox)
    try:
        return RunOutcome(program, {path: _collected(container, path, run.limits, shared) for path in paths})
    except ArchiveTooLarge as error:
        note = f"{program.output}\n[{error} to collect]"
        over = program.model_copy(update={"end": End.DISK, "output": note})
        return RunOutcome(over, dict.fromkeys(paths))


def _collected(container: Container, path: str, limits: Limits, shared: SharedFolders | None) -> bytes | None:
    mounted = shared.collect(path, limits) if shared else None
    return mounted if mounted is not None else container.read(path, limits)


def _close(pauses: PauseNetworks, engine: Engine) -> None:
    pauses.close()
    engine.close()
