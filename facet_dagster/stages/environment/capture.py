"""Reads e0 out of an image, through the engine and without starting anything (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.archive import ArchiveError, Member, unpack
from facet_dagster.domain.e0 import e0_from_archive
from facet_dagster.domain.environment import E0, WORKDIR, DiscriminatorRow
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Sandbox

STATUS = "/var/lib/dpkg/status"


def capture(image: str, *, sandbox: Sandbox, base_image: str, rows: Sequence[DiscriminatorRow] = ()) -> E0:
    """The initial state of ``image``; ``rows`` are looked up in full contents, beyond what previews hold.

    Raises SandboxError when nothing can be read: an empty e0 is never an environment.
    """
    archive = sandbox.read(image, WORKDIR)
    status = sandbox.read(image, STATUS)
    info = sandbox.image(image)
    if archive is None or info is None:
        raise SandboxError(f"Image {image} vanished or has no {WORKDIR} while its initial state was read")
    try:
        e0 = e0_from_archive(
            archive,
            status=_only_file(status),
            rows=rows,
            env=info.env,
            user=info.user,
            image_id=info.id,
            base_image=base_image,
        )
    except ArchiveError as error:
        raise SandboxError(f"The engine sent a damaged archive of {WORKDIR} in {image}: {error}") from error
    if not any(file.type == "file" for file in e0.files):
        raise SandboxError(f"Image {image} holds no file below {WORKDIR}, although its build context had some")
    return e0


def _only_file(archive: bytes | None) -> Member | None:
    members = unpack(archive).values() if archive else ()
    return next((member for member in members if member.type == "file"), None)
