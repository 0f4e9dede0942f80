"""One Markdown file per model call, rendered strictly and versioned by hash.

A file ``<call>.md`` holds the system message, a line ``=== user ===``, and the user message, both
Jinja templates. Two filters: ``json`` (indented JSON) and ``untrusted(label)`` (text fenced as data that
the model must never obey). A variable that is missing, or given and not used, is an error. The reply
schema is appended to the user message by ``render``. What a prompt says about writing its artifact stands between the
comments ``{# guide #}`` and ``{# end of guide #}``: ``guide`` gives it to prompts that ask for the same in another way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, meta
from pydantic import BaseModel

from facet_dagster.domain.ids import canonical, digest
from facet_dagster.errors import InvariantError

FOLDER = Path(__file__).parent
DIVIDER = "=== user ==="
MARK = "UNTRUSTED"
GUIDE = ("{# guide #}", "{# end of guide #}")


@dataclass(frozen=True)
class Rendered:
    """Messages ready to send, and the three digests of architecture section 4's ``tape_key``."""

    call: str
    system: str
    user: str
    template: str
    variables: str

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    def tape_key(self, attempt: int) -> str:
        return digest([self.call, self.template, self.variables, attempt])


def calls(folder: Path = FOLDER) -> list[str]:
    """Names of all model calls, sorted."""
    return sorted(path.stem for path in folder.glob("*.md"))


def version(*names: str) -> str:
    """Hash of the named prompts' texts: a stage's code version includes it, so the UI shows what is stale."""
    return digest([_source(name, FOLDER) for name in names])[:16]


def render(call: str, variables: Mapping[str, Any], schema: type[BaseModel], *, folder: Path = FOLDER) -> Rendered:
    """Render prompt ``call`` from ``folder``, by default the shipped prompts.

    Raises InvariantError for an unknown call, and for a variable that is missing or not used.
    """
    text, templates, wanted = _source(call, folder), *_templates(call, folder)
    if wanted != set(variables):
        raise InvariantError(
            f"Prompt {call}: missing {sorted(wanted - set(variables))}, not used {sorted(set(variables) - wanted)}"
        )
    plain = {name: _plain(value) for name, value in variables.items()}
    try:
        parts = [template.render(plain).strip() for template in templates]
    except TemplateError as error:
        raise InvariantError(f"Prompt {call} does not render: {error}") from error
    form = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    parts[1] += f"\n\nAnswer with one JSON object and nothing else. It must fit this JSON Schema:\n{form}"
    return Rendered(
        call=call,
        system=parts[0],
        user=parts[1],
        template=digest([text, form]),
        variables=digest(canonical(variables)),
    )


def guide(call: str, variables: Mapping[str, Any], *, folder: Path = FOLDER) -> str:
    """The guide of prompt ``call``, in one or several parts, so that another prompt asks in the same words.

    ``variables`` may hold more than it uses. Raises InvariantError for a prompt without a guide.
    """
    parts = [part.partition(GUIDE[1]) for part in _source(call, folder).split(GUIDE[0])[1:]]
    if not parts or any(not end or GUIDE[1] in after for _, end, after in parts):
        raise InvariantError(f"Prompt {call} needs a guide between {GUIDE[0]} and {GUIDE[1]}")
    inner = "".join(part for part, _, _ in parts)
    try:
        return _environment().from_string(inner).render({n: _plain(v) for n, v in variables.items()}).strip()
    except TemplateError as error:
        raise InvariantError(f"The guide of prompt {call} does not render: {error}") from error


@cache
def _source(call: str, folder: Path) -> str:
    path = folder / f"{call}.md"
    if not path.is_file():
        raise InvariantError(f"There is no prompt called {call}: known are {', '.join(calls(folder))}")
    text = path.read_text(encoding="utf-8")
    if text.count(f"\n{DIVIDER}\n") != 1:
        raise InvariantError(f"Prompt {call} needs exactly one line {DIVIDER!r}")
    return text


@cache
def _templates(call: str, folder: Path) -> tuple[tuple[Template, Template], frozenset[str]]:
    """The compiled system and user message, and the variables that they use."""
    environment, text = _environment(), _source(call, folder)
    system, _, user = text.partition(DIVIDER)
    wanted = frozenset(meta.find_undeclared_variables(environment.parse(text)))
    return (environment.from_string(system), environment.from_string(user)), wanted


@cache
def _environment() -> Environment:
    environment = Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - plain text, not HTML
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False, indent=1)
    environment.filters["untrusted"] = _fence
    return environment


def _fence(text: str, label: str) -> str:
    """Fence ``text``; a fence inside it is broken up, so that it cannot end the data early."""
    inner = str(text).replace(MARK, "UNTRUSTED-")
    return f"<<<{MARK} {label}\n{inner}\n{MARK}>>>"


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
