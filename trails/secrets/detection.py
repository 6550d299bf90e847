"""Find, mark and redact secrets in text and values.

With the extra `secrets`, the detectors of detect-secrets find more formats. Only those that tell a key by its form are asked:
those that go by entropy or names are wrong too often in transcripts. They run in this process and never ask a service
whether a key works. A finding says where a secret stands and what it is, and never the secret itself.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from trails.model.values import Value
from trails.secrets import rules
from trails.secrets.rules import LONG_WORD, Secret, is_random, prefixed_secrets

SHORTEST: Final = 8
"""No text below this length holds a secret."""
_SHOWN: Final = 4
_NEAR: Final = 30
"""How many characters before a name may say what it is of."""
_ROUNDS: Final = 8
_UNLIKE: Final = "\u0131\u0130\u017f\u212a"
"""Letters that a pattern takes for an i, an s or a k where case is left aside, and that are others in lower case."""
_ESCAPE: Final = re.compile(r"(?<!\\)\\+u(?P<code>00[0-7][0-9a-fA-F])")
"""An ASCII character as JSON may write it: secrets have no others."""
_MARK: Final = re.compile(r"\[redacted: [a-z0-9-]+\]")


Detector = Callable[[str], Sequence[Secret]]
"""Returns the secrets of a text in their order, none within another."""


def builtin(text: str) -> tuple[Secret, ...]:
    """Return the secrets of the common formats in a text, in their order; those that overlap are one.

    >>> [each.kind for each in builtin("export GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a")]
    ['github-token']
    """
    return through_escapes(text, _builtin) if len(text) >= SHORTEST else ()


def _builtin(text: str) -> tuple[Secret, ...]:
    return join_secrets(found_in(text, fold_text(text)))


def through_escapes(text: str, detector: Detector) -> tuple[Secret, ...]:
    """Return what a detector finds in a text, and in what it says once JSON's escapes in it are read, where they stand.

    JSON within JSON has its backslashes doubled, and doubled again: any number of them begins an escape. Where a text has
    none of an ASCII character, it is looked through once.

    >>> text = '{"key": "\\\\u006epm_q8ZkT3vB1nXw7RpL2mYcD5sG9hJ4kF6aE0tU"}'
    >>> [text[each.start : each.start + 9] for each in through_escapes(text, builtin)]
    ['\\\\u006epm_']
    """
    secrets_here = tuple(detector(text))
    if "\\u00" not in text:
        return secrets_here
    pieces: list[str] = []
    places: list[int] = []
    """Where each character of the pieces begins in the text, and at last where that ends."""
    end = 0
    for escape in _ESCAPE.finditer(text):
        pieces += [text[end : escape.start()], chr(int(escape["code"], 16))]
        places += [*range(end, escape.start()), escape.start()]
        end = escape.end()
    if not pieces:
        return secrets_here
    unescaped_text = "".join([*pieces, text[end:]])
    places += range(end, len(text) + 1)
    more = [replace(each, start=places[each.start], end=places[each.end]) for each in detector(unescaped_text)]
    return join_secrets([*secrets_here, *more]) if more else secrets_here


def unescaped(text: str) -> str:
    r"""Return a text with the ASCII characters that JSON's escapes in it stand for.

    >>> unescaped(r"\u0073k-\\u0031"), unescaped("\\n")
    ('sk-1', '\\n')
    """
    return _ESCAPE.sub(lambda escape: chr(int(escape["code"], 16)), text) if "\\u00" in text else text


def fold_text(text: str) -> str | None:
    """Return a text in lower case, to look for words in; None if a pattern that leaves case aside may see others in it.

    >>> fold_text("API-Key"), fold_text("to\u212aen")
    ('api-key', None)
    """
    if not text.isascii() and any(letter in text for letter in _UNLIKE):
        return None
    return text.lower()


def found_in(text: str, low: str | None) -> Iterator[Secret]:
    """Yield what `builtin` joins, of a text and what `fold_text` makes of it."""
    long_words = [match.span() for match in LONG_WORD.finditer(text)]
    for start, end in long_words:
        yield from prefixed_secrets(text, start, end)
    for match, rule in _matches(text, low):
        group = "secret" if "secret" in rule.pattern.groupindex else 0
        if rule.holds(match[group]):
            yield Secret(rule.kind, *match.span(group), public=rule.public)
    if not has_one(low, rules.ASSIGNMENT_WORDS):
        return
    for match in rules.ASSIGNMENT.finditer(text):
        name = rules.name_before(text, match.start(), match.end("word"))
        within_url = text.endswith("/", 0, match.end("word") - len(name))  # the user of one, before its password
        if not within_url and rules.is_assigned_secret(name, match["secret"]):
            before = text[max(0, match.start() - _NEAR) : match.end("word")]
            yield Secret(rules.assigned_kind(before, match["secret"]), *match.span("secret"))


def has_one(low: str | None, words: Sequence[str]) -> bool:
    """Tell whether a text, as `fold_text` returns it, may hold one of some words."""
    if low is None:
        return True
    for word in words:  # noqa: SIM110 - a generator takes twice as long, and this is done for every text
        if word in low:
            return True
    return False


def _matches(text: str, low: str | None) -> Iterator[tuple[re.Match[str], rules.Rule]]:
    """Yield the matches of the rules, each of which is tried only if the text holds one of its words."""
    for rule in rules.RULES:
        if has_one(low, rule.words):
            for match in rule.pattern.finditer(text):
                yield match, rule


def join_secrets(secrets: Iterable[Secret]) -> tuple[Secret, ...]:
    """Return secrets in their order, with those that overlap joined into one, of the kind that was given first."""
    ranked = [(each.start, rank, each) for rank, each in enumerate(secrets)]
    if not ranked:
        return ()
    done: list[tuple[int, Secret]] = []
    for start, rank, each in sorted(ranked, key=lambda one: one[:2]):
        if done and start < done[-1][1].end:
            before, last = done[-1]
            first = last if before < rank else each
            done[-1] = min(before, rank), Secret(first.kind, last.start, max(last.end, each.end), first.public)
        else:
            done.append((rank, each))
    return tuple(each for _, each in done)


def mark(kind: str) -> str:
    """Return what stands in the place of a secret that was taken out.

    >>> mark("openai-key")
    '[redacted: openai-key]'
    """
    return f"[redacted: {kind}]"


def redact(text: str, detector: Detector = builtin) -> str:
    """Return a text with a mark in the place of each secret.

    >>> redact("Authorization: Bearer q8ZkT3vB1nXw7RpL2mYc")
    'Authorization: Bearer [redacted: bearer-token]'
    """
    for _ in range(_ROUNDS):  # what stood against a secret may be one too, once that is gone
        pieces: list[str] = []
        end = 0
        for each in detector(text):
            pieces += [text[end : each.start], mark(each.kind)]
            end = each.end
        if not pieces:
            break
        text = "".join([*pieces, text[end:]])
    return text


def hint(text: str, secret: Secret) -> str:
    """Return what may be shown of a secret: its length, and its first letters where those are its kind's and it is long.

    >>> key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    >>> hint(key, builtin(key)[0])
    'ghp_… (40 characters)'
    """
    text_of_secret = unescaped(text[secret.start : secret.end])
    shown = text_of_secret[:_SHOWN] if secret.public and len(text_of_secret) >= _SHOWN * 5 else ""
    return f"{shown}… ({len(text_of_secret)} characters)"


def is_redaction_of(text: str, other: str) -> bool:
    """Tell whether a text is another one with secrets taken out: whatever stands there in the place of its marks.

    >>> is_redaction_of("key [redacted: npm-token].", "key npm_q8Z."), is_redaction_of("key.", "key.")
    (True, False)
    """
    pieces = _MARK.split(text)
    if len(pieces) == 1 or not other.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        at = other.find(piece, at + 1)
        if at < 0:
            return False
        at += len(piece)
    last = pieces[-1]
    return len(other) - len(last) > at and other.endswith(last)


_ARGUMENTS: Final = ("arguments", "input")
"""What providers call the arguments of a call, which some give as JSON text."""


def secrets_in(value: Any, detector: Detector, name: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield every secret in a value that JSON can carry, with the text that holds it; `name` is what the value is called.

    >>> from trails.secrets import builtin
    >>> [secret.kind for _, secret in secrets_in({"env": {"API_KEY": "q8ZkT3vB1nXw7RpL2mYc"}}, builtin)]
    ['password']
    """
    for key, text in _texts(name, value):
        for secret in _of_text(key, text, detector):
            yield text, secret


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts within a value that are long enough for a secret, each with its name; its keys too, which have none."""
    waiting = [(name, value)]
    while waiting:
        key, each = waiting.pop()
        if isinstance(each, str):
            if (parsed := _parsed(key, each)) is not None:
                waiting.append((key, parsed))
            elif len(each) >= SHORTEST:
                yield key, each
        elif type(each) is dict or isinstance(each, Mapping):
            yield from [("", text) for inner in each if len(text := str(inner)) >= SHORTEST]
            waiting += [(str(inner), each[inner]) for inner in reversed([*each])]
        elif isinstance(each, list | tuple):
            waiting += [(key, value_inside) for value_inside in reversed(each)]


def _parsed(name: str, text: str) -> Any:
    """Return what a text stands for that is the arguments of a call, as JSON; None for any other."""
    return _from_json(text) if name in _ARGUMENTS and text[:1] in ("{", "[") else None


def _from_json(text: str) -> Any:
    """Return what a JSON text stands for; None for one that is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_text(name: str, text: str, detector: Detector) -> Sequence[Secret]:
    """Return the secrets of a text; one that is a secret by its name is one as a whole."""
    secrets = detector(text)
    if not secrets and name and rules.is_assigned_secret(name, text):
        return (Secret(rules.ASSIGNED_KIND, 0, len(text)),)
    return secrets


def secrets_in_json(text: str, detector: Detector, name: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield every secret in a JSON text, looked for in what it stands for; one that is no JSON is taken as it is."""
    value = _from_json(text)
    yield from secrets_in(text if value is None else value, detector, name)


def redact_value(value: Any, detector: Detector, name: str = "") -> Any:
    """Return a value that JSON can carry with a mark in the place of each secret; the value itself if it has none.

    >>> from trails.secrets import builtin
    >>> redact_value({"password": "hunter-2-hunter"}, builtin)
    {'password': '[redacted: password]'}
    """
    if isinstance(value, str):
        if _parsed(name, value) is not None:
            return redact_json(value, detector)
        whole = name and rules.is_assigned_secret(name, value) and not detector(value)
        return mark(rules.ASSIGNED_KIND) if whole else redact(value, detector)
    if isinstance(value, Mapping):
        return _redact_mapping(value, detector)
    if isinstance(value, list | tuple):
        values = [redact_value(each, detector, name) for each in value]
        return value if all(new is old for new, old in zip(values, value, strict=True)) else type(value)(values)
    return value


def _redact_mapping(value: Mapping[Any, Any], detector: Detector) -> Any:
    fields: dict[Any, Any] = {}
    for key, value_inside in value.items():
        plain = redact(key, detector) if isinstance(key, str) else key
        while plain in fields:  # two keys that were secrets: neither is lost
            plain += "'"
        fields[plain] = redact_value(value_inside, detector, key if isinstance(key, str) else "")
    same = fields.keys() == value.keys() and all(fields[key] is value[key] for key in fields)
    return value if same else fields


def redact_json(text: str, detector: Detector) -> str:
    """Return a JSON text with a mark in the place of each secret, byte for byte as it was if it has none."""
    if not any(True for _ in secrets_in_json(text, detector)):
        return text
    if (value := _from_json(text)) is None:
        return redact(text, detector)
    return json.dumps(redact_value(value, detector), ensure_ascii=False, separators=(",", ":"))


class _Form(NamedTuple):
    """What tells keys of one kind."""

    kind: str
    pattern: re.Pattern[str]
    signs: tuple[str, ...]
    """Of which every match holds one, case aside; none if that is not known."""


@cache
def detector() -> Detector:
    """Return the best detector that is installed: the built-in formats, and those of the extra `secrets` if it is."""
    forms = _extra_forms()
    if not forms:
        return builtin

    def both(text: str) -> tuple[Secret, ...]:
        low = fold_text(text)
        found = join_secrets(found_in(text, low))
        more = list(_extra_found(text, low, forms))
        return join_secrets([*found, *more]) if more else found

    return lambda text: through_escapes(text, both) if len(text) >= SHORTEST else ()


def _extra_forms() -> Sequence[_Form]:
    """Return what the detectors of the extra look for; nothing if it is not installed."""
    try:
        util = importlib.import_module("detect_secrets.core.plugins.util")
        base = importlib.import_module("detect_secrets.plugins.base")
    except ImportError:
        return []
    classes, extra = util.get_mapping_from_secret_type_to_class(), rules.FORMATS["extra"]
    return [
        _Form(
            _kind(name),
            pattern,
            tuple(extra["signs"].get(hashlib.sha256(pattern.pattern.encode()).hexdigest()[:16], ())),
        )
        for name, form_class in sorted(classes.items())
        if issubclass(form_class, base.RegexBasedDetector) and name not in extra["left_out"]
        for pattern in form_class().denylist
    ]


def _kind(name: str) -> str:
    """Return a kind as the built-in ones are written.

    >>> _kind("Mailchimp Access Key")
    'mailchimp-access-key'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _extra_found(text: str, low: str | None, forms: Sequence[_Form]) -> Iterator[Secret]:
    absent: Sequence[str] = ()
    """Signs that were looked for last: forms of one kind have the same ones."""
    for kind, pattern, signs in forms:
        if signs and (signs == absent or not has_one(low, signs)):
            absent = signs
            continue
        for match in pattern.finditer(text):
            group = next((n for n in range(1, (pattern.groups or 0) + 1) if match[n]), 0)
            if is_random(match[group].strip("\"'=: \n\t")):
                yield Secret(kind, *match.span(group))


def shown_id(session_id: str) -> str:
    """Return a session's id as it may be shown: with a mark in the place of a secret that it holds.

    >>> shown_id("pi:ghp_16C7e42F292c6912E7710c838347Ae178B4a"), shown_id("pi:01-ab")
    ('pi:[redacted: github-token]', 'pi:01-ab')
    """
    return redact(session_id, detector())


class Found(Value):
    """A secret in a session: its kind, the turn's index (None for what belongs to no turn), and where in it."""

    kind: str
    session_id: str | None
    """None for what belongs to no session, as the task of a run whose session is not known."""
    index: int | None
    where: str
    """`content`, `arguments`, `meta`, `label`, `note`, `ledger 3` and the like."""
    hint: str
    """Its length, with its first four letters where those are the same for all of its kind."""
    redacted: bool = False
    """Whether it was taken out on its way in: it is not in the store."""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values, ready for JSON."""
        session = None if self.session_id is None else shown_id(self.session_id)
        return {"session": session, **self.model_dump(exclude={"session_id"})}


class ScannedPlace:
    """A turn, or what else is looked through as one: what stands there several times is found once."""

    def __init__(self, detector: Detector, session_id: str | None, index: int | None, redacted: bool = False) -> None:
        self._detector = detector
        self._session_id = session_id
        self._index = index
        self._redacted = redacted
        self._seen: set[str] = set()

    def text(self, where: str, text: str | None) -> Iterator[Found]:
        """Yield what is found in a text."""
        if text:
            yield from self._new(where, ((text, secret) for secret in self._detector(text)))

    def value(self, where: str, value: Any, name: str = "") -> Iterator[Found]:
        """Yield what is found in a value that JSON can carry; `name` is what it is called."""
        yield from self._new(where, secrets_in(value, self._detector, name))

    def json(self, where: str, text: str | None, name: str = "") -> Iterator[Found]:
        """Yield what is found in what a JSON text stands for."""
        if text:
            yield from self._new(where, secrets_in_json(text, self._detector, name))

    def _new(self, where: str, found: Iterable[tuple[str, Secret]]) -> Iterator[Found]:
        for text, secret in found:
            what = unescaped(text[secret.start : secret.end])
            if what not in self._seen:
                self._seen.add(what)
                yield Found(
                    kind=secret.kind,
                    session_id=self._session_id,
                    index=self._index,
                    where=where,
                    hint=hint(text, secret),
                    redacted=self._redacted,
                )
