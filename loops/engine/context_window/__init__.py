"""The conversation as the model sees it: a fold of the same facts, kept apart from the state (SPEC U1).

``messages`` hold the turns, ``transcript`` is the conversation as a value and the few ways to change it,
``conversation`` says what each kind of fact adds to it, and ``pruning`` makes it shorter when it would no longer fit
the model's window, which ``budget`` knows.
"""
