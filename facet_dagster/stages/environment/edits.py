"""From replies to recipes: composition and bounded edits. Pure; problems are sentences for the next repair."""

from __future__ import annotations

from collections.abc import Iterable

from facet_dagster.domain.dockerfile import TOOLCHAIN_PACKAGES
from facet_dagster.domain.environment import (
    WORKDIR,
    DiscriminatorRow,
    EnvironmentRepairReply,
    FileEdit,
    ManifestReply,
    Recipe,
    RecipeReply,
    Service,
    SourceFile,
)

GENERATOR_PATH = "generator"
# Already in every image; asking for them again would only add a second copy.
PROVIDED = frozenset(
    {*TOOLCHAIN_PACKAGES, "bash", "coreutils", "diffutils", "findutils", "grep", "gzip", "mawk", "perl-base"}
    | {"python3", "python3-minimal", "sed", "tar"}
)


def relative(path: str) -> str:
    """``path`` as it stands in a recipe: relative to /app, without a leading ``./``."""
    return path.strip().removeprefix(WORKDIR + "/").removeprefix("./")


def plain_manifest(manifest: ManifestReply) -> ManifestReply:
    """The manifest with all paths relative, as recipes and problems name them."""
    files = [file.model_copy(update={"path": relative(file.path)}) for file in manifest.files]
    return manifest.model_copy(update={"files": files, "rules_file": relative(manifest.rules_file)})


def compose(manifest: ManifestReply, reply: RecipeReply) -> Recipe:
    """The recipe that a manifest and its files make."""
    return Recipe(
        packages=_packages([*manifest.packages, *(service.package for service in manifest.services)]),
        rules_file=manifest.rules_file,
        files=tuple(_plain_file(file) for file in reply.files),
        generator=reply.generator if reply.generator.strip() else "",
        rows=tuple(_plain_row(row) for row in reply.rows),
        services=tuple(reply.services),
    )


def apply_repair(recipe: Recipe, reply: EnvironmentRepairReply) -> tuple[Recipe, list[str]]:
    """The edited recipe, or the old one with the problems that kept every edit from being made."""
    files = {file.path: file for file in recipe.files}
    texts = {GENERATOR_PATH: recipe.generator, **{path: file.content for path, file in files.items()}}
    problems: list[str] = []
    for edit in reply.edits:
        problems += _apply(texts, edit)
    removed = [relative(path) for path in reply.remove_files]
    problems += [
        f"Edit of {path}: it cannot be removed, since it is no literal file." for path in removed if path not in files
    ]
    if problems:
        return recipe, problems
    generator = texts.pop(GENERATOR_PATH)
    edited = recipe.model_copy(
        update={
            "packages": _packages({*recipe.packages, *reply.add_packages} - set(reply.remove_packages)),
            "files": tuple(_with(files.get(path), path, texts[path]) for path in texts if path not in removed),
            "generator": generator if generator.strip() else "",
            "rows": _merged(recipe.rows, reply.rows),
            "services": _served(recipe.services, reply),
        }
    )
    return edited, [] if edited != recipe else ["The repair changed nothing; it needs an edit that removes the cause."]


def _apply(texts: dict[str, str], edit: FileEdit) -> list[str]:
    path = edit.path if edit.path == GENERATOR_PATH else relative(edit.path)
    if not edit.find:
        texts[path] = edit.replace
        return []
    if path not in texts:
        return [f"Edit of {path}: there is no such file; a new file needs an empty 'find'."]
    times = texts[path].count(edit.find)
    if times != 1:
        return [f"Edit of {path}: {edit.find[:80]!r} occurs {times} times; it must occur exactly once."]
    texts[path] = texts[path].replace(edit.find, edit.replace)
    return []


def _with(file: SourceFile | None, path: str, content: str) -> SourceFile:
    return file.model_copy(update={"content": content}) if file else SourceFile(path=path, content=content)


def _merged(old: Iterable[DiscriminatorRow], new: Iterable[DiscriminatorRow]) -> tuple[DiscriminatorRow, ...]:
    fresh = [_plain_row(row) for row in new]
    replaced = {row.id for row in fresh}
    return tuple([row for row in old if row.id not in replaced] + fresh)


def _served(old: Iterable[Service], reply: EnvironmentRepairReply) -> tuple[Service, ...]:
    put = {service.name: service for service in reply.put_services}
    kept = [put.pop(service.name, service) for service in old if service.name not in reply.remove_services]
    return (*kept, *put.values())


def _packages(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in names} - PROVIDED - {""}))


def _plain_file(file: SourceFile) -> SourceFile:
    return file.model_copy(update={"path": relative(file.path)})


def _plain_row(row: DiscriminatorRow) -> DiscriminatorRow:
    return row.model_copy(update={"path": relative(row.path)})
