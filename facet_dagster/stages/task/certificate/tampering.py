"""Hostile programs that run in place of the solution."""

from __future__ import annotations

import ast
import base64
import json
import sys
from collections.abc import Iterable

from facet_dagster.domain.environment import WORKDIR
from facet_dagster.domain.task import VerifierReply
from facet_dagster.stages.task.render import body, helpers, parsed, script

PLANTED = ("checks", "conftest", "csv", "helpers", "json", "run_checks", "sitecustomize", "usercustomize")

_FORGE = r"""#!/bin/bash
# Every line may fail: what is allowed here is what is tried.
exec 2>/dev/null
passed='[{"id": "C1", "rid": "R1", "status": "pass", "message": ""}]'
mkdir -p /logs/verifier /tests
for folder in /logs/verifier /tests /app /app/logs/verifier /app/tests; do
    printf '%s' "$passed" > "$folder/checks.json"
    printf 1 > "$folder/reward.txt"
done
for file in /tests/test.sh /tests/run_checks.py; do
    printf '#!/bin/bash\nmkdir -p /logs/verifier\nprintf 1 > /logs/verifier/reward.txt\n' > "$file"
done
cat > /tmp/planted.py <<'PY'
import os
folder = "/logs/verifier"
os.makedirs(folder, exist_ok=True)
with open(folder + "/checks.json", "w") as out:
    out.write('[{"id": "C1", "rid": "R1", "status": "pass", "message": ""}]')
with open(folder + "/reward.txt", "w") as out:
    out.write("1")
os._exit(0)
PY
site="$HOME/.local/lib/python$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')/site-packages"
mkdir -p "$site" /app/tests
for name in @NAMES@; do
    for folder in /app /app/tests "$HOME" "$site"; do
        cp /tmp/planted.py "$folder/$name.py"
    done
done
printf 'import sitecustomize\n' > "$site/planted.pth"
printf 'export PYTHONPATH=/app BASH_ENV=/app/.bashrc\n' | tee -a "$HOME/.bashrc" "$HOME/.profile" > /app/.bashrc
exit 0
"""

_EASE = r"""#!/bin/bash
cat > /tmp/cut.py <<'PY'
import json
import os
import sys


def cut(items):
    return items[: len(items) // 2 + 1] if sys.argv[1] == "half" else items[:-1] or items


def cut_json(value):
    if isinstance(value, dict):
        return {k: cut(v) if isinstance(v, list) else v for k, v in value.items()}
    return cut(value) if isinstance(value, list) else value


for folder, _, names in os.walk("@APP@"):
    for path in (os.path.join(folder, name) for name in names):
        if path == @RULES@ or os.path.islink(path) or @ONLY@ not in ("", path):
            continue
        try:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
            if path.endswith(".json"):
                text = json.dumps(cut_json(json.loads(text)))
            else:
                text = "".join(cut(text.splitlines(keepends=True)))
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        except (OSError, ValueError):
            continue
PY
printf '%s' '@SOLUTION@' | base64 -d > /tmp/work.sh
cp -a @APP@ /tmp/before
for share in @SHARES@; do
    python3 /tmp/cut.py "$share"
    bash /tmp/work.sh && exit 0
    find @APP@ -mindepth 1 -delete
    cp -a /tmp/before/. @APP@/
done
exit 1
"""


def forge(verifier: VerifierReply) -> bytes:
    """Forged results, and a forging module under every name that the verifier imports."""
    names = sorted({*PLANTED, *_imported(verifier)})
    return _FORGE.replace("@NAMES@", " ".join(names)).encode()


def ease(solve_sh: str, rules_file: str, only: str = "") -> bytes:
    """Every text below /app but the rules is cut to half, or else by its end; then the solution works on the rest.

    Of ``only``, when given (relative to /app), the end alone is cut, and nothing else.
    """
    text = base64.b64encode(script(solve_sh).encode()).decode()
    filled = _EASE.replace("@APP@", WORKDIR).replace("@RULES@", json.dumps(f"{WORKDIR}/{rules_file}"))
    filled = filled.replace("@ONLY@", json.dumps(f"{WORKDIR}/{only}" if only else ""))
    return filled.replace("@SHARES@", "most" if only else "half most").replace("@SOLUTION@", text).encode()


_BLANK = """#!/bin/bash
printf '%s' '@PATHS@' | base64 -d | while IFS= read -r -d '' path; do
    : > "$path"
done
printf '%s' '@SOLUTION@' | base64 -d > /tmp/work.sh
exec bash /tmp/work.sh
"""


def blank(solve_sh: str, paths: Iterable[str]) -> bytes:
    """The files at ``paths``, relative to /app, are emptied; then the solution works on what is left."""
    named = "".join(f"{WORKDIR}/{path}\0" for path in paths).encode()
    filled = _BLANK.replace("@PATHS@", base64.b64encode(named).decode())
    return filled.replace("@SOLUTION@", base64.b64encode(script(solve_sh).encode()).decode()).encode()


def _imported(verifier: VerifierReply) -> set[str]:
    """Top-level names of the modules that the checks import; those that Python itself starts with cannot be planted."""
    trees = [parsed(helpers(verifier)), *(parsed(body(check)) for check in verifier.checks)]
    found: set[str] = set()
    for node in (node for tree in trees if tree for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return {name for name in found if name.isidentifier()} - set(sys.builtin_module_names)
