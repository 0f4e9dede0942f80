"""The Dockerfiles of a task, rendered and never written by a model.

Both images start from a public base and one tool-chain layer whose text is the same for every task, so
that an engine builds it once. They need no BuildKit feature and work under ``docker build`` and compose.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from datetime import UTC, datetime

from facet_dagster.domain.archive import EPOCH
from facet_dagster.domain.environment import ManifestReply, PlannedFile, Recipe, SourceFile
from facet_dagster.domain.services import ENTRYPOINT, SCRIPT, SET_UP, services_script, set_up_script

DOCKERFILE = "Dockerfile"
FILES_FOLDER = "app"
GENERATOR = "build/generate.py"
USER = "agent"
TOOLCHAIN_PACKAGES = ("asciinema", "bash", "ca-certificates", "passwd", "procps", "tmux", "tzdata")

_INSTALL = """\
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {packages} \\
 && rm -rf /var/cache/apt/*.bin /var/lib/apt/lists/*{more}
"""
_SET_UP_USER = f"""\
 \\
 && useradd --create-home --shell /bin/bash {USER} \\
 && install --directory --owner={USER} --group={USER} /app"""
# The seed of string hashes is fixed, so that a generator's sets have one order. -s and -P keep its
# modules to the standard library; -I would do so too, and would ignore the seed.
# Its memory (4 GiB, in KiB) and files (2 GiB, in blocks) end under every builder; a limit on processes would count
# all that the same user runs on the host. Where the host allows less, the shell says so and goes on.
_LIMITS = "ulimit -v 4194304; ulimit -f 4194304; "
_RUN_GENERATOR = f"{_LIMITS}PYTHONHASHSEED=0 LC_ALL=C.UTF-8 TZ=UTC python3 -s -P -B /build/generate.py"
_SERVICES = f"""\
COPY {SCRIPT} {ENTRYPOINT}
COPY {SET_UP} /{SET_UP}
RUN sh /{SET_UP} \\
 && rm -r /build
ENTRYPOINT ["{ENTRYPOINT}"]
"""
# What a generator writes gets the time that copied files and folders bring along from the build context.
_TIME = f"{datetime.fromtimestamp(EPOCH, UTC):%Y-%m-%dT%H:%M:%SZ}"
_SET_TIMES = f"find /app -exec touch --no-dereference --date={_TIME} {{}} +"
_FIXTURES = f"""\
FROM toolchain AS fixtures
COPY {GENERATOR} /{GENERATOR}
USER {USER}
WORKDIR /app
COPY --chown={USER}:{USER} {FILES_FOLDER}/ /app/
RUN {_RUN_GENERATOR} \\
 && {_SET_TIMES}
"""


def environment_dockerfile(
    base: str, packages: Sequence[str], *, has_generator: bool, has_services: bool = False
) -> str:
    """The image in which the agent works: ``packages`` and, below /app, the initial files.

    The build context holds ``app/**`` and, with a generator, ``build/generate.py``. The generator runs as
    the agent's user in a stage of its own, so that no layer of the image holds it. With services, it also
    holds ``build/services.sh``, the entrypoint, and ``build/set_up.sh``, which initialises them.
    """
    services = _SERVICES if has_services else ""
    if not has_generator:
        files = f"COPY --chown={USER}:{USER} {FILES_FOLDER}/ /app/\n"
        last = f"FROM toolchain\n{_install(packages)}{files}WORKDIR /app\n{services}"
        return "\n".join([_toolchain(base), last])
    files = f"COPY --from=fixtures --chown={USER}:{USER} /app/ /app/\n"
    last = f"FROM packages\n{files}WORKDIR /app\n{services}"
    return "\n".join([_toolchain(base), f"FROM toolchain AS packages\n{_install(packages)}", _FIXTURES, last])


def verifier_dockerfile(base: str, packages: Sequence[str]) -> str:
    """The image in which the verifier runs: ``packages``, and the build context below /tests."""
    tests = "COPY . /tests/\nRUN chmod -R a+rX /tests && chmod a+x /tests/test.sh\nWORKDIR /tests\n"
    return f"{bare_verifier_dockerfile(base, packages)}{tests}"


def bare_verifier_dockerfile(base: str, packages: Sequence[str]) -> str:
    """The same image before the tests are in it: one for many tasks."""
    return "\n".join([_toolchain(base), f"FROM toolchain\n{_install(packages)}"])


def _toolchain(base: str) -> str:
    layer = _INSTALL.format(packages=" ".join(TOOLCHAIN_PACKAGES), more=_SET_UP_USER)
    return f"FROM {base} AS toolchain\n{layer}STOPSIGNAL SIGKILL\n"


def _install(packages: Sequence[str]) -> str:
    names = sorted(set(packages) - set(TOOLCHAIN_PACKAGES))
    return _INSTALL.format(packages=" ".join(names), more="") if names else ""


def environment_files(recipe: Recipe, manifest: ManifestReply, base: str) -> dict[str, bytes]:
    """The complete build context (relative path -> bytes), which is also a package's environment/ folder.

    Literal files get the encoding and line ends that the manifest promises. Raises UnicodeEncodeError when
    a promised encoding cannot hold the text, and LookupError when there is no such encoding.
    """
    planned = {file.path: file for file in manifest.files}
    files = {f"{FILES_FOLDER}/{file.path}": _stored(file, planned.get(file.path)) for file in recipe.files}
    if recipe.generator:
        files[GENERATOR] = recipe.generator.encode()
    if recipe.services:
        files[SCRIPT] = services_script(recipe.services).encode()
        files[SET_UP] = set_up_script(recipe.services).encode()
    text = environment_dockerfile(
        base, recipe.packages, has_generator=bool(recipe.generator), has_services=bool(recipe.services)
    )
    return {DOCKERFILE: text.encode(), **files}


def environment_executables(recipe: Recipe) -> frozenset[str]:
    """Paths of the build context that need mode 755."""
    scripts = {SCRIPT} if recipe.services else set()
    return frozenset(scripts | {f"{FILES_FOLDER}/{file.path}" for file in recipe.files if file.executable})


def _stored(file: SourceFile, plan: PlannedFile | None) -> bytes:
    text = file.content
    if plan and plan.newline in ("lf", "crlf"):
        text = text.replace("\r\n", "\n")
    if plan and plan.newline == "crlf":
        text = text.replace("\n", "\r\n")
    return text.encode(codec(plan.encoding) if plan else "utf-8")


def codec(encoding: str) -> str:
    """The codec for an encoding as people write it; ``binary`` text is UTF-8. Raises LookupError."""
    name = encoding.strip().lower()
    if name in ("", "binary", "none"):
        return "utf-8"
    try:
        found = codecs.lookup(name).name
        "a\n".encode(found)  # base64 and the like are codecs of no text
    except (LookupError, ValueError) as error:
        raise LookupError(f"unknown encoding {encoding!r}") from error
    return found
