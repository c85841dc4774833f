"""Every way a provider fails, as one kind of error: what happened, and whether to ask again (SPEC E1, E6)."""

import asyncio
import email.utils
import json
import time
from dataclasses import replace

import pytest

from loops.engine.failures.classify import classify
from loops.engine.ports import ModelError
from loops.engine.state.failure import Failure, Source
from loops.engine.values import FailureKind
from loops.llm.config import Provider
from loops.llm.registry import build_adapter
from tests.wire.client import answer, ask, config, failure, left_by_its_client, request
from tests.wire.say import Ending, Raw, Say, Seen, Wire, anthropic_events, anthropic_sse
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("E1", "E6")

TRANSIENT, SYSTEMATIC, HOPELESS = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC, FailureKind.UNRECOVERABLE
BOTH: tuple[Provider, ...] = ("anthropic", "openai")


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request_error", SYSTEMATIC),
        (401, "authentication_error", HOPELESS),
        (402, "billing_error", HOPELESS),
        (403, "permission_error", HOPELESS),
        (404, "not_found_error", HOPELESS),
        (408, "timeout_error", TRANSIENT),
        (409, "conflict_error", TRANSIENT),
        (413, "request_too_large", SYSTEMATIC),
        (422, "invalid_request_error", SYSTEMATIC),
        (429, "rate_limit_error", TRANSIENT),
        (429, "insufficient_quota", HOPELESS),
        (500, "api_error", TRANSIENT),
        (503, "api_error", TRANSIENT),
        (504, "timeout_error", TRANSIENT),
        (529, "overloaded_error", TRANSIENT),
    ],
)
def test_status_and_code_decide_the_kind(provider: Provider, status: int, code: str, kind: FailureKind) -> None:
    error = failure(lambda seen: Raw.error(status, code, "Told you"), provider)
    assert (error.status, error.code, error.kind) == (status, code, kind)
    assert "Told you" in error.message
    assert error.retry_after_s is None


@pytest.mark.parametrize("provider", BOTH)
def test_the_sdk_asks_only_once(provider: Provider) -> None:
    with WireServer(lambda seen: Raw.error(529, "overloaded_error")) as server:
        with pytest.raises(Exception, match="529"):
            ask(config(server, provider))
        assert len(server.seen) == 1


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-4"}, None),
        ({}, None),
    ],
)
def test_the_wish_to_wait_is_passed_on(provider: Provider, headers: dict[str, str], seconds: float | None) -> None:
    error = failure(lambda seen: Raw.error(429, "rate_limit_error", "Slow down", **headers), provider)
    assert (error.kind, error.retry_after_s) == (TRANSIENT, seconds)


def test_a_date_to_wait_for_becomes_seconds() -> None:
    date = email.utils.formatdate(time.time() + 3600, usegmt=True)
    error = failure(lambda seen: Raw.error(429, "rate_limit_error", "Slow down", retry_after=date))
    assert error.retry_after_s == pytest.approx(3600, abs=120)


def test_a_wish_to_wait_on_a_good_answer_is_no_error() -> None:
    def good(seen: Seen) -> Raw:
        body = "".join(anthropic_sse(anthropic_events(Say(text="Hi"), seen)))
        return Raw(200, {"content-type": "text/event-stream", "retry-after": "30"}, body, stream=True)

    assert answer(good).text == "Hi"


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(
    ("status", "should", "kind"),
    [(400, "true", TRANSIENT), (500, "false", SYSTEMATIC), (429, "false", HOPELESS), (401, "true", HOPELESS)],
)
def test_the_provider_may_say_whether_to_retry(provider: Provider, status: int, should: str, kind: FailureKind) -> None:
    error = failure(lambda seen: Raw.error(status, "", "Hm", x_should_retry=should), provider)
    assert (error.kind, error.code) == (kind, f"http_{status}")


@pytest.mark.parametrize("provider", BOTH)
def test_an_html_page_is_told_in_a_line(provider: Provider) -> None:
    page = "<html><head><title>502 Bad\n Gateway</title></head><body>" + "x" * 5000 + "</body></html>"
    error = failure(lambda seen: Raw(502, {"content-type": "text/html"}, page), provider)
    assert (error.kind, error.code) == (TRANSIENT, "http_502")
    assert error.message == "HTTP 502: an HTML page: 502 Bad Gateway"


@pytest.mark.parametrize("provider", BOTH)
def test_a_web_page_instead_of_an_answer_is_no_answer(provider: Provider) -> None:
    error = failure(lambda seen: Raw(200, {"content-type": "text/html"}, "<html>log in</html>"), provider)
    assert (error.kind, error.code) == (SYSTEMATIC, "not_an_api")


CHALLENGES = [
    "<title>Just a moment...</title>",
    "<title>x</title><script>window._cf_chl_opt={}; src='/cdn-cgi/cf-chl/1'</script>",
    "<h1>Checking your browser before accessing</h1>",
    "<noscript>Enable JavaScript and cookies to continue</noscript>",
    "<title>Attention Required! | Cloudflare</title>",
]


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize("status", [200, 403, 503])
@pytest.mark.parametrize("words", CHALLENGES)
def test_a_page_that_wants_a_browser_may_let_the_next_one_pass(provider: Provider, status: int, words: str) -> None:
    html = f"<!DOCTYPE html><HTML>{words}{'x' * 5000}</HTML>"
    error = failure(lambda seen: Raw(status, {"content-type": "text/html; charset=UTF-8"}, html), provider)
    assert (error.kind, error.code) == (TRANSIENT, "challenge_page")


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(("status", "code"), [(200, "not_an_api"), (403, "http_403")])
@pytest.mark.parametrize("words", ["<title>Log in</title>", "<title>Just a moment of your time</title>", "Forbidden"])
def test_any_other_page_stays_what_it_was(provider: Provider, status: int, code: str, words: str) -> None:
    error = failure(lambda seen: Raw(status, {"content-type": "text/html"}, f"<html>{words}</html>"), provider)
    assert (error.kind is TRANSIENT, error.code) == (False, code)


def test_what_an_error_quotes_is_no_page() -> None:
    error = failure(lambda seen: Raw.error(403, "permission_error", "no tool named 'Just a moment...'"))
    assert (error.kind, error.code) == (HOPELESS, "permission_error")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", TRANSIENT),
        ("api_error", TRANSIENT),
        ("rate_limit_error", TRANSIENT),
        ("invalid_request_error", SYSTEMATIC),
        ("authentication_error", HOPELESS),
        ("new_error", TRANSIENT),
    ],
)
def test_an_error_in_the_middle_of_the_stream(code: str, kind: FailureKind) -> None:
    event = f'event: error\ndata: {{"type": "error", "error": {{"type": "{code}", "message": "Sorry"}}}}\n\n'
    said = Say(text="Long, long ago there was", wire=Wire(insert={3: event}))
    error = failure(lambda seen: said)
    assert (error.code, error.kind, error.message) == (code, kind, "Sorry")


def test_an_error_in_the_middle_of_an_openai_stream() -> None:
    event = 'data: {"error": {"type": "server_error", "code": "server_is_overloaded", "message": "Sorry"}}\n\n'
    error = failure(lambda seen: Say(text="Long ago", wire=Wire(insert={2: event})), "openai")
    assert (error.code, error.kind, error.message) == ("server_is_overloaded", TRANSIENT, "Sorry")


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(("then", "codes"), [("reset", {"connection_reset"}), ("cut", {"connection_cut"})])
def test_a_connection_that_breaks_in_the_stream(provider: Provider, then: Ending, codes: set[str]) -> None:
    error = failure(lambda seen: Say(text="Long, long ago", wire=Wire(events=3, then=then)), provider)
    assert (error.kind, error.code in codes) == (TRANSIENT, True), error.code


@pytest.mark.parametrize("provider", BOTH)
def test_silence_ends_at_the_configured_time(provider: Provider) -> None:
    stalls = Say(text="Long", wire=Wire(events=2, then="stall"))
    failure(lambda seen: stalls, provider, timeout=0.3)  # the first pays for imports
    began = time.monotonic()
    error = failure(lambda seen: stalls, provider, timeout=0.3)
    assert (error.kind, error.code) == (TRANSIENT, "timeout")
    assert time.monotonic() - began < 30, "long before any other time there is"


@pytest.mark.parametrize("provider", BOTH)
def test_nobody_listening(provider: Provider) -> None:
    with WireServer(lambda seen: Say()) as server:
        gone = config(server, provider)
    with pytest.raises(ModelError, match="ConnectError") as caught:
        ask(gone)
    assert (caught.value.kind, caught.value.code) == (TRANSIENT, "connection_failed")


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize("url", ["ftp://localhost/", "nonsense"])
def test_an_address_that_can_never_work(provider: Provider, url: str) -> None:

    with WireServer(lambda seen: Say()) as server:
        wrong = replace(config(server, provider), base_url=url)
    with pytest.raises(ModelError) as caught:
        ask(wrong)
    assert (caught.value.kind, caught.value.code) == (HOPELESS, "bad_base_url")


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(
    "body",
    [
        "",
        "data: nothing\n\n",
        "event: message_start\ndata: {broken\n\n",
        'event: message_start\ndata: {"type": "message_start"}\n\n',
        'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, "content_block": 7}\n\n',
        "data: [1, 2]\n\n",
        'data: {"choices": [{"index": 0, "delta": 7}]}\n\n',
        'data: {"choices": 7}\n\n',
    ],
)
def test_a_senseless_stream_is_worth_another_try(provider: Provider, body: str) -> None:
    error = failure(lambda seen: Raw.sse(body), provider)
    assert error.kind is TRANSIENT
    assert error.code in ("empty_stream", "bad_stream")


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_bytes_that_are_no_text(provider: Provider, kind: str) -> None:
    body = b'event: message_start\ndata: {"type": "\xff\xfe"}\n\n'
    error = failure(lambda seen: Raw(200, {"content-type": kind}, body, stream=True), provider)
    assert (error.kind, error.code) == (TRANSIENT, "bad_stream")


@pytest.mark.parametrize("provider", BOTH)
def test_a_key_that_cannot_be_sent(provider: Provider) -> None:
    with WireServer(lambda seen: Say(text="in"), key="right") as server:
        assert ask(config(server, provider, api_key=" right\n")).text == "in"
        for key in ("two\nlines", "clé"):
            with pytest.raises(ModelError, match="no key has"):
                ask(config(server, provider, api_key=key))


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize(
    "message",
    ["prompt is too long: 210000 tokens > 200000 maximum", "This model's maximum context length is 8192 tokens"],
)
def test_too_long_a_prompt_has_its_own_code(provider: Provider, message: str) -> None:
    error = failure(lambda seen: Raw.error(400, "invalid_request_error", message), provider)
    assert (error.kind, error.code) == (SYSTEMATIC, "prompt_too_long")


def test_no_money_left_is_hopeless_whatever_the_status() -> None:
    error = failure(lambda seen: Raw.error(400, "invalid_request_error", "Your credit balance is too low"))
    assert (error.kind, error.code) == (HOPELESS, "insufficient_quota")


QUOTA = "You exceeded your current quota, please check your plan and billing details: https://x.test/rate-limits."
SOON = "\n* Quota exceeded for metric: x.test/free_tier_requests, limit: {limit}, model: m\nPlease retry in 32.5s."


def gemini(message: str, *quotas: str) -> Raw:
    """The list that Gemini answers with, the ids of its quotas in the details."""
    details = [{"@type": "google.rpc.QuotaFailure", "violations": [{"quotaId": quota} for quota in quotas]}]
    error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}
    return Raw(429, {"content-type": "application/json"}, json.dumps([{"error": error}]))


def sorted_as(error: ModelError) -> FailureKind:
    """By the rules of the run, which see nothing but the error."""
    text, code, status = error.message, error.code, error.status
    return classify(Failure(Source.MODEL, text, code=code, status=status, known=error.kind)).kind


@pytest.mark.parametrize(
    ("message", "seconds"),
    [(QUOTA + SOON.format(limit=10), 32.5), (QUOTA, None), (f"{QUOTA} {'x ' * 400}", None)],
    ids=["with a time", "without", "long"],
)
def test_a_quota_of_a_minute_is_a_rate(message: str, seconds: float | None) -> None:
    """Else the run ends at its first request, before a person who has nothing to pay."""
    error = failure(lambda seen: gemini(message, "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), "openai")
    assert (error.kind, error.code, error.retry_after_s) == (TRANSIENT, "rate_limit_error", seconds)
    assert sorted_as(error) is TRANSIENT


@pytest.mark.parametrize(
    "said",
    [
        gemini(QUOTA + SOON.format(limit=10), "GenerateRequestsPerMinutePerModel", "GenerateRequestsPerDayPerModel"),
        gemini(QUOTA + SOON.format(limit=0), "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
        gemini(QUOTA),
        Raw.error(429, "insufficient_quota", QUOTA),
        Raw.error(429, "insufficient_quota", f"{QUOTA} Please retry in 3s."),
    ],
)
def test_a_quota_that_is_not_there_again_in_a_minute_is_final(said: Raw) -> None:
    error = failure(lambda seen: said, "openai")
    assert (error.kind, error.code) == (HOPELESS, "insufficient_quota")
    assert sorted_as(error) is HOPELESS


@pytest.mark.spec("S3")
@pytest.mark.parametrize("provider", BOTH)
def test_the_key_is_never_told(provider: Provider) -> None:
    error = failure(lambda seen: Raw.error(401, "invalid_api_key", "Incorrect API key: secret-key-1"), provider)
    assert "secret-key-1" not in f"{error} {error.message}"
    with WireServer(lambda seen: Say()) as server:
        assert "secret-key-1" not in repr(config(server))


def test_a_wrong_key_is_refused() -> None:
    with WireServer(lambda seen: Say(text="in"), key="right") as server:
        with pytest.raises(Exception, match="401"):
            ask(config(server))
        assert ask(config(server, api_key="right")).text == "in"


def test_cancelling_before_the_first_byte_closes_the_connection() -> None:

    async def cancelled(server: WireServer) -> None:
        adapter = build_adapter(config(server, timeout=600))
        task = asyncio.create_task(adapter.call(request(), lambda event: None))
        while not server.seen:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left_by_its_client(server)
        await adapter.close()

    with WireServer(lambda seen: Raw.sse("", wire=Wire(then="stall"))) as server:
        asyncio.run(cancelled(server))


IN_STREAM = [
    ('{"error": {"code": 400, "message": "bad grammar", "type": "invalid_request_error"}}', 400, SYSTEMATIC),
    ('{"error": {"code": 400, "message": "bad grammar"}}', 400, SYSTEMATIC),
    ('{"error": {"code": "400", "message": "bad grammar", "type": "BadRequestError"}}', 400, SYSTEMATIC),
    ('{"error": {"code": 400, "message": "bad grammar", "status": "INVALID_ARGUMENT"}}', 400, SYSTEMATIC),
    ('{"error": {"message": "bad grammar", "type": "BadRequestError"}}', 200, SYSTEMATIC),
    ('{"error": {"code": 401, "message": "bad grammar"}}', 401, HOPELESS),
    ('{"error": {"code": 429, "message": "bad grammar"}}', 429, TRANSIENT),
    ('{"error": {"code": 503, "message": "bad grammar", "type": "unavailable_error"}}', 503, TRANSIENT),
    ('{"error": {"message": "bad grammar"}}', 200, TRANSIENT),
]


@pytest.mark.parametrize(("event", "status", "kind"), IN_STREAM)
def test_what_an_error_in_the_stream_says_wins_over_the_http_status(event: str, status: int, kind: FailureKind) -> None:
    error = failure(lambda seen: Say(text="Long ago", wire=Wire(insert={2: f"data: {event}\n\n"})), "openai")
    assert (error.status, error.kind) == (status, kind)
    assert "bad grammar" in error.message


@pytest.mark.parametrize("status", [200, 400, 404, 422, 500])
@pytest.mark.parametrize(
    "message",
    [
        "The model `gpt-9` does not exist or you do not have access to it.",
        "model 'llama9' not found",
        "gpt-9 is not a valid model ID",
        "Invalid model: mistral-nine",
        "No models loaded. Please load a model in the developer page.",
    ],
)
def test_an_unknown_model_is_configuration_at_any_status(status: int, message: str) -> None:
    event = f'data: {{"error": {{"message": {json.dumps(message)}}}}}\n\n'
    said = Raw.error(status, "", message) if status != 200 else Raw.sse(event)
    error = failure(lambda seen: said, "openai")
    assert (error.code, error.kind) == ("model_not_found", HOPELESS)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"detail": "Not enough memory"}, "Not enough memory"),
        ({"detail": [{"loc": ["body", "tools"], "msg": "tools are off"}]}, "tools are off"),
        ({"error": "out of memory"}, "out of memory"),
        ({"message": "tools need --jinja", "type": "BadRequestError"}, "tools need --jinja"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"No seats"}}',
          "provider_name": "Acme"}}}, "Provider returned error; Acme: No seats"),
    ],
)  # fmt: skip
def test_the_words_of_the_provider_are_passed_on(body: dict[str, object], told: str) -> None:
    said = Raw(400, {"content-type": "application/json"}, json.dumps(body))
    assert failure(lambda seen: said, "openai").message == f"HTTP 400: {told}"


def test_a_rate_is_no_unknown_model() -> None:
    error = failure(lambda seen: Raw.error(429, "rate_limit", "model m not found in your rate plan"), "openai")
    assert error.kind is TRANSIENT


RATES = ["You have exceeded the rate limit: 5 requests per minute", "Too Many Requests", "Request was throttled"]


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("message", RATES)
def test_a_rate_is_a_rate_whatever_status_it_has(provider: Provider, status: int, message: str) -> None:
    """Else the run ends at its first request, for a limit that is over in a minute."""
    error = failure(lambda seen: Raw.error(status, "permission_error", message, retry_after="9"), provider)
    assert (error.kind, error.code, error.status) == (TRANSIENT, "rate_limit_error", status)
    assert error.retry_after_s == 9


@pytest.mark.parametrize("provider", BOTH)
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("message", ["Your key may not use this model", "Request not allowed", "moderate rates apply"])
def test_a_plain_refusal_stays_final(provider: Provider, status: int, message: str) -> None:
    error = failure(lambda seen: Raw.error(status, "permission_error", message), provider)
    assert (error.kind, error.code) == (HOPELESS, "permission_error")


@pytest.mark.parametrize("provider", BOTH)
def test_silence_before_an_answer_is_another_one_than_within_it(provider: Provider) -> None:
    def late(seen: Seen) -> Say:
        time.sleep(6)
        return Say(text="Late", wire=Wire(chunk=2**20))  # in one piece, so that no pause within it is as long

    assert answer(late, provider, timeout=4.0, first_byte=60.0).text == "Late"
    stalls = Say(text="L", wire=Wire(events=2, then="stall"))
    error = failure(lambda seen: stalls, provider, timeout=0.3, first_byte=60.0)
    assert (error.code, error.message) == ("timeout", "no byte for 0.3 s")
