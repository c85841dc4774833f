"""Words of many languages, as tables: one signal among others, and never the only one where much depends on it.

Whatever can be told without knowing a language is told so (``segments``, structure, results). A language that is not in
a table loses this one signal and nothing else. LANGUAGES are those that every table has.
"""

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "zh", "ja", "ko", "ar", "hi", "tr")
