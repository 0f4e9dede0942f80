"""Which licence a skill is under, and on what evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.skill import Licence

ALLOWED = frozenset(
    {
        "MIT",
        "MIT-0",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "CC-BY-4.0",
        "CC-BY-3.0",
        "CC-BY-SA-4.0",
        "CC-BY-SA-3.0",
        "ISC",
        "Unlicense",
    }
)
SHARE_ALIKE = ("CC-BY-SA-", "GPL-", "AGPL-", "LGPL-", "MPL-")
UNKNOWN = "NOASSERTION"
PROPRIETARY = "LicenseRef-Proprietary"

# First match wins, so what forbids stands before what it might be mistaken for.
_FORMS: tuple[tuple[str, str], ...] = (
    (r"all rights reserved.{0,80}(?:no part|may not|prohibited)|proprietary|confidential|unlicensed\b", PROPRIETARY),
    (r"(?<!non-)(?<!non)commercial licen", PROPRIETARY),
    (r"\bcc[ -]?by[ -]?nc|non-?commercial|polyform", "LicenseRef-Noncommercial"),
    (r"\bcc[ -]?by[ -]?nd|no-?deriv", "LicenseRef-NoDerivatives"),
    (r"affero|\bagpl", "AGPL-3.0"),
    (r"lesser general public|\blgpl", "LGPL-3.0"),
    (r"gnu general public|\bgpl", "GPL-3.0"),
    (r"mozilla public|\bmpl", "MPL-2.0"),
    (r"business source|\bbusl|\bbsl[ -]?1\.1|elastic license|\bsspl", "LicenseRef-SourceAvailable"),
    (r"\bcc[ -]?by[ -]?sa|sharealike|share-alike", "CC-BY-SA-{version}"),
    (r"\bcc[ -]?0|public domain dedication|creative commons zero", "CC0-1.0"),
    (r"\bcc[ -]?by\b|creative commons attribution", "CC-BY-{version}"),
    (r"mit[ -]?0|mit no attribution", "MIT-0"),
    (r"apache", "Apache-2.0"),
    (r"\bbsd[ -]?2|simplified bsd|bsd 2-clause", "BSD-2-Clause"),
    (r"\bbsd[ -]?3|new bsd|bsd 3-clause|\bbsd\b", "BSD-3-Clause"),
    (r"\bisc\b", "ISC"),
    (r"unlicense|free and unencumbered software", "Unlicense"),
    (r"\bmit\b|permission is hereby granted, free of charge", "MIT"),
)


def normalise(text: str) -> str:
    """SPDX identifier of a licence's name or first lines; empty when it says nothing recognisable."""
    plain = " ".join(text.lower().split())
    spdx = next((spdx for pattern, spdx in _FORMS if re.search(pattern, plain)), "")
    if "{version}" not in spdx:
        return spdx
    stated = re.search(r"\b([1-4])\.([05])\b", plain)
    return spdx.format(version=stated[0] if stated else "4.0")


def find(matter: Mapping[str, Any], hint: str, *, allowed: frozenset[str] = ALLOWED) -> Licence:
    """Decide by the package's own file, then the front matter, then the other hints."""
    for evidence, text in _evidence(matter, hint):
        choices = re.split(r"(?i)\s+or\s+|\s*/\s*(?=[A-Z])", text) if len(text) < 60 else [text]
        names = [name for choice in choices if (name := normalise(choice))]
        if names:
            spdx = next((name for name in names if name in allowed), names[0])
            return Licence(spdx=spdx, allowed=spdx in allowed, share_alike=share_alike(spdx), evidence=evidence)
    return Licence(spdx=UNKNOWN, allowed=False, evidence="nothing states a licence")


def share_alike(spdx: str) -> bool:
    """Whether what is made from such a skill must be shared under the same licence."""
    return spdx.startswith(SHARE_ALIKE)


def _evidence(matter: Mapping[str, Any], hint: str) -> Iterator[tuple[str, str]]:
    hints = [(where, text) for line in hint.split("\n") for where, sep, text in [line.partition(": ")] if sep]
    yield from (pair for pair in hints if pair[0].startswith("package"))
    nested = matter.get("metadata")
    for source in (matter, nested if isinstance(nested, dict) else {}):
        for key, value in source.items():
            if str(key).lower() in {"license", "licence"} and isinstance(value, str):
                yield "front matter", value[:300]
    yield from (pair for pair in hints if not pair[0].startswith("package"))


def judge(licence: Licence, *, allow_unknown: bool = False) -> Rejection | None:
    """A Rejection unless the licence permits redistribution."""
    if licence.allowed or (licence.spdx == UNKNOWN and allow_unknown):
        return None
    if licence.spdx == UNKNOWN:
        return reject(Reason.SKILL_LICENCE, "No licence is stated, so the skill may not be redistributed.")
    return reject(
        Reason.SKILL_LICENCE,
        f"The licence {licence.spdx} ({licence.evidence}) is not among the allowed ones.",
        spdx=licence.spdx,
        evidence=licence.evidence,
    )
