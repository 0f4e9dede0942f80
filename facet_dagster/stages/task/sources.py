"""Which helpers a check uses, and so which outputs it looks at."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from facet_dagster.domain.task import VerifierReply
from facet_dagster.stages.task.render import body, helpers, parsed


def used_sources(checks: Sequence[str], verifier: VerifierReply) -> dict[str, str]:
    """Name -> source of every helper that the checks use, directly or through another."""
    tree = parsed(helpers(verifier))
    known = {name: ast.unparse(node) for node in (tree.body if tree else ()) for name in _names(node)}
    open_texts = [body(check) for check in verifier.checks if check.id in checks]
    used: set[str] = set()
    while open_texts:
        words = set(re.findall(r"\w+", open_texts.pop()))
        new = words & set(known) - used
        used |= new
        open_texts += [known[name] for name in sorted(new)]
    return {name: source for name, source in known.items() if name in used}


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def wrong_outputs(failed: Sequence[str], outputs: Sequence[str], verifier: VerifierReply) -> tuple[str, ...]:
    """Outputs that the failed checks look at; all of them when none is named."""
    bodies = [body(check) for check in verifier.checks if check.id in failed]
    text = "\n".join([*bodies, *used_sources(failed, verifier).values()])
    named = tuple(path for path in outputs if path.rpartition("/")[2] in text)
    return named or tuple(outputs)
