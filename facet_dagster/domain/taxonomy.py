"""Where a skill belongs, and what it is good for (paper, Tables 3 and 4)."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from facet_dagster.domain.outcome import Sparse
from facet_dagster.domain.seed import TaskFamily


class Family(StrEnum):
    """The five parent categories of the paper's Table 3."""

    AI = "ai"
    SOFTWARE = "software"
    DATA = "data"
    DOCUMENTS = "documents"
    MULTIMEDIA = "multimedia"


class Category(StrEnum):
    """The 34 fine categories, in the order of Table 4; the paper does not print the last four: they are ours."""

    AI_ORCHESTRATION = "ai.orchestration"
    AI_PROMPTS = "ai.prompts"
    AI_PLUGINS = "ai.plugins"
    AI_MCP = "ai.mcp"
    AI_MEMORY = "ai.memory"
    AI_MULTI_AGENT = "ai.multi_agent"
    SOFTWARE_CODE = "software.code"
    SOFTWARE_TESTING = "software.testing"
    SOFTWARE_GIT = "software.git"
    SOFTWARE_DEPLOYMENT = "software.deployment"
    SOFTWARE_SYSADMIN = "software.sysadmin"
    SOFTWARE_SECURITY = "software.security"
    DATA_STRUCTURED = "data.structured"
    DATA_TABLES = "data.tables"
    DATA_DATABASES = "data.databases"
    DATA_CLEANING = "data.cleaning"
    DATA_STATISTICS = "data.statistics"
    DATA_VISUALISATION = "data.visualisation"
    DATA_RESEARCH = "data.research"
    DOCUMENTS_MARKDOWN = "documents.markdown"
    DOCUMENTS_REPORTS = "documents.reports"
    DOCUMENTS_OFFICE = "documents.office"
    DOCUMENTS_PRODUCTIVITY = "documents.productivity"
    DOCUMENTS_PROJECTS = "documents.projects"
    DOCUMENTS_INTEGRATION = "documents.integration"
    DOCUMENTS_AUDIT = "documents.audit"
    MULTIMEDIA_IMAGE = "multimedia.image"
    MULTIMEDIA_DESIGN = "multimedia.design"
    MULTIMEDIA_AUDIO = "multimedia.audio"
    MULTIMEDIA_VIDEO = "multimedia.video"
    MULTIMEDIA_PUBLISHING = "multimedia.publishing"
    MULTIMEDIA_WRITING = "multimedia.writing"
    MULTIMEDIA_MARKETING = "multimedia.marketing"
    MULTIMEDIA_INTERACTIVE = "multimedia.interactive"

    @property
    def family(self) -> Family:
        return Family(self.partition(".")[0])


class Tier(StrEnum):
    """Whether the work of a skill can be done in a terminal without a network."""

    OFFLINE = "offline"
    MOCK = "mock"  # with a stand-in of the service that it talks to
    NOT_TERMINAL = "not_terminal"


class Classification(Sparse):
    """What code alone says about a skill.

    ``margin`` is how far the category lies before the next one, and ``sure`` whether that is enough. ``task`` is the
    family of tasks that such a skill mostly leads to. ``dense``: it states procedures, formats or rules to work by,
    so that it can anchor a seed; a mere topic cannot.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"tags"})

    category: Category
    margin: float
    sure: bool
    task: TaskFamily
    tier: Tier
    dense: bool
    tags: tuple[str, ...] = ()
