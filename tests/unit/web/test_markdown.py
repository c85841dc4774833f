"""What a model says, as a page shows it."""

import pytest

from loops.web.markdown import markdown

pytestmark = pytest.mark.spec("Q5", "S1")


def test_letters_that_deceive_are_written_as_code_points_in_what_a_model_says() -> None:
    assert markdown("run **p\u0430ypal**\u202e") == "<p>run <strong>p&lt;U+0430&gt;ypal</strong>&lt;U+202E&gt;</p>\n"
    assert "p\u0430" not in markdown("[here](https://p\u0430ypal.com)\n\n```\np\u0430ypal\n```\n")


def test_sentences_and_emoji_stay() -> None:
    said = "\u042d\u0442\u043e **\u043e\u0441\u0430** \u0438 \u0440\u043e\u0441\u0430 \u26a0\ufe0f non\u2011blocking"
    assert markdown(said) == f"<p>{said.replace('**', '<strong>', 1).replace('**', '</strong>')}</p>\n"
