"""The forms of keys that services give out in 2026, and of what commands and files hold: made up, and of the right shape."""

from __future__ import annotations

import base64
import string
import uuid
from collections.abc import Callable

from tests.support.made_keys import ALNUM, HEX, MADE, URLSAFE, drawn

UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
B64 = ALNUM + "+/"


def _filled(form: str) -> Callable[[int], str]:
    """Return what makes keys of a form: `{alphabet length}` stands for what is drawn."""
    alphabets = {
        "an": ALNUM,
        "hex": HEX,
        "url": URLSAFE,
        "up": UPPER,
        "low": LOWER,
        "b64": B64,
        "az": string.ascii_letters,
    }

    def made(seed: int) -> str:
        pieces = []
        for n, piece in enumerate(form.replace("}", "{").split("{")):
            name, _, length = piece.partition(" ")
            if n % 2 == 0:
                pieces.append(piece)
            elif name == "uuid":
                pieces.append(str(uuid.UUID(drawn(seed + n, HEX, 32))))
            elif name == "digits":
                pieces.append(drawn(seed + n, "123456789", int(length))[:-1] + "7")
            else:
                text = drawn(seed + n, alphabets[name], int(length))
                pieces.append(text.upper() if name == "up" else text)
        return "".join(pieces)

    return made


FORMS: dict[str, Callable[[int], str]] = MADE | {
    name: _filled(form)
    for name, form in {
        "anthropic-key, of an administrator": "sk-ant-admin01-{url 93}AA",
        "anthropic-key, of OAuth": "sk-ant-oat01-{url 93}AA",
        "openai-key, of a service": "sk-svcacct-{url 120}",
        "openai-key, of an administrator": "sk-admin-{url 120}",
        "openai-key, of DeepSeek": "sk-{hex 32}",
        "openrouter-key": "sk-or-v1-{hex 64}",
        "model-key, of Kimi": "sk-kimi-{an 48}",
        "bedrock-key": "ABSK{b64 128}",
        "bedrock-key, for a while": "bedrock-api-key-{b64 300}",
        "google-oauth-token": "ya29.{url 120}",
        "google-oauth-token, of a client": "GOCSPX-{url 28}",
        "google-oauth-token, to refresh": "1//0{url 60}",
        "gemini-key": "AQ.Ab8{url 47}",
        "huggingface-token, of an organisation": "api_org_{az 34}",
        "xai-key": "xai-{an 80}",
        "perplexity-key": "pplx-{an 48}",
        "replicate-token": "r8_{an 37}",
        "fireworks-key": "fw_{an 22}",
        "together-key": "tgp_v1_{url 43}",
        "cerebras-key": "csk-{low 48}",
        "nvidia-key": "nvapi-{url 64}",
        "voyage-key": "pa-{url 43}",
        "jina-key": "jina_{hex 32}{an 28}",
        "runpod-key": "rpa_{up 40}{low 6}",
        "langsmith-key": "lsv2_pt_{hex 32}_{hex 10}",
        "langsmith-key, of a service": "lsv2_sk_{hex 32}_{hex 10}",
        "langfuse-key": "sk-lf-{uuid}",
        "logfire-token": "pylf_v1_us_{an 43}",
        "weights-and-biases-key": "wandb_v1_{url 60}",
        "tavily-key": "tvly-{an 32}",
        "tavily-key, of a developer": "tvly-dev-{an 32}",
        "firecrawl-key": "fc-{hex 32}",
        "pinecone-key": "pcsk_{an 6}_{an 63}",
        "e2b-key": "e2b_{hex 40}",
        "daytona-key": "dtn_{hex 64}",
        "browserbase-key": "bb_live_{url 27}",
        "apify-token": "apify_api_{an 36}",
        "context7-key": "ctx7sk-{uuid}",
        "elevenlabs-key": "sk_{hex 48}",
        "cursor-key": "key_{hex 64}",
        "cursor-key, of this year": "crsr_{hex 64}",
        "posthog-key": "phx_{an 47}",
        "github-token, of a user": "ghu_{an 36}",
        "github-token, of a server": "ghs_{an 36}",
        "gitlab-token, with its length": "glpat-{url 27}.01.{low 9}",
        "gitlab-token, of a runner": "glrt-{url 20}",
        "bitbucket-token": "ATBB{an 28}",
        "atlassian-token": "ATATT3xFfGF0{url 180}={up 8}",
        "trello-token": "ATTA{hex 64}",
        "rubygems-key": "rubygems_{hex 48}",
        "nuget-key": "oy2{low 43}",
        "crates-token": "cio{an 32}",
        "docker-token": "dckr_pat_{url 27}",
        "docker-token, of an organisation": "dckr_oat_{url 32}",
        "circleci-token": "CCIPAT_{an 22}_{hex 40}",
        "buildkite-token": "bkua_{hex 40}",
        "sonar-token": "squ_{hex 40}",
        "sourcegraph-token": "sgp_{hex 16}_{hex 40}",
        "sentry-token": "sntryu_{hex 64}",
        "sentry-token, of an organisation": "sntrys_eyJpYXQiOjE3{an 120}_{b64 43}",
        "snyk-token": "snyk_uat.{hex 8}.{url 60}",
        "postman-key": "PMAK-{hex 24}-{hex 34}",
        "readme-key": "rdme_{low 70}",
        "prefect-key": "pnu_{an 36}",
        "octopus-key": "API-{up 26}",
        "alibaba-key": "LTAI{an 20}",
        "tencent-key": "AKID{an 32}",
        "yandex-key": "AQVN{url 36}",
        "digitalocean-token": "dop_v1_{hex 64}",
        "heroku-key": "HRKU-AA{url 58}",
        "heroku-key, with a number": "HRKU-{uuid}",
        "fly-token": "fo1_{url 43}",
        "fly-token, of a machine": "fm1r_{b64 120}",
        "fly-token, of an organisation": "fm2_{b64 200}",
        "vercel-token": "vcp_{an 56}",
        "vercel-token, of the gateway": "vck_{an 56}",
        "vercel-token, of a store": "vercel_blob_rw_{an 16}_{an 30}",
        "netlify-token": "nfp_{an 36}",
        "render-key": "rnd_{an 28}",
        "cloudflare-key": "v1.0-{hex 24}-{hex 146}",
        "supabase-key": "sbp_{hex 40}",
        "supabase-key, of a server": "sb_secret_{url 22}_{an 8}",
        "planetscale-key": "pscale_tkn_{url 43}",
        "planetscale-key, a password": "pscale_pw_{url 43}",
        "neon-key": "napi_{low 64}",
        "databricks-token": "dapi{hex 32}",
        "openshift-token": "sha256~{url 43}",
        "vault-token": "hvs.{url 95}",
        "doppler-token": "dp.pt.{an 43}",
        "doppler-token, of a service": "dp.st.prod.{an 43}",
        "pulumi-token": "pul-{hex 40}",
        "terraform-token": "{an 14}.atlasv1.{url 67}",
        "tailscale-key": "tskey-auth-k{an 10}CNTRL-{an 32}",
        "age-key": "AGE-SECRET-KEY-1{up 58}",
        "1password-token": "ops_eyJ{b64 300}",
        "grafana-token": "glsa_{an 32}_{hex 8}",
        "grafana-token, of the cloud": "glc_{an 120}",
        "new-relic-key": "NRAK-{up 27}",
        "new-relic-key, of a licence": "{hex 36}NRAL",
        "dynatrace-token": "dt0c01.{up 24}.{up 64}",
        "launchdarkly-key": "sdk-{uuid}",
        "stripe-key, for tests": "sk_test_{an 24}",
        "stripe-key, long": "sk_live_51{an 97}",
        "stripe-key, restricted": "rk_live_{an 24}",
        "stripe-key, of a webhook": "whsec_{an 32}",
        "square-token": "EAAA{url 60}",
        "square-token, of OAuth": "sq0csp-{url 43}",
        "square-token, of before": "sq0atp-{url 22}",
        "shopify-token": "shpat_{hex 32}",
        "shippo-token": "shippo_live_{hex 40}",
        "easypost-key": "EZAK{an 54}",
        "plaid-token": "access-production-{uuid}",
        "slack-token, of a browser": "xoxc-{digits 12}-{digits 12}-{digits 12}-{hex 64}",
        "slack-token, of a cookie": "xoxd-{an 60}%2F{an 60}%3D%3D",
        "slack-token, of a user": "xoxp-{digits 12}-{digits 12}-{digits 12}-{hex 32}",
        "slack-token, of an app": "xapp-1-A{up 10}-{digits 13}-{hex 64}",
        "slack-token, of a configuration": "xoxe.xoxp-1-{an 160}",
        "mailgun-key": "key-{hex 32}",
        "mailchimp-key": "{hex 32}-us21",
        "resend-key": "re_{an 8}_{an 24}",
        "brevo-key": "xkeysib-{hex 64}-{an 16}",
        "notion-token": "ntn_{digits 11}{an 35}",
        "notion-token, of before": "secret_{an 43}",
        "linear-key": "lin_api_{an 40}",
        "figma-token": "figd_{url 43}",
        "airtable-token": "pat{an 14}.{hex 64}",
        "contentful-token": "CFPAT-{url 43}",
        "typeform-token": "tfp_{url 59}",
        "hubspot-token": "pat-na1-{uuid}",
        "okta-token": "00{url 40}",
        "azure-client-secret": "{an 3}8Q~{an 34}",
        "azure-devops-token": "{an 76}AZDO{an 4}",
        "azure-key": "{an 52}JQQJ99{an 26}",
        "azure-key, of a search": "{an 42}AzSe{an 6}",
    }.items()
}
"""By our name of the kind: a key for each number."""


def _auth(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


TOLD_BY_WHAT_STANDS_BEFORE = [
    ("machine api.acme.io\n  login deploy\n  password n7kPz2qLw9", "n7kPz2qLw9"),
    ("machine api.acme.io login deploy password n7kPz2qLw9", "n7kPz2qLw9"),
    (r'{"output": "machine api.acme.io\n\tlogin deploy\n\tpassword n7kPz2qLw9\n"}', "n7kPz2qLw9"),
    ("default login anna password n7kPz2qLw9", "n7kPz2qLw9"),
    ("mysql -u root -pn7kPz2qLw9 shop", "n7kPz2qLw9"),
    ("mysql -h db -u root -p'n7k!Pz#2' shop", "n7k!Pz#2"),
    ("mysqldump --single-transaction -uroot -pHunter2x shop > dump.sql", "Hunter2x"),
    (r'{"cmd": "mysql -uroot -p\"n7kPz2qLw9\" shop"}', "n7kPz2qLw9"),
    ("curl -u anna:n7kPz2qLw9 https://acme.io", "n7kPz2qLw9"),
    ("curl -s -X POST -u 'anna:n7k!Pz2' https://acme.io", "n7k!Pz2"),
    ("curl https://acme.io --user anna:n7kPz2qLw9", "n7kPz2qLw9"),
    ("curl \\\n  --user anna:n7kPz2qLw9 \\\n  https://acme.io", "n7kPz2qLw9"),
    ("http -a anna:n7kPz2qLw9 GET acme.io", "n7kPz2qLw9"),
    ("sshpass -p n7kPz2qLw9 ssh root@10.0.0.2", "n7kPz2qLw9"),
    ("docker login -u anna -p n7kPz2qLw9 registry.acme.io", "n7kPz2qLw9"),
    ("redis-cli -h cache -a n7kPz2qLw9 ping", "n7kPz2qLw9"),
    ("mongosh -u admin -p n7kPz2qLw9 db", "n7kPz2qLw9"),
    ("sqlcmd -S db -U sa -P n7kPz2qLw9", "n7kPz2qLw9"),
    ("db.acme.io:5432:shop:anna:n7kPz2qLw9", "n7kPz2qLw9"),
    ("DB_PASS=n7kPz2qLw9", "n7kPz2qLw9"),
    ("AZURE_DEVOPS_EXT_PAT=" + "q3zk7mwv2xj5tn4p" * 3 + "b7lc", "q3zk7mwv2xj5tn4p" * 3 + "b7lc"),
    ("HEROKU_API_KEY=3f2a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b", "3f2a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b"),
    ("Authorization: SSWS 00xQ7kPz2qLw9mVbN4tR8yUcJ3hGfD6sA1eWiOpKlZ", "00xQ7kPz2qLw9mVbN4tR8yUcJ3hGfD6sA1eWiOpKlZ"),
    ("authorization: token q8ZkT3vB1nXw7RpL2mYc", "q8ZkT3vB1nXw7RpL2mYc"),
    ('{"auths": {"ghcr.io": {"auth": "' + _auth("anna", "n7kPz2qLw9") + '"}}}', _auth("anna", "n7kPz2qLw9")),
    (
        "mailgun: 3f2a9c1e5b7d4e8f9a0b1c2d3e4f5a6b-1c2d3e4f-5a6b7c8d",
        "3f2a9c1e5b7d4e8f9a0b1c2d3e4f5a6b-1c2d3e4f-5a6b7c8d",
    ),
]
"""Texts, each with the secret that it holds, which has no form of its own."""
