// Titles of sections of references, notes, sources and links, in the languages of the largest Wikipedias, in lower case
// and byte order.
#include "data/extract/wiki_text.h"
#include "base/utf8.h"
#include "base/words.h"
#include "data/tokenizer/unicode_category.h"

static const struct word_list titles = WORD_LIST(
    '|', "adabiyotlar|additional reading|aiheesta muualla|allikad|altri progetti|ang mga gi basihan niini|"
         "anmerkungen|anmerkungen und einzelnachweise|anmärkningar|annexes|article connexe|articles connexes|"
         "atsauces|ayrıca bakınız|bacaan lanjut|bacaan lanjutan|bacaan lebih lanjut|bakgrunnsstoff|belege|"
         "bibliografia|bibliografia complementar|bibliografie|bibliografía|bibliografía adicional|"
         "bibliografía y referencias|bibliographia|bibliographie|bibliography|bilješke|bron|bronne|bronnelys|"
         "bronnen|bronnen en noten|bronnen, noten en referenties|bronnen, noten en/of referenties|"
         "bronvermelding|burimet|caliak pulo|catatan|catatan kaki|cathetan suku|chham-chiàu|chham-khó|"
         "chham-oa̍t|chú thích|citations|citations and notes|collegamenti esterni|cyfeiriadau|daftar pustaka|"
         "dipnotlar|dolenni allanol|dış bağlantılar|einzelnachweise|einzelnachweise und anmerkungen|"
         "einzelnachweise und quellen|ek okuma|eksteraj ligiloj|eksterne henvisninger|eksterne lenker|"
         "eksterne lenkjer|eksterne skakels|endnotes|enlace externo|enlaces externos|enllaces esternos|"
         "enllaços externs|erreferentziak|externa länkar|external link|external links|"
         "external links and references|externe link|externe links|externé odkazy|externí odkazy|ffynonellau|"
         "fodnoter|fontes|fonti|fontoj|fonts|footnote|footnotes|források|fotnoter|fuentes|further reading|"
         "fußnoten|general references|ghi chú|gikan sa gawas nga tinubdan|glej tudi|gweler hefyd|"
         "gōa-pō͘ liân-kiat|havolalar|heimildir|henvisninger|hivatkozások|huomautukset|həmçinin bax|"
         "ikus gainera|ikus, gainera|iné projekty|irodalom|istinadlar|izohlar|izvori|išnašos|jegyzetek|"
         "kanpo estekak|kapcsolódó szócikkek|katso myös|kaynaklar|kaynakça|kilder|kilder og referanser|"
         "kilder og referencer|kirjallisuus|kirjallisuutta|kirjandus|kjelder|konuyla ilgili yayınlar|"
         "källförteckning|källor|källor och noter|külső hivatkozások|lectura adicional|lecturas adicionales|"
         "lecturi suplimentare|lectură suplimentară|legături externe|leitura adicional|leituras adicionais|"
         "lidhje të jashtme|lien externe|liens externes|liens internes|ligazóns externas|ligação externa|"
         "ligações externas|lihat juga|lihat pula|linki zewnętrzne|literatur|literatur und einzelnachweise|"
         "literatur und quellen|literatur und weblinks|literatura|literature|literaturo|literatuur|"
         "literatuur en bronnen|literatúra|literatūra|litteratur|liên kết ngoài|llyfryddiaeth|lásd még|"
         "lähteet|lähteet ja viitteet|manbalar|marejeo|megjegyzések|mga kasarigan|mga kawing panlabas|"
         "mga pakisayran|mga sanggunian|mga sumpay ha gawas|mga sumpay sa gawas|mga talababa|märkused|mənbə|"
         "mənbələr|nachweise|napomene|nexus externi|nguồn|nguồn tham khảo|nota|nota kaki|notae|notas|"
         "notas al pie|notas e referências|notas y referencias|note|note bibliografice|note e riferimenti|"
         "note et référence|note și referințe|noten|noter|notes|notes and citations|notes and references|"
         "notes and sources|notes et références|notes et sources|notes i referències|notlar|notoj|"
         "notoj kaj referencoj|nuorodos|odkazy|oharrak|oharrak eta erreferentziak|opombe|other websites|"
         "outros artigos|pastabos|pautan lua|pautan luar|piezīmes|pour approfondir|povezani članci|poznámky|"
         "poznámky a referencie|pozri aj|prameny|pranala|pranala luar|pranala njaba|przypisy|qeydlər|quellen|"
         "quellen und einzelnachweise|quellen und literatur|referansar|referanser|reference|reference list|"
         "referencer|references|references and external links|references and notes|references and sources|"
         "referencias|referencias bibliográficas|referencias y notas|referencie|referencie a poznámky|"
         "referencies|referencoj|referenser|referenser och noter|referensi|referenties|referime|referimet|"
         "referințe|referències|referências|referências bibliográficas|related pages|riferimenti|"
         "riferimenti bibliografici|rujuakan|rujukan|réferènsi|référence|références|références et notes|"
         "se også|se även|see also|shih edhe|shiko edhe|shuningdek qarang|siehe auch|sien ook|sjå også|sjå òg|"
         "skatīt arī|sklici|sklici in opombe|sources|sources and references|sources et références|"
         "související články|spoljašnje veze|sumber|surse|taip pat skaitykite|također pogledajte|tanbihi|"
         "tashqi havolalar|tazama pia|tenglar|tengt efni|tham chiếu|tham khảo|thư mục|tilvísanir|tingnan din|"
         "tingnan rin|további információk|tryckta källor|tài liệu|tài liệu tham khảo|uwagi|vaata ka|"
         "vanjske poveznice|vanjske veze|vanjski linkovi|vegeu també|ver também|ver tamién|verwysings|vezi și|"
         "vidare läsning|vide etiam|vidi još|vidu ankaŭ|viited|viitteet|viitteet ja lähteet|viri|"
         "viungo vya nje|voci correlate|voetnoten|voir aussi|välislingid|véase también|véxase tamén|"
         "web sources|webbkällor|weblink|weblinks|weblinks und literatur|weiterführende literatur|works cited|"
         "xarici keçidlər|xem thêm|yana qarang|zdroje|zie ook|zobacz też|zunanje povezave|ārējās saites|"
         "đọc thêm|šaltiniai|źródła|ədəbiyyat|αναφορές|βιβλιογραφία|δείτε επίσης|διαβάστε επίσης|"
         "εξωτερικοί σύνδεσμοι|παραπομπές|παραπομπές σημειώσεις|περαιτέρω ανάγνωση|πηγές|σημειώσεις|"
         "σημειώσεις και παραπομπές|υποσημειώσεις|бележки|бележки и източници|белешки|библиография|"
         "билгалдахарш|вж. също|види још|вижте също|виноски|внешние ссылки|външни препратки|гл. таксама|"
         "гл. яшчэ|глядзіце таксама|дереккөздер|джерела|джерела та література|див. також|заўвагі|зноскі|"
         "зовнішні посилання|извори|източници|източници и бележки|искәрмәләр|использованная литература|"
         "источники|источники и литература|комментарии|крыніцы|литература|литература и ссылки|літаратура|"
         "література|література та посилання|наводи|надворешни врски|напомене|пайдаланылған әдебиет|поврзано|"
         "посилання|примечания|примечания и источники|примітки|референце|см. также|сноски|спасылкі|"
         "список литературы|спољашње везе|ссылки|сылтамалар|сыртқы сілтемелер|сілтемелер|тағы қараңыз|"
         "хьажоргаш|чыганаклар|шулай ук карагыз|әдебиет|әдәбият|աղբյուրներ|արտաքին հղումներ|գրականություն|"
         "ծանոթագրություններ|հղումներ|տես նաև|ביבליוגרפיה|הערות|הערות שוליים|לקריאה נוספת|מקורות|"
         "קישורים חיצוניים|ראו גם|ارجاعات|استشهادات|اقرأ أيضا|اقرأ أيضًا|المراجع|المصادر|الهوامش|انظر أيضا|"
         "انظر أيضًا|انظر ايضا|برای مطالعه بیشتر|بیرونی روابط|جستارهای وابسته|حوالہ جات|روابط خارجية|شوف كمان|"
         "لينكات برانيه|مراجع|مراجع ومصادر|مزید دیکھیں|مزید دیکھیے|مصادر|مطالعه بیشتر|ملاحظات|منابع|هوامش|"
         "وصلات خارجية|پانویس|پانویس و منابع|پانویس‌ها|پیوند به "
         "بیرون|کتاب‌شناسی|یادداشت‌ها|इन्हें "
         "भी "
         "देखें|"
         "टिप्पणियाँ|टिप्पणी|बाहरी कड़ियाँ|बाहरी कड़ी|बाह्य दुवे|यह भी देखें|संदर्भ|सन्दर्भ|स्रोत|"
         "हे सुद्धा पहा|আরও দেখুন|আরো দেখুন|গ্রন্থপঞ্জি|টীকা|তথ্যসূত্র|বহিঃসংযোগ|இவற்றையும் பார்க்க|உசாத்துணை|"
         "குறிப்புகள்|மேற்கோள்கள்|வெளி இணைப்புகள்|வெளியிணைப்புகள்|ఇవి కూడా చూడండి|బయటి లింకులు|మూలాలు|"
         "వెలుపలి లంకెలు|അവലംബം|ഇതും കാണുക|പുറത്തേക്കുള്ള കണ്ണികൾ|ดูเพิ่ม|บรรณานุกรม|รายการอ้างอิง|หมายเหตุ|"
         "อ้างอิง|เชิงอรรถ|แหล่งข้อมูลอื่น|იხილეთ აგრეთვე|ლიტერატურა|რესურსები ინტერნეტში|სქოლიო|შენიშვნები|"
         "წყაროები|來源|備註|出典|出典・脚注|参照|参看|参考书目|参考文献|参考資料|参考资料|参见|参阅|參看|參考文獻|"
         "參考書目|參考資料|參見|參閱|备注|外部リンク|外部連接|外部連結|"
         "外部链接|延伸閱讀|延伸阅读|引用|扩展阅读|書目|来源|注|注解|注釈|注釈・出典|注释|注釋|相关条目|相关链接|"
         "相關條目|相關連結|脚注|脚注・出典|腳註|註|註解|註釈|註釋|資料來源|"
         "资料来源|関連文献|関連項目|각주|각주 및 참고 문헌|같이 보기|같이보기|외부 링크|외부링크|주석|참고 문헌|참고 "
         "자료|참고문헌|참고자료|출처");

enum { LONGEST_TITLE = 96 };

// Copies the title in lower case, without bold and italic marks, removed parts, and spaces and colons at its end; false
// if it is too long for the list.
static bool normalise(struct wiki_slice title, char out[LONGEST_TITLE + 4]) {
    size_t length = 0;
    for (size_t at = 0, bytes; at < title.length; at += bytes) {
        uint32_t character;
        bytes = utf8_decode((const unsigned char *)title.data + at, title.length - at, &character, NULL);
        bool is_quote = title.data[at] == '\'' && at + 1 < title.length && title.data[at + 1] == '\'';
        bool is_after = title.data[at] == '\'' && at > 0 && title.data[at - 1] == '\'';
        if (is_quote || is_after || title.data[at] == WIKI_DROP)
            continue;
        if (length >= LONGEST_TITLE)
            return false;
        // The dotted capital I of Turkish and Azerbaijani has no single lowercase character elsewhere.
        character = character == 0xA0 ? ' ' : character == 0x130 ? 'i' : unicode_lower(character);
        length += utf8_encode(character, out + length);
    }
    while (length && strchr(" :\t", out[length - 1]))
        length--;
    out[length] = 0;
    return true;
}

bool wiki_is_reference_title(struct wiki_slice title) {
    char text[LONGEST_TITLE + 4];
    if (!normalise(title, text))
        return false;
    const char *begin = text + strspn(text, " \t");
    return word_list_has(&titles, begin, strlen(begin));
}

const struct word_list *wiki_reference_titles(void) {
    return &titles;
}
