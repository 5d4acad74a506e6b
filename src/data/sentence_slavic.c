// Polish, Czech, Slovene, Russian and other languages in Cyrillic for the sentence splitter. See sentence_words.h for
// the lists.
#include "data/sentence_words.h"

const struct sentence_language sentence_polish = {
    .names = "polish pl pol",
    .ordinals = true,
    .low_quotes = true,
    .leading = WORD_LIST(
        ' ', "abp al ang arab bp cyt czes dr ds dyr fr gen gr hab hiszp im inf inż jw kard ks lit m.in max mgr niem "
             "np ob ok oryg os p.o pl pos pow prof przyp pseud pt pw ros rum szw tj tur tzn tzw tłum ukr ul vs wg woj "
             "ww węg wł zob zw łac św żyd"),
    .titles = WORD_LIST(' ', "ad adw kmdr kpt mec mjr o pil por ppor ppłk prok płk red sen sierż wiceadm"),
    .before_count =
        WORD_LIST(' ', "art cz fig godz kol lp nr par pkt por poz rozdz rys s str t tab tel tir tom ust vol w z zał"),
    .inside = WORD_LIST(
        ' ', "dol e gm in jr kc mies min mld mln n n.e oprac p.n.e pn pp r red rp sek sp szt tys ub ur wyd wys zał zm "
             "zł"),
    .closing = WORD_LIST(' ', "etc itd itp"),
    .openers = WORD_LIST(
        ' ', "a aby albo ale ani bardzo bez bo bowiem był była było były chociaż choć ci co czasem cztery czy czyli "
             "dawniej dla dlaczego dlatego do dopiero drugi drugie dzisiaj dzięki dziś gdy gdyby gdzie i ich ile inne "
             "inni ja jak jako je jednak jednakże jednocześnie jednym jego jej jest jeszcze jeśli jeżeli już każda "
             "każdy kiedy kto która które który lecz lub ma mają mimo między mnie mogą może można my na nad nadal "
             "nasz nasza nawet nic nie niektóre niektórzy niestety nigdy no o obecnie obie obok od on ona one oni ono "
             "oprócz oraz pan pani pierwsze pierwszy po początkowo pod podczas podobnie ponadto ponieważ poprzez "
             "potem powstał poza przed przede przez przy później raz razem również sam się skoro spośród stąd swój są "
             "ta tak taka taki takie tam tamte te tego tej ten teraz też to trzeba trzy tu tutaj ty tylko tym "
             "tymczasem u w we według wiele wielu więc wkrótce wobec wraz wreszcie wszyscy wszystkie wszystko wtedy "
             "wy z za zaraz zatem zaś ze zgodnie został została zostało zwykle że"),
};

const struct sentence_language sentence_czech = {
    .names = "czech cs ces cze",
    .ordinals = true,
    .low_quotes = true,
    .leading = WORD_LIST(
        ' ', "angl arab ca cca doc dř fr fř hl ing it j judr kol lat m.j max maď mgr mj mudr např nizoz něm op orig "
             "ozn phdr pol popř port pozn prof příp resp rndr rus sl srov srv sv t.j t.zv tj tzn tzv ukr ul v.r vs vč "
             "zejm zkr zv zvl řec šp"),
    .titles = WORD_LIST(' ', "arch bc dipl dr gen kpt mjr nadpor nám p phd plk por pplk rtg"),
    .before_count = WORD_LIST(' ', "bod díl fig kap obr odd odst par příl roč s st str tab tel tř ust č čl čís"),
    .inside = WORD_LIST(
        ' ', "a.s apl ed hod jr kr kč l mil min mld n n.l nakl naroz náb o.p.s odd př přel r red rev s.r.o sek sest "
             "spol st stol str tis tř vyd zn ú"),
    .closing = WORD_LIST(' ', "aj ap apod atd etc"),
    .openers = WORD_LIST(
        ' ', "a aby ale ani avšak ačkoli ačkoliv ať až bez bohužel brzy byl byla byli bylo byly během celkem co což "
             "dnes dnešní do dokud druhá druhý dva dále díky dříve i jak jakmile jako je jeden jeho jejich její jen "
             "jenom jestli jestliže ještě ji jiná jiné jiní jsem jsou já k kam kde kdo kdy kdyby když ke kromě která "
             "které který kvůli mají mezi mnoho mnozí mohou my má můj může na nad nakonec naopak ne nebo neboť "
             "nejprve největší není nic nicméně nikdy nyní náš někdy některé někteří o oba obě od odtud okolo on ona "
             "oni ono pak po pod podle pokud potom poté pouze později pro proto protože proč první před přes přestože "
             "při přitom roku s se si snad spolu stejně svůj sám ta tady tak takový také tam tato te tedy tehdy ten "
             "tento teprve to toho totiž toto tu ty tyto též tím tři u už v vaše ve vedle velmi vlastně vy však "
             "všechno všechny všichni z za zatím zatímco zde ze že"),
};

const struct sentence_language sentence_slovene = {
    .names = "slovene slovenian sl slv",
    .ordinals = true,
    .low_quotes = true,
    .leading = WORD_LIST(
        ' ', "akad ang angl avstr bl doc dr fr hrv inž it ital izr lat madž mag n.pr nem npr ok oz prib prim prof rus "
             "sl sp srb sv t.i t.j tj tzv ul vs"),
    .titles = WORD_LIST(' ', "dipl g ga gdč gen gosp kap lic mgr por pr spec univ"),
    .before_count = WORD_LIST(' ', "fig gl id kap odst pog pogl s str tab tel tipkop tč zv čl št"),
    .inside = WORD_LIST(
        ' ', "apr avg b cca d.o.o dec feb jan jul jun kr l mar mio mrd n n.št nov okt p pr prev s s.p sep st stol tis "
             "uredil zal zv"),
    .closing = WORD_LIST(' ', "etc idr ipd itd itn"),
    .openers = WORD_LIST(
        ' ', "a ako ali ampak bil bila bile bili bilo bo brez da danes do dokler druga drugi dva dve eden en ena ga "
             "glede gre h in ista iz ja jaz je jih k kadar kaj kako kakor kar kasneje kdaj kdo ker kje kljub ko "
             "koliko kot lahko le leta med medtem mi mnoge mnogi moj morda na nad naj najprej nato naš ne nekaj "
             "nekatere nekateri ni nihče nikoli niso njegov njegova njen njena njihov ob oba od odkar on ona oni ono "
             "oziroma pa pod podobno poleg ponovno potem povsod pozneje prav pred preden predvsem pri prva prvi prvo "
             "s saj sam samo se sedaj si sicer skozi skupaj smo so sta sva ta tak tako takrat tam te tega temu ter ti "
             "tisti to toda tri tu tudi u v vendar ves več vi vsak vsaka vse vsi z za zakaj zaradi zatem zato zdaj če "
             "čeprav še šele že"),
};

const struct sentence_language sentence_russian = {
    .names = "russian ru rus ukrainian uk ukr bulgarian bg bul belarusian be macedonian mk",
    .low_quotes = true,
    .leading = WORD_LIST(
        ' ', "акад англ араб болг бул бульв вул ген гр грец греч доц им исп ит итал канд кап лат латин лейт наб напр "
             "нем ок пер подполк польск пос прибл прим просп проф разг рос рус санскр св серж сокр соотв ср т.е т.зв "
             "т.к т.н т.наз тов укр ул устар фр франц чеш шв яп япон імені"),
    .titles = WORD_LIST(' ', "инж маг о полк"),
    .before_count = WORD_LIST(
        ' ', "абз вып гл ил илл кн кор л лист н ном оп п подп пп прил пункт разд рис с сб соч ст стб стр т табл тел "
             "тт фиг ч чл"),
    .inside = WORD_LIST(
        ' ', "авг апр барр бл в в.д в.н вв г гг гл.обр д дек дер до.н.э долл доп др.рус е ед ж з изд июл июн к кв коп "
             "л.с лит м мин млн млрд мн н.ст н.э нар нач некот нояб о об обл обр оз окт опубл отв п.л пгт пл пр р "
             "р.н.э ред респ руб с.ш сев сек сент см соавт сост ст ст.ст тыс уп ур урожд факс февр х хут ч чел ш шт э "
             "экз юж янв і"),
    .closing = WORD_LIST(' ', "др и.т.д и.т.п проч т.д т.п ін"),
    .openers = WORD_LIST(
        ' ', "а або аз ако але бе без безусловно беше благодаря более большая больше большинство был была были было в "
             "ваш вдруг ведь весь вместе вместо во возможно вона вони воно вообще вот впервые впрочем все всего всех "
             "вся всё всі вторая второй вы від він где да даже далее дальше два две де для днес до довольно докато "
             "другая другие другой его ее ему если есть еще ещё её ж за затем зато зачем здесь и из изначально или им "
             "именно иначе иногда их й к каждая каждое каждый как какая какие каким какой кем ко когато когда кого "
             "коли конечно кроме кто куда къде към лишь лучше между мне многие много мой моя мы між на над назад "
             "накануне наконец например напротив нас наш не него некоторые нельзя несколько несмотря нет ни ние "
             "никогда никто ничего но новая новый ныне ні о об обычно один одна однажды однако около он она они оно "
             "ось от отсюда очень первая первое первый перед по под подобные пожалуй позднее позже пока помимо "
             "поначалу потом потому потім похоже почему почти поэтому правда практически прежде при про проте против "
             "пізніше раз ранее раньше с сам самое самый свой се сега сегодня сейчас сколько следует следующий "
             "сначала снова со современный совсем согласно сразу сред среди став стал сьогодні та тази так така такая "
             "таке также такие таким такой там те тези тем тепер теперь ти тих то това тогда тоже този той только том "
             "тот три тут ты тя у уже хотя хто це цей ці часто через чия чому что чтобы що щоб эта эти это этого этой "
             "этом этому этот я як який якщо є із"),
};
