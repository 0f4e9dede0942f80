"""Repositories are read without a working tree, within bounds, and without anything of the user's: by real git."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from facet_dagster.adapters import git_repository
from facet_dagster.adapters.git_repository import GitTree, git_tree, sweep
from facet_dagster.domain.skill import RawSkill
from facet_dagster.errors import ConfigError, SourceError
from facet_dagster.stages.collect import Origin, collect_tree

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
TEXT = "---\nname: tide\n---\n# Tide\n"


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    named = ["-c", "user.name=Anna", "-c", "user.email=anna@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *named, *words], cwd=folder, input=given, capture_output=True, check=True)
    return done.stdout.decode().strip()


class Remote:
    """A repository in a folder, and how it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "anna" / "skills"
        self.below = folder / "fetched"
        self.folder.mkdir(parents=True)
        git(self.folder, "init", "--quiet")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def write(self, path: str, text: str = TEXT) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self) -> str:
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "--quiet", "--allow-empty", "-m", "x")
        return git(self.folder, "rev-parse", "HEAD")

    @contextmanager
    def tree(self, ref: str = "", megabytes: int = 100, seconds: float = 60.0) -> Iterator[GitTree]:
        with git_tree(self.url, ref, below=self.below, megabytes=megabytes, seconds=seconds) as tree:
            yield tree

    def skills(self, **how: str) -> list[tuple[RawSkill, bytes]]:
        with self.tree(how.pop("ref", "")) as tree:
            return list(collect_tree(tree, Origin("git", "skills", "anna", "example.com/anna/skills", **how)))


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path)


def test_skills_come_with_the_commit_and_ids_that_outlast_it(remote: Remote) -> None:
    remote.write("tides/low/SKILL.md")
    remote.write("tides/low/scripts/run.py", "x")
    remote.write("LICENSE", "MIT License")
    first = remote.commit()
    [(before, data)] = remote.skills()
    remote.write("README.md")
    second = remote.commit()
    [(after, _)] = remote.skills()
    assert data == TEXT.encode()
    assert (before.commit, after.commit) == (first, second)
    assert before.id == after.id
    assert before.id.startswith("git-")
    assert before.origin == "example.com/anna/skills:tides/low/SKILL.md"
    assert (before.owner, before.slug, before.licence_hint) == ("tides", "low", "repository LICENSE: MIT License")
    assert (before.facts.files, before.facts.scripts) == (2, ("scripts/run.py",))


def test_a_skill_at_the_root_has_the_names_of_the_repository(remote: Remote) -> None:
    remote.write("SKILL.md")
    remote.commit()
    [(raw, _)] = remote.skills()
    assert (raw.owner, raw.slug) == ("anna", "skills")


def test_a_branch_a_commit_and_a_folder_can_be_named(remote: Remote) -> None:
    remote.write("a/one/SKILL.md", "# Old\n")
    old = remote.commit()
    git(remote.folder, "branch", "v1")
    git(remote.folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    remote.write("a/one/SKILL.md", "# New\n")
    remote.write("b/two/SKILL.md")
    remote.commit()
    assert [data for _, data in remote.skills(ref="v1")] == [b"# Old\n"]
    assert [raw.commit for raw, _ in remote.skills(ref=old)] == [old]
    assert [raw.slug for raw, _ in remote.skills(within="b")] == ["two"]
    with pytest.raises(ConfigError, match="holds no SKILL"):
        remote.skills(within="c")


def test_links_are_followed_inside_of_the_package_alone(remote: Remote) -> None:
    remote.write("a/good/text.md")
    (remote.folder / "a" / "good" / "SKILL.md").symlink_to("text.md")
    for name, target in (("up", "../good/text.md"), ("abs", "/etc/hostname"), ("loop", "SKILL.md")):
        (remote.folder / "a" / name).mkdir()
        (remote.folder / "a" / name / "SKILL.md").symlink_to(target)
    remote.commit()
    found = {raw.slug: data for raw, data in remote.skills()}
    assert found == {
        "good": TEXT.encode(),
        "up": b"../good/text.md",
        "abs": b"/etc/hostname",
        "loop": b"SKILL.md",
    }


def test_a_submodule_is_left_where_it_is(remote: Remote) -> None:
    remote.write("a/one/SKILL.md")
    ident = remote.commit()
    git(remote.folder, "update-index", "--add", "--cacheinfo", f"160000,{ident},a/sub")
    remote.write(".gitmodules", f'[submodule "sub"]\npath = a/sub\nurl = {remote.url}\n')
    git(remote.folder, "add", ".gitmodules")
    git(remote.folder, "commit", "--quiet", "-m", "x")
    assert [raw.slug for raw, _ in remote.skills()] == ["one"]


def test_a_file_over_the_cap_is_not_read_and_keeps_its_size(remote: Remote) -> None:
    remote.write("a/big/SKILL.md", "x" * (4 * 2**20 + 1))
    remote.commit()
    [(raw, data)] = remote.skills()
    assert (data, raw.size) == (b"", 4 * 2**20 + 1)


def test_nothing_of_the_users_configuration_is_read(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.write("a/one/SKILL.md")
    remote.commit()
    (tmp_path / ".gitconfig").write_text(f'[url "file:///nowhere"]\n\tinsteadOf = {remote.url}\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert len(remote.skills()) == 1


def test_a_repository_of_100_000_files_is_read(remote: Remote) -> None:
    files = b"".join(b"M 100644 :1 a/tide/data/%d/%d.txt\n" % (n % 500, n) for n in range(100_000))
    blobs = b"blob\nmark :1\ndata 1\nx\nblob\nmark :2\ndata %d\n%s\n" % (len(TEXT), TEXT.encode())
    head = b"commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\n"
    git(remote.folder, "fast-import", "--quiet", given=blobs + head + b"M 100644 :2 a/tide/SKILL.md\n" + files)
    [(raw, _)] = remote.skills(ref="main")
    assert raw.facts.files == 100_001


def test_trees_that_hold_each_other_are_given_up(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = git(remote.folder, "hash-object", "-w", "--stdin", given=TEXT.encode())
    tree = git(remote.folder, "mktree", given=f"100644 blob {blob}\tSKILL.md\n".encode())
    for _ in range(9):
        lines = "".join(f"040000 tree {tree}\t{name}\n" for name in "abcdefghij")
        tree = git(remote.folder, "mktree", given=lines.encode())
    commit = git(remote.folder, "commit-tree", tree, "-m", "x")
    git(remote.folder, "update-ref", "refs/heads/main", commit)
    monkeypatch.setattr(git_repository, "LISTING_CAP", 2**20)
    with pytest.raises(SourceError, match="lists more than 1 MiB of file names"):
        remote.skills(ref="main")
    assert list(remote.below.iterdir()) == []


def test_a_reader_that_is_killed_is_no_empty_file(remote: Remote) -> None:
    remote.write("a/one/SKILL.md")
    remote.commit()
    with remote.tree() as tree:
        tree.paths()
        assert tree.read("a/one/SKILL.md", 10_000)[1] == TEXT.encode()
        for reader in tree._readers.values():
            reader.kill()
            reader.wait()
        with pytest.raises(SourceError, match="cannot be read: git ended"):
            tree.read("a/one/SKILL.md", 10_000)


def test_a_repository_over_its_bounds_is_given_up_and_leaves_nothing(remote: Remote) -> None:
    remote.write("a/one/SKILL.md", os.urandom(1_500_000).hex())
    remote.commit()
    with pytest.raises(SourceError, match="more than 1 MiB: raise max_megabytes"), remote.tree(megabytes=1):
        pass
    assert list(remote.below.iterdir()) == []


def test_a_host_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/anna/skills"
        with (
            pytest.raises(SourceError, match="takes longer than 1 s"),
            git_tree(url, "", below=tmp_path, megabytes=10, seconds=1.0),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://anna:secret@example.com/a/b", "holds a credential"),
        ("ssh://example.com/a/b", "no address of a repository"),
        ("ext::sh -c touch% /tmp/x", "no address of a repository"),
        ("https:///a/b", "no address of a repository"),
        ("/tmp/x", "no address of a repository"),
    ],
)
def test_only_public_addresses_are_read(tmp_path: Path, url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words), git_tree(url, "", below=tmp_path, megabytes=1, seconds=1.0):
        pass


@pytest.mark.parametrize("ref", ["nowhere", "--upload-pack=touch x"])
def test_a_ref_that_is_not_there_is_a_sentence(remote: Remote, ref: str) -> None:
    remote.write("a/one/SKILL.md")
    remote.commit()
    with pytest.raises(SourceError, match="cannot be fetched: fatal: ") as failed:
        remote.skills(ref=ref)
    assert failed.value.transient
    assert "\n" not in str(failed.value)


def test_a_repository_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/nowhere"
    with (
        pytest.raises(SourceError, match="does not appear to be a git repository"),
        git_tree(url, "", below=tmp_path / "fetched", megabytes=1, seconds=10.0),
    ):
        pass


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / "git-abc" / "objects").mkdir(parents=True)
    sweep(tmp_path)
    sweep(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
