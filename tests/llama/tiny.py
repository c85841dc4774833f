"""A language model of a few megabytes that says one of a few sentences, whatever it is asked.

Attention and feed-forward weights are zero, so what it says next depends on the latest token alone: its output weights
are a table of what follows what. It has the size in tokens of a real model: words that are common in ``corpus`` are one
token each, everything else is read letter by letter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.llama import gguf

WIDTH, HEADS, WORDS = 64, 4, 900
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
SURE = 40.0
"""Of the logit of what follows; everything else has none worth naming."""
BEGIN = "<|assistant|>"
TEMPLATE = """{%- if tools %}<|system|>
{{ messages[0]['content'] if messages[0]['role'] == 'system' else '' }}
# Tools
You may call a function. Signatures are within <tools></tools>:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
For a call, return a JSON object within <tool_call></tool_call>:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>
{% endif -%}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|user|>
<tool_response>
{{ message.content }}
</tool_response>
{% elif message.role == 'assistant' %}<|assistant|>
{{ message.content or '' }}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}
{% elif message.role == 'user' or not tools %}<|{{ message.role }}|>
{{ message.content }}
{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


def make(path: Path, says: Sequence[Sequence[str]], corpus: str, *, layers: int = 2, trained_for: int = 32_768) -> Path:
    """Write the model. Each of ``says`` is what it may say, in pieces that are one token each; no piece twice."""
    tokens = _vocabulary(corpus)
    pieces = [piece for said in says for piece in said]
    at = {piece: len(tokens) + number for number, piece in enumerate(pieces)}
    tokens += [(piece, -1e4, NORMAL) for piece in pieces]
    begin, end = next(i for i, token in enumerate(tokens) if token[0] == BEGIN), 2
    follows: dict[int, list[int]] = {begin: [at[said[0]] for said in says]}
    for said in says:
        chain = [at[piece] for piece in said] + [end]
        follows |= {before: [after] for before, after in pairwise(chain)}
    gguf.write(path, _metadata(tokens, layers, trained_for), _tensors(len(tokens), layers, follows, end))
    return path


def _vocabulary(corpus: str) -> list[tuple[str, float, int]]:
    """(text, score, type): the word pieces grow letter by letter, so that merging finds them."""
    made: dict[str, tuple[float, int]] = {"<unk>": (0.0, UNKNOWN), "<s>": (0.0, CONTROL), "</s>": (0.0, CONTROL)}
    made |= dict.fromkeys((BEGIN, "<|system|>", "<|user|>"), (0.0, CONTROL))
    made |= {f"<0x{number:02X}>": (0.0, BYTE) for number in range(256)}
    made |= dict.fromkeys(["▁", *map(chr, range(33, 127))], (-1000000.0, NORMAL))
    common = Counter(re.findall(r"[A-Za-z_]+", corpus)).most_common(WORDS)
    for word, _ in common:
        for beginning in (f"\u2581{word}", word):
            for length in range(2, len(beginning) + 1):
                made.setdefault(beginning[:length], (-1000.0 + length, NORMAL))
    return [(text, score, kind) for text, (score, kind) in made.items()]


def _metadata(tokens: Sequence[tuple[str, float, int]], layers: int, trained_for: int) -> dict[str, object]:
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": trained_for,
        "llama.embedding_length": WIDTH,
        "llama.block_count": layers,
        "llama.feed_forward_length": 2 * WIDTH,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [text for text, _, _ in tokens],
        "tokenizer.ggml.scores": [score for _, score, _ in tokens],
        "tokenizer.ggml.token_type": [kind for _, _, kind in tokens],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def _tensors(size: int, layers: int, follows: dict[int, list[int]], end: int) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(7)
    meaning = chance.standard_normal((size, WIDTH)).astype(np.float32)
    meaning /= np.sqrt((meaning**2).mean(axis=1, keepdims=True))
    said = np.zeros((size, WIDTH), dtype=np.float32)
    said[end] = meaning.mean(axis=0)
    for before, after in follows.items():
        for token in after:
            said[token] += SURE / WIDTH * meaning[before]
    ones, none = np.ones(WIDTH, dtype=np.float32), np.zeros((WIDTH, WIDTH), dtype=np.float32)
    tensors = {"token_embd.weight": meaning, "output_norm.weight": ones, "output.weight": said}
    for layer in range(layers):
        name = f"blk.{layer}"
        tensors |= {f"{name}.attn_norm.weight": ones, f"{name}.ffn_norm.weight": ones}
        tensors |= {f"{name}.attn_{part}.weight": none for part in ("q", "k", "v", "output")}
        tensors |= {f"{name}.ffn_{part}.weight": np.zeros((2 * WIDTH, WIDTH), np.float32) for part in ("gate", "up")}
        tensors[f"{name}.ffn_down.weight"] = np.zeros((WIDTH, 2 * WIDTH), np.float32)
    return tensors
