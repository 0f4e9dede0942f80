"""Programs and features that solve.sh uses and the image does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from facet_dagster.domain.e0 import TOOLS
from facet_dagster.domain.task import SolutionReply
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.lint.solution import COMMAND, shell_only

_GAWK = re.compile(
    r"\b(gensub|asorti?|patsplit)\s*\(|\b(PROCINFO|FPAT|FIELDWIDTHS|IGNORECASE|BEGINFILE|ENDFILE)\b"
    r"|\b(match)\s*\([^;{}\n]*?,\s*/(?:[^/\\\n]|\\.)*/\s*,"
)


def remarks(solution: SolutionReply, installed: Mapping[str, str]) -> Iterator[Problem]:
    """``installed`` maps the image's packages to their versions; nothing is said when it is not known."""
    if not installed:
        return
    shell = shell_only(solution)
    for package, tools in TOOLS.items():
        for tool in tools if package not in installed else ():
            if _is_called(tool, shell) and not _is_looked_for(tool, shell):
                text = f"solve.sh calls {tool}, and the package {package} is not in the image."
                yield said("missing-tool", text)
    if "gawk" not in installed and _is_called("awk", shell):
        for match in _GAWK.finditer(shell):
            name = match[1] or match[2] or f"{match[3]} with three arguments"
            yield said("gawk-feature", f"solve.sh uses {name} of gawk, and the image's awk is mawk.")


def _is_called(tool: str, shell: str) -> bool:
    return re.search(COMMAND + re.escape(tool) + r"(?=[ \t\n;|&)]|$)", shell, re.MULTILINE) is not None


def _is_looked_for(tool: str, shell: str) -> bool:
    """The script asks whether the program is there, or has a function of that name."""
    name = re.escape(tool)
    return re.search(rf"\b(command -v|which|type|hash)\s+(-\w+\s+)*{name}\b|\b{name}\s*\(\)", shell) is not None
