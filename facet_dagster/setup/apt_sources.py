"""Read the Debian mirror of this machine from its apt sources; standard library only, pure but for `read_host`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from facet_dagster.setup.errors import SetupError

_SUITES = frozenset({"bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"})
_POCKETS = ("-updates", "-security", "-backports", "-proposed-updates", "/updates")


@dataclass(frozen=True)
class Source:
    """One archive of the apt sources, of either file format."""

    uri: str
    suite: str
    components: tuple[str, ...]


@dataclass(frozen=True)
class Mirror:
    """Where Debian's packages come from here; `security` is None when the machine has no such archive."""

    main: str
    security: str | None

    def lines(self, suite: str) -> tuple[str, ...]:
        """The one-line sources of another suite on the same mirror."""
        lines = [f"deb {self.main} {suite} main", f"deb {self.main} {suite}-updates main"]
        if self.security is not None:
            lines.append(f"deb {self.security} {suite}-security main")
        return tuple(lines)


def parse_list(text: str) -> list[Source]:
    """The `deb` lines of a sources.list file; others are ignored."""
    sources = []
    for raw in text.splitlines():
        line = re.sub(r"\[[^\]]*\]", " ", raw.split("#", 1)[0])
        words = line.split()
        if len(words) >= 3 and words[0] == "deb":
            sources.append(Source(words[1], words[2], tuple(words[3:])))
    return sources


def parse_deb822(text: str) -> list[Source]:
    """The enabled `deb` stanzas of a .sources file, one source for each pair of URI and suite."""
    sources: list[Source] = []
    without_comments = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", without_comments):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in {"no", "false"}:
            continue
        components = tuple(fields.get("components", "").split())
        for uri in fields.get("uris", "").split():
            sources += [Source(uri, suite, components) for suite in fields.get("suites", "").split()]
    return sources


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line[:1] in (" ", "\t"):
            fields[key] = f"{fields.get(key, '')} {line.strip()}"
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = value.strip()
    return fields


def find_mirror(sources: Iterable[Source]) -> Mirror | None:
    """Debian's own archive among the sources, and its security archive; None when there is no Debian archive."""
    main = security = None
    for source in sources:
        base, pocket = split_suite(source.suite)
        if base not in _SUITES or "main" not in source.components:
            continue
        if pocket in ("-security", "/updates"):
            security = security or source.uri
        elif pocket in ("", "-updates"):
            main = main or source.uri
    return None if main is None else Mirror(main.rstrip("/"), security.rstrip("/") if security else None)


def split_suite(suite: str) -> tuple[str, str]:
    """A suite's release and its pocket: `bookworm-security` is ("bookworm", "-security")."""
    for pocket in _POCKETS:
        if suite.endswith(pocket):
            return suite.removesuffix(pocket), pocket
    return suite, ""


def read_host(env: Mapping[str, str], etc: Path = Path("/etc/apt")) -> Mirror:
    """This machine's mirror; FACET_DEBIAN_MIRROR (and FACET_DEBIAN_SECURITY_MIRROR) win. Raises SetupError."""
    if env.get("FACET_DEBIAN_MIRROR"):
        return Mirror(env["FACET_DEBIAN_MIRROR"].rstrip("/"), env.get("FACET_DEBIAN_SECURITY_MIRROR") or None)
    sources: list[Source] = []
    for path in (etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))):
        if path.is_file() and path.suffix in (".list", ".sources"):
            parse = parse_list if path.suffix == ".list" else parse_deb822
            sources += parse(path.read_text(encoding="utf-8", errors="replace"))
    mirror = find_mirror(_resolve(source) for source in sources)
    if mirror is None:
        raise SetupError(
            "The apt sources of this machine name no Debian archive; set FACET_DEBIAN_MIRROR to the URL of one, "
            "or make the base images available to Docker."
        )
    return mirror


def _resolve(source: Source) -> Source:
    """Replace a `mirror+file:` list by its first mirror, since the file does not exist inside an image."""
    if not source.uri.startswith("mirror+file:"):
        return source
    try:
        text = Path("/" + source.uri.removeprefix("mirror+file:").lstrip("/")).read_text(encoding="utf-8")
    except OSError:
        return source
    uris = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return Source(uris[0], source.suite, source.components) if uris else source
