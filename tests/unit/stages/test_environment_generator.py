from __future__ import annotations

import pytest

from facet_dagster.stages.environment.generator import generator_problems


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("z.writestr('a.txt', b'x')", "writes the clock into the archive"),
        ("z.writestr(f'{n}.txt', b'x')", "writes the clock into the archive"),
        ("print(os.path.getmtime('x'))", "getmtime is the time of the build"),
        ("print(p.stat().st_mtime)", "st_mtime is the time of the build"),
    ],
)
def test_times_of_the_build_are_refused(line: str, said: str) -> None:
    assert [said in problem for problem in generator_problems(f"import os, zipfile\n{line}\n")] == [True]


def test_an_archive_with_fixed_times_is_allowed() -> None:
    assert generator_problems("import zipfile\nz.writestr(zipfile.ZipInfo('a'), b'x')\nz.writestr(info, b'x')\n") == []
