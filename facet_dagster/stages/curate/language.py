"""The language of a skill's prose, by script and by its commonest words: enough to keep or drop, no more."""

from __future__ import annotations

import re
from collections import Counter

from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.stages.curate.parse import Parsed

LEAST_LETTERS = 40
SCRIPTS = {
    "ja": "[\u3040-\u30ff]",
    "zh": "[\u3400-\u9fff]",
    "ko": "[\uac00-\ud7af]",
    "ru": "[\u0400-\u04ff]",
    "ar": "[\u0600-\u06ff]",
    "hi": "[\u0900-\u097f]",
    "he": "[\u0590-\u05ff]",
    "th": "[\u0e00-\u0e7f]",
    "el": "[\u0370-\u03ff]",
}
# A sign of these says more than a Latin letter.
WEIGHTS = {"ja": 3, "zh": 3, "ko": 3}
WORDS = {
    "en": "the and to of for with this when use from is are you your if not",
    "de": "der die das und nicht mit für von ist eine den wird auf oder werden",
    "fr": "le les des est une pour dans avec vous sur qui pas ou être du",
    "es": "el los las una para con que por del es se como más o según",
    "pt": "os uma para com que não por do da em são ao você ou seu",
    "it": "il gli una per con che non di della sono del nel più come dei",
    "nl": "het een van voor met niet zijn dat deze op wordt aan ook naar of",
}
_SIGNS = {language: re.compile(signs) for language, signs in SCRIPTS.items()}
_WORDS = {language: frozenset(words.split()) for language, words in WORDS.items()}
_CODE = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1|`[^`\n]*`|https?://\S+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]+")


def language(text: str) -> str:
    """ISO 639-1 of the prose in ``text``; empty where there is too little of it, or none that is known."""
    prose = _CODE.sub(" ", text)
    words = _LATIN.findall(prose.lower())
    letters = {"latin": sum(map(len, words))}
    letters |= {name: WEIGHTS.get(name, 1) * len(signs.findall(prose)) for name, signs in _SIGNS.items()}
    if sum(letters.values()) < LEAST_LETTERS:
        return ""
    if letters["ja"] > 0.1 * letters["zh"]:  # Japanese is written with Chinese signs as well
        letters["ja"] += letters.pop("zh")
    first = max(letters, key=lambda name: letters[name])
    return first if first != "latin" else _latin(words)


def _latin(words: list[str]) -> str:
    counts = Counter(words)
    hits = {name: sum(counts[word] for word in known) for name, known in _WORDS.items()}
    best = max(hits, key=lambda name: hits[name])
    return best if hits[best] >= 0.03 * len(words) else ""


def judge(parsed: Parsed, wanted: frozenset[str]) -> Rejection | None:
    """A Rejection when the prose is in none of the ``wanted`` languages; none wanted means any, unknown is kept."""
    if not wanted:
        return None
    found = language(f"{parsed.description}\n{parsed.body}")
    if not found or found in wanted:
        return None
    return reject(
        Reason.SKILL_LANGUAGE,
        f"The text is in {found}; wanted are {', '.join(sorted(wanted))} (FACET_LANGUAGES).",
        language=found,
    )
