"""Two marks that need no model: can the work be done in a terminal, and is there anything to work by?

Word rules, set by the hand-made labels of ``tests/fixtures/labels``; no proof: a judge decides later.
"""

from __future__ import annotations

import re

from facet_dagster.domain.skill import Skill
from facet_dagster.domain.taxonomy import Category, Tier

READ = 8_000  # characters of a body that are looked at

_FENCE = re.compile(r"(?m)^[ \t]*(?:```|~~~) *([a-zA-Z]\w*)")
_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console", "terminal", "powershell"})
_FILE = re.compile(
    r"\.(?:csv|tsv|jsonl?|ya?ml|toml|xml|md|txt|pdf|xlsx|docx|pptx|sql|db|log|html|srt|wav|mp3|mp4|png|jpg|svg|conf|py|sh)\b"
)
_KEYS = (
    *(
        "api key",
        "api_key",
        "apikey",
        "api-key",
        "oauth",
        "access token",
        "access_token",
        "bearer ",
        "_token",
        "_secret",
    ),
    *("credential", "sign up", "subscription", "密钥", "cookie"),
)
_REMOTE = (
    *("://api.", "/api/", "curl ", "webhook", " mcp", "composio", "kubectl", "aws ", "azure", "gcloud", "google cloud"),
    *("browser", "bluetooth", "smart home", "telegram", "slack", "whatsapp", "discord", "wallet", "exchange"),
)
_RULES = re.compile(r"\b(?:must|always|never|at least|at most|exactly|required?|only if|unless|otherwise)\b|必须|禁止")
_STEP = re.compile(r"(?m)^[ \t]*(?:\d{1,2}[.)]|[-*+])[ \t]+\S.{15}")
_NUMBER = re.compile(r"(?<![\w.#])\d")

# What such skills nearly always need, and what nearly never is terminal work.
SERVICES = frozenset(
    {
        Category.AI_MCP,
        Category.SOFTWARE_DEPLOYMENT,
        Category.DATA_RESEARCH,
        Category.DOCUMENTS_INTEGRATION,
        Category.MULTIMEDIA_AUDIO,
        Category.MULTIMEDIA_PUBLISHING,
    }
)
TALK = frozenset(
    {
        Category.AI_PLUGINS,
        Category.DOCUMENTS_PROJECTS,
        Category.MULTIMEDIA_DESIGN,
        Category.MULTIMEDIA_MARKETING,
        Category.MULTIMEDIA_WRITING,
    }
)


def tier(skill: Skill, category: Category) -> Tier:
    """Offline work on files and commands; the same behind a service; or nothing that a terminal is for."""
    text = skill.body[:READ]
    lower = f"{skill.name} {skill.description} {text}".lower()
    fences = [name.lower() for name in _FENCE.findall(text)]
    terminal = 2 * any(name in _SHELLS for name in fences) + min(len(fences), 2) + bool(skill.facts.scripts)
    terminal += min(len(set(_FILE.findall(lower))), 2) - 2 * (category in TALK)
    keys, calls = (sum(word in lower for word in words) for words in (_KEYS, _REMOTE))
    remote = min(keys, 3) + min(calls, 2) + 3 * (category in SERVICES)
    if terminal < 2:
        return Tier.MOCK if remote >= 4 else Tier.NOT_TERMINAL
    return Tier.MOCK if remote >= 2 else Tier.OFFLINE


def dense(skill: Skill) -> bool:
    """Whether the body states procedures, formats and rules, and not only a topic."""
    text = skill.body[:READ]
    signs = (
        len(_STEP.findall(text)) >= 5,
        len(_FENCE.findall(text)) >= 2 or text.count("```") >= 4,
        len(_RULES.findall(text.lower())) >= 4,
        len(_NUMBER.findall(text)) >= 12,
        text.count("\n|") >= 4 or text.count("`") >= 16,
    )
    return sum(signs) >= 3 and len(text) >= 800
