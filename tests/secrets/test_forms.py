"""The forms of keys of this year: each is found, in whatever stands around it; what comes near to one is not."""

from __future__ import annotations

import base64
import random

import pytest

from tests.support.key_forms import FORMS, TOLD_BY_WHAT_STANDS_BEFORE
from trails.secrets import builtin, detector

_AROUND = (
    "{}",
    "The key is {}.",
    "export SERVICE_KEY={}\n",
    '{{"text": "first\\n{}\\nlast"}}',
    '{{"a": "{{\\"key\\": \\"{}\\"}}"}}',
    "https://example.org/?key={}&x=1",
    "name=%22{}%22",
    "Authorization: Bearer {}",
    "`{}`, ({}) or <{}>",
)


def test_there_are_as_many_forms_as_were_asked_for() -> None:
    assert len(FORMS) + len(TOLD_BY_WHAT_STANDS_BEFORE) >= 126


@pytest.mark.parametrize("named", FORMS)
def test_a_key_of_a_current_form_is_found_as_a_whole(named: str) -> None:
    for seed in range(3):
        key = FORMS[named](seed * 100)
        for around in _AROUND:
            if "%22" in around and "%" in key:
                continue
            text = around.replace("{}", key) if "{{" not in around else around.format(key)
            found = builtin(text)
            assert {text[each.start : each.end] for each in found} == {key}, around
            assert {each.kind for each in found} == {named.partition(",")[0]}, around


@pytest.mark.parametrize(("text", "secret"), TOLD_BY_WHAT_STANDS_BEFORE)
def test_a_password_is_told_by_the_command_or_the_file_that_it_stands_in(text: str, secret: str) -> None:
    assert [text[each.start : each.end] for each in builtin(text)] == [secret]


@pytest.mark.parametrize(
    "text",
    [
        # placeholders
        "OPENAI_API_KEY=sk-... ANTHROPIC_API_KEY=sk-ant-... GROQ_API_KEY=gsk_... key_... lsv2_pt_...",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk_test_xxxxxxxxxxxxxxxxxxxxxxxx re_xxxxxxxx_xxxxxxxxxxxxxxxxxxxxxxxx",
        "nvapi-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx tvly-YOUR_API_KEY_GOES_HERE_PLEASE",
        "Authorization: Bearer <token>, Authorization: token $GITHUB_TOKEN, Authorization: SSWS ${OKTA_API_TOKEN}",
        "FLY_API_TOKEN=fo1_*** VERCEL_TOKEN=<your-vercel-token> pcsk_<id>_<secret> dckr_pat_your-token-goes-here-please",
        "glpat-your-personal-access-token xoxb-your-token-here-0123456789 secret_your_notion_integration_token_goes_here_now",
        # names
        "key_of_the_first_matching_entry_in_the_table_of_all_entries_there re_compile_all_patterns_of_a_module fw_update_all",
        "pa-collapse-when-the-window-is-smaller-than-the-menu-of-it secret_name_of_the_current_user_in_the_database",
        "fc-content-block-with-a-very-long-class-name-indeed pul-request-template-for-the-next-version",
        "sk-folding-cube-with-many-parts-and-colours-2024-version-7 sk_buff_head_init_class re_subscribe_20240101_abcdefgh",
        "api-gateway-service-7c9d8b6f5d-x2k4j sdk-core-1.2.3 pat-matching-in-python key-0123456789 e2b_code_interpreter",
        "AKIAIOSFODNN7EXAMPLE ABSK EAAA GR1348941 HRKU- LTAI AKID v1.0-beta.3 dp.pt.example hvs.example",
        # ids and digests
        "commit 0083378aad7e74a0e2bb8f37c007a9685fb4609d8a1f of 7d444840-9dc0-11d1-b245-5ffdce74fad2",
        "sha256-n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=",
        "toolu_01A09q90qw90lq917835lq9 call_9mdjpqk2VbAqDrwXQ1t6Yz3f chatcmpl-9mdjpqk2VbAqDrwXQ1t6Yz3fAbCdE",
        "resp_0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071 fc_0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071",
        "rs_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b msg_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b",
        "pi_3MtwBwLkdIwHu7ix28a3tqPa cus_NffrFeUfNV2Hib",
        "pk-lf-3f2a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b phc_3f2a9c1e5b7d4e8f9a0b1c2d3e4f5a6b3f sb_publishable_q8ZkT3vB1nXw",
        # commands and files that hold none
        'mysql -u root -p shop; mysql -p$PASSWORD shop; mysql -p shop -P 3306; mysql -u root -p"$MYSQL_PWD"',
        'curl -u $USER:$PASSWORD https://acme.io; curl -u "${USER}:${TOKEN}" x; curl -u user:pass x; curl -u anna: x',
        "curl -s https://acme.io/a:b/c | jq .; curl -u <user>:<password> x; curl --unix-socket /run/docker.sock http://v1.43/x",
        "docker run -p 8080:80 nginx; docker login -u anna -p $TOKEN; docker login --password-stdin; mongod -p 27017",
        "machine learning login page password reset; machine host login user password password",
        "ssh -p 2222 anna@host; redis-cli -a $REDIS; sshpass -e ssh host; psql postgres://db:5432/shop",
        'the "auth": "basic" of a registry, "auth": "bm9uZQ=="; "author": "Anna", "authorization": "none"',
        "tests pass: 12345678 of 12345678, bypass=1234abcd5678, compass: n7kPz2qLw9",
        "HEROKU_APP_ID=3f2a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b request_id=3f2a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b",
        "azure tenant 3f2a9c1e-5b7d-4e8f-9a0b-1c2d3e4f5a6b in AzureDevOps: build descriptionofthewholesystemasitisbuilthere",
    ],
)
def test_what_comes_near_to_a_form_is_left_alone(text: str) -> None:
    for look in (builtin, detector()):
        assert [(each.kind, text[each.start : each.end]) for each in look(text)] == []


def test_images_hashes_and_ids_are_no_keys_at_any_place() -> None:
    lots = random.Random(4)
    for _ in range(40):
        image = base64.b64encode(lots.randbytes(lots.randrange(500, 60_000))).decode()
        lines = "\n".join(image[at : at + 76] for at in range(0, len(image), 76))
        for text in (image, f"data:image/png;base64,{image}", lines, base64.urlsafe_b64encode(image.encode()).decode()):
            assert builtin(text) == ()
