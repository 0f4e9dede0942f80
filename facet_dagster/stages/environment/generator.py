"""What a fixture generator may do: write the same files on every build, from nothing but itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from facet_dagster.domain.python_source import parse

MAX_GENERATOR = 16 * 1024
_STANDARD = """
__future__ array base64 binascii bisect bz2 calendar codecs collections configparser copy csv dataclasses datetime
decimal email enum fractions functools gzip hashlib heapq html io itertools json lzma math operator os pathlib random re
shutil sqlite3 statistics string struct tarfile textwrap typing unicodedata wave xml zipfile zlib zoneinfo
"""
MODULES = frozenset(_STANDARD.split())
_CALLS = frozenset({"eval", "exec", "compile", "__import__", "input", "breakpoint"})
_PROCESS = "urandom getrandom system popen fork forkpty kill environ getenv getpid getppid times cpu_count uname"
_OS = frozenset(_PROCESS.split())
_OWN_NAME = frozenset({"gzip", "os", "random"})
_IMPORTABLE = {"os": {"chmod", "makedirs", "path"}, "random": {"Random"}}
_CLOCK = frozenset({"now", "utcnow", "today"})
_FILE_TIMES = frozenset({"st_mtime", "st_mtime_ns", "st_ctime", "st_atime", "getmtime", "getctime", "getatime"})
_NO_TIME = "Every build must give the same bytes."


def generator_problems(source: str) -> list[str]:
    """Violations as sentences with line numbers; none for an empty source."""
    if not source.strip():
        return []
    if len(source.encode("utf-8", "replace")) > MAX_GENERATOR:
        return [f"The generator has more than {MAX_GENERATOR} bytes; make its data smaller or more regular."]
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [f"The generator is not valid Python: {error}."]
    found = [
        f"Generator, line {getattr(node, 'lineno', 0)}: {problem}"
        for node in ast.walk(tree)
        for problem in (*_import_problems(node), *_call_problems(node), *_attribute_problems(node))
    ]
    return list(dict.fromkeys(found))


def _import_problems(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _module_problems(alias.name)
            if alias.asname and alias.name in _OWN_NAME:
                yield f"import {alias.name} under its own name."
    elif isinstance(node, ast.ImportFrom):
        module = node.module or "."
        yield from _module_problems(module)
        allowed = _IMPORTABLE.get(module)
        for alias in node.names if allowed else ():
            if alias.name not in (allowed or ()):
                yield f"do not import {alias.name} from {module}; allowed: {', '.join(sorted(allowed or ()))}."


def _module_problems(module: str) -> Iterator[str]:
    if module.partition(".")[0] not in MODULES:
        yield f"module {module} is not allowed in a generator. {_NO_TIME}"


def _call_problems(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name = _dotted(node.func)
    if name in _CALLS:
        yield f"{name}() is not allowed."
    if name.rpartition(".")[2] == "Random" and not _seeded(node):
        yield "Random needs a fixed seed, best the name of the file that it is for."
    keywords = {keyword.arg for keyword in node.keywords}
    if name in ("gzip.compress", "gzip.GzipFile", "GzipFile") and "mtime" not in keywords:
        yield f"{name} writes the clock into the file; pass mtime=0."
    if name == "gzip.open":
        yield "gzip.open writes the clock into the file; use gzip.compress(data, mtime=0)."
    if name.endswith(".writestr") and node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
        yield "writestr with a bare name writes the clock into the archive; pass zipfile.ZipInfo(name)."


def _seeded(call: ast.Call) -> bool:
    seeds = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bool(seeds) and not (isinstance(seeds[0], ast.Constant) and seeds[0].value is None)


def _attribute_problems(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Attribute):
        return
    owner = _dotted(node.value)
    if owner == "random" and node.attr != "Random":
        yield f"random.{node.attr} has no fixed seed; make one random.Random('<file name>') for each file."
    if owner == "os" and (node.attr in _OS or node.attr.startswith(("exec", "spawn", "posix_spawn"))):
        yield f"os.{node.attr} is not allowed. {_NO_TIME}"
    if node.attr in _CLOCK:
        yield f"{owner}.{node.attr} reads the clock; write fixed dates. {_NO_TIME}"
    if node.attr in _FILE_TIMES:
        yield f"{node.attr} is the time of the build; write fixed dates. {_NO_TIME}"


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` of a name or attribute chain; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""
