"""Ways to say "stop" in many languages (SPEC D1): whole messages, in parts.

A message is a wish when it is ``before``* ``wish`` ``after``*, and nothing else. No word before it may turn it round:
"no" stands there only where it does not mean "do not". ``asks`` are wishes in the form of a question. ``needs_more`` are
wishes that alone may well answer something ("that is enough", or "para", which is money in Turkish): they need an
exclamation mark or the word for please, which is the first in ``before`` and in ``after``. English has a grammar of its
own in ``people.stop_phrases``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tongue:
    """Alternatives, parted by "|", in lower case and without signs."""

    before: str
    wish: str
    after: str
    asks: str
    needs_more: str = ""
    close: bool = False
    """Its words are not parted by spaces, or not always in the same way."""


TONGUES = {
    "de": Tongue(
        before="bitte|ok|okay|hey|hallo|also|so|nein|jetzt|sofort|genug|warte|moment|gut",
        wish="stop|stopp|stoppe|stoppen|halt|halt an|halte an|anhalten|hör auf|hör damit auf|hör bitte auf|aufhören"
        "|abbrechen|brich ab|brich es ab|brich das ab|brich bitte ab|brich den lauf ab|brich die aufgabe ab|abbruch"
        "|stoppe das|stoppe alles|stopp alles|stoppe den lauf|stoppe die aufgabe|beende den lauf|beende die aufgabe"
        "|beende das|den lauf beenden|den lauf abbrechen|die aufgabe abbrechen|schluss|schluss damit|schluss jetzt"
        "|mach schluss|lass es|lass es sein|lass gut sein|mach nicht weiter|mach bitte nicht weiter|nicht weitermachen"
        "|nicht mehr weitermachen|es reicht|das reicht|es ist genug|das genügt|du kannst aufhören"
        "|du kannst jetzt aufhören"
        "|ich möchte dass du aufhörst|ich will dass du aufhörst|hören sie auf|hören sie bitte auf|hören sie bitte sofort auf|hören sie sofort auf|halten sie an"
        "|brich die aufgabe bitte ab|brich den lauf bitte ab",
        after="bitte|jetzt|sofort|hier|danke|erstmal|erst mal|vorerst|für heute|gleich|auf der stelle|damit",
        asks="kannst du aufhören|kannst du bitte aufhören|kannst du stoppen|kannst du bitte stoppen|kannst du anhalten"
        "|kannst du bitte anhalten|kannst du jetzt aufhören|kannst du jetzt bitte aufhören"
        "|kannst du jetzt bitte anhalten|kannst du jetzt anhalten|könntest du aufhören"
        "|könntest du bitte aufhören|könnten sie bitte aufhören|kannst du abbrechen|kannst du bitte abbrechen",
        needs_more="halt|schluss|abbruch|es reicht|das reicht|das genügt|es ist genug|lass es|lass gut sein|beende das",
    ),
    "fr": Tongue(
        before="s'il te plaît|s'il vous plaît|stp|svp|ok|bon|non|allez|maintenant|attends|attendez|hé|merci",
        wish="stop|arrête|arrêtez|arrêter|arrête-toi|arrêtez-vous|arrête toi|arrêtez vous|arrête tout|arrêtez tout"
        "|arrête ça|arrêtez ça|arrête cela|arrête la tâche|arrêtez la tâche|arrête cette tâche|arrête l'exécution"
        "|arrête de travailler|interromps|interromps la tâche|interromps l'exécution|interrompez l'exécution"
        "|annule la tâche|annulez la tâche|annule tout|ça suffit|cela suffit|c'est assez|ça suffit comme ça"
        "|ne continue pas|ne continuez pas|ne continue plus|tu peux arrêter|tu peux t'arrêter|vous pouvez arrêter"
        "|je veux que tu arrêtes|je voudrais que tu arrêtes|j'aimerais que tu t'arrêtes|je veux que tu t'arrêtes",
        after="s'il te plaît|s'il vous plaît|stp|svp|maintenant|tout de suite|immédiatement|ici|là|merci"
        "|pour aujourd'hui"
        "|pour l'instant",
        needs_more="ça suffit|cela suffit|c'est assez|ça suffit comme ça|arrêter|interromps",
        asks="peux-tu arrêter|peux-tu t'arrêter|peux tu arrêter|tu peux arrêter|tu peux t'arrêter|pouvez-vous arrêter"
        "|pouvez-vous vous arrêter|pourrais-tu arrêter|pourrais-tu t'arrêter|pourriez-vous arrêter",
    ),
    "es": Tongue(
        before="por favor|vale|ok|bueno|ya|ahora|basta|espera|oye|gracias",
        wish="para|pare|parar|detente|deténgase|detenerse|detén todo|detén eso|detén esto|detén la tarea"
        "|detén esta tarea"
        "|detén la ejecución|para todo|para ya|para la tarea|para la ejecución|párate|basta|basta ya|ya basta"
        "|cancela la tarea|cancela esta tarea|cancela todo|cancelar la tarea|interrumpe la tarea|interrumpe"
        "|deja de trabajar|déjalo|no sigas|no continúes|no sigas más|es suficiente|ya es suficiente|puedes parar"
        "|ya puedes parar|quiero que pares|quiero que te detengas|stop",
        after="por favor|ya|ahora|ahora mismo|aquí|inmediatamente|de inmediato|gracias|por hoy|por ahora",
        asks="puedes parar|puedes parar ya|podrías parar|puede parar|podría parar|puedes detenerte|podrías detenerte"
        "|puede detenerse",
        needs_more="para|pare|parar|interrumpe|basta|es suficiente|ya es suficiente|déjalo",
    ),
    "it": Tongue(
        before="per favore|ok|va bene|adesso|ora|basta|aspetta|grazie",
        wish="fermati|fermatevi|si fermi|ferma|ferma tutto|ferma il lavoro|ferma l'esecuzione|ferma il compito"
        "|ferma l'attività|fermare|smetti|smettila|smetta|smetti di lavorare|interrompi|interrompi tutto"
        "|interrompi il lavoro|interrompi l'esecuzione|interrompi il compito|interrompi l'attività|annulla il compito"
        "|annulla l'attività|annulla tutto|basta|basta così|basta ora|non continuare|non andare avanti|non proseguire"
        "|puoi fermarti|puoi smettere|voglio che ti fermi|vorrei che ti fermassi|stop|alt",
        after="per favore|adesso|ora|subito|qui|immediatamente|grazie|per oggi|per ora",
        asks="puoi fermarti|puoi fermarti ora|potresti fermarti|può fermarsi|puoi smettere|potresti smettere",
        needs_more="alt|ferma|fermare|interrompi|basta|basta così",
    ),
    "pt": Tongue(
        before="por favor|ok|agora|chega|espera|espere|obrigado|obrigada|tá",
        wish="para|pare|pára|parar|pare tudo|para tudo|pare com isso|para com isso|pare a tarefa|pare esta tarefa"
        "|pare a execução|para a execução|interrompa|interrompa a tarefa|interrompa a execução|interrompe a tarefa"
        "|cancele a tarefa|cancela a tarefa|cancele tudo|pare de trabalhar|chega|já chega|basta|já basta|não continue"
        "|não continues|não prossiga|pode parar|podes parar|já pode parar|quero que pare|quero que pares"
        "|quero que você pare|stop",
        after="por favor|agora|agora mesmo|já|aqui|imediatamente|obrigado|obrigada|por hoje|por enquanto",
        asks="pode parar|podes parar|pode parar agora|poderia parar|podias parar|você pode parar|você poderia parar"
        "|consegues parar",
        needs_more="para|pare|pára|parar|interrompa|chega|já chega|basta|já basta",
    ),
    "nl": Tongue(
        before="alsjeblieft|alstublieft|aub|ok|oké|nee|nu|genoeg|wacht|hé",
        wish="stop|stoppen|stop ermee|stop daarmee|stop maar|stop alles|stop de taak|stop deze taak|stop de run"
        "|stop met werken|hou op|houd op|hou nu op|ophouden|hou ermee op|hou daarmee op|breek af|breek het af"
        "|breek de taak af"
        "|afbreken|annuleer de taak|beëindig de taak|zo is het genoeg|het is genoeg|dat is genoeg|ga niet verder"
        "|ga niet door|niet verder gaan|je kunt stoppen|je mag stoppen|ik wil dat je stopt|ik wil dat je ophoudt",
        after="alsjeblieft|alstublieft|aub|nu|meteen|hier|direct|onmiddellijk|bedankt|dank je|voor vandaag|voorlopig",
        asks="kun je stoppen|kun je alsjeblieft stoppen|kan je stoppen|kunt u stoppen|zou je kunnen stoppen"
        "|wil je stoppen"
        "|wil je alsjeblieft stoppen|kun je nu stoppen|kun je ophouden",
        needs_more="zo is het genoeg|het is genoeg|dat is genoeg",
    ),
    "pl": Tongue(
        before="proszę|ok|dobra|dobrze|teraz|dość|czekaj|hej",
        wish="stop|stój|zatrzymaj się|proszę się zatrzymać|zatrzymaj|zatrzymaj to|zatrzymaj wszystko|zatrzymaj zadanie"
        "|zatrzymaj to zadanie|przestań|przestań pracować|przerwij|przerwij to|przerwij zadanie|przerwij pracę"
        "|proszę przestać|proszę przerwać|anuluj zadanie|zakończ zadanie|koniec|wystarczy|nie kontynuuj|nie idź dalej"
        "|możesz przestać|możesz już przestać|chcę żebyś przestał|chcę żebyś się zatrzymał",
        after="proszę|teraz|natychmiast|tutaj|już|dziękuję|dzięki|na dziś|na razie|od razu",
        asks="możesz przestać|czy możesz przestać|możesz się zatrzymać|czy możesz się zatrzymać|czy mógłbyś przestać"
        "|czy mógłbyś się zatrzymać|możesz przerwać|czy możesz przerwać",
        needs_more="koniec|wystarczy|zatrzymaj|przerwij",
    ),
    "ru": Tongue(
        before="пожалуйста|ладно|ок|хорошо|нет|сейчас|хватит|так|всё|все|подожди|эй",
        wish="стоп|стой|стойте|остановись|остановитесь|останови|останови это|останови всё|останови все|останови задачу"
        "|останови эту задачу|останови выполнение|остановите задачу|остановить|остановить задачу|прекрати|прекратите"
        "|прекрати это|прекрати работу|прекрати работать|прерви|прерви задачу|прерви работу|отмени задачу|хватит"
        "|довольно|не продолжай|не продолжайте|не надо продолжать|дальше не надо|можешь остановиться"
        "|можешь заканчивать|хочу чтобы ты остановился|я хочу чтобы ты остановился",
        after="пожалуйста|сейчас|сейчас же|немедленно|сразу|тут|здесь|спасибо|на сегодня|пока|уже",
        asks="можешь остановиться|ты можешь остановиться|можете остановиться|не мог бы ты остановиться"
        "|не могли бы вы остановиться|можешь прекратить|мог бы ты остановиться",
        needs_more="довольно|хватит|останови|прерви|остановить|дальше не надо",
    ),
    "zh": Tongue(
        before="请|請|麻烦|麻煩|拜托|好的|好了|好|行了|现在|現在|等等|那就|你|立即|立刻|马上|馬上|先|就|够了|夠了|快",
        wish="停|停止|停下|停下来|停下來|停一下|停手|住手|停止吧|别做了|別做了|不要做了|别继续了|別繼續了|不要继续|不要繼續"
        "|不要继续了|不要再继续了|别再继续了|停止运行|停止執行|停止执行|停止任务|停止任務|停止工作|停止这个任务|停止這個任務"
        "|停止一切|取消任务|取消任務|取消这个任务|中止|中止任务|中止任務|终止|終止|终止任务|终止运行|结束任务|結束任務|结束运行"
        "|到此为止|到此為止|就到这里|就到这里吧|到这里吧|够了|夠了|你可以停了|可以停了|我要你停下来|我想让你停下来",
        after="谢谢|吧|了|謝謝|现在|現在|立即|立刻|马上|馬上|一下|啊|今天|工作",
        asks="你能停下吗|你能停下来吗|你可以停下来吗|你可以停止吗|你能停止吗|能停下来吗|能停一下吗|可以停下来吗|可以停止吗"
        "|可以停一下吗|能不能停下来|可不可以停下来|能停下來嗎|可以停止嗎|你能停一下吗|请你停下来好吗|停下来好吗|停止好吗",
        needs_more="停|停止|够了|夠了|中止|终止|終止|到此为止|到此為止",
        close=True,
    ),
    "ja": Tongue(
        before="すみません|すいません|お願いです|お願いします|どうか|もう|今すぐ|すぐに|直ちに|ただちに|はい|いいえ|いや|ちょっと|ここで"
        "|では|じゃあ|今|いったん|一旦|待って",
        wish="止めて|やめて|とめて|止まって|とまって|停止|停止して|ストップ|ストップして|中止|中止して|中断|中断して|やめろ|止まれ"
        "|作業を止めて|作業をやめて|作業を中止して|作業を中断して|作業を停止して|タスクを止めて|タスクを停止して|タスクを中止して"
        "|タスクを中断して|タスクをキャンセルして|実行を止めて|実行を停止して|実行を中止して|全部止めて|終わりにして|続けないで|続行しないで"
        "|もういいです|止めてほしい|やめてほしい",
        after="ください|下さい|くれ|ね|よ|です|お願いします|ありがとう|ありがとうございます|今すぐ|すぐに|ここで|今",
        asks="止めてくれますか|止めてもらえますか|止めていただけますか|止めてもらえませんか|止めていただけませんか|やめてくれますか"
        "|やめてもらえますか|やめていただけますか|やめてもらえませんか|停止してもらえますか|停止してくれますか|停止していただけますか"
        "|中止してもらえますか|中断してもらえますか|止まってもらえますか|止まってくれますか",
        needs_more="停止|中止|中断|もういいです|ストップ",
        close=True,
    ),
    "ko": Tongue(
        before="제발|좀|이제|지금|당장|아니|아니요|네|잠깐|여기서|즉시|바로|그만|그냥",
        wish="멈춰|멈춰라|멈추세요|멈춰줘|멈춰주세요|멈춰요|그만|그만해|그만해요|그만하세요|그만해줘|그만해주세요|그만둬|그만두세요"
        "|중지|중지해|중지해줘|중지하세요|중지해주세요|중단|중단해|중단해줘|중단하세요|중단해주세요|정지|정지해|스톱|작업멈춰"
        "|작업을멈춰|작업을멈춰줘|작업을멈춰주세요|작업중단|작업을중단해|작업을중단해줘|작업을중단해주세요|작업을중지해줘"
        "|작업을중지해주세요|실행중지|실행을중지해줘|실행을중지해주세요|계속하지마|계속하지마세요|더이상하지마|더이상하지마세요"
        "|그만해도돼|그만하면돼|멈췄으면좋겠어",
        after="요|제발|지금|당장|여기서|바로|감사합니다|고마워|고마워요",
        asks="멈춰줄래|멈춰줄래요|멈춰줄수있어|멈춰줄수있어요|멈춰줄수있나요|멈춰주시겠어요|멈춰주실래요|그만해줄래|그만해주시겠어요"
        "|그만해줄수있어|중단해줄래|중단해주시겠어요|중단해줄수있나요|중지해주시겠어요",
        needs_more="중지|중단|정지|그만",
        close=True,
    ),
    "ar": Tongue(
        before="من فضلك|رجاء|لو سمحت|حسنا|الان|طيب|كفى|ارجوك|انتظر",
        wish="توقف|توقفي|توقفوا|قف|اوقف المهمة|اوقف هذه المهمة|اوقف التشغيل|اوقف التنفيذ|اوقف العمل|اوقف كل شيء"
        "|اوقف هذا"
        "|اوقف ذلك|توقف عن العمل|توقف عن ذلك|الغ المهمة|الغي المهمة|انه المهمة|كفى|يكفي|هذا يكفي|لا تكمل|لا تستمر"
        "|لا تواصل"
        "|يمكنك التوقف|اريدك ان تتوقف|اريد منك ان تتوقف",
        after="من فضلك|رجاء|الان|فورا|حالا|هنا|شكرا|لو سمحت|لليوم",
        asks="هل يمكنك التوقف|هل يمكنك ان تتوقف|هل تستطيع التوقف|ممكن تتوقف|ايمكنك التوقف",
        needs_more="يكفي|هذا يكفي|كفى|قف",
    ),
    "hi": Tongue(
        before="कृपया|प्लीज|प्लीज़|ठीक है|अच्छा|अब|अभी|बस|रुको|सुनो",
        wish="रुको|रुक जाओ|रुकिए|रुकें|रुक जाइए|रुक जाएँ|रुक जाएं|रोको|रोक दो|रोकिए|रोक दीजिए|रोकें|इसे रोको"
        "|इसे रोक दो|इसे रोकें"
        "|इसे रोक दीजिए|काम रोको|काम रोक दो|काम रोकिए|काम बंद करो|काम बंद कर दो|कार्य रोकें|कार्य रोक दो|कार्य रोक दें"
        "|यह काम रोक दो|सब कुछ रोक दो|बंद करो|बंद कर दो|बंद करें|बस करो|बस कीजिए|स्टॉप|आगे मत बढ़ो|जारी मत रखो"
        "|और मत करो"
        "|आप रुक सकते हैं|मैं चाहता हूँ कि आप रुकें|मैं चाहता हूँ कि तुम रुको",
        after="कृपया|अभी|अब|तुरंत|यहीं|यहाँ|धन्यवाद|शुक्रिया|प्लीज|प्लीज़|आज के लिए",
        asks="क्या आप रुक सकते हैं|क्या आप अब रुक सकते हैं|क्या तुम रुक सकते हो|क्या आप इसे रोक सकते हैं|क्या तुम इसे रोक सकते हो",
        needs_more="रोकें|बंद करें|बंद करो|रोको|रोकिए",
    ),
    "tr": Tongue(
        before="lütfen|tamam|peki|hayır|şimdi|hemen|artık|yeter|bekle|hey",
        wish="dur|durun|dur artık|durdur|durdurun|bunu durdur|bunu durdurun|her şeyi durdur|görevi durdur"
        "|görevi hemen durdur|bu görevi durdur"
        "|görevi durdurun|çalışmayı durdur|çalışmayı bırak|işi bırak|işi durdur|bırak|bırak artık|görevi iptal et"
        "|görevi sonlandır|devam etme|devam etmeyin|daha fazla devam etme|yeter|yeter artık|bu kadar yeter|durabilirsin"
        "|artık durabilirsin|durmanı istiyorum|stop",
        after="lütfen|şimdi|hemen|burada|artık|teşekkürler|teşekkür ederim|sağ ol|bugünlük|şimdilik|derhal",
        asks="durabilir misin|durur musun|durabilir misiniz|lütfen durabilir misin|lütfen durur musun"
        "|şimdi durabilir misin"
        "|durdurabilir misin|bunu durdurabilir misin",
        needs_more="durdur|bırak|yeter|yeter artık|bu kadar yeter|dur",
    ),
}
