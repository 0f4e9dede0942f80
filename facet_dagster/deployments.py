"""Which model answers which call: one YAML file (``FACET_MODELS``), or one model for all of them (``FACET_MODEL``).

::

    models:
      author: {model: openai/gpt-5, price: {input: 1.25, output: 10}}        # USD per million tokens
      small:
        fallbacks: [author]                                                  # asked when this one does not answer
        deployments:                                                         # several endpoints of one model
          - {model: azure/gpt-5-mini, api_base: https://one.example.com, key_env: AZURE_ONE, weight: 3, rpm: 500}
          - {model: azure/gpt-5-mini, api_base: https://two.example.com, key_file: /run/secrets/two}
    calls: {default: author, judge: small, semantic_mutants: small, second_solution: small, triage_refusal: small,
            blind_verifier: small}

Keys stand in the environment or in secret files, never in this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, SecretStr, ValidationError, model_validator

from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError
from facet_dagster.prompts import calls as known_calls
from facet_dagster.settings import Settings

DEFAULT = "default"
# Calls that judge what another call wrote, and whose work they judge.
JUDGED_BY = {
    "judge": "hypotheses",
    "semantic_mutants": "verifier",
    "second_solution": "solution",
    "triage_refusal": "verifier",
    "blind_verifier": "verifier",
}


BEFORE_SEEDS = frozenset({"hypotheses"})


class Price(Value):
    """USD per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class Deployment(Value):
    """One endpoint: ``model`` is litellm's name (provider/model), ``rpm`` and ``tpm`` its limits a minute.

    ``key`` is filled in from ``key_env`` or ``key_file``; without either litellm reads the provider's usual variable,
    and an ``api_base`` gets no key.
    """

    model: str = Field(min_length=1)
    api_base: str = ""
    key_env: str = Field(default="", pattern=r"^([A-Za-z_]\w*)?$")
    key_file: Path | None = None
    weight: float = Field(default=1.0, gt=0)
    rpm: int | None = Field(default=None, ge=1)
    tpm: int | None = Field(default=None, ge=1)
    key: SecretStr | None = Field(default=None, exclude=True)


class ModelSpec(Value):
    """A model under a name of our own. ``fallbacks`` are asked in order when all tries here failed.

    ``structured``: whether the provider's own structured output is used (auto: where litellm knows that it is there).
    """

    name: str
    deployments: tuple[Deployment, ...] = Field(min_length=1)
    temperature: float = 0.7
    max_tokens: int = Field(default=16_384, ge=256)
    seconds: float = Field(default=600.0, gt=0)
    price: Price | None = None
    structured: Literal["auto", "native", "instructed"] = "auto"
    fallbacks: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _one_deployment(cls, data: Any) -> Any:
        """``model``, ``api_base``, ``key_env`` ... beside the parameters are one deployment."""
        if not isinstance(data, dict) or "deployments" in data:
            return data
        own = {name: value for name, value in data.items() if name in Deployment.model_fields}
        rest = {name: value for name, value in data.items() if name not in own}
        return {**rest, "deployments": [own]}

    @property
    def model(self) -> str:
        """What the ledger and the cache call it: litellm's name of the first deployment."""
        return self.deployments[0].model


class ModelTable(Value):
    """``calls`` maps a call, or ``default``, to the name of a model."""

    models: dict[str, ModelSpec]
    calls: dict[str, str]

    @model_validator(mode="before")
    @classmethod
    def _names(cls, data: Any) -> Any:
        models = data.get("models") if isinstance(data, dict) else None
        if not isinstance(models, dict):
            return data
        return {**data, "models": {n: {**m, "name": n} if isinstance(m, dict) else m for n, m in models.items()}}

    @model_validator(mode="after")
    def _complete(self) -> ModelTable:
        if DEFAULT not in self.calls:
            raise ValueError("calls: give a default")
        known = {DEFAULT, *known_calls()}
        for call in self.calls:
            if call not in known:
                raise ValueError(f"calls: there is no call {call}; known are {', '.join(sorted(known))}")
        for name in [*self.calls.values(), *(f for m in self.models.values() for f in m.fallbacks)]:
            if name not in self.models:
                raise ValueError(f"there is no model called {name} under models")
        return self

    def of(self, call: str) -> ModelSpec:
        return self.models[self.calls.get(call, self.calls[DEFAULT])]

    def chain(self, call: str) -> list[ModelSpec]:
        """The model of ``call`` and its fall-backs, each once."""
        spec = self.of(call)
        return [spec, *(self.models[name] for name in dict.fromkeys(spec.fallbacks) if name != spec.name)]

    def used(self) -> list[ModelSpec]:
        """Every model that some call may reach, the default first."""
        names = dict.fromkeys([self.calls[DEFAULT], *self.calls.values()])
        return list(
            {spec.name: spec for name in names for spec in (self.models[name], *self._fallbacks(name))}.values()
        )

    def _fallbacks(self, name: str) -> list[ModelSpec]:
        return [self.models[other] for other in self.models[name].fallbacks]

    def warnings(self) -> list[str]:
        """Sentences about what the file allows but does not recommend."""
        return [
            f"{judge} is asked of {self.of(judge).model}, a sibling of {self.of(author).model}, which writes what it"
            " judges: a model of another family sees more."
            for judge, author in JUDGED_BY.items()
            if judge in self.calls and family(self.of(judge).model) == family(self.of(author).model)
        ]


def by_author(table: ModelTable, author: str) -> ModelTable:
    """The table with everything that is written for a seed asked of ``author``; judges stay. Raises ConfigError."""
    if author not in table.models:
        raise ConfigError(f"FACET_AUTHOR: the models file knows no {author}; it names {', '.join(table.models)}.")
    written = [call for call in known_calls() if call not in JUDGED_BY and call not in BEFORE_SEEDS]
    return table.model_copy(update={"calls": {**table.calls, **dict.fromkeys(written, author)}})


def family(model: str) -> str:
    """``openai/gpt-5-mini`` -> ``gpt``: models of one family share their blind spots."""
    return model.rpartition("/")[2].lower().split("-")[0].rstrip("0123456789.")


def load_models(settings: Settings, environment: Mapping[str, str]) -> ModelTable:
    """The table of this installation, with its keys. Raises ConfigError naming the file and what is wrong in it."""
    table = _read(settings.models, settings) if settings.models else _single(settings)
    if settings.author and settings.models:
        table = by_author(table, settings.author)
    return table.model_copy(
        update={"models": {name: _with_keys(spec, environment) for name, spec in table.models.items()}}
    )


def _single(settings: Settings) -> ModelTable:
    deployment = Deployment(model=settings.author or settings.model, api_base=settings.api_base, key=settings.api_key)
    spec = ModelSpec(name=DEFAULT, deployments=(deployment,), **_parameters(settings))
    return ModelTable.model_construct(models={DEFAULT: spec}, calls={DEFAULT: DEFAULT})


def _parameters(settings: Settings) -> dict[str, Any]:
    return {
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "seconds": settings.model_seconds,
    }


def _read(path: Path, settings: Settings) -> ModelTable:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"FACET_MODELS: {path} cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        # Without the vendor's text, which quotes the line.
        raise ConfigError(f"FACET_MODELS: {path} is not YAML{where}: correct it.") from None
    models = data.get("models") if isinstance(data, dict) else None
    if isinstance(models, dict):
        _refuse_keys(path, models)
        defaults = _parameters(settings)
        models = {name: {**defaults, **spec} if isinstance(spec, dict) else spec for name, spec in models.items()}
        data = {**data, "models": models}
    try:
        return ModelTable.model_validate(data)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}".lstrip(": ") for e in _errors(error))
        raise ConfigError(f"FACET_MODELS: {path}: {wrong}") from None  # the vendor's error quotes the input


def _refuse_keys(path: Path, models: dict[str, Any]) -> None:
    for name, spec in models.items():
        several = spec.get("deployments") if isinstance(spec, dict) else None
        parts = [spec, *(several if isinstance(several, list) else [])]
        if any(isinstance(part, dict) and ("key" in part or "api_key" in part) for part in parts):
            raise ConfigError(
                f"FACET_MODELS: {path} holds a key under {name}: name its variable (key_env) or file (key_file)."
            )


def _errors(error: ValidationError) -> list[Any]:
    return list(error.errors(include_url=False, include_input=False, include_context=False))


def _with_keys(spec: ModelSpec, environment: Mapping[str, str]) -> ModelSpec:
    deployments = tuple(d.model_copy(update={"key": _key(d, environment)}) for d in spec.deployments)
    return spec.model_copy(update={"deployments": deployments})


def _key(deployment: Deployment, environment: Mapping[str, str]) -> SecretStr | None:
    if deployment.key_env:
        key = environment.get(deployment.key_env, "")
        if not key:
            raise ConfigError(f"The key of {deployment.model} is expected in ${deployment.key_env}, which is not set.")
        return SecretStr(key.strip())
    if deployment.key_file:
        try:
            return SecretStr(deployment.key_file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The key file of {deployment.model}, {deployment.key_file}, cannot be read.") from error
    return deployment.key
