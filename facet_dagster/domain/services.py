"""The init contract of tasks with services: one POSIX script that starts them, waits, and becomes a program. Pure.

It is rendered into the environment image as its entrypoint, so that our trials, ``docker run`` and Harbor's compose
start the same services in the same way. It needs root with CHOWN, SETUID, SETGID, DAC_OVERRIDE and FOWNER at most.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from facet_dagster.domain.environment import RunningService, Service

ENTRYPOINT = "/usr/local/sbin/services"
SCRIPT = "build/services.sh"
SET_UP = "build/set_up.sh"
LOGS = "/var/log/facet"
STATE = "/run/facet"
HEALTHY = f"{ENTRYPOINT} --healthy"
# A healthcheck that hangs is ended after 10 s, so a service may take that much longer than its seconds.
_OVERRUN = 15.0
_LISTENS = "0A"
# 127.0.0.0/8 and ::1, as the kernel writes them.
_LOOPBACK = re.compile(r"[0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000[0-9A-F]{6}7F")
_NAME_CAP = 100
_SEEN_CAP = 20

_AS = """\
# as USER FOLDER PROGRAM [ARGUMENT...]: become the user and run the program there
as() {
    user=$1
    cd "$2" || exit 1
    shift 2
    [ "$(id -u)" = 0 ] || exec "$@"
    HOME=$(getent passwd "$user" | cut -d: -f6) USER=$user LOGNAME=$user
    export HOME USER LOGNAME
    exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
}
"""
_SERVICES = """\
#!/bin/sh
# Starts the services of this image in order, waits until each is healthy, then becomes the given program.
# Usage: services [PROGRAM [ARGUMENT...]]     or     services --healthy
set -u

{functions}
# start NAME USER FOLDER LINE: in a session of its own, with its output in its log
start() {{
    : >"{logs}/$1.log"
    chown "$2" "{logs}/$1.log" # so that /dev/stderr can be opened by its name
    (as "$2" "$3" setsid /bin/sh -c "$4") </dev/null >>"{logs}/$1.log" 2>&1 &
    started=$!
    echo "$started" >"{state}/$1.pid"
}}

# healthy USER FOLDER LINE; the limit runs as the user, since root without more capabilities could not end it
healthy() {{
    (as "$1" "$2" timeout 10 /bin/sh -c "$3") </dev/null >/dev/null 2>&1
}}

runs() {{
    case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | Z* | X*) return 1 ;; esac
}}

# wait_for NAME USER FOLDER SECONDS LINE: for what was started last
wait_for() {{
    end=$(($(date +%s) + $4))
    until healthy "$2" "$3" "$5"; do
        runs "$started" || break
        [ "$(date +%s)" -lt "$end" ] || fail "$1" "is not healthy after $4 s" "$(answer "$2" "$3" "$5")"
        sleep 0.2
    done
    runs "$started" || fail "$1" "has ended; its command must stay in the foreground"
}}

# answer USER FOLDER LINE: what the healthcheck says for itself, at most 4 s more
answer() {{
    (as "$1" "$2" timeout 4 /bin/sh -c "$3") </dev/null 2>&1 | tail -n 3 | cut -c 1-200
}}

fail() {{
    echo "Service $1 $2. The end of its log:" >&2
    tail -n 20 "{logs}/$1.log" >&2
    [ -z "${{3-}}" ] || echo "Its healthcheck says: $3" >&2
    exit 1
}}

# ask NAME USER FOLDER LINE
ask() {{
    healthy "$2" "$3" "$4" || {{
        echo "Service $1 is not healthy." >&2
        exit 1
    }}
}}

if [ "${{1-}}" = --healthy ]; then
{asks}    exit 0
fi
{starts}[ $# -gt 0 ] || exit 0
exec "$@"
"""


def services_script(services: Sequence[Service]) -> str:
    """The entrypoint. Ends with 1, and says which service is at fault, when one is not healthy in its seconds."""
    asks = "".join(f"    ask {_words(s.name, s.user, s.workdir, s.healthcheck)}\n" for s in services)
    starts = "".join(
        f"start {_words(s.name, s.user, s.workdir, s.command)}\n"
        f"wait_for {_words(s.name, s.user, s.workdir, str(s.seconds), s.healthcheck)}\n"
        for s in services
    )
    return _SERVICES.format(functions=_AS, logs=LOGS, state=STATE, asks=asks, starts=starts)


def set_up_script(services: Sequence[Service]) -> str:
    """What the build runs as root: folders for each service, and its set-up as its user."""
    lines = [f"mkdir -p {LOGS} {STATE}"]
    for service in services:
        lines += [
            f'install -d -o {service.user} -g "$(id -g {service.user})" -m 0750 {shlex.quote(folder)}'
            for folder in service.folders
        ]
        if service.set_up.strip():
            lines.append(f"(as {_words(service.user, service.workdir, '/bin/sh', '-ec', service.set_up.strip())})")
    return f"#!/bin/sh\nset -eu\n\n{_AS}\n" + "\n".join(lines) + "\n"


def start_seconds(services: Sequence[Service]) -> float:
    """The most that starting all of them takes."""
    return sum(service.seconds + _OVERRUN for service in services) + _OVERRUN


def look_at(service: Service) -> str:
    """Shell that prints, as the service's user, its processes and sockets, and the machine's TCP tables."""
    return f"""\
session=$(cat {STATE}/{service.name}.pid)
for folder in /proc/[0-9]*; do
    set -- $(sed 's/.*) //' "$folder/stat" 2>/dev/null)
    [ "${{4-}}" = "$session" ] || continue
    echo "process $(cat "$folder/comm")"
    ls -l "$folder/fd" 2>/dev/null | sed -n 's/.*-> socket:\\[\\([0-9]*\\)\\]$/socket \\1/p'
done
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
"""


def seen(service: Service, text: str) -> RunningService:
    """What ``look_at`` printed, as a value; lines that are not understood are passed over."""
    processes = {m[1][:_NAME_CAP] for m in re.finditer(r"^process (.+)$", text, re.MULTILINE)}
    own = set(re.findall(r"^socket (\d+)$", text, re.MULTILINE))
    ports = {int(port, 16) for _, port, state, inode in _sockets(text) if state == _LISTENS and inode in own}
    return RunningService(
        name=service.name, ports=tuple(sorted(ports)[:_SEEN_CAP]), processes=tuple(sorted(processes)[:_SEEN_CAP])
    )


def exposed(text: str) -> tuple[int, ...]:
    """Ports that what ``look_at`` printed shows open on more than the loopback, sorted.

    Whoever opened them: nothing else runs in the container, and a program may leave the session of its service.
    """
    return tuple(
        sorted(
            {
                int(port, 16)
                for address, port, state, _ in _sockets(text)
                if state == _LISTENS and not _LOOPBACK.fullmatch(address)
            }
        )
    )


def _sockets(text: str) -> list[tuple[str, str, str, str]]:
    """(address, port, state, inode) of each line of /proc/net/tcp.

    A line holds number, local, remote, state, six more, then the inode.
    """
    row = r"^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) \S+ \S+ \S+ +\d+ +\d+ (\d+) "
    return re.findall(row, text, re.MULTILINE)


def _words(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)
