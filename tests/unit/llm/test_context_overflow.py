"""Errors of real servers about a request that is too long, and the sizes in them."""

import pytest

from loops.llm.context_overflow import is_too_long, sizes
from loops.llm.transport_errors import http_failure

pytestmark = pytest.mark.spec("E6", "U1")

SAID = [
    ("request (9212 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 9212),
    ("the request exceeds the available context size, try increasing it", 0, 0),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130123 tokens. "
        "Please reduce the length of the messages.",
        128000,
        130123,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 254457 tokens (253433 in the "
        "messages, 1024 in the completion). Please reduce the length of the messages or completion.",
        8192,
        253433,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 "
        "tokens and your request has 2900 input tokens (8192 > 4096 - 2900).",
        4096,
        2900,
    ),
    (
        "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your "
        "prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.",
        128000,
        62466,
    ),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096, 5000),
    ("prompt is too long: 214315 tokens > 200000 maximum", 200000, 214315),
    (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        200000,
        190000,
    ),
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32768,
        40000,
    ),
    (
        "Trying to keep the first 9103 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        4096,
        9103,
    ),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
        4096,
        5000,
    ),
    ("input length exceeds the context length", 0, 0),
    ("the input length exceeds the model's maximum context length (4096)", 4096, 0),
    (
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 33000 tokens (20000 of "
        "text input, 12000 of tool input, 1000 in the output).",
        32768,
        33000,
    ),
    ("Requested tokens (5123) exceed context window of 2048", 2048, 5123),
    ("Input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).", 1048576, 1200000),
]


@pytest.mark.parametrize(("message", "window", "counted"), SAID)
def test_the_sizes_of_an_error_are_read(message: str, window: int, counted: int) -> None:
    assert is_too_long(message)
    assert sizes({"error": {"message": message}}, message) == (window, counted)


def test_fields_come_before_words() -> None:
    body = {"error": {"code": 400, "message": "too much", "type": "exceed_context_size_error"}}
    body["error"] |= {"n_prompt_tokens": 9212, "n_ctx": 4096}
    error = http_failure(400, body, {})
    assert (error.code, error.window, error.counted) == ("prompt_too_long", 4096, 9212)


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached for requests of 4096 tokens",
        "You exceeded your current quota",
        "max_tokens must be at least 1",
        "The context could not be loaded",
    ],
)
def test_other_errors_are_not_about_length(message: str) -> None:
    assert not is_too_long(message)
