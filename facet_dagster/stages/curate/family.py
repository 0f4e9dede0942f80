"""Which of the paper's five families (Table 3) a skill belongs to: the nearest written description."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from facet_dagster.domain.skill import Family
from facet_dagster.ports import Embedder, Vectors
from facet_dagster.stages.curate.sentences import sentence_vectors

DESCRIPTIONS: dict[Family, tuple[str, ...]] = {
    Family.AI: (
        "Orchestrates language model agents and routes work between them.",
        "Writes, tests and versions prompts and model calls.",
        "Creates, reviews or installs skills and plugins for an AI assistant.",
        "Builds or connects a Model Context Protocol (MCP) server and its tools.",
        "Keeps an agent's long-term memory, context and notes between sessions.",
        "Retrieval augmented generation: chunking, embeddings and vector search.",
        "Evaluates agent behaviour, tokens, transcripts and model cost.",
    ),
    Family.SOFTWARE: (
        "Generates, refactors and reviews source code in a programming language.",
        "Writes unit tests and debugs failing tests.",
        "Git workflow, commits, pull requests, builds and package versions.",
        "Deploys applications with Docker, Kubernetes, cloud services and CI/CD pipelines.",
        "Administers Linux servers, logs, services, scheduled jobs and shell scripts.",
        "Security audit, vulnerabilities, secrets and access control.",
        "Web framework, backend API and frontend component development.",
    ),
    Family.DATA: (
        "Parses and converts JSON, YAML and XML data.",
        "Reads, joins and cleans CSV files and Excel spreadsheets.",
        "Writes SQL queries and designs database schemas.",
        "Statistics, data analysis, time series and forecasting.",
        "Charts, dashboards and data visualization.",
        "Scientific data sets, bioinformatics and machine learning features.",
        "Financial market data, prices, trading and accounting figures.",
    ),
    Family.DOCUMENTS: (
        "Writes and edits Markdown documents, README files and technical documentation.",
        "Reads, fills, merges and converts PDF files.",
        "Creates Word documents, slides and office templates.",
        "Writes reports, summaries, meeting notes and research reviews.",
        "Drafts articles, newsletters, e-mail and marketing copy.",
        "Project plans, product requirements, checklists and to-do lists.",
        "Translation, contracts, legal texts and knowledge notes.",
    ),
    Family.MULTIMEDIA: (
        "Generates, edits and resizes images and photos.",
        "Cuts, converts and subtitles video with ffmpeg.",
        "Transcribes speech, generates voice and processes audio and music.",
        "Designs user interfaces, logos, icons, colours and typography.",
        "Publishes posts and media to social networks, blogs and feeds.",
        "Automates a web browser, takes screenshots and scrapes pages.",
        "Games, 3D models, animation, maps and streaming devices.",
    ),
}


def families(texts: Sequence[str], *, embedder: Embedder) -> list[Family]:
    """For each text the family whose two closest sentences are closest on average; ties in Table 3's order."""
    return nearest(embedder.encode(texts), embedder=embedder) if texts else []


def nearest(vectors: Vectors, *, embedder: Embedder) -> list[Family]:
    """The same for texts that are embedded already, one row each."""
    known = list(DESCRIPTIONS)
    sentences = sentence_vectors(tuple(text for group in DESCRIPTIONS.values() for text in group), embedder)
    columns, start = [], 0
    for family in known:
        end = start + len(DESCRIPTIONS[family])
        closest = np.sort(vectors @ sentences[start:end].T, axis=1)[:, -2:]
        columns.append(closest.mean(axis=1))
        start = end
    best = np.argmax(np.round(np.stack(columns, axis=1), 4), axis=1)
    return [known[int(n)] for n in best]
