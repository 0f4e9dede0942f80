"""The patterns that cleaning looks for. ``clean`` decides what a hit means; every repetition here is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_I = re.IGNORECASE


class Guarded(NamedTuple):
    """A pattern that can only match where one of ``words`` occurs: looking for them first costs a tenth.

    Words are lower case, and are looked for in the folded text, unless ``exact``.
    """

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    exact: bool = False

    def possible(self, text: str, folded: str) -> bool:
        where = text if self.exact else folded
        for word in self.words:  # noqa: SIM110 - any() takes three times as long
            if word in where:
                return True
        return False

    def finditer(self, text: str, folded: str) -> Iterator[re.Match[str]]:
        """Matches in ``text``; ``folded`` is ``text.casefold()``."""
        return self.pattern.finditer(text) if self.possible(text, folded) else iter(())


_SECRETS = (
    (
        "PRIVATE KEY",
        r"(?s)-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----.{20,8000}?-----END (?:[A-Z]+ ){0,3}PRIVATE KEY-----",
    ),
    ("AKIA|ASIA", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("ghp_|gho_|ghu_|ghs_|ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("xox", r"\bxox[abeprs]-[A-Za-z0-9-]{20,}"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("sk-", r"\bsk-(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Z])[A-Za-z0-9_-]{20,}"),
    ("sk_live_|rk_live_", r"\b[sr]k_live_[0-9A-Za-z]{20,}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("SG.", r"\bSG\.[\w-]{16,40}\.[\w-]{16,60}"),
    ("hooks.slack.com", r"(hooks\.slack\.com/services/)T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/[A-Za-z0-9]{20,30}"),
    (":AA", r"\b\d{8,10}:AA[\w-]{32,36}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,}"),
    (
        "://",
        r"(\b[a-z][a-z0-9+]{1,15}://[^\s:/@<>{}$]{1,60}:)(?!pass|your|secret|user|example|\*)[^\s:/@<>{}$]{6,80}(?=@)",
    ),
)
SECRETS = tuple(Guarded(tuple(words.split("|")), re.compile(form), exact=True) for words, form in _SECRETS)
NAMED_SECRET = re.compile(
    r"(\b(?:api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|auth[_-]?token|token|password|passwd)[\"']?\s{0,3}[:=]\s{0,3}[\"'])"
    r"([A-Za-z0-9_+/=-]{20,200})(?=[\"'])",
    _I,
)
# What every NAMED_SECRET holds, found ten times as fast.
QUOTED_VALUE = re.compile(r"[:=]\s{0,3}[\"'][A-Za-z0-9_+/=-]{20}")
# As in a shell or an .env file, and in a request's header.
ASSIGNED_SECRET = Guarded(
    ("KEY=", "TOKEN=", "SECRET=", "PASSWORD=", "Bearer "),
    re.compile(r"(\b[A-Z][A-Z0-9_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD)=|\bBearer )([A-Za-z0-9_+/.~-]{24,200})(?![\w(])"),
    exact=True,
)
PLACEHOLDER = re.compile(
    r"your|example|sample|placeholder|dummy|xxx|changeme|replace|insert|test|1234|abcd|redacted", _I
)
# Not an address: the user of a Git or SSH remote, a decorator, and the domains reserved for examples.
EMAIL = re.compile(
    r"(?<![\w.+/-])(?!git@)[\w.+-]{1,64}@(?!(?:[\w-]+\.){0,3}(?:example\.|(?:example|invalid|test)\b))(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,12}\b(?!:\S|/\S|\()"
)

ARCHIVE = Guarded(
    ("pass",),
    re.compile(
        r"(?:extract|unzip|unpack|decompress|archive|\.zip|\.rar|\.7z)[^\n]{0,160}?\bpass(?:word|code|phrase)?\b\s{0,2}[:=]?\s{0,2}[`'\"*(]{0,3}\w{2,}",
        _I,
    ),
)
LURE = re.compile(r"(?s)(?=.*(?:download|https?://|\[here\]))(?=.*\b(?:run|execute|launch|install|start|open)\b)", _I)
UNSAFE = (
    (
        "switches virus protection off",
        Guarded(
            ("mppreference", "virus", "defender", "protection", "smartscreen", "gatekeeper"),
            re.compile(
                r"(?:Set-MpPreference\s[^\n]{0,60}-Disable\w+|Add-MpPreference\s[^\n]{0,40}-Exclusion\w+"
                r"|(?:disable|turn(?:ing)?\s+off|switch\s+off|deactivate|shut\s+down)\s[^.\n]{0,40}"
                r"(?:anti-?virus|windows\s+defender|\bdefender\b|real-?time\s+protection|smartscreen|gatekeeper))",
                _I,
            ),
        ),
    ),
    (
        "decodes hidden code into a shell",
        Guarded(
            ("base64",),
            re.compile(
                r"base64\s+(?:-d|-D|--decode)[^\n|]{0,80}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|eval\s+[\"']?\$\([^\n)]{0,200}base64\s+(?:-d|-D|--decode)",
                _I,
            ),
        ),
    ),
    (
        "opens a reverse shell",
        Guarded(
            ("/dev/tcp", "/bin/"),
            re.compile(
                r"bash\s+-i\s+>&\s*/dev/tcp/|\bnc\s[^\n]{0,60}-e\s*/bin/(?:ba)?sh|/dev/tcp/\d{1,3}\.\d{1,3}\.", _I
            ),
        ),
    ),
    (
        "sends private keys or credentials away",
        Guarded(
            ("ssh/id_", "id_rsa", "id_ed25519", "aws/credentials", "wallet.dat"),
            re.compile(
                r"(?:curl|wget|nc)\b[^\n]{0,160}(?:@|<|--upload-file\s+|-T\s+)[\"']?(?:~|\$HOME|/root|/home/\w+)?/?\.?(?:ssh/id_|aws/credentials|\S{0,40}wallet\.dat)"
                r"|cat\s+[^\n|]{0,60}(?:id_rsa|id_ed25519|\.aws/credentials|wallet\.dat)[^\n]{0,60}\|\s*(?:curl|nc|wget)\b",
                _I,
            ),
        ),
    ),
)
# What every PIPE holds, looked for in folded text.
PIPED = re.compile(r"\|\s*(?:sudo|/bin|(?:ba|z|da)?sh\b|iex|invoke)|<\(|\$\(")
PIPE = Guarded(
    ("curl", "wget", "irm", "iwr", "invoke-"),
    re.compile(
        r"(?:curl|wget)\b[^\n|;]{0,200}?https?://(?:[^\s/@]{1,60}@)?(?P<host>[A-Za-z0-9.-]{1,120})[^\n|;]{0,300}\|\s*(?:sudo\s+(?:-\w+\s+)?)?(?:/bin/)?(?:ba|z|da)?sh\b"
        r"|(?:ba|z)?sh\s+(?:-c\s+[\"']?\$\(|<\()\s*curl\b[^\n)]{0,120}https?://(?P<host2>[A-Za-z0-9.-]{1,120})"
        r"|(?:irm|iwr|Invoke-\w+)\b[^\n|]{0,60}https?://(?P<host3>[A-Za-z0-9.-]{1,120})[^\n|]{0,200}\|\s*(?:iex|Invoke-Expression)\b",
        _I,
    ),
)
# Vendors whose installers are commonly piped into a shell; their subdomains count as well.
KNOWN_HOSTS = frozenset(
    """
    127.0.0.1 aka.ms amazon.com amazonaws.com anaconda.com anchore.io anthropic.com anza.xyz apple.com
    aquasecurity.github.io astral.sh atlassian.com azure.com bun.com bun.sh cachix.org claude.ai
    cloudflare.com conda.io cursor.com dagger.io debian.org deno.com deno.land determinate.systems
    digitalocean.com docker.com dot.net dvc.org elastic.co fluxcd.io fly.io getcomposer.org getfoundry.sh
    github.com githubusercontent.com gitlab.com gnu.org golang.org google.com googleapis.com gradle.org
    grafana.com hashicorp.com helm.sh heroku.com huggingface.co influxdata.com install.python-poetry.org
    istio.io jdx.dev jenkins.io jetbrains.com k3s.io k6.io kernel.org kubernetes.io linkerd.io localhost
    maven.org microsoft.com mise.run mongodb.com mozilla.org neon.tech netlify.com nginx.org nixos.org
    nodejs.org nodesource.com npmjs.com npmjs.org nvidia.com oh-my-posh.dev ohmyz.sh ollama.ai ollama.com
    openai.com packagecloud.io paradigm.xyz pixi.sh planetscale.com pnpm.io postgresql.org prefix.dev
    pulumi.com pyenv.run pypa.io python.org pytorch.org railway.app railway.com rclone.org redis.io
    render.com rust-lang.org rustup.rs sdkman.io semgrep.dev sentry.io shopify.com snyk.io solana.com
    sourcegraph.com starship.rs stripe.com supabase.com tailscale.com temporal.io terraform.io turso.tech
    twilio.com ubuntu.com vercel.com volta.sh wasmer.io wasmtime.dev yarnpkg.com
    """.split()  # noqa: SIM905 - a list of a hundred quoted names reads worse
)

_INSTRUCTIONS = r"(?:instructions?|prompts?|rules|guidelines|messages|directives)"
_SEND = r"(?:send|upload|post|forward|transmit|exfiltrate)"
_UNSEEN = r"(?:secretly|without\s+(?:telling|informing)\s+(?:the\s+)?user)"
INJECTION = tuple(
    Guarded(tuple(words.split("|")), re.compile(pattern, _I))
    for words, pattern in (
        (
            "ignore|disregard|forget|override|bypass",
            (
                r"\b(?:ignore|disregard|forget|override|bypass)\s+(?:(?:all|any|every)\s+)?(?:of\s+)?"
                r"(?:(?:the|your|my|these|those)\s+)?(?:previous|prior|above|earlier|preceding|system|existing|safety)\s+"
                rf"(?:\w+\s+)?{_INSTRUCTIONS}\b"
            ),
        ),
        (
            "now",
            r"\byou\s+are\s+now\s+(?:in\s+)?(?:DAN\b|developer\s+mode|jailbroken|unrestricted|free\s+of\s+all)",
        ),
        (
            "system",
            r"\b(?:reveal|print|output|repeat|leak)\s+(?:your|the)\s+(?:(?:hidden|entire|full)\s+)?system\s+prompt\b",
        ),
        ("secretly|without", rf"\b{_UNSEEN}\b[^.\n]{{0,80}}\b{_SEND}\b"),
        ("secretly|without", rf"\b{_SEND}\b[^.\n]{{0,80}}\b{_UNSEEN}\b"),
    )
)

_PRIVATE_IP = (
    r"(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.\d{1,3}(?:\.\d{1,3})?"
)
_PRIVATE_NAME = (
    r"(?!host\.docker\.|metadata\.google\.|[\w.-]{0,60}\.svc\.)[\w-]{1,60}(?:\.[\w-]{1,60}){0,3}"
    r"\.(?:internal|corp|intranet|lan|local)(?:\.(?!example\b)[\w-]{1,60}){0,3}"
)
PRIVATE_URL = Guarded(
    (
        *(f"{before}{begins}" for before in ("//", "@") for begins in ("10.", "192.168", "172.", "100.")),
        *("ssh", ".internal", ".corp", ".intranet", ".lan", ".local"),
    ),
    re.compile(
        rf"(?:https?://|wss?://|\bssh\s+(?:-\w+\s+\S+\s+){{0,3}}(?:\w+@)?|\b\w+@)(?P<host>{_PRIVATE_IP}|{_PRIVATE_NAME})\b",
        _I,
    ),
)
PRIVATE_NEED = Guarded(
    ("company", "corporate", "office", "internal", "intranet", "\u5185\u7f51"),
    re.compile(
        r"\b(?:requires?|must\s+be|need(?:s)?\s+to\s+be|only\s+(?:works|available|accessible|reachable))\b[^.\n]{0,50}\b"
        r"(?:(?:company|corporate|office|internal)\s+(?:vpn|network|intranet)|intranet)\b"
        r"|(?:\u9700\u8981|\u5fc5\u987b|\u4ec5\u9650|\u53ea\u80fd)[^\n\u3002]{0,8}\u5185\u7f51",
        _I,
    ),
)
