"""Secrets in text: what is found of those planted, and what of ordinary text is left alone."""

from __future__ import annotations

import base64
import json
import random
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.made_keys import ALNUM, MADE, URLSAFE, drawn
from trails import secrets
from trails.secrets import builtin, redact

# what stands around a key in a transcript
_AROUND = {
    "bare": "{}",
    "in a sentence": "Use {}, please.",
    "in an environment": "export SERVICE_KEY={}\nexport OTHER=1",
    "in YAML": "key: {}\nother: 1",
    "in code": 'client = Client("{}")',
    "in JSON": '{{"output": "{}"}}',
    "in JSON in JSON": '{{\\"output\\": \\"line\\n{}\\n\\"}}',
    "after a line's end that JSON writes": "first line\\n{}\\nlast line",
    "in a URL": "https://example.org/?key={}&x=1",
    "in a header": "Authorization: Bearer {}",
    "in Markdown": "the key `{}` works",
    "after a hyphen": "b-{}",
    "after an underscore": "x_{}",
}


@pytest.mark.parametrize("around", _AROUND)
@pytest.mark.parametrize("named", MADE)
def test_a_key_is_found_wherever_it_stands(named: str, around: str) -> None:
    kind = named.partition(",")[0]
    for seed in range(8):
        key = MADE[named](seed * 10)
        text = _AROUND[around].format(key)
        (found,) = builtin(text)
        assert text[found.start : found.end] == key, (named, around)
        assert found.kind == kind
        assert redact(text) == _AROUND[around].format(f"[redacted: {kind}]")


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("every", [1, 3, 100])
@pytest.mark.parametrize("named", MADE)
def test_a_key_is_found_where_json_within_json_writes_its_letters_as_escapes(
    named: str, every: int, levels: int
) -> None:
    key = MADE[named](4)
    written = "".join(rf"\u{ord(each):04x}" if not at % every else each for at, each in enumerate(key))
    text = f'{{"key": "caf\u00e9 {written}", "n": 1}}'
    for _ in range(levels - 1):
        text = json.dumps({"body": text})
    made = redact(text)
    for _ in range(levels - 1):
        made = json.loads(made)["body"]
    assert json.loads(made) == {"key": f"caf\u00e9 [redacted: {named.partition(',')[0]}]", "n": 1}


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("huggingface-token", "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"),
        ("huggingface-token", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"),
        ("slack-token", f"xapp-1-A0123456789-1234567890123-{'0123456789abcdef' * 4}"),
        ("slack-token", "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"),
        ("aws-access-key", "AKIAIOSFODNN7EXAMPL2"),
        ("anthropic-key", "sk-ant-api03-" + drawn(5, URLSAFE, 93) + "AA"),
    ],
)
def test_a_key_of_an_unmistakable_form_is_found_though_it_counts_or_spells(kind: str, key: str) -> None:
    for around in ("{}", "b-{}", "x_{}", "x-{}, then"):
        text = around.format(key)
        assert [(each.kind, text[each.start : each.end]) for each in builtin(text)] == [(kind, key)]


@pytest.mark.parametrize("key", ["hf_" + "x" * 34, "xoxb-your-token-here-0123456789-abcdef", "hf_" + "example" * 5])
def test_what_says_that_it_is_no_key_is_left_alone(key: str) -> None:
    assert builtin(f"TOKEN {key}") == ()


def _is_all(text: str, secret: str, kind: str) -> None:
    found = builtin(text)
    assert [text[each.start : each.end] for each in found] == [secret], text
    assert [each.kind for each in found] == [kind]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("API_KEY=", "\n"),
        ("export OPENAI_API_KEY='", "'"),
        ("api_key: ", ""),
        ('"apiKey": "', '",'),
        ('{\\"client_secret\\": \\"', '\\"}'),
        ("auth_token := `", "`"),
        ("--token=", " --verbose"),
        ("MY_SERVICE_ACCESS_TOKEN = ", "  # from the vault"),
        ("first\\nDB_SECRET_KEY=", "\\nlast"),
    ],
)
def test_what_is_assigned_to_the_name_of_a_secret_is_one(before: str, after: str) -> None:
    for seed in range(5):
        value = drawn(seed, ALNUM, 32)
        _is_all(before + value + after, value, "password")


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        ("password: Tr0ub4dor&3", "Tr0ub4dor&3", "password"),
        ("/login?password=Tr0ub4dor&next=1", "Tr0ub4dor", "password"),
        ("PGPASSWORD='n7!kPz#2qLw'", "n7!kPz#2qLw", "password"),
        ("curl -H 'Authorization: Bearer 9f8Zk2LmQ7xV4tB1nR6y'", "9f8Zk2LmQ7xV4tB1nR6y", "bearer-token"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpwYXNzd29yZDEyMw==", "bearer-token"),
        ("postgres://app:s3cr3tPw9@db.internal:5432/app", "s3cr3tPw9", "url-credentials"),
        ("redis://:p4ssw0rdXY@cache:6379/0", "p4ssw0rdXY", "url-credentials"),
        ("git clone https://x-access-token:v1.8f2a77cd@github.com/acme/site.git", "v1.8f2a77cd", "url-credentials"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYq9ZkT3vB1n",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYq9ZkT3vB1n",
            "aws-secret-key",
        ),
    ],
)
def test_secrets_without_a_form_of_their_own_are_told_by_what_stands_before_them(
    text: str, secret: str, kind: str
) -> None:
    _is_all(text, secret, kind)


def test_the_key_of_a_storage_account_is_found_in_its_connection_string() -> None:
    key = drawn(7, ALNUM + "+/", 86) + "=="
    text = f"DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={key};EndpointSuffix=core.windows.net"
    _is_all(text, key, "azure-storage-key")


@pytest.mark.parametrize(
    "text",
    [
        "session 0b8c5f7e-6f0e-4c1b-9a57-2d4b8a3c9f11 of urn:uuid:7d444840-9dc0-11d1-b245-5ffdce74fad2",
        "commit 83378aad7e74a0e2bb8f37c007a9685fb4609d8a, sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a",
        '"integrity": "sha512-hiWvbTpcl4x8bZzLrX2x3n1Cw3mLJr6V1eOYwPZ8vGqYyV0u4nE0a7l6gqTt8c5Kp9rN2bXfQ1sD3wMZ4jHhTg=="',
        "max_tokens=4096, total_tokens: 128000, input_tokens=1234567890123456",
        '"next_page_token": "CAUQAA1234567890abcdefXYZ", "cursor": "eyJpZCI6MTIzNDU2Nzg5MH0"',
        "api_key = os.environ['OPENAI_API_KEY']",
        "const token = process.env.GITHUB_TOKEN_2;",
        "API_KEY=${SERVICE_API_KEY_1}",
        "password=$PASSWORD1, secret: <your-secret-123>",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ANTHROPIC_API_KEY=sk-ant-your-key-here-0123456789",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "def login(password: str, token: Optional[str] = None) -> None: ...",
        "self.password = self.fields['password1']",
        'token: "string"',
        "the token: authentication tokens are described below",
        "http://localhost:8080/@scope/package, https://user:password@example.org/",
        "ssh://git@github.com:22/acme/site, https://registry.npmjs.org/@types/node",
        "Bearer tokens are sent in a header; Basic authentication is older.",
        "Authorization: Bearer $TOKEN, Authorization: Bearer <token>",
        "task-4f3a2b1c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a risk-assessment-2024 sk-fading-circle",
        "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK\n-----END PUBLIC KEY-----",
        "a file that starts with -----BEGIN PRIVATE KEY----- is a key; never print it",
        "toolu_01A09q90qw90lq917835lq9 call_9mdjpqk2VbAqDrwXQ1t6Yz3f msg_01XFDUDYJgAACzvnptvVoYEL req_011CSHoEeqs5C35K2UUqR7Fy",
        "private_key: ed25519.Ed25519PrivateKey, public_key = key2.public_key()",
        "primary_key=id123456789abcdefgh sort_key=2026-01-01T10:00:00.000Z",
        "[redacted: openai-key] API_KEY=[redacted: password]",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    assert [text[each.start : each.end] for each in builtin(text)] == []
    assert redact(text) == text


def test_the_bytes_of_images_hold_no_secrets() -> None:
    for seed in range(6):
        data = base64.b64encode(random.Random(seed).randbytes(300_000)).decode()
        assert builtin(f"data:image/png;base64,{data}") == ()
        assert builtin(data) == ()


def test_drawn_ids_and_digests_hold_no_secrets() -> None:
    drawn = random.Random(1)
    ids = [str(uuid.UUID(int=drawn.getrandbits(128))) for _ in range(2000)]
    digests = [drawn.randbytes(size).hex() for size in (16, 20, 32, 64) for _ in range(1000)]
    for text in (*ids, *digests):
        assert builtin(f"id {text}, and in JSON: " + json.dumps({"id": text, "parentUuid": text, "sha": text})) == ()


def test_real_transcripts_have_no_false_alarms(shared: Path, *, long: bool) -> None:
    """The four that are found are passwords indeed: ones that a tool made up."""
    found: Counter[str] = Counter()
    files = [file for file in sorted((shared / "data").rglob("*")) if file.suffix in (".jsonl", ".json", ".traj")]
    assert len(files) > 50
    for file in files:
        if not long and file.stat().st_size > 400_000:
            continue
        for value in _values(file):
            for text, secret in secrets.secrets_in(value, builtin):
                assert text[secret.start : secret.end].rstrip(".") in _MADE_UP
                found[file.name] += 1
    assert found == {"sharegpt_tools.json": 4}


_MADE_UP = {"a9B7$#fG3&Z1", "a9B7$#fG3", "aB3#fG7!kL9@"}


def _values(file: Path) -> list[Any]:
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        return (
            [json.loads(line) for line in text.splitlines() if line.strip()]
            if file.suffix == ".jsonl"
            else [json.loads(text)]
        )
    except ValueError:
        return [text]


# --- values


def test_the_name_of_a_value_says_that_it_is_a_secret() -> None:
    value = {"env": [{"DB_PASSWORD": "n7!kPz#2qLw", "port": 5432}], "max_tokens": "4096"}
    assert secrets.redact_value(value, builtin) == {
        "env": [{"DB_PASSWORD": "[redacted: password]", "port": 5432}],
        "max_tokens": "4096",
    }


def test_values_without_secrets_are_given_back_as_they_are() -> None:
    value = {"a": [1, 2.5, None, True, "text"], "b": {"c": ("x", "y")}}
    assert secrets.redact_value(value, builtin) is value
    text = '{ "a" : [1,  2.50, 1e3] }'
    assert secrets.redact_json(text, builtin) is text


def test_two_keys_that_are_secrets_lose_neither_of_their_values() -> None:
    one, two = MADE["npm-token"](1), MADE["npm-token"](2)
    made = secrets.redact_value({one: 1, two: 2}, builtin)
    assert list(made.values()) == [1, 2]
    assert not any(one in key or two in key for key in made)


def test_json_with_a_secret_stays_json() -> None:
    key = MADE["openai-key"](3)
    text = json.dumps({"cmd": f'curl -H "Authorization: Bearer {key}" \\\n x', "n": 1})
    made = secrets.redact_json(text, builtin)
    assert key not in made
    assert json.loads(made) == {"cmd": 'curl -H "Authorization: Bearer [redacted: openai-key]" \\\n x', "n": 1}


_PIECES = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from([MADE[name](seed) for name in MADE for seed in (1, 2)]),
        st.sampled_from(["API_KEY=", "password: ", '"', "\\n", "://u:", "@h", "Bearer ", "[redacted: jwt]", "=", " "]),
    ),
    max_size=8,
).map("".join)


@given(_PIECES)
def test_taking_secrets_out_again_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(_PIECES)
def test_a_text_without_its_secrets_is_known_as_that_text(text: str) -> None:
    made = redact(text)
    if made != text:
        assert secrets.is_redaction_of(made, text)
    assert not secrets.is_redaction_of(made + "x", text + "y")


def test_a_text_with_marks_is_no_other_text() -> None:
    mark = "[redacted: jwt]"
    assert secrets.is_redaction_of(f"a {mark} b {mark} c", "a 1 b 2 c")
    for other in ("a 1 b 2 d", "x 1 b 2 c", "a 1 c", "a  b  c", "a 1 b c"):
        assert not secrets.is_redaction_of(f"a {mark} b {mark} c", other)


def test_a_hint_never_gives_more_than_four_letters_of_a_long_key_and_none_of_a_password() -> None:
    key = MADE["openai-key, of a project"](1)
    assert secrets.hint(key, builtin(key)[0]) == "sk-p… (164 characters)"
    text = "password: n7!kPz#2qLw"
    assert secrets.hint(text, builtin(text)[0]) == "… (11 characters)"


@pytest.mark.parametrize(
    "unit",
    [
        "sk-",
        "://a:",
        "key=",
        "bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "eyJa.",
        "aws",
        "SK",
        "a.",
        "eyJ-",
        "figd_",
        "tskey-a-",
    ],
)
@pytest.mark.sample(2)
def test_long_texts_are_scanned_in_time_that_grows_with_their_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        begun = time.process_time()
        builtin(text)
        return time.process_time() - begun

    small = max(min(seconds(40_000) for _ in range(3)), 0.002)
    assert seconds(320_000) < 40 * small
