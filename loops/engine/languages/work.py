"""Words for work in many languages, by what they mean: one signal of complexity among those that know no language.

Each is the beginning of a word, with "$" a whole one, or any part of a text in scripts that do not part their words.
A meaning counts once, in whatever words and languages it is said. LARGE are changes that reach everywhere, MAKING kinds
of work.
"""

LARGE = {
    "refactor": "refactor|refaktor|refator|rifattor|restructur|reestructur|reestrutur|umstrukturier|ristruttur"
    "|herstructur"
    "|przebudow|zrefaktor|рефактор|перестро|重构|重構|リファクタ|리팩터|리팩토|إعادة هيكل|أعد هيكل|पुनर्गठ|रीफ़ैक्टर|रीफैक्टर"
    "|yeniden yapılandır|yeniden düzenle",
    "rewrite": "rewrit|umschreib|neu schreib|neuschreib|réécri|reescrib|reescrit|reescrev|riscriv|riscritt|herschrij"
    "|przepis|перепис|переписа|重写|重寫|改写|改寫|書き直|書き換え|다시 작성|재작성|다시 써|إعادة كتابة|أعد كتابة|फिर से लिख"
    "|पुनः लिख|दोबारा लिख|yeniden yaz|baştan yaz",
    "migrate": "migrat|migrier|migre|migrar|migraç|migruj|migrow|migracj|zmigruj|мигр|перенес|перевед|迁移|遷移|移行|마이그레이션"
    "|이전하|이관|ترحيل|انقل|رحّل|माइग्रेट|माइग्रेशन|स्थानांतरित|taşı|geçir",
    "redesign": "redesign|umgestalt|neu gestalt|reconce|refon|rediseñ|riprogett|redesenh|reprojet|herontwerp"
    "|przeprojekt"
    "|перепроект|重新设计|重新設計|再設計|재설계|إعادة تصميم|أعد تصميم|पुनः डिज़ाइन|नया डिज़ाइन|yeniden tasarla",
    "architecture": "architect|architekt|architett|arquitet|arquitect|архитект|架构|架構|アーキテクチャ|아키텍처|معماري|هندسة النظام"
    "|आर्किटेक्चर|mimari",
    "integrate": "integr|intégr|intègr|einbind|zintegr|интегр|集成|整合|統合|통합|دمج|ادمج|تكامل|एकीकृत|एकीकर|entegr",
    "whole": "entire|every$|everything$|whole$|gesamt|sämtlich|jede[rnms]?$|entier|entièr|tout le|toute la|tous les"
    "|toutes les|chaque$|todo el|toda la|todos los|todas las|cada$|enter[oa]$|todo o|toda a|todos os|todas as|inteir"
    "|tutt[oiae]$|ogni$|inter[oa]$|volledige|hele$|elke$|wszystki|każd|cał[aeyąo]$|cały$|весь$|вся$|всю$|кажд|целиком"
    "|整个|整個|每个|每個|每一|全体|전체|كل$|جميع|بأكمله|بأكملها|पूरे$|पूरी$|पूरा$|हर$|tüm$|bütün|her bir|her şey",
    "from_scratch": "from scratch|von grund auf|von null|de zéro|à partir de zéro|desde cero|da zero|do zero"
    "|vanaf nul|od zera"
    "|с нуля|从零|從零|从头|從頭|ゼロから|一から|처음부터|من الصفر|शुरू से|शून्य से|sıfırdan",
    "end_to_end": "end-to-end|end to end|ende-zu-ende|de bout en bout|de extremo a extremo|de ponta a ponta|сквозн|端到端"
    "|エンドツーエンド|엔드투엔드|엔드 투 엔드|من البداية إلى النهاية|एंड-टू-एंड|uçtan uca",
    "port": "port it|port the|port this|port our|port all|port every|portier",
}

MAKING = {
    "build": "implement|build|create$|creates$|creating$|erstell|entwick|baue?n?$|implément|construi|construy|cré"
    "|développ|desarroll|crea$|crear|crie$|criar"
    "|desenvolv|costrui|svilupp|bouw|maak$|ontwikk|zbuduj|stwórz|utwórz|zaimplement|napisz|реализ|созда|разработ"
    "|построй"
    "|实现|實現|创建|創建|構建|构建|开发|開發|建立|作成|実装|構築|開発|구현|만들|개발|구축|생성|أنشئ|إنشاء|بناء|نفذ|نفّذ|طوّر|طور"
    "|बनाए|बनाओ|बनाइए|बनाना|विकसित|लागू|oluştur|geliştir|uygula|inşa",
    "add": "adds?$|adding$|füg|ergänz|hinzu|ajout|añad|agreg|aggiung|adicion|acrescent|voeg|toevoeg|dodaj|добав|添加"
    "|增加|加入|新增|追加|추가"
    "|أضف|إضافة|जोड़|ekle",
    "fix": "fix$|fixes$|fixing$|repair|debug|beheb|reparier|korrigier|corrig|corrij|corregg|corrett|répar|arregl"
    "|repar|ripar|conserta|herstel"
    "|repareer|verhelp|napraw|popraw|исправ|почини|修复|修復|修正|修理|直して|수정|고쳐|고치|أصلح|إصلاح|صحّح|صحح|ठीक कर|सुधार"
    "|düzelt|onar|gider",
    "optimise": "optimi|optimíz|otimi|ottimizz|optymaliz|zoptymaliz|оптимиз|优化|優化|最適化|최적화|حسّن|حسن|تحسين|अनुकूलित"
    "|ऑप्टिमाइ|iyileştir",
    "test": "test|prüf|prueba|проверь|тест|протест|测试|測試|テスト|테스트|시험|اختبار|اختبر|परीक्षण|टेस्ट|sına",
    "document": "document|dokument|udokument|документ|задокумент|文档|文檔|記録|记录|ドキュメント|文書化|문서|وثّق|وثق|توثيق"
    "|दस्तावेज|दस्तावेज़|belge",
    "deploy": "deploy|bereitstell|stelle bereit|ausroll|déploi|despleg|despliegu|desplieg|distribui|implanta|wdroż"
    "|wdraż"
    "|uitrol|rol uit|разверн|развёр|部署|デプロイ|배포|انشر|نشر|तैनात|डिप्लॉय|dağıt|yayınla|yayına al",
    "investigate": "investig|untersuch|analy[sz]|analiz|analis|indag|onderzoek|zbadaj|przeanaliz|исследу|проанализ"
    "|выясни|调查"
    "|調査|調查|分析|조사|분석|حقق|حلل|حلّل|تحليل|जाँच|जांच|विश्लेषण|araştır|incele",
    "compare": "compar|vergleich|vergelijk|porówn|сравн|比较|比較|비교|قارن|مقارنة|तुलना|karşılaştır|confront",
}

IN_SEQUENCE = (
    "then|after that|afterwards|finally|next|dann|danach|anschließend|zum schluss|abschließend|puis|ensuite|enfin|luego"
    "|después|finalmente|por último|poi|infine|quindi|depois|em seguida|por fim|vervolgens|daarna|ten slotte|potem"
    "|następnie|na koniec|затем|потом|наконец|после этого|然后|然後|接着|最后|最後|之后|之後|その後|それから|次に|最後に|그런 다음|그다음"
    "|그 후|마지막으로|ثم|بعد ذلك|أخيرا|وأخيرا|फिर|उसके बाद|इसके बाद|अंत में|sonra|ardından|son olarak"
)
