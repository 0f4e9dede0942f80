"""Licences are recognised from what is really written, and the closest evidence decides."""

from __future__ import annotations

import pytest

from facet_dagster.stages.curate.licence import ALLOWED, UNKNOWN, find, judge, normalise

NAMES = [
    ("MIT", "MIT"),
    ("MIT License Copyright (c) 2026", "MIT"),
    ("Permission is hereby granted, free of charge, to any person", "MIT"),
    ("MIT-0", "MIT-0"),
    ("MIT No Attribution", "MIT-0"),
    ("Apache License Version 2.0, January 2004", "Apache-2.0"),
    ("apache2", "Apache-2.0"),
    ("BSD-2-Clause", "BSD-2-Clause"),
    ("BSD 3-Clause License", "BSD-3-Clause"),
    ("CC0-1.0", "CC0-1.0"),
    ("CC-BY-4.0", "CC-BY-4.0"),
    ("CC BY-SA 4.0", "CC-BY-SA-4.0"),
    ("CC-BY-NC-SA-4.0", "LicenseRef-Noncommercial"),
    ("CC-BY-ND-4.0", "LicenseRef-NoDerivatives"),
    ("GNU GENERAL PUBLIC LICENSE Version 3", "GPL-3.0"),
    ("GNU AFFERO GENERAL PUBLIC LICENSE", "AGPL-3.0"),
    ("GNU LESSER GENERAL PUBLIC LICENSE", "LGPL-3.0"),
    ("Mozilla Public License 2.0", "MPL-2.0"),
    ("Proprietary. LICENSE.txt has complete terms", "LicenseRef-Proprietary"),
    ("UNLICENSED", "LicenseRef-Proprietary"),
    ("The Unlicense", "Unlicense"),
    ("ISC", "ISC"),
    ("see the website", ""),
    ("permit", ""),
]


@pytest.mark.parametrize(("text", "spdx"), NAMES)
def test_a_written_licence_becomes_an_spdx_identifier(text: str, spdx: str) -> None:
    assert normalise(text) == spdx


@pytest.mark.parametrize(
    ("matter", "hint", "spdx", "evidence"),
    [
        (
            {"license": "MIT"},
            "package LICENSE: Proprietary\n_meta.json: MIT",
            "LicenseRef-Proprietary",
            "package LICENSE",
        ),
        ({"license": "Apache-2.0"}, "_meta.json: MIT", "Apache-2.0", "front matter"),
        ({"Licence": "ISC"}, "", "ISC", "front matter"),
        ({"metadata": {"license": "MIT"}}, "", "MIT", "front matter"),
        ({}, "_meta.json: MIT\nrepository LICENSE: Apache License", "MIT", "_meta.json"),
        ({"license": "ask me"}, "repository LICENSE: Apache License", "Apache-2.0", "repository LICENSE"),
        ({"license": "GPL-3.0 OR MIT"}, "", "MIT", "front matter"),
        ({"license": ["MIT"]}, "", UNKNOWN, "nothing states a licence"),
        ({}, "", UNKNOWN, "nothing states a licence"),
    ],
)
def test_the_closest_evidence_decides(matter: dict[str, object], hint: str, spdx: str, evidence: str) -> None:
    found = find(matter, hint)
    assert (found.spdx, found.evidence) == (spdx, evidence)


def test_share_alike_is_allowed_and_flagged() -> None:
    found = find({"license": "CC-BY-SA-4.0"}, "")
    assert (found.allowed, found.share_alike) == (True, True)
    assert judge(found) is None


@pytest.mark.parametrize("text", ["Proprietary", "CC-BY-NC-4.0", "CC-BY-ND-4.0", "GPL-3.0"])
def test_what_forbids_redistribution_is_rejected_by_name(text: str) -> None:
    rejection = judge(find({"license": text}, ""))
    assert rejection is not None
    assert rejection.reason == "skill.licence"
    assert normalise(text) in rejection.message


def test_an_unknown_licence_is_rejected_unless_configured() -> None:
    unknown = find({}, "")
    assert not unknown.allowed
    rejection = judge(unknown)
    assert rejection is not None
    assert "No licence is stated" in rejection.message
    assert judge(unknown, allow_unknown=True) is None


def test_the_allowed_set_is_a_parameter() -> None:
    assert find({"license": "MIT"}, "", allowed=frozenset({"ISC"})).allowed is False
    assert find({"license": "MIT"}, "", allowed=ALLOWED).allowed is True
