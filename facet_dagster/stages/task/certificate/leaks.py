"""The answer may not be in the environment: not in its image, nor in what its image is built from.

Data that follows from the inputs line by line is no leak; a whole output, or a large part of one, is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from facet_dagster.domain.archive import unpack
from facet_dagster.domain.dockerfile import DOCKERFILE, FILES_FOLDER, environment_files
from facet_dagster.domain.environment import WORKDIR, Environment
from facet_dagster.domain.git_objects import UnreadablePack
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.services import SCRIPT, SET_UP
from facet_dagster.domain.task import Draft
from facet_dagster.errors import OverLimits
from facet_dagster.ports import Sandbox
from facet_dagster.stages.task.certificate.answer import Answer, answer_of, squeeze
from facet_dagster.stages.task.certificate.contents import texts_in
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.render import markdown

# Beside /app: every folder in which a recipe could leave something for the agent.
FOLDERS = ("/home", "/root", "/tmp", "/srv", "/opt", "/var/tmp", "/build")  # noqa: S108 - folders of the image


@dataclass
class Searched:
    """``rejection`` is TASK_SOLUTION_LEAKED, or None; ``remarks`` tell what could not be searched or is odd."""

    rejection: Rejection | None = None
    remarks: list[str] = field(default_factory=list)


def search(draft: Draft, environment: Environment, final: Final, image: str, sandbox: Sandbox) -> Searched:
    """Every file of the image that may be of the task, and the build context. Raises SandboxError."""
    planned = [file.path for file in environment.manifest.files]
    told = markdown(draft.instruction)
    inputs = {path: data for path, data in final.initial.items() if is_input(path, planned, told)}
    given = {path: _texts(path, data) for path, data in inputs.items()}
    # What services are initialised with is an input of the work as files are.
    given |= {f"the data of service {service.name}": [service.set_up] for service in environment.recipe.services}
    answer = answer_of(draft, final.outputs, (text for texts in given.values() for text in texts))
    known = _in_inputs(answer, given)
    copies = [name for name, path in known.items() if squeeze(answer.outputs[name]) in map(squeeze, given[path])]
    if copies and len(copies) == len(answer.outputs) and not environment.recipe.services:
        output, path = copies[0], known[copies[0]]
        return Searched(_leaked(f"{WORKDIR}/{path}", f"the whole of every output, such as {output}"))
    rules_file = environment.recipe.rules_file
    if _told_by(given.get(rules_file, []), answer) and not environment.recipe.services:
        return Searched(_leaked(f"{WORKDIR}/{rules_file}", "the whole of every output"))
    done = Searched(
        remarks=[f"The output {output} stands whole in the input {path}." for output, path in known.items()]
    )
    secret = replace(answer, outputs={path: text for path, text in answer.outputs.items() if path not in known})
    done.rejection = _elsewhere(secret, _places(environment, final, inputs, image, sandbox, done))
    return done


def _told_by(rules: list[str], answer: Answer) -> bool:
    """Whether the rules hold all outputs: rows may rightly be selected from data, but not from rules."""
    return bool(answer.outputs) and all(_holds(rules, content) for content in answer.outputs.values())


def is_input(path: str, planned: list[str], told: str) -> bool:
    """Whether the manifest names this file, or a folder above it, or the instruction (``told``) names it in full."""
    named = any(path == name or path.startswith(name.rstrip("/") + "/") for name in planned)
    return named or f"{WORKDIR}/{path}" in told


def _in_inputs(answer: Answer, given: Mapping[str, list[str]]) -> dict[str, str]:
    """Output -> planned input that holds the whole of it. A selection of rows may rightly be so."""
    homes = {
        output: next((path for path, texts in given.items() if _holds(texts, content)), None)
        for output, content in answer.outputs.items()
    }
    return {output: path for output, path in homes.items() if path}


def _holds(texts: list[str], content: str) -> bool:
    return any(squeeze(content) in squeeze(text) for text in texts)


def _elsewhere(answer: Answer, places: Iterator[tuple[str, bytes]]) -> Rejection | None:
    for path, data in places:
        try:
            found = next((hit for text in texts_in(path, data) if (hit := answer.found_in(text))), None)
        except UnreadablePack as error:
            return _leaked(path, f"a history that cannot be searched: {error}")
        if found:
            return _leaked(path, found)
    return None


def _places(
    environment: Environment,
    final: Final,
    inputs: Mapping[str, bytes],
    image: str,
    sandbox: Sandbox,
    done: Searched,
) -> Iterator[tuple[str, bytes]]:
    """Path -> content; cheapest first. Planned inputs are left out, in the image and in the context."""
    for path, data in final.initial.items():
        if path not in inputs:
            yield f"{WORKDIR}/{path}", data
    skipped = {DOCKERFILE, SCRIPT, SET_UP, *(f"{FILES_FOLDER}/{path}" for path in inputs)}
    for path, data in environment_files(environment.recipe, environment.manifest, environment.base_image).items():
        if path not in skipped:
            yield f"environment/{path}", data
    for folder in FOLDERS:
        yield from _files_below(folder, image, sandbox, done)


def _files_below(folder: str, image: str, sandbox: Sandbox, done: Searched) -> Iterator[tuple[str, bytes]]:
    try:
        archive = sandbox.read(image, folder)
    except OverLimits as error:
        done.remarks.append(f"{folder} of the image was not searched for the answer: {error}")
        return
    parent = folder.rpartition("/")[0]
    for path, member in sorted(unpack(archive).items()) if archive else ():
        if member.type == "file":
            yield f"{parent}/{path}", member.data


def _texts(path: str, data: bytes) -> list[str]:
    try:
        return list(texts_in(path, data))
    except UnreadablePack:
        return []


def _leaked(path: str, found: str) -> Rejection:
    text = f"The environment holds the answer: {path} has {found}"
    return reject(Reason.TASK_SOLUTION_LEAKED, text[:600], path=path, found=found[:400])
