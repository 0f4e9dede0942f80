"""The web application: two pages and a style sheet. It only reads, and everything that it shows is escaped.

Texts of tasks are hostile HTML: templates escape them, no script is served, and the content security policy lets
none run. It answers to names of this machine alone, so that no foreign page can reach it through a browser.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from facet_dagster.domain.ids import bucket_of
from facet_dagster.errors import ConfigError, FacetError
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.review.index import FIELDS, Index, load
from facet_dagster.review.story import story
from facet_dagster.settings import Settings

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
HERE = Path(__file__).parent / "templates"
HOSTS = ["127.0.0.1", "localhost", "[::1]"]


def review(settings: Settings, ledger: Ledger, store: ArtifactStore) -> Starlette:
    """The application over one installation."""
    pages = _Pages(settings, ledger, store)
    routes = [
        Route("/", pages.seeds),
        Route("/seed/{key}", pages.seed),
        Route("/style.css", pages.style),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)])


class _Pages:
    def __init__(self, settings: Settings, ledger: Ledger, store: ArtifactStore) -> None:
        self._settings, self._ledger, self._store = settings, ledger, store
        self._index = Index(lambda: load(settings, ledger))
        self._index.warm()
        self._templates = Environment(
            loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._ui = f"http://localhost:{settings.ui_port}"

    async def seeds(self, request: Request) -> Response:
        wanted = {name: text.strip() for name, text in request.query_params.items()}
        return await self._answer("seeds.html", lambda: {"page": self._index.page(wanted), "wanted": wanted})

    async def seed(self, request: Request) -> Response:
        return await self._answer("seed.html", lambda: self._story(request.path_params["key"]))

    async def style(self, request: Request) -> Response:
        del request
        return Response((HERE / "style.css").read_bytes(), media_type="text/css", headers=HEADERS)

    def _story(self, key: str) -> Mapping[str, Any]:
        found = story(key, self._settings, self._ledger, self._store)
        if found.why.kind != "seed":
            raise ConfigError(f"{found.why.id} is a {found.why.kind}; its seeds are found by the filter of the list")
        alike = self._index.alike(found.why.reason, found.why.id) if found.why.reason else []
        return {"story": found, "why": found.why, "alike": alike}

    async def _answer(self, template: str, values: Any) -> Response:
        try:
            found = await run_in_threadpool(values)
        except ConfigError as error:
            return self._page("error.html", 404, {"message": str(error)})
        except FacetError as error:
            return self._page("error.html", 503, {"message": str(error)})
        return self._page(template, 200, found)

    def _page(self, template: str, status: int, values: Mapping[str, Any]) -> Response:
        more = {"ui": self._ui, "fields": FIELDS, "bucket": bucket_of}
        text = self._templates.get_template(template).render(**values, **more)
        return HTMLResponse(text, status, headers=HEADERS)
