"""Known secrets, in whatever is written or shown (SPEC S3): masked whole, however they come, and nothing else is."""

from __future__ import annotations

import logging
import random
import string
from pathlib import Path

import pytest

from agentops.logs import Json, Line
from agentops.ops.finding import OK
from agentops.ops.secrets import masked
from agentops.sdk import Access, ToolHarness, ToolRun, tool
from loops import masking
from loops.engine import facts as f
from loops.engine.ports import ModelError
from loops.engine.values import ToolResult
from loops.llm.transport_errors import http_failure
from loops.masking import Masker, StreamMasker, of_environment, signs_in
from loops.tools.limits import Limits
from loops.tools.output import show
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("S3")
SECRET = 'planted/"value"-0123456789'
SIGN = "[masked: ODD_KEY]"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_masker", Masker({"ODD_KEY": SECRET}))


def test_it_is_masked_in_every_spelling() -> None:
    assert masking.known().text(f"a {SECRET} b") == f"a {SIGN} b"
    assert masking.known().text('{"a": "planted/\\"value\\"-0123456789"}') == f'{{"a": "{SIGN}"}}'
    assert masking.known().text("?key=planted%2F%22value%22-0123456789") == f"?key={SIGN}"


def test_facts_are_masked_to_the_ground_and_untouched_ones_stay_the_same() -> None:
    result = ToolResult(ok=True, content=SECRET, data={"seen": [SECRET, 1], SECRET: None})
    fact = f.ToolCompleted(call_id="c", tool="read_file", result=result)
    masked = masking.known().value(fact)
    assert SECRET not in repr(masked)
    assert masked.result.data == {"seen": [SIGN, 1], SIGN: None}
    assert fact.result.content == SECRET
    plain = f.ToolCompleted(call_id="c", tool="read_file", result=ToolResult(ok=True, content="plain"))
    assert masking.known().value(plain) is plain


@pytest.mark.parametrize("size", range(1, len(SECRET) + 2))
def test_a_stream_never_shows_a_part_of_it(size: int) -> None:
    text = f"before {SECRET} after"
    stream = StreamMasker()
    shown = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*shown, stream.finish()]) == f"before {SIGN} after"


def test_a_beginning_that_comes_to_nothing_is_shown() -> None:
    stream = StreamMasker()
    assert stream.feed("plant") + stream.feed("s grow, plant") + stream.finish() == "plants grow, plant"


def test_outputs_are_masked_before_they_are_cut_or_kept() -> None:
    kept: list[bytes] = []
    data = b"x" * 500 + SECRET.encode() + b"y" * 500

    def save(whole: bytes) -> str:
        kept.append(whole)
        return "0" * 64

    shown = show(data, 1010, save)  # a cut would go through it
    assert SECRET[:8] not in shown.text
    assert all(SECRET[:8].encode() not in whole for whole in kept)


def test_what_a_tool_reads_is_masked_before_it_is_cut_or_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, limits=Limits(shown_bytes=1010))
    (desk.workspace / "long").write_text("x" * 500 + SECRET + "y" * 500)  # a cut would go through it
    read = desk.run("read_file", path="long")
    assert read.content.count("x" * 100), read.error
    assert SECRET[:8] not in read.content
    assert not any(SECRET[:8].encode() in kept for kept in desk.blobs.values())


def test_errors_of_providers_and_logs_are_masked() -> None:
    error: ModelError = http_failure(400, {"error": {"message": f"you sent {SECRET}"}}, {})
    assert SIGN in str(error)
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "said %s", (SECRET,), None)
    record.more = [SECRET]
    for formatter in (Line(), Json()):
        assert "0123456789" not in formatter.format(record)


@pytest.mark.parametrize("value", ["", "short", "password", "PostgreS", "aaaaaaaaaaaa"])
def test_short_and_common_values_are_left_alone_and_named(value: str) -> None:
    masker = Masker({"A_PASSWORD": value})
    assert masker.text(f"the {value} of all") == f"the {value} of all"
    assert masker.weak == (["A_PASSWORD"] if value else [])


@pytest.mark.parametrize("value", ["/etc/keys/of-mine", "1000000000000"])
def test_paths_and_numbers_are_no_secrets(value: str) -> None:
    assert Masker({"A_KEY": value}).text(f"a {value}") == f"a {value}"


def test_what_the_environment_holds() -> None:
    given = {"MY_TOKEN": "t", "api_key": "k", "PATH": "/bin", "DATABASE_URL": "postgres://me:pass%2Fword-1@host/db"}
    assert of_environment(given) == {"MY_TOKEN": "t", "api_key": "k", "DATABASE_URL_PASSWORD": "pass/word-1"}


NO_SECRETS = {
    "PIP_KEYRING_PROVIDER": "subprocess",
    "MONKEY": "Monkey-0123456789",
    "TOKENIZERS_PARALLELISM": "true-0123456789",
    "KEYBOARD_LAYOUT": "dvorak-0123456789",
    "TurkeyShootKeyboard": "0123456789-abc",
    "CACHE_KEY": "subprocess",
    "SORT_KEYS": "last-modified",
    "AUTH_TOKEN_HEADER": "Authorization",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "ORDER_KEY": "created_at",
    "PRIMARY_KEY_TYPE": "BigAutoField",
    "AWS_SECRETS_REGION": "eu-central-1",
    "AWS_SECRETS_ZONE": "us-gov-west-1a",
    "SSH_KEY_FILE": "id_ed25519",
    "SSH_KEY_TYPE": "ssh-ed25519",
    "TOKEN_ENCODING": "cl100k_base",
    "SECRET_HASH": "argon2id-v19",
    "KEY_CIPHER": "aes-256-gcm",
    "AUTH_TOKEN_URL": "https://login.example.com/oauth/token",
    "KEYS_URL": "https://id.example.com:8443/v2.0/.well-known/openid-configuration",
    "TOKEN_AUDIENCE": "https://api.example.com",
    "VAULT_TOKEN_FILE": "~/.vault-token",
    "SIGNING_KEY_FILE": "./certs/server-01.key",
    "PASSWORD_STORE": "../store/of-mine",
}
NONE = (
    *("none", "NULL", "dummy", "lm-studio", "ollama", "no-key", "no-key-required", "not-needed", "sk-no-key-required"),
    *("lm_studio", "not_needed", "NO_KEY_REQUIRED"),
)
SECRETS = {
    "OPENAI_API_KEY": "sk-proj-abcdefghijkl",
    "ACME_APIKEY": "0a1b2c3d4e5f60718293",
    "acmeApiKey": "6f1c0d3e-3b0a-4c58-9d0e-5f6a7b8c9d0e",
    "APIKeyOfAcme": "Zm9vYmFyYmF6",
    "GITHUB_TOKEN": "ghp_0123456789",
    "PGPASSWORD": "correct-horse-battery",
    "SMTP_PASSWORD": "abcdabcdabcdabcd",
    "GPG_PASSPHRASE": "swordfishes",
    "AUTHTOKEN": "qwertzuiopasdfghjklyxcvbnm",
    "MIXED_TOKEN": "aBcDeFgHiJkLmNoPqR",
    "my-service-credentials": "user:0123456789",
    "REGION_PASSWORD": "eu-central-1",
    "HOME_PASSWORD": "~/tilde-first",
    "SHORT_TOKEN": "hunter123",
    "GROUPS_KEY": "k3x9-2mfp-7qzt-w8ab",
    "PAIRS_KEY": "a1-b2-c3-d4-e5",
    "SHOUTED_KEY": "ABCDE-12345-FGHIJ-67890",
    "NUMBERED_TOKEN": "dev-token-123456",
    "WEBHOOK_SECRET": "https://hooks.example.com/services/T0123ABCD/B0123ABCD/a1B2c3D4e5F6",
    "PIECES_SECRET": "https://hooks.example.com/a1b2c3d/e4f5g6h",
    "ASKED_TOKEN_URL": "https://example.com/feed?token=a1b2c3d4e5f6",
    "LOGIN_TOKEN_URL": "https://me:of-mine@example.com/token",
    "DATABASE_KEY": "postgres://me:of-mine@example.com/shop",
}
LOWER, DIGITS, UPPER = string.ascii_lowercase, string.digits, string.ascii_uppercase
SHAPES = {
    "hex": ("{}", "0123456789abcdef", 32),
    "base64": ("{}", LOWER + UPPER + DIGITS + "+/", 24),
    "base64 of addresses": ("{}", LOWER + UPPER + DIGITS + "-_", 22),
    "small letters and digits": ("{}", LOWER + DIGITS, 24),
    "GitHub": ("ghp_{}", LOWER + UPPER + DIGITS, 36),
    "GitLab": ("glpat-{}", LOWER + UPPER + DIGITS + "-_", 20),
    "Slack": ("xoxb-123456789012-1234567890123-{}", LOWER + UPPER + DIGITS, 24),
    "Amazon": ("AKIA{}", UPPER + DIGITS, 16),
    "OpenAI": ("sk-{}", LOWER + UPPER + DIGITS, 48),
    "generated": ("{}", LOWER + UPPER + DIGITS + "!$%&*?", 16),
}


@pytest.mark.parametrize("name", NO_SECRETS)
def test_what_is_named_or_looks_otherwise_is_no_secret(name: str) -> None:
    assert of_environment({name: NO_SECRETS[name]}) == {}


@pytest.mark.parametrize("value", NONE)
def test_what_says_that_there_is_no_key_is_none_and_is_not_named(value: str) -> None:
    assert of_environment({"OPENAI_API_KEY": value}) == {}


@tool()
def repeat(run: ToolRun, text: str) -> str:
    """Say it again."""
    return text


def test_a_call_with_a_common_word_runs_and_one_with_a_secret_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"PIP_KEYRING_PROVIDER": "subprocess", "ODD_KEY": SECRET, "OTHER_KEY": "sk-0123456789"}
    monkeypatch.setattr(masking, "_masker", Masker(of_environment(environ)))
    result = ToolHarness(repeat, tmp_path).run(text="import subprocess")
    assert (result.ok, result.content) == (True, "import subprocess")
    refused = ToolHarness(repeat, tmp_path).judge(text=f"print({SECRET!r})")
    assert refused.access is Access.DENY
    assert "the value of ODD_KEY, a secret" in refused.reasons[0]
    assert "A person can name a variable whose value is no secret in AGENTOPS_NOT_SECRETS" in refused.reasons[0]


@pytest.mark.parametrize("name", SECRETS)
def test_keys_and_passwords_are_secrets_however_they_are_named(name: str) -> None:
    masker = Masker(of_environment({name: SECRETS[name]}))
    assert masker.weak == []
    assert masker.text(f"it is {SECRETS[name]}.") == f"it is [masked: {name}]."


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_drawn_by_chance_is_a_secret(shape: str) -> None:
    form, letters, length = SHAPES[shape]
    chance = random.Random(shape)
    for value in (form.format("".join(chance.choices(letters, k=length))) for _ in range(500)):
        assert of_environment({"A_KEY": value}), value


def test_passwords_in_addresses_can_be_named_as_well() -> None:
    given = {"REDIS_URL": "redis://:of-mine-0123@host", "EMAIL_URL": "smtp://me:other-0123@host"}
    assert set(of_environment(given)) == {"REDIS_URL_PASSWORD", "EMAIL_URL_PASSWORD"}
    assert set(of_environment(given | {"AGENTOPS_NOT_SECRETS": "REDIS_URL_PASSWORD"})) == {"EMAIL_URL_PASSWORD"}


def test_what_doctor_advises_for_weak_ones_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    masking.learn({"DATABASE_PASSWORD": "postgres"}, configured=True)
    assert "DATABASE_PASSWORD" in masked()[1]
    monkeypatch.setenv("AGENTOPS_NOT_SECRETS", "DATABASE_PASSWORD")
    assert masked()[0] == OK


def test_variables_can_be_named_whose_values_are_none() -> None:
    given = {"SORT_KEY": "created_at.desc", "API_KEY": "0123-4567-89", "AGENTOPS_NOT_SECRETS": "SORT_KEY, OTHER_KEY"}
    assert of_environment(given) == {"API_KEY": "0123-4567-89"}
    assert masking.not_secrets(given) == ["OTHER_KEY", "SORT_KEY"]


def test_what_is_configured_as_a_secret_is_one_and_keys_of_models_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOPS_NOT_SECRETS", "SECRET_KEY,MODEL")
    masking.learn({"SECRET_KEY": "swordfishes"}, configured=True)
    masking.learn({"OLLAMA_API_KEY": "ollama", "MODEL": "sk-0123456789", "OPENAI_API_KEY": "sk-9876543210"})
    assert masking.known().text("swordfishes") == "[masked: SECRET_KEY]"
    assert masking.known().text("ollama sk-0123456789") == "ollama sk-0123456789"
    assert masking.known().text("sk-9876543210") == "[masked: OPENAI_API_KEY]"
    assert masking.known().weak == []


def test_the_sign_is_known_wherever_it_stands() -> None:
    assert signs_in({"a": [{"b": f"x {SIGN}"}]}) == ["ODD_KEY"]
    assert not signs_in({"a": ["masked: ODD_KEY"]})


def test_what_is_nested_without_end_stops_nobody() -> None:
    plain: object = "plain"
    deep: object = SECRET
    for _ in range(20_000):
        plain, deep = [plain], [deep]
    assert masking.known().value(plain) is plain
    masked, levels = masking.known().value(deep), 0
    while isinstance(masked, list):
        masked, levels = masked[0], levels + 1
    assert signs_in(masked)
    assert levels < 100
