"""Commands in what agents type: names, classes, redirections, wrappers, and texts that are no shell."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from facet_dagster.reports.command_classes import Class, class_of
from facet_dagster.reports.shell import LONGEST, typed

ROOT = Path(__file__).resolve().parents[2]
SEES, ACTS, IDLE = Class.OBSERVATION, Class.ACTION, Class.NEUTRAL


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("cat a.txt\n", [("cat", SEES)]),
        ("cat a | sort > b 2>/dev/null", [("cat", SEES), ("sort", ACTS)]),
        ("cat > x.py <<'EOF'\nls\nrm -rf /\nEOF\npython3 x.py\n", [("cat", ACTS), ("python3", ACTS)]),
        ("ls > /dev/null; ls 2>&1; ls >&2", [("ls", SEES)] * 3),
        ("echo hi >> log && ls &> all", [("echo", ACTS), ("ls", ACTS)]),
        ("grep 'a > b' f", [("grep", SEES)]),
        ("sed -n 1,5p f; sed -i s/a/b/ f; sed --in-place=.bak s/a/b/ f", [("sed", SEES), ("sed", ACTS), ("sed", ACTS)]),
        ("find . -name x; find . -delete; find . -exec rm {} +", [("find", SEES), ("find", ACTS), ("find", ACTS)]),
        ("find . -exec grep x {} +", [("find", SEES)]),
        ("cd /app && ls | while read x; do wc $x; done", [("cd", IDLE), ("ls", SEES), ("read", IDLE), ("wc", SEES)]),
        ("FOO=1 sudo -u root rm x; timeout 5 ls; env A=b time -p ls", [("rm", ACTS), ("ls", SEES), ("ls", SEES)]),
        (
            "/usr/bin/python3.11 -c 1; python --version; ./run.sh",
            [("python3", ACTS), ("python3", SEES), ("run.sh", ACTS)],
        ),
        ("git status; git commit -m x", [("git", SEES), ("git", ACTS)]),
        ('"$X" a; $(which ls) b', [("(computed)", ACTS), ("(computed)", ACTS), ("which", SEES)]),
        ("C-c", []),
        ("Enter", []),
        ("", []),
        ("> empty", []),
        ("(ls; pwd) > a", [("ls", SEES), ("pwd", ACTS)]),
    ],
)
def test_commands(text: str, commands: list[tuple[str, Class]]) -> None:
    assert list(typed(text).commands) == commands


def test_half_a_line_is_broken_and_still_read() -> None:
    found = typed("ls -la; if [ -f a ]; then cat a")
    assert found.broken
    assert ("ls", SEES) in found.commands


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_asking_a_program_about_itself_observes(words: list[str]) -> None:
    assert class_of("cargo", words) is SEES
    assert class_of("cargo", ["build", *words]) is ACTS


def test_a_name_that_is_no_word_has_none() -> None:
    assert [one.name for one in typed("'<b>x</b>' 1; " + "a" * 50).commands] == ["(other)", "(other)"]


def test_no_text_breaks_it() -> None:
    chance = random.Random(7)
    parts = [
        "ls",
        "'",
        '"',
        "$(",
        ")",
        "<<E\n",
        "E\n",
        "|",
        ">",
        "&",
        ";",
        "\n",
        "`",
        "{",
        "}",
        "\0",
        "\ud800",
        "é",
        "((",
        "[[",
    ]
    for _ in range(500):
        typed("".join(chance.choices(parts, k=chance.randrange(60))))
    typed("(" * 5_000)
    cut = typed("ls;" * LONGEST)
    assert cut.broken
    assert len(cut.commands) == LONGEST // 3 + 1


def test_here_documents_may_be_long_and_hold_anything() -> None:
    body = "rm -rf /; ((( ``` <<E\n" * 20_000
    found = typed(f"cat > a.py <<'EOF'\n{body}EOF\nls <<-B | wc\n x\n B\npwd\n")
    assert not found.broken
    assert [one.name for one in found.commands] == ["cat", "ls", "wc", "pwd"]
    assert [one.name for one in typed("echo $((1<<n)); cat <<E\nnever ends\n").commands] == ["echo", "cat"]


def test_recorded_rollouts_are_shell_throughout() -> None:
    texts = []
    for line in (ROOT / "examples" / "tapes" / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        reply = json.loads(line)["reply"]
        texts += [c["keystrokes"] for c in json.JSONDecoder().raw_decode(reply[reply.find("{") :])[0]["commands"]]
    assert len(texts) > 50
    assert [text for text in texts if typed(text).broken] == []
