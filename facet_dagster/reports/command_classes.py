"""Whether a command looks or acts (paper, Table 6 and Figure 5). The paper does not print its rule; this one is ours.

A command observes when it only tells what is there, acts when it changes something or runs a program, and is neutral
when it does neither, such as ``cd``. The class depends on the arguments: ``sed -i`` acts, ``sed -n`` observes. A
command whose output goes to a file acts, whatever it is (``shell.typed``). What is in none of these lists acts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum


class Class(StrEnum):
    """What a command is used for."""

    OBSERVATION = "observation"
    ACTION = "action"
    NEUTRAL = "neutral"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OBSERVING = _words(
    """
    [[ awk base64 basename bat bzcat cal cat cksum cmp column comm cut date df diff dig dirname dmesg dpkg-query du
    echo egrep exiftool expand expr ffprobe fgrep file find fold free getent getfacl grep groups gzcat hd head hexdump
    host hostname hexyl id identify ifconfig infocmp ip jq journalctl last ldd less locale locate ls lsattr lsb_release
    lsblk lscpu lsof lspci man md5sum mediainfo more mount netstat nl nm nproc objdump od paste pdfinfo pdftotext pgrep
    pidof ping printenv printf ps pstree pwd readelf readlink realpath rev rg sed seq sha1sum sha256sum sha512sum shasum
    size sort ss stat strings sum tac tail top tr tree tty type ulimit uname uniq uptime vmstat w wc whereis which who
    whoami xxd xq yq zcat zgrep zless
    """
)
_NEUTRAL = _words(
    """
    [ : alias break cd clear continue declare exit export false history let local popd pushd read reset return set shift
    shopt sleep stty test trap true unset wait
    """
)
_ASKING = frozenset({"--version", "-V", "--help", "-h", "version", "help"})
_READING = {
    "git": frozenset(
        [
            "status",
            "log",
            "diff",
            "show",
            "branch",
            "ls-files",
            "ls-tree",
            "blame",
            "rev-parse",
            "cat-file",
            "describe",
            "grep",
            "remote",
        ]
    ),
    "pip": frozenset(["list", "show", "freeze", "check"]),
    "apt": frozenset(["list", "show", "search", "policy"]),
    "apt-cache": frozenset(["search", "show", "policy"]),
    "dpkg": frozenset(["-l", "-L", "-s", "-S", "--list", "--status"]),
    "docker": frozenset(["ps", "images", "logs", "inspect"]),
    "systemctl": frozenset(["status", "is-active", "list-units", "show"]),
    "tar": frozenset(["tf", "tvf", "-tf", "-tvf", "-tzf", "tzf", "-tvzf", "--list"]),
    "unzip": frozenset(["-l", "-v", "-p", "-t"]),
    "crontab": frozenset({"-l"}),
    "openssl": frozenset(["x509", "version", "dgst"]),
}


def _sed(words: Sequence[str]) -> bool:
    return any(re.match(r"-[nrEsuz]*i|--in-place", word) for word in words)


def _find(words: Sequence[str]) -> bool:
    acts = {"rm", "mv", "cp", "chmod", "chown", "touch", "sed"}
    runs = any(word in {"-exec", "-execdir", "-ok"} for word in words) and any(word in acts for word in words)
    return runs or any(word in {"-delete", "-fprint", "-fls"} for word in words)


def _sort(words: Sequence[str]) -> bool:
    return any(word.startswith(("-o", "--output")) for word in words)


def _awk(words: Sequence[str]) -> bool:
    return "inplace" in words or any(re.search(r"print[^|]*>\s*[\"\w]|system\(", word) for word in words)


def _download(words: Sequence[str]) -> bool:
    writes = {"-o", "-O", "-d", "--data", "-T", "-F", "--output"}
    return any(word in writes or (word.startswith("-X") and word != "-XGET") for word in words)


def _mount(words: Sequence[str]) -> bool:
    return bool(words)


# Observing, unless the arguments say otherwise.
_UNLESS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "sed": _sed,
    "find": _find,
    "sort": _sort,
    "awk": _awk,
    "curl": _download,
    "mount": _mount,
}


def class_of(program: str, words: Sequence[str]) -> Class:
    """The class of ``program`` called with ``words``."""
    if program in _NEUTRAL:
        return Class.NEUTRAL
    if program in _UNLESS:
        return Class.ACTION if _UNLESS[program](words) else Class.OBSERVATION
    asks = bool(words) and words[0] in _ASKING and len(words) == 1
    reads = bool(words) and words[0] in _READING.get(program, ())
    return Class.OBSERVATION if program in _OBSERVING or asks or reads else Class.ACTION
