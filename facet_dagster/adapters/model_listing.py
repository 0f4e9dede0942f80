"""The cheapest question to a model's endpoint: which models are there? It costs nothing and shows a wrong key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx

from facet_dagster.adapters.litellm_client import OWN_ADDRESS
from facet_dagster.deployments import Deployment

# Providers that list models at a fixed address, with the variables of their key and address.
PROVIDERS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")),
}


@dataclass(frozen=True)
class Listing:
    """``where`` is the address without user and query. ``status`` is 0 when nobody answered. ``variable`` is where the
    key is expected; ``names`` are the models, empty where the answer is no listing."""

    where: str
    variable: str
    status: int
    names: tuple[str, ...] = ()


def listing(deployment: Deployment, environment: Mapping[str, str], seconds: float = 15.0) -> Listing | None:
    """What the endpoint says; None where no address is known that lists models."""
    provider = provider_of(deployment.model)
    known = PROVIDERS.get(provider)
    if provider in OWN_ADDRESS or (known is None and not deployment.api_base):
        return None
    address, key, variable = deployment.api_base, deployment.key, expected(deployment)
    if known is not None and not address:
        address = next(filter(None, (environment.get(name, "") for name in known[2])), known[0])
        secret = key.get_secret_value() if key else environment.get(known[1], "")
    else:
        secret = key.get_secret_value() if key else ""
    status, names = _ask(f"{address.rstrip('/')}/models", _headers(provider, secret), seconds)
    return Listing(_plain(address), variable, status, names)


def provider_of(model: str) -> str:
    """litellm's first word; a name without one is OpenAI's."""
    return model.partition("/")[0] if "/" in model else "openai"


def expected(deployment: Deployment) -> str:
    """Where the key of this deployment is expected, in words."""
    if deployment.key_env:
        return f"${deployment.key_env}"
    if deployment.key_file:
        return f"the file {deployment.key_file}"
    if deployment.key or deployment.api_base:
        return "FACET_API_KEY"
    known = PROVIDERS.get(provider_of(deployment.model))
    return known[1] if known else f"{provider_of(deployment.model).upper()}_API_KEY"


def _headers(provider: str, secret: str) -> dict[str, str]:
    if provider == "anthropic":
        return {"anthropic-version": "2023-06-01", **({"x-api-key": secret} if secret else {})}
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _ask(url: str, headers: Mapping[str, str], seconds: float) -> tuple[int, tuple[str, ...]]:
    try:
        answer = httpx.get(url, headers=dict(headers), timeout=seconds, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError):
        return 0, ()
    try:
        return answer.status_code, tuple(str(model["id"]) for model in answer.json()["data"])
    except (ValueError, KeyError, TypeError):
        return answer.status_code, ()


def _plain(address: str) -> str:
    """Without user, password and query, which may be secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "an address that is no URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
