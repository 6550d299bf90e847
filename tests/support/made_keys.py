"""Keys that no service ever gave to anyone, each in the form that its service documents."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"


def drawn(seed: int, alphabet: str, length: int) -> str:
    """Return text drawn by lot that ends in a letter: what a service's own generator could have made."""
    drawn = random.Random(seed)
    return "".join(drawn.choice(alphabet) for _ in range(length - 1)) + "e"


def _jwt(seed: int) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": str(seed), "iat": 1516239022})
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}.{drawn(seed, URLSAFE, 43)}"


def _pem(seed: int, kind: str = "RSA ") -> str:
    lines = "\n".join(drawn(seed + n, ALNUM + "+/", 64) for n in range(12))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


MADE: dict[str, Callable[[int], str]] = {
    "openai-key": lambda n: "sk-" + drawn(n, ALNUM, 20) + "T3BlbkFJ" + drawn(n + 1, ALNUM, 20),
    "openai-key, of a project": lambda n: "sk-proj-" + drawn(n, URLSAFE, 156),
    "anthropic-key": lambda n: "sk-ant-api03-" + drawn(n, URLSAFE, 93) + "AA",
    "aws-access-key": lambda n: "AKIA" + drawn(n, string.ascii_uppercase + "234567", 16).upper(),
    "aws-access-key, for a while": lambda n: "ASIA" + drawn(n, string.ascii_uppercase + "234567", 16).upper(),
    "github-token": lambda n: "ghp_" + drawn(n, ALNUM, 36),
    "github-token, of OAuth": lambda n: "gho_" + drawn(n, ALNUM, 36),
    "github-token, fine-grained": lambda n: f"github_pat_{drawn(n, ALNUM, 22)}_{drawn(n + 1, ALNUM, 59)}",
    "gitlab-token": lambda n: "glpat-" + drawn(n, URLSAFE, 20),
    "slack-token": lambda n: f"xoxb-{drawn(n, '123456789', 12)[:-1]}1-{drawn(n, ALNUM, 24)}",
    "slack-webhook": lambda n: (
        f"https://hooks.slack.com/services/T0{drawn(n, ALNUM, 9)}/B0{drawn(n, ALNUM, 9)}/" + drawn(n, ALNUM, 24)
    ),
    "stripe-key": lambda n: "sk_live_" + drawn(n, ALNUM, 24),
    "google-api-key": lambda n: "AIza" + drawn(n, URLSAFE, 35),
    "jwt": _jwt,
    "private-key": _pem,
    "private-key, of OpenSSH": lambda n: _pem(n, "OPENSSH "),
    "npm-token": lambda n: "npm_" + drawn(n, ALNUM, 36),
    "pypi-token": lambda n: "pypi-AgEIcHlwaS5vcmc" + drawn(n, URLSAFE, 140),
    "huggingface-token": lambda n: "hf_" + drawn(n, string.ascii_letters, 34),
    "sendgrid-key": lambda n: f"SG.{drawn(n, URLSAFE, 22)}.{drawn(n + 1, URLSAFE, 43)}",
    "twilio-key": lambda n: "SK" + drawn(n, HEX, 32),
    "groq-key": lambda n: "gsk_" + drawn(n, ALNUM, 52),
}
"""By our name of the kind: a key for each number."""
