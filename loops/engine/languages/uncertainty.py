"""How an agent says that it is uncertain, in many languages: the first person, the present, nothing stronger.

``confidence.uncertainty`` are patterns; ``supposed`` what stands right before one that is a mere supposition ("if I am not sure"), and
``supposed_after`` right behind it. English has patterns of its own in ``confidence.uncertainty``.
"""

from __future__ import annotations

from dataclasses import dataclass

_A_WORD = r"(?:\w+\s+)?"


@dataclass(frozen=True, slots=True)
class Hedges:
    doubt: str
    supposed: str = ""
    supposed_after: str = ""


DOUBTING = {
    "de": Hedges(
        rf"\bich\s+bin\s+(?:mir\s+)?(?:{_A_WORD}nicht\s+(?:mehr\s+)?(?:ganz\s+|wirklich\s+|völlig\s+|so\s+)?sicher"
        r"|unsicher|ratlos)\b"
        rf"|\bich\s+weiß\s+{_A_WORD}nicht(?:\s+mehr)?,?\s+(?:ob|wie|warum|weshalb|was|wo|welche\w*|weiter)\b"
        r"|\bich\s+(?:habe\s+keine\s+ahnung|stecke\s+fest|komme\s+(?:hier\s+)?nicht\s+weiter|bezweifle|zweifle)\b"
        r"|\bich\s+kann\s+nicht\s+(?:sagen|beurteilen),?\s+ob\b",
        r"(?:wenn|falls|sobald|bevor)",
    ),
    "fr": Hedges(
        rf"\bje\s+ne\s+suis\s+(?:pas|plus)\s+{_A_WORD}(?:sûre?|certaine?)\b|\bj'hésite\b"
        r"|\bje\s+ne\s+sais\s+(?:pas|plus)\s+(?:si|comment|pourquoi|quoi|ce\s+qu|où|quel\w*|lequel|laquelle)"
        r"|\bje\s+suis\s+(?:bloquée?|perdue?|coincée?)\b|\bje\s+n'ai\s+(?:aucune|pas\s+la\s+moindre)\s+idée\b"
        r"|\bje\s+doute\s+(?:que|qu'|de)",
        r"(?:si|quand|lorsque|tant\s+que)",
    ),
    "es": Hedges(
        rf"\bno\s+estoy\s+{_A_WORD}segur[oa]\b|\bno\s+sé\s+(?:si|cómo|por\s+qué|qué|cuál|dónde)\b"
        r"|\bno\s+tengo\s+(?:ni\s+|la\s+menor\s+|ninguna\s+)?idea\b|\bestoy\s+(?:atascad|bloquead|perdid)[oa]\b"
        r"|\bdudo\s+(?:que|de)\b|\bno\s+(?:tengo|me\s+queda)\s+claro\b",
        r"(?:si|cuando|mientras)",
    ),
    "it": Hedges(
        rf"\bnon\s+sono\s+{_A_WORD}(?:sicur[oa]|cert[oa])\b|\bnon\s+so\s+(?:se|come|perché|cosa|quale|dove)\b"
        r"|\bnon\s+ho\s+(?:alcuna\s+|nessuna\s+|la\s+minima\s+)?idea\b"
        r"|\bsono\s+(?:bloccat[oa]|pers[oa])(?=\s*[.,;!:]|\s*$)"
        r"|\bdubito\s+(?:che|di)\b|\bnon\s+mi\s+è\s+chiaro\b",
        r"(?:se|quando|finché)",
    ),
    "pt": Hedges(
        rf"\bnão\s+(?:tenho|estou)\s+{_A_WORD}(?:certeza|cert[oa]|segur[oa])\b"
        r"|\bnão\s+sei\s+(?:se|como|por\s?que|por\s?quê|o\s+que|qual|onde)\b"
        r"|\bnão\s+(?:tenho|faço)\s+(?:a\s+menor\s+|nenhuma\s+)?ideia\b|\bestou\s+(?:travad|pres|perdid|bloquead)[oa]\b"
        r"|\bduvido\s+(?:que|de)\b|\bnão\s+está\s+claro\s+para\s+mim\b",
        r"(?:se|quando|enquanto)",
    ),
    "nl": Hedges(
        r"\bik\s+(?:ben\s+(?:er\s+)?(?:\w+\s+)?(?:niet\s+(?:meer\s+|helemaal\s+|echt\s+)?zeker|onzeker)|twijfel|betwijfel)\b"
        rf"|\bik\s+weet\s+{_A_WORD}niet\s+(?:meer\s+|zeker\s+)?(?:of|hoe|waarom|wat|waar|welke?)\b"
        r"|\bik\s+(?:heb\s+geen\s+idee|zit\s+vast|kom\s+(?:hier\s+)?niet\s+verder)\b",
        r"(?:als|wanneer|indien)",
    ),
    "pl": Hedges(
        rf"\bnie\s+jestem\s+{_A_WORD}(?:pewien|pewna|pewny)\b"
        r"|\bnie\s+wiem,?\s+(?:czy|jak|dlaczego|co|gdzie|któr\w+|skąd)\b"
        r"|\bnie\s+mam\s+pojęcia\b|\b(?:utknąłem|utknęłam)\b|\bwątpię\b|\bmam\s+wątpliwości\b",
        r"(?:jeśli|jeżeli|gdy|kiedy|dopóki)",
    ),
    "ru": Hedges(
        rf"\bя\s+(?:{_A_WORD}не\s+(?:совсем\s+|вполне\s+|до\s+конца\s+)?уверена?|сомневаюсь|застряла?|в\s+тупике"
        r"|затрудняюсь\s+сказать)\b|^\s*не\s+уверена?\b"
        rf"|\bя\s+{_A_WORD}не\s+(?:знаю|понимаю),?\s+(?:как|почему|что|где|куда|какой|какая|какое|какие|правильно\s+ли)\b"
        r"|\bне\s+имею\s+понятия\b|\bпонятия\s+не\s+имею\b",
        r"(?:если|когда|пока)",
    ),
    "zh": Hedges(
        r"我(?:还|還|也|并|並|真的|现在|現在|目前|其实|其實)*不(?:太|是很|能|敢|大|完全)?(?:确定|確定|肯定)"
        r"|我(?:还|還|也|并|並|真的|现在|現在|目前)*不(?:太)?(?:知道|清楚|明白)(?:是|该|該|要|应该|應該)?"
        r"(?:怎么|怎麼|为什么|為什麼|为何|為何|如何|是否|哪|什么|什麼|该|該)"
        r"|我(?:没有?|沒有?)(?:什么|太大)?把握|我(?:被)?卡住了|我(?:完全|毫)?(?:没有?|沒有?|毫无|毫無|无|無)头绪"
        r"|我怀疑|我懷疑",
        r"(?:如果|若|若是|当|當|要是|假如|除非|每当)",
    ),
    "ja": Hedges(
        r"(?:かどうか|のか|べきか)(?:は|が|も)?(?:まだ|よく|正直)?(?:わかりません|分かりません|わからない|分からない|判断できません|不明です)"
        r"|(?:なぜ|どうして|どう|どの|どれ|どこ|何が|何を)[^。\n]{0,30}(?:わかりません|分かりません|わからない|分からない)"
        r"|(?:確信|自信)(?:が|は)(?:まだ|あまり|全く)?(?:持てません|持てない|ありません|ない(?![のと]))"
        r"|行き詰ま(?:って|り)|見当(?:が|も)つきません|途方に暮れ|手詰まり",
        "",
        r"(?:場合|なら|とき|時は|ときは|たら)",
    ),
    "ko": Hedges(
        r"확실하지\s*않(?:습니다|아요|다|네요)|확신(?:이|은)?\s*(?:없습니다|없어요|없다|서지\s*않)"
        r"|확신(?:할\s*수|하지)\s*(?:없습니다|없어요|못합니다|못하겠)"
        r"|(?:인지|는지|을지|할지|어떻게|왜|무엇|어느|어디)[^.\n]{0,20}모르겠(?:습니다|어요|다|네요)"
        r"|잘\s*모르겠(?:습니다|어요|다|네요)"
        r"|(?:제가|저는|나는)[^.\n]{0,10}막혔(?:습니다|어요|다)|자신(?:이)?\s*없(?:습니다|어요|다)|감이\s*잡히지\s*않",
    ),
    "ar": Hedges(
        r"(?:أنا\s+)?لست\s+(?:\w+\s+)?(?:متأكد|واثق)\w*|(?:أنا|إنني|إني)\s+غير\s+(?:متأكد|واثق)\w*"
        r"|لا\s+(?:أعرف|أعلم|أدري)\s+(?:كيف|لماذا|ماذا|هل|أين|أي|إن|إذا|ما)"
        r"|ليس(?:ت)?\s+لدي\s+(?:أي\s+)?فكرة|لا\s+فكرة\s+لدي|أنا\s+عالق\w*|أشك\s+في",
        r"(?:إذا|لو|عندما|إن|إذا\s+كنت)",
    ),
    "hi": Hedges(
        r"मुझे\s+(?:\S+\s+){0,3}(?:यकीन|यक़ीन|विश्वास|पता|मालूम|स्पष्ट)\s+नहीं|मुझे\s+नहीं\s+(?:पता|मालूम)"
        r"|मुझे\s+(?:\S+\s+)?(?:संदेह|शक)\s+है"
        r"|मैं\s+(?:\S+\s+){0,2}(?:निश्चित|सुनिश्चित|आश्वस्त)\s+नहीं|मुझे\s+कोई\s+(?:अंदाज़ा|अंदाजा)\s+नहीं"
        r"|मैं\s+(?:\S+\s+)?(?:फँस|फंस|अटक)\s+गय",
        r"(?:अगर|यदि|जब)",
    ),
    "tr": Hedges(
        r"\bemin\s+değilim\b|\b(?:nasıl|neden|niçin|ne|hangi\w*|nerede|nereye)\b[^.\n]{0,40}\bbilmiyorum\b"
        r"|\b\w{1,20}(?:ıp|ip|up|üp)\s+\w{1,20}(?:mediğini|madığını)\s+bilmiyorum\b|\bhiçbir\s+fikrim\s+yok\b"
        r"|\bfikrim\s+yok\b"
        r"|\btakıld(?:ım|ık)\b|\btıkandım\b|\bşüphem\s+var\b|\bşüpheliyim\b|\bkararsızım\b",
        r"(?:eğer)",
    ),
}
