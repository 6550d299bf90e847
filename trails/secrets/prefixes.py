"""Secrets known by their prefix, and random strings."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

_SPOKEN: Final = (
    r"example|placeholder|redacted|(?<![a-z0-9])(?:your|dummy|sample|fake|test|insert|replace)(?![a-z])|changeme|foobar"
    r"|x{6}|\*{3}|\.{3}|…|0{8}"
)
_SAID_TO_BE_NONE: Final = re.compile(_SPOKEN, re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(rf"{_SPOKEN}|1234567890|abcdefgh", re.IGNORECASE)


def is_random(secret: str, *, bits: float = 3.0) -> bool:
    """Tell whether a text could have been drawn by lot: no placeholder, with digits and letters, few of them repeated."""
    return is_no_placeholder(secret) and has_digits_and_letters(secret) and _entropy(secret) >= bits


def is_drawn(secret: str) -> bool:
    """Tell the same of what stands behind a prefix that names never have: letters will do, where some are capitals."""
    kinds = (str.isdigit, str.isupper, str.islower)
    mixed = sum(any(map(of_kind, secret)) for of_kind in kinds) > 1
    return mixed and is_no_placeholder(secret) and _entropy(secret) >= 3.0


def is_formed(secret: str) -> bool:
    """Tell whether a text whose form says what it is could be one, with digits or letters in a row in it too."""
    return not _SAID_TO_BE_NONE.search(secret) and _entropy(secret) >= 3.0


def is_no_placeholder(secret: str) -> bool:
    """Tell whether nothing in a text says that it stands for another."""
    return not _PLACEHOLDER.search(secret)


def has_digits_and_letters(text: str) -> bool:
    """Tell whether a text has at least one of both."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits a character.

    >>> _entropy("aaaa"), _entropy("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-n / len(text) * math.log2(n / len(text)) for n in counts) + 0.0


_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_AN: Final = "[A-Za-z0-9]"
_HEX: Final = "[0-9a-f]"
_URL: Final = "[A-Za-z0-9_-]"
_B64: Final = "[A-Za-z0-9+/]"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a text: its kind, and where it stands (`end` exclusive)."""

    kind: str
    start: int
    end: int
    public: bool = False
    """Whether its first letters are those of all secrets of its kind."""


class Prefix(NamedTuple):
    """A form of keys: what each begins with, what follows, and what the rest must look like."""

    kind: str
    starts: str
    """The prefixes, with spaces between them."""
    body: str
    """A pattern of what follows the prefix."""
    holds: Callable[[str], bool] = is_drawn
    """Whether the body is that of a key, and not of a placeholder or a name. `is_random` where a name may begin so."""
    alone: bool = False
    """Whether it begins a word: behind "-" and "_" its few letters stand in the base64 of other things too."""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return b""


def _is_bot(body: str) -> bool:
    """Tell whether the first part, of which two letters are cut off, is a number in base64."""
    return any(_decoded(start + body.partition(".")[0]).isdigit() for start in DISCORD.split())


def _is_encoded_key(body: str) -> bool:
    return b"PRIVATE KEY" in _decoded(body[: len(body) // 4 * 4])


def _is_grafana_key(body: str) -> bool:
    return b'","id":' in _decoded("eyJrIjoi" + body.rstrip("="))


def _is_slack(body: str) -> bool:
    return is_formed(body) and has_digits_and_letters(body[2:])


def _is_mixed(body: str) -> bool:
    """Tell whether a text without a telling prefix has capitals, small letters and digits."""
    return is_random(body) and body.upper() != body and body.lower() != body


DISCORD: Final = "MD MT Mj Mz ND NT Nj Nz OD OT"
"""What a number begins with in base64."""

PREFIXES: Final = (
    # models, and what agents use
    Prefix("anthropic-key", "sk-ant-", rf"[a-z0-9]+-{_URL}{{20,}}"),
    Prefix("openrouter-key", "sk-or-v1-", rf"{_HEX}{{40,}}"),
    Prefix("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", rf"{_URL}{{20,}}"),
    Prefix("langfuse-key", "sk-lf-", _UUID),
    Prefix("model-key", "sk-", rf"[a-z0-9]{{2,12}}(?:-v[0-9])?-{_URL}{{30,200}}", _is_mixed),
    Prefix("openai-key", "sk-", rf"{_AN}{{32,}}", is_random),
    Prefix("bedrock-key", "ABSK", rf"{_B64}{{100,280}}={{0,2}}"),
    Prefix("bedrock-key", "bedrock-api-key-", rf"{_B64}{{40,}}={{0,2}}"),
    Prefix("google-api-key", "AIza", rf"{_URL}{{35}}(?!=)"),
    Prefix("gemini-key", "AQ.Ab8", rf"{_URL}{{40,}}"),
    Prefix("google-oauth-token", "GOCSPX-", rf"{_URL}{{28}}"),
    Prefix("google-oauth-token", "ya29. 1//0", rf"{_URL}{{30,}}"),
    Prefix("huggingface-token", "hf_", rf"{_AN}{{34,}}", is_formed),
    Prefix("huggingface-token", "api_org_", rf"{_AN}{{34}}", is_formed),
    Prefix("groq-key", "gsk_", rf"{_AN}{{40,}}"),
    Prefix("xai-key", "xai-", rf"{_AN}{{60,}}"),
    Prefix("perplexity-key", "pplx-", rf"{_AN}{{40,}}"),
    Prefix("replicate-token", "r8_", rf"{_AN}{{37}}", is_random, alone=True),
    Prefix("fireworks-key", "fw_ fpk_", rf"{_AN}{{22,}}", is_random, alone=True),
    Prefix("together-key", "tgp_v1_", rf"{_URL}{{40,}}"),
    Prefix("cerebras-key", "csk-", rf"{_AN}{{40,}}", is_random, alone=True),
    Prefix("nvidia-key", "nvapi-", rf"{_URL}{{40,}}"),
    Prefix("voyage-key", "pa-", rf"{_URL}{{43}}", _is_mixed, alone=True),
    Prefix("jina-key", "jina_", rf"{_HEX}{{32}}{_URL}{{20,40}}"),
    Prefix("runpod-key", "rpa_", r"[A-Za-z0-9]{40,}", is_random),
    Prefix("modal-token", "ak- as-", rf"{_AN}{{22}}", is_random, alone=True),
    Prefix("langsmith-key", "lsv2_pt_ lsv2_sk_", rf"{_HEX}{{32}}_{_HEX}{{6,16}}"),
    Prefix("langsmith-key", "ls__", rf"{_HEX}{{32}}"),
    Prefix("logfire-token", "pylf_v1_us_ pylf_v1_eu_ pylf_v2_us_ pylf_v2_eu_", rf"{_AN}{{30,}}"),
    Prefix("weights-and-biases-key", "wandb_v1_", rf"{_URL}{{40,}}"),
    Prefix("tavily-key", "tvly-", rf"(?:dev-|prod-)?{_URL}{{20,}}"),
    Prefix("firecrawl-key", "fc-", rf"{_HEX}{{32}}", alone=True),
    Prefix("pinecone-key", "pcsk_", rf"{_AN}{{4,8}}_{_AN}{{40,}}"),
    Prefix("e2b-key", "e2b_ sk_e2b_", rf"{_HEX}{{40}}"),
    Prefix("daytona-key", "dtn_", rf"{_HEX}{{64}}"),
    Prefix("browserbase-key", "bb_live_", rf"{_URL}{{20,}}"),
    Prefix("apify-token", "apify_api_", rf"{_AN}{{36,}}"),
    Prefix("context7-key", "ctx7sk-", _UUID),
    Prefix("elevenlabs-key", "sk_", rf"{_HEX}{{48}}"),
    Prefix("cursor-key", "key_ crsr_", rf"{_HEX}{{64}}"),
    Prefix("posthog-key", "phx_ phs_", rf"{_AN}{{40,}}", is_random),
    # code and what builds it
    Prefix("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_AN}{{36,}}"),
    Prefix("github-token", "github_pat_", rf"{_AN}{{22}}_{_AN}{{59}}"),
    Prefix(
        "gitlab-token",
        "glpat- glptt- gldt- glrt- glcbt- glft- glffct- glsoat- glimt- glagent- gloas- glwt- GR1348941",
        rf"{_URL}{{20,300}}(?:\.{_AN}{{2}}\.{_AN}{{9}}|\.{_AN}{{9}})?",
    ),
    Prefix("bitbucket-token", "ATBB", rf"{_AN}{{28,32}}"),
    Prefix("atlassian-token", "ATATT3 ATCTT3 ATSTT3", r"[A-Za-z0-9_=-]{40,}"),
    Prefix("trello-token", "ATTA", rf"{_HEX}{{64}}"),
    Prefix("npm-token", "npm_", rf"{_AN}{{36}}"),
    Prefix("pypi-token", "pypi-", rf"{_URL}{{50,}}"),
    Prefix("rubygems-key", "rubygems_", rf"{_HEX}{{48}}"),
    Prefix("nuget-key", "oy2", r"[a-z0-9]{43}", is_random),
    Prefix("crates-token", "cio", rf"{_AN}{{32}}", is_random),
    Prefix("clojars-token", "CLOJARS_", r"[a-z0-9]{60}"),
    Prefix("docker-token", "dckr_pat_ dckr_oat_", rf"{_URL}{{20,}}"),
    Prefix("circleci-token", "CCIPAT_ CCIPRJ_", rf"{_AN}{{22}}_{_HEX}{{40}}"),
    Prefix("buildkite-token", "bkua_", rf"{_HEX}{{40}}"),
    Prefix("sonar-token", "squ_ sqp_ sqa_", rf"{_HEX}{{40}}"),
    Prefix("sourcegraph-token", "sgp_", rf"(?:(?:{_HEX}{{16}}|local)_)?{_HEX}{{40}}"),
    Prefix("sentry-token", "sntryu_ sntrya_ sntryi_", rf"{_HEX}{{64}}"),
    Prefix("sentry-token", "sntrys_", r"[A-Za-z0-9+/=_-]{40,}"),
    Prefix("snyk-token", "snyk_uat. snyk_sat.", r"[A-Za-z0-9_.-]{20,}(?<!\.)"),
    Prefix("postman-key", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    Prefix("readme-key", "rdme_", r"[a-z0-9]{70}"),
    Prefix("artifactory-key", "AKCp", rf"{_AN}{{69,}}"),
    Prefix("artifactory-key", "cmVmdGtuOj", rf"{_AN}{{40,70}}={{0,2}}"),
    Prefix("prefect-key", "pnu_ pnb_", rf"{_AN}{{36}}", is_random),
    Prefix("harness-key", "pat. sat.", rf"{_URL}{{22}}\.{_HEX}{{24}}\.{_AN}{{20}}"),
    Prefix("octopus-key", "API-", r"[A-Z0-9]{26,32}", is_random, alone=True),
    Prefix("private-key", "LS0tLS1CRUdJTi", rf"{_B64}{{40,}}={{0,2}}", _is_encoded_key),
    # clouds
    Prefix("aws-access-key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}(?!=)", is_formed),
    Prefix("aws-session-token", "IQoJb3JpZ2lu FwoGZXIvYXdz", rf"{_B64}{{100,}}={{0,2}}"),
    Prefix("alibaba-key", "LTAI", rf"{_AN}{{20}}", is_random),
    Prefix("tencent-key", "AKID", rf"{_AN}{{32}}", is_random),
    Prefix("yandex-key", "AQVN", rf"{_URL}{{35,38}}", is_random),
    Prefix("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"{_HEX}{{64}}"),
    Prefix("heroku-key", "HRKU-", rf"(?:{_UUID}|{_URL}{{40,}})"),
    Prefix("fly-token", "fo1_", rf"{_URL}{{40,}}"),
    Prefix("fly-token", "fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/_-]{40,}={0,3}"),
    Prefix("vercel-token", "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_", r"[A-Za-z0-9_]{24,}", is_random),
    Prefix("netlify-token", "nfp_ nfc_ nfo_ nfu_ nfb_", rf"{_AN}{{32,}}", is_random),
    Prefix("render-key", "rnd_", rf"{_AN}{{24,}}", is_random),
    Prefix("cloudflare-key", "v1.0-", rf"{_HEX}{{24}}-{_HEX}{{100,}}"),
    Prefix("cloudflare-key", "cfut_ cfat_ cfk_", rf"{_URL}{{36,}}", is_random),
    Prefix("supabase-key", "sbp_", rf"(?:v0_)?{_HEX}{{40}}"),
    Prefix("supabase-key", "sb_secret_", rf"{_URL}{{20,}}"),
    Prefix("planetscale-key", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_=.-]{30,64}(?<!\.)"),
    Prefix("neon-key", "napi_", r"[a-z0-9]{40,}", is_random),
    Prefix("databricks-token", "dapi", rf"{_HEX}{{32}}(?:-[0-9])?"),
    Prefix("openshift-token", "sha256~", rf"{_URL}{{43}}"),
    Prefix("vault-token", "hvs. hvb. hvr.", rf"{_URL}{{24,}}"),
    Prefix("doppler-token", "dp.pt. dp.ct. dp.sa. dp.scim. dp.audit.", rf"{_AN}{{40,44}}"),
    Prefix("doppler-token", "dp.st.", rf"(?:[a-z0-9_-]{{2,35}}\.)?{_AN}{{40,44}}"),
    Prefix("pulumi-token", "pul-", rf"{_HEX}{{40}}", alone=True),
    Prefix("infracost-key", "ico-", rf"{_AN}{{32}}", is_random),
    Prefix("scalingo-token", "tk-us- tk-eu-", rf"{_URL}{{48}}"),
    Prefix("tailscale-key", "tskey-", r"[a-z]{1,20}-[A-Za-z0-9-]{20,200}+"),
    Prefix("age-key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    Prefix("1password-token", "ops_eyJ", rf"{_B64}{{80,}}={{0,3}}"),
    Prefix("1password-token", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    # what watches them
    Prefix("grafana-token", "glsa_", rf"{_AN}{{32}}_[0-9A-Fa-f]{{8}}"),
    Prefix("grafana-token", "glc_", rf"{_B64}{{32,400}}={{0,2}}", is_random),
    Prefix("grafana-token", "eyJrIjoi", rf"{_B64}{{50,400}}={{0,2}}", _is_grafana_key),
    Prefix("new-relic-key", "NRAK-", r"[A-Z0-9]{27}"),
    Prefix("new-relic-key", "NRII- NRIQ- NRRA- NRAA- NRSP- NRJS- NRBR-", rf"{_URL}{{19,48}}"),
    Prefix("dynatrace-token", "dt0c01. dt0s01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Prefix("datadog-key", "ddapp_ ddpat_", rf"{_AN}{{34,}}"),
    Prefix("honeycomb-key", "hcaik_ hcxik_ hcxmk_", rf"{_AN}{{30,}}"),
    Prefix("launchdarkly-key", "sdk- api-", _UUID),
    # money
    Prefix("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_", rf"{_AN}{{16,}}"),
    Prefix("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    Prefix("square-token", "EAAA", rf"{_URL}{{50,80}}"),
    Prefix("square-token", "sq0atp- sq0csp- sq0idp-", rf"{_URL}{{22,60}}"),
    Prefix("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", r"[0-9a-fA-F]{32}"),
    Prefix("shippo-token", "shippo_live_ shippo_test_", rf"{_HEX}{{40}}"),
    Prefix("easypost-key", "EZAK EZTK", rf"{_AN}{{54}}"),
    Prefix("duffel-token", "duffel_live_ duffel_test_", r"[A-Za-z0-9_=-]{43}"),
    Prefix("flutterwave-key", "FLWSECK- FLWSECK_TEST-", r"[0-9a-hA-H]{32}-X"),
    Prefix("razorpay-key", "rzp_live_", rf"{_AN}{{14}}"),
    Prefix("plaid-token", "access-sandbox- access-development- access-production-", _UUID),
    # messages and documents
    Prefix("slack-token", "xoxd-", r"[A-Za-z0-9%/+=-]{20,}", _is_slack),
    Prefix("slack-token", "xox", r"[abceoprs](?:\.xox[bp])?-(?:[0-9]-)?[A-Za-z0-9-]{20,}", _is_slack),
    Prefix("slack-token", "xapp-", r"[0-9]-[A-Za-z0-9-]{20,}", _is_slack),
    Prefix("discord-token", DISCORD, rf"{_URL}{{20,26}}\.{_URL}{{6}}\.{_URL}{{27,38}}", _is_bot),
    Prefix("sendgrid-key", "SG.", rf"{_URL}{{16,32}}\.{_URL}{{16,64}}", is_random),
    Prefix("twilio-key", "SK", rf"{_HEX}{{32}}(?!=)", is_random),
    Prefix("mailgun-key", "key-", rf"{_HEX}{{32}}"),
    Prefix("resend-key", "re_", rf"{_AN}{{6,10}}_{_AN}{{20,30}}", is_random, alone=True),
    Prefix("brevo-key", "xkeysib- xsmtpsib-", rf"{_HEX}{{64}}-{_AN}{{16}}"),
    Prefix("firebase-key", "AAAA", rf"{_URL}{{7}}:APA91b{_URL}{{100,}}"),
    Prefix("facebook-token", "EAAC EAAM EAAB EAAG EAAD", rf"{_AN}{{100,}}"),
    Prefix("twitter-token", "AAAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{60,100}"),
    Prefix("notion-token", "ntn_", rf"{_AN}{{40,}}"),
    Prefix("notion-token", "secret_", rf"{_AN}{{43}}", is_random),
    Prefix("linear-key", "lin_api_ lin_oauth_ lin_wh_", rf"{_AN}{{32,}}"),
    Prefix("figma-token", "figd_ figu_ figo_", rf"{_URL}{{40,200}}+"),
    Prefix("airtable-token", "pat", rf"{_AN}{{14}}\.{_HEX}{{64}}"),
    Prefix("contentful-token", "CFPAT-", rf"{_URL}{{43}}"),
    Prefix("typeform-token", "tfp_", r"[A-Za-z0-9_.=-]{40,}(?<!\.)"),
    Prefix("hubspot-token", "pat-na1- pat-na2- pat-eu1- pat-ap1-", _UUID),
    Prefix("dropbox-token", "sl. sl.u.", rf"{_URL}{{120,}}", is_random),
    Prefix("mapbox-token", "sk.eyJ1", rf"{_URL}{{50,}}\.{_URL}{{22}}"),
    Prefix("frameio-token", "fio-u-", r"[A-Za-z0-9_=-]{64}"),
    Prefix("adobe-secret", "p8e-", r"[A-Za-z0-9]{32}", is_random),
    Prefix("clickup-token", "pk_", r"[0-9]{6,10}_[A-Z0-9]{32}"),
    # without a prefix that would be theirs alone
    Prefix("okta-token", "00", rf"{_URL}{{40}}(?!=)", _is_mixed, alone=True),
)


LONG_WORD: Final = re.compile(r"[A-Za-z0-9_.~+/=:%-]{20,}")
"""What holds every key with a form of its own: a text without one has none, and most texts have few."""
BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
"""A key begins a word, or a part of one after "-" or "_" (within JSON and URLs, after what stands for another character)."""
AFTER: Final = r"(?![A-Za-z0-9+/_-])"
"""A key ends there: what goes on is something else, as the base64 of an image."""


def prefixed_secrets(text: str, start: int, end: int) -> Iterator[Secret]:
    """Yield the keys with a prefix in one long word of a text."""
    done = start
    places = [match.start("head") for match in _HEAD.finditer(text, max(0, start - 1), end)]
    for at in places if start else [0, *places]:
        for prefix, form, body in _FORMS.get(text[at : at + 2], ()) if at >= done else ():
            match = body.match(text, at + len(prefix)) if text.startswith(prefix, at) else None
            if match and form.holds(match[0]) and not (form.alone and at and text[at - 1] in "-_"):
                yield Secret(form.kind, at, match.end(), public=len(prefix) > 2)
                done = match.end()
                break


def _forms() -> dict[str, list[tuple[str, Prefix, re.Pattern[str]]]]:
    """Return all prefixes with their forms, by their first two characters."""
    forms: dict[str, list[tuple[str, Prefix, re.Pattern[str]]]] = {}
    for form in PREFIXES:
        for prefix in form.starts.split():
            forms.setdefault(prefix[:2], []).append((prefix, form, re.compile(f"(?:{form.body}){AFTER}")))
    return forms


def _heads(prefixes: Iterable[str]) -> str:
    """Return a pattern of the first two characters of some prefixes."""
    seconds: dict[str, str] = {}
    for prefix in sorted(prefixes):
        seconds[prefix[0]] = seconds.get(prefix[0], "") + re.escape(prefix[1])
    return "|".join(f"{re.escape(first)}[{some}]" for first, some in seconds.items())


_FORMS: Final = _forms()
_HEAD: Final = re.compile(rf"[^A-Za-z0-9](?:(?<=\\)[nrt]|(?<=%)[0-9A-Fa-f]{{2}})?(?=(?P<head>{_heads(_FORMS)}))")
"""What may begin a key, and stands before it."""
