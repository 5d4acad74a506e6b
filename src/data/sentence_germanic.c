// German, Dutch, Swedish, Danish and Norwegian for the sentence splitter. See sentence_words.h for the lists.
#include "data/sentence_words.h"

const struct sentence_language sentence_german = {
    .names = "german de deu ger",
    .ordinals = true,
    .low_quotes = true,
    .leading = WORD_LIST(
        ' ', "abk allg altgr altgriech bspw bzgl bzw ca d.h dt dän eigtl einschl engl entspr ev evtl exkl fa franz "
             "frn frz geb gegr gen gest ggf ggü griech h.c hebr hl hrn i.a i.d.r inkl insb insbes ital jew kath kgl "
             "lat m.a.w mind mtl nachm niederl norw o.g orig poln port russ röm s.a s.o s.u schwed sog sogen span st "
             "svw türk u.u ung urspr v.a vgl vorm vs wg wörtl z.b z.t z.zt zit zus zw zzgl österr"),
    .titles = WORD_LIST(
        ' ', "abg dipl dir dr fr frl habil hr ing jun jur kard lt mag med mr mrs nat pfr phil pol prof präs rer sen "
             "theol"),
    .before_count =
        WORD_LIST(' ', "abb abs abschn anm art az bd bde fig fn jg kap lfg nr nrn p rdnr rn s sp tab taf tel ziff zl"),
    .inside = WORD_LIST(
        ' ', "apr aufl aug ausg bearb chr dez e.v feb febr ges gmbh hg hrsg jan jh jhd jhdt jhs jul jun mio mrd mär "
             "n.chr nov o.j o.o okt pl red sek sep sept std str u.a.m v.chr verf verl vol zt übers"),
    .closing = WORD_LIST(' ', "dgl etc f ff o.ä p.m u.a u.ä usf usw"),
    .openers = WORD_LIST(
        ' ', "ab aber alle allerdings als am an andere anders auch auf aus außerdem bei beide beim bis bisher da "
             "dabei dadurch dafür daher damals damit danach daneben dann darauf darin darum das dass davon dazu denn "
             "der deren des deshalb dessen deswegen die dies diese dieser dieses doch dort durch ebenso ein eine "
             "einem einen einer eines einige er erst es etwa euer für gegen gleichzeitig hat hatte heute hier hierbei "
             "hinzu ich ihr ihre im immer in indem infolge innerhalb insgesamt ist ja jede jeder jedes jedoch jetzt "
             "kein keine laut man mehr mehrere mein mit nach nachdem neben nein nicht nichts noch nun nur ob obwohl "
             "oder oft ohne schließlich schon sehr sein seine seit seitdem sie sind so sobald sofern solche somit "
             "sowie später statt trotz trotzdem um und unser unter unterdessen viele vielleicht vom von vor wann war "
             "waren warum was wegen weil weiter weitere weiterhin welche wenn wer wie wieder wir wird wo wurde wurden "
             "während zu zudem zuerst zuletzt zum zunächst zur zusammen zwar zwischen über"),
    .endings = "str",
};

const struct sentence_language sentence_dutch = {
    .names = "dutch nl nld dut",
    .leading = WORD_LIST(
        ' ', "bijv bv ca d.m.v d.w.z dhr dr drs ds dwz excl i.c i.p.v i.v.m incl ing inz ir m.a.w m.b.t m.i.v mevr mw "
             "n.a.v o.a o.l.v prof resp t.a.v t.b.v t.g.v t.o.v t.w v.d vgl vlg vs z.g zg zgn"),
    .titles = WORD_LIST(' ', "gen gouv jhr kap kol lt mej mr past pres sgt st wed"),
    .before_count = WORD_LIST(' ', "afb afd art blz fig hfst jrg kol nr nrs p pag par pp r tab tel vol"),
    .inside = WORD_LIST(
        ' ', "afl alg apr aug b.v chr dec dep duits ed feb fr geb gebr gem gr jan jl jul jun mrt n.chr n.v ned nov "
             "okt overl prov sep sept uitg v.chr v.o.f vert"),
    .closing = WORD_LIST(' ', "a.u.b e.a e.d e.v enz etc m.m p.m"),
    .openers = WORD_LIST(
        ' ', "aan achter al alle alleen als andere beide bij binnen bovendien buiten daar daarbij daardoor daarmee "
             "daarna daarnaast daarom daarop dan dat de deze die dit door drie dus echter een eerst elk elke en "
             "enkele er gedurende geen haar had heeft het hier hierdoor hij hoe hoewel hun iedereen ik in indien is "
             "ja je jij later maar mede meer men met mijn na naar naast nadat nee niet nog nu om omdat ondanks onder "
             "ons onze ook op over sinds slechts sommige te tegen tegenwoordig ten terwijl tevens tijdens toch toen "
             "tot tussen twee u uit uiteindelijk van vanaf vandaag vanwege veel vele verder vervolgens volgens voor "
             "vooral voordat vroeger waar waarom wanneer want waren was wat we wegens wel werd wie wij ze zelfs zij "
             "zijn zo zoals zonder"),
    .endings = "str",
};

const struct sentence_language sentence_swedish = {
    .names = "swedish sv swe",
    .leading = WORD_LIST(
        ' ', "bl bl.a ca d.v.s dr dvs ev exkl f.d fd fr.o.m i.o.m inkl jfr jmf kungl m.a.o m.h.a n.b p.g.a pga prof "
             "resp s.k sk t.ex t.o.m vs"),
    .titles = WORD_LIST(' ', "doc frk gen hr ing kapt löjtn mr mrs st övlt"),
    .before_count = WORD_LIST(' ', "art avd bd fig kap kl nr par s sid sidd tab tel vol"),
    .inside = WORD_LIST(
        ' ', "apr aug dec e.kr enl f.kr f.n feb febr forts i.e jan jun kr mar mdr milj mrd nov okt red sep sept tr "
             "uppl utg övers"),
    .closing = WORD_LIST(' ', "dyl etc f ff m.fl m.m mfl mm o.d o.dyl o.s.v osv"),
    .openers = WORD_LIST(
        ' ', "alla allt andra av avslutningsvis bland både de dem den denna deras dess dessa dessutom det detta dock "
             "där därefter därför efter eftersom eller en enligt ett flera från för före först genom hade han hans "
             "har henne hennes hon hur här i idag in inom inte ja jag kan man med medan mellan men min mot många ni "
             "nu nuvarande när några och också om på redan samma samt sedan senare sin sitt sju som strax så till "
             "tillsammans trots två under ur utan vad var varför varje vem vi vid vår är även åren över"),
};

const struct sentence_language sentence_danish = {
    .names = "danish da dan",
    .ordinals = true,
    .leading = WORD_LIST(
        ' ', "bl bl.a ca d.v.s dr dvs ekskl evt f.eks f.x fhv fx hhv iflg inkl jf jvf kgl m.h.t mht p.g.a p.t pga "
             "prof pt resp s.k sct skt sml såk tidl vedr vs"),
    .titles = WORD_LIST(' ', "adj cand fr frk gen hr kapt lekt lic mag mr mrs"),
    .before_count = WORD_LIST(' ', "afd afsn art bd fig kap kl nr par pkt s stk tab tlf vol"),
    .inside =
        WORD_LIST(' ', "apr aug dec e.kr f.kr feb febr jan jun kr mar mia mio mrk nov okt overs red sep sept str udg"),
    .closing = WORD_LIST(' ', "etc f ff m.fl m.m m.v mfl mm mv o.a o.l o.lign o.s.v osv"),
    .openers = WORD_LIST(
        ' ', "af alle allerede alt andre at blandt både da de dem den denne dens der deraf derefter deres derfor "
             "derimod derudover desuden det dets dette disse dog du efter efterfølgende eller en endelig er et flere "
             "for fordi fra før først gennem ham han hans har havde hele hendes her hun hvad hvem hver hvis hvor "
             "hvordan hvorfor i ifølge ikke imidlertid ind ja jeg kun man mange med mellem men mens min mod nej nogle "
             "nu når og også om omkring op over på samme samt selv selvom senere siden sin som så således til trods "
             "ud uden under var ved vi vores"),
};

const struct sentence_language sentence_norwegian = {
    .names = "norwegian nb no nn nor nob nno",
    .ordinals = true,
    .leading = WORD_LIST(
        ' ', "bl.a ca d.v.s dr dvs ekskl evt f.eks f.o.m hhv iflg inkl jf jfr kgl m.a.o m.h.t mht opr p.g.a p.t pga "
             "prof pt resp s.k såk t.o.m tidl vedr vs"),
    .titles = WORD_LIST(' ', "adj cand fr frk gen hr kapt lekt lic mag mr mrs st"),
    .before_count = WORD_LIST(' ', "art avd bd fig kap kl nr par pkt s tab tlf vol"),
    .inside =
        WORD_LIST(' ', "apr aug des e.kr eng f.kr feb febr jan jun kr mar mill mrd nov okt overs red sep sept str utg"),
    .closing = WORD_LIST(' ', "etc f ff m.fl m.m m.v mfl mm mv o.a o.l o.s.v osv"),
    .openers = WORD_LIST(
        ' ', "alle allerede alt andre at av blant både da de dem den denne der deres deretter derfor dersom dessuten "
             "det dette disse du eller en er et etter etterpå fem flere for fordi fra før først gjennom hadde ham han "
             "hans har hele hennes her hun hva hvem hver hvis hvor hvordan hvorfor i ifølge ikke imidlertid inn ja "
             "jeg kun likevel man mange med mellom men mens min mot mye nei noen nå når og også om omkring opp over "
             "på samme samt selv senere siden sin slik som så til tross under ut uten var ved vi vår"),
};
