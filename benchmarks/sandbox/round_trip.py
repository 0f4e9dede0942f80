"""One container: five small files in, a script, its result out, all limits on; and what the limits cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.sandbox.bare import Bare, contents, folder
from benchmarks.sandbox.calls import counted
from benchmarks.sandbox.runc import NoFloor, Runc
from benchmarks.sandbox.timing import Clock, Contender, interleaved, ratio, told
from facet_dagster.adapters.docker_limits import host_config
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.archive import pack, unpack
from facet_dagster.domain.trial import Limits
from facet_dagster.ports import Put, Run

SCRIPT = b"mkdir -p /logs/verifier\ncat /tests/file-* | wc -c > /logs/verifier/reward.txt\n"
FILES = {"tests/run.sh": SCRIPT, **{f"tests/file-{n}": b"x" * 100 * n for n in range(1, 6)}}
LOGS = "/logs/verifier"
ARGV = ["sh", "/tests/run.sh"]
ARCHIVE = pack(FILES)
EXPECTED = b"1500"
# What a container needs for its files and its network; everything else of its host configuration is a limit.
_NO_LIMITS = ("NetworkMode", "Binds", "Mounts", "Tmpfs", "VolumesFrom")


class Ours:
    """The round trip through a DockerSandbox, its result by ``outbox`` or by ``collect``."""

    def __init__(self, sandbox: DockerSandbox, image: str, way: str) -> None:
        self._sandbox, self._way = sandbox, way
        self._run = Run(image=image, argv=tuple(ARGV), subject="bench", put=(Put("/", ARCHIVE),), **{way: (LOGS,)})

    def __call__(self, clock: Clock) -> None:
        with counted(clock):
            outcome = self._sandbox.run(self._run)
        assert outcome.program.ok, outcome
        archive = outcome.collected.get(LOGS)
        if archive is None:
            raise SystemExit(f"This sandbox gives no {self._way} back: try --result collect")
        assert unpack(archive)["verifier/reward.txt"].data.strip() == EXPECTED


def bound(bare: Bare, clock: Clock, cpus: int) -> None:
    """Bind mounts and a joined network, with our limits."""
    files = {name.partition("/")[2]: data for name, data in FILES.items()}
    with bare.joined(), folder(clock, files) as path:
        host = host_config(Limits(), user="root", network=bare.network, cpus=cpus)
        binds = [f"{path}/in:/tests:ro", f"{path}/out:{LOGS}"]
        with bare.container(clock, bare.image, ARGV, {**host, "Binds": binds}) as ident:
            assert bare.execute(clock, ident) == 0
        assert (path / "out" / "reward.txt").read_bytes().strip() == EXPECTED


def idling(bare: Bare, clock: Clock) -> None:
    """As the official release would, by docker-py: put, exec, get, kill, remove."""
    with bare.container(clock, bare.image, ["sleep", "infinity"], {}) as ident:
        with clock.phase("start"):
            bare.api.start(ident)
        with clock.phase("put"):
            bare.api.put_archive(ident, "/", ARCHIVE)
        with clock.phase("exec"):
            task = bare.api.exec_create(ident, ARGV)["Id"]
            bare.api.exec_start(task)
        found = contents(bare.get(clock, ident, LOGS))
        with clock.phase("kill"):
            bare.api.kill(ident)
    assert found["reward.txt"].strip() == EXPECTED


def measure(sandbox: DockerSandbox, image: str, repeat: int, way: str) -> dict[str, Any]:
    with _tools(image) as (bare, runc, notes):
        contenders: dict[str, Contender] = {"ours": Ours(sandbox, image, way)}
        if runc is not None:
            contenders |= _floors(runc, bare, sandbox, image, notes)
        cpus = int(bare.api.info()["NCPU"])
        contenders["bare_bound"] = lambda clock: bound(bare, clock, cpus)
        contenders["official"] = lambda clock: idling(bare, clock)
        clocks = interleaved(contenders, repeat)
    floors = [name for name in contenders if name != "ours"]
    return {
        "result_by": way,
        "ours_over": {name: ratio(clocks, "ours", name) for name in floors},
        "times": told(clocks),
        "notes": notes,
    }


def hardening(image: str, repeat: int, way: str, **options: Any) -> dict[str, Any]:
    """The same calls of the same adapter, with our limits and with the engine's defaults."""
    limited, plain = DockerSandbox(**options), DockerSandbox(**options)
    try:
        without_limits(plain)
        clocks = interleaved({"limits": Ours(limited, image, way), "defaults": Ours(plain, image, way)}, 2 * repeat)
    finally:
        limited.close()
        plain.close()
    return {"limits_over_defaults": ratio(clocks, "limits", "defaults"), "times": told(clocks)}


def without_limits(sandbox: DockerSandbox) -> None:
    """From now on the sandbox creates its containers with the engine's default limits."""
    api = sandbox._engine.api
    create = api.create_container

    def plain(*args: Any, host_config: dict[str, Any], **more: Any) -> Any:
        host = {name: value for name, value in host_config.items() if name in _NO_LIMITS}
        return create(*args, host_config=host, **more)

    api.create_container = plain


@contextmanager
def _tools(image: str) -> Iterator[tuple[Bare, Runc | None, list[str]]]:
    bare, runc, notes = Bare(image), None, []
    try:
        try:
            runc = Runc(bare.api, image, ARGV)
        except NoFloor as why:
            notes.append(f"runc: {why}")
        yield bare, runc, notes
    finally:
        if runc is not None:
            runc.close()
        bare.close()


def _floors(runc: Runc, bare: Bare, sandbox: DockerSandbox, image: str, notes: list[str]) -> dict[str, Contender]:
    def floor(spec: dict[str, Any]) -> Contender:
        def act(clock: Clock) -> None:
            assert runc.round_trip(clock, spec, FILES, f"{LOGS}/reward.txt").strip() == EXPECTED

        return act

    found = {"runc": floor(runc.default_spec())}
    try:
        found["runc_docker_spec"] = floor(runc.docker_spec(sandbox, bare.api, image))
    except NoFloor as why:
        notes.append(f"runc_docker_spec: {why}")
    return found
