"""What a recipe must satisfy before anything is built. Every problem is a sentence that a repair can act on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from facet_dagster.domain.dockerfile import codec, environment_files
from facet_dagster.domain.environment import WORKDIR, ManifestReply, Recipe, SourceFile
from facet_dagster.stages.environment.edits import GENERATOR_PATH
from facet_dagster.stages.environment.generator import generator_problems
from facet_dagster.stages.environment.service_policy import service_problems

MAX_PACKAGES = 12
MAX_FILES = 40
# About twice what the prompt asks for: beyond it a reply would not end within the model's usual limit.
MAX_FILE = 16 * 1024
MAX_TOTAL = 48 * 1024
MAX_PATH = 150
# Names that would hint at where answers are, and histories that may hold them.
RESERVED = frozenset({".git", "solution", "tests"})

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
_FORBIDDEN = re.compile(
    r"(openssh|dropbear|tinyssh|docker|containerd|podman|runc|lxc|systemd|snapd|sudo|tor$|texlive|libreoffice|chromium|"
    r"firefox|openvpn|wireguard|qemu)"
)


def policy_problems(
    recipe: Recipe, manifest: ManifestReply, outputs: Sequence[str], discriminators: Sequence[str]
) -> list[str]:
    """Every violation, in a fixed order. ``outputs`` are absolute paths that the work must create."""
    return [
        *_package_problems(recipe.packages),
        *_path_problems([file.path for file in recipe.files], "file"),
        *_path_problems([file.path for file in manifest.files], "manifest entry"),
        *_answer_problems(recipe, manifest, outputs),
        *_size_problems(recipe.files),
        *_manifest_problems(recipe, manifest),
        *_encoding_problems(recipe, manifest),
        *_row_problems(recipe, manifest, discriminators),
        *generator_problems(recipe.generator),
        *service_problems(recipe, manifest),
    ]


def _package_problems(packages: Sequence[str]) -> list[str]:
    found = []
    if len(packages) > MAX_PACKAGES:
        found.append(f"There are {len(packages)} packages; at most {MAX_PACKAGES} are allowed.")
    for name in packages:
        if not _PACKAGE.fullmatch(name):
            found.append(f"'{name}' is not the name of a Debian package; remove it.")
        elif _FORBIDDEN.match(name):
            found.append(f"Package {name} is not allowed; do the work without it.")
        elif name.startswith("python3-"):
            found.append(f"Package {name} is not seen by the image's python3; use the standard library instead.")
    return found


def _path_problems(paths: Sequence[str], what: str) -> list[str]:
    found = [f"The {what} {path!r} occurs {n} times; keep one." for path, n in Counter(paths).items() if n > 1]
    for path in dict.fromkeys(paths):
        problem = _path_problem(path)
        if problem:
            found.append(f"The {what} {path!r} {problem}.")
    found += [
        f"{above} is a {what} and also a folder of {below}; rename one."
        for above, below in pairwise(sorted(set(paths), key=lambda path: path.split("/")))
        if below.startswith(above + "/")
    ]
    return found


def _path_problem(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/"):
        return "must be relative to /app"
    if any(part in ("", ".", "..") for part in parts):
        return "must have no empty part, '.' or '..'"
    if parts[0].lower() in RESERVED or ".git" in parts:
        return f"lies in a reserved folder ({', '.join(sorted(RESERVED))}); use another one, such as data/"
    if path == GENERATOR_PATH:
        return "has the name that repairs use for the generator; choose another"
    if len(path) > MAX_PATH or not path.isprintable() or "\\" in path:
        return f"must be printable, without backslash, and at most {MAX_PATH} characters long"
    return ""


def _answer_problems(recipe: Recipe, manifest: ManifestReply, outputs: Sequence[str]) -> list[str]:
    paths = dict.fromkeys([*(file.path for file in recipe.files), *(file.path for file in manifest.files)])
    found = []
    for output in outputs:
        answer = output.removeprefix(WORKDIR + "/")
        found += [
            f"{path} stands where the work must create {output}; the initial state must not hold an answer."
            for path in paths
            if path == answer or answer.startswith(path + "/") or path.startswith(answer + "/")
        ]
    return found


def _size_problems(files: Sequence[SourceFile]) -> list[str]:
    sizes = {file.path: len(file.content.encode("utf-8", "replace")) for file in files}
    found = [
        f"{path} has {size} bytes, more than {MAX_FILE}; let the generator write it."
        for path, size in sizes.items()
        if size > MAX_FILE
    ]
    if len(files) > MAX_FILES:
        found.append(f"There are {len(files)} literal files; at most {MAX_FILES} are allowed.")
    if sum(sizes.values()) > MAX_TOTAL:
        found.append(f"The literal files have {sum(sizes.values())} bytes together; at most {MAX_TOTAL} are allowed.")
    return found


def _manifest_problems(recipe: Recipe, manifest: ManifestReply) -> list[str]:
    literal = {file.path: file for file in recipe.files}
    found = []
    rules = literal.get(recipe.rules_file)
    if rules is None or not rules.content.strip():
        found.append(f"The rules file {recipe.rules_file} must be one of the literal files and not be empty.")
    for plan in manifest.files:
        if plan.how == "literal" and plan.path not in literal:
            found.append(f"{plan.path} is planned as a literal file and is missing from the files.")
        elif plan.newline == "mixed" and plan.how == "literal" and not _has_both_ends(literal[plan.path].content):
            found.append(
                f"{plan.path} is planned with mixed line ends; end some of its lines in \\r\\n and some in \\n."
            )
        if plan.how == "generated" and plan.path in literal:
            found.append(f"{plan.path} is planned as generated and is also a literal file; keep one of the two.")
        if plan.how == "generated" and not recipe.generator.strip():
            found.append(f"{plan.path} is planned as generated and there is no generator.")
    return found


def _has_both_ends(text: str) -> bool:
    return 0 < text.count("\r\n") < text.count("\n")


def _encoding_problems(recipe: Recipe, manifest: ManifestReply) -> list[str]:
    found = []
    for plan in manifest.files:
        try:
            codec(plan.encoding)
        except LookupError:
            found.append(f"{plan.path}: encoding {plan.encoding!r} is not known; use utf-8, utf-16 or windows-1252.")
    if found:
        return found
    try:
        environment_files(recipe, manifest, base="")
    except UnicodeEncodeError as error:
        bad = error.object[error.start : error.end]
        found.append(f"{bad!r} in one of the literal files does not exist in {error.encoding}; use another character.")
    except UnicodeError as error:
        found.append(f"One of the literal files cannot be written in its encoding: {error}")
    return found


def _row_problems(recipe: Recipe, manifest: ManifestReply, discriminators: Iterable[str]) -> list[str]:
    known = {file.path for file in recipe.files} | {plan.path for plan in manifest.files}
    marked = {row.id for row in recipe.rows}
    found = [
        f"Discriminator {ident} has no row: put its row into a file and give path and mark in 'rows'."
        for ident in discriminators
        if ident not in marked
    ]
    return found + [
        f"The row of {row.id} names {row.path}, which is no file of the environment."
        for row in recipe.rows
        if row.path not in known
    ]
