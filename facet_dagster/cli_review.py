"""The command that serves the review page."""

from __future__ import annotations

from typing import Annotated

import typer

from facet_dagster import connect, webui
from facet_dagster.adapters.tape_server import serve
from facet_dagster.cli_output import out
from facet_dagster.review.app import review as application
from facet_dagster.settings import load_settings

HOST = "127.0.0.1"


def review(port: Annotated[int, typer.Option(min=1, max=65_535)] = 3001) -> None:
    """Serve the review page, which only reads, on this machine's loopback until interrupted."""
    settings = load_settings()
    webui.check_port(HOST, port)
    out.print(f"Review page: http://{HOST}:{port} (Ctrl-C stops it)")
    serve(application(settings, connect.open_ledger(settings), connect.open_store(settings)), port)
