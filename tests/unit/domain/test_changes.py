from __future__ import annotations

from facet_dagster.domain.archive import Member, pack_members
from facet_dagster.domain.changes import Change, changes


def test_each_way_to_differ_is_told() -> None:
    before = {
        "app": Member("dir", 0o755),
        "app/gone": Member("file", data=b"x"),
        "app/kept": Member("file", data=b"x", mtime=1),
        "app/link": Member("link", link="a"),
        "app/mode": Member("file", 0o644, data=b"x"),
        "app/owner": Member("file", data=b"x"),
        "app/text": Member("file", data=b"x"),
        "app/type": Member("dir", 0o755),
    }
    after = {
        "app": Member("dir", 0o755),
        "app/kept": Member("file", data=b"x", mtime=2),
        "app/link": Member("link", link="b"),
        "app/mode": Member("file", 0o600, data=b"x"),
        "app/new\nname": Member("file", data=b"abc"),
        "app/owner": Member("file", uid=5, data=b"x"),
        "app/text": Member("file", data=b"longer"),
        "app/type": Member("file", data=b"12"),
    }
    assert changes(pack_members(before), pack_members(after)) == (
        Change(path="app/gone", what="removed"),
        Change(path="app/link", what="content"),
        Change(path="app/mode", what="attributes", size=1),
        Change(path="app/new\nname", what="added", size=3),
        Change(path="app/owner", what="attributes", size=1),
        Change(path="app/text", what="content", size=6),
        Change(path="app/type", what="type", size=2),
    )


def test_equal_states_have_no_changes() -> None:
    state = pack_members({"app/x": Member("file", data=b"x")})
    assert changes(state, state) == ()
