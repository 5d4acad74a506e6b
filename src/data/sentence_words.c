// The word lists of the sentence splitter's languages, and the lookup of words in them. See sentence.h for
// the lists.
#include "data/sentence.h"

#include "base/utf8.h"
#include "data/tokenizer/unicode_category.h"
#include <string.h>

enum { LONGEST_WORD = 24 };

const struct sentence_language sentence_english = {
    .names = "english en eng",
    .leading = WORD_LIST(' ', "approx ca cf e.g eg i.e ie v viz vs"),
    .titles = WORD_LIST(
        ' ', "adm atty brig capt cmdr col comdr cpl dr drs fr gen gov hon insp lt maj messrs mlle mme mr mrs ms msgr "
             "mt pfc pres prof profs pvt rep reps rev sen sens sgt st ste supt treas"),
    .before_count = WORD_LIST(
        ' ', "app art arts bd c ch chap chs cl eq eqs ex fig figs fol gal ll n no nos nr op p par para pl pp pt pts "
             "sec sect ser tab vol vols"),
    .inside = WORD_LIST(
        ' ', "a.d a.k.a acad aka al ala apr ariz assn assoc aug ave b.a b.c b.sc bldg blvd bros calif cent cie circ "
             "co colo conn corp ct d.c dec dept dist div ed eds esq est et ext feb fla fri ft ga gmbh gov't govt hrs "
             "hwy ibid inc incl ind inst int'l intl jan jr jul jun kan ky lb lbs ltd m.a m.d m.sc mar mass max md mfg "
             "mich minn misc mont mts n.b nat'l natl neb nev nov oct okla oz pa penn ph.d phd pref prov pub publ rd "
             "ref repr resp sept soc sr stat suppl tel tenn tex thurs trans transl tues u.k u.n u.s u.s.a univ va vt "
             "wed wis wyo"),
    .closing = WORD_LIST(' ', "&c a.m am etc p.m pm"),
    .openers = WORD_LIST(
        ' ', "a according after again all along also although among an and another any are as at because before both "
             "but by can could despite did do does during each either even every few finally first for from had has "
             "have he hence her here his how however i if in indeed instead is it its later many meanwhile more "
             "moreover most my neither nevertheless no nor not now of on once one only or other others our over "
             "perhaps several she since so some soon still such that the their then there therefore these they this "
             "those though through thus to today two under unlike until upon was we were what when where whether "
             "which while who why will with within without would yes yet you your"),
};

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

const struct sentence_language sentence_french = {
    .names = "french fr fra fre",
    .spaced_quotes = true,
    .leading = WORD_LIST(
        ' ', "adj all angl approx apr av c.-à-d cf dr ds env esp ex fl gr gén id ital lat littér mgr mlle mme mmes "
             "mod p.ex qqch qqn resp réf spéc vs"),
    .titles = WORD_LIST(' ', "cap cdt col drs gal lt m me mlles mm mr pr prof sgt st ste sts"),
    .before_count =
        WORD_LIST(' ', "al art arts ch chap col fasc fig fol liv n no nos num p par pl pp sect sér t tab tél v vol"),
    .inside = WORD_LIST(
        ' ', "ann avr bibl boul bull cie co coll coord dir déc dép fév févr hab ibid ill imp inc janv juil ltd max "
             "min nov obs oct op prov publ reprod rééd sept sté suppl tir trad univ éd éds"),
    .closing = WORD_LIST(' ', "a.m etc p.m sq sqq"),
    .openers = WORD_LIST(
        ' ', "a afin ainsi alors alternativement après au aucun aucune aujourd auparavant aussi autour autre autres "
             "aux avant avec beaucoup bien c car ce ceci cela celle celles celui cependant certaines certains ces cet "
             "cette ceux chacun chaque chez ci comme comment contrairement contre d dans de depuis des deux donc du "
             "durant dès effectivement elle elles en encore enfin ensuite entre est et finalement grace grâce hier "
             "hors ici il ils j jamais je jusqu l la le les leur leurs lors lorsqu lorsque lui ma mais malgré "
             "malheureusement mes mon même n ne ni non nos notre nous néanmoins on or ou oui outre où par parce "
             "parfois parmi pendant peu plus plusieurs pour pourquoi pourtant puis puisque qu quand quant que quel "
             "quelle quelles quelques quels qui s sa sans sauf se selon ses seul seule seuls si sinon six soit son "
             "sous suite sur surtout t ta tandis tant tel telle tous tout toute toutefois toutes trois très tu un une "
             "vers voici voilà vos votre vous y à ça également étant"),
};

const struct sentence_language sentence_spanish = {
    .names = "spanish es spa",
    .leading =
        WORD_LIST(' ', "aprox cf dr dra ej fr lic máx mín p.ej prof sr sra sres srta ud uds v.gr vd vds vgr vid vs"),
    .titles = WORD_LIST(
        ' ', "arq br cap card cmdte cnel col comod d da dn dras dres dña excma excmo gral hna hno ilma ilmo ing insp "
             "lcda lcdo mag mons mr mrs ntra pbro pdte profa rep rvdo sgto sras srtas st sta sto tte"),
    .before_count = WORD_LIST(
        ' ', "art arts c cap caps col cols doc exp fasc fig figs fol lib n no nro nros núm núms p pp pág págs párr "
             "sec secc t tel tels tfno tít v vol vols"),
    .inside = WORD_LIST(
        ' ', "a.c abr adj admón ago apdo av avd avda bco c.v co coord cía d.c dcha dep depto dic dir dpto e.c ed edit "
             "eds ee ee.uu ene feb gob hab ibíd inc izq izqda jr jul jun ltd ltda min nov núm oct pal pl prov pza s.a "
             "s.l sep sept soc ss tel tn trad univ uu var íd"),
    .closing = WORD_LIST(' ', "a.m etc p.m"),
    .openers = WORD_LIST(
        ' ', "a actualmente además ahora al algo algunas algunos allí ambos ante antes apenas aquel aquella aquellos "
             "aquí asimismo así aun aunque ayer aún bajo bien cada casi como con conforme contra cual cualquier "
             "cuando cuatro cuya cuyo cómo dado de debido del dentro desde después donde dos durante e el ella ellas "
             "ellos en encima entonces entre era es esa esas ese eso esos esta estaba estas este esto estos está "
             "están finalmente fue fueron gracias ha había hace hacia han hasta hay hoy igualmente incluso la las le "
             "les lo los luego mas me mediante mi mientras mis muchas mucho muchos muy más nada nadie ni ninguna "
             "ninguno no nos nosotras nosotros nuestra nuestro nunca o os otra otras otro otros para pero por porque "
             "posteriormente primero pronto puede pues que quien quienes quién qué se sea según ser si sin sino sobre "
             "solo son su sus sí sólo tal también tampoco tan tanto te tiene toda todas todavía todo todos tras tres "
             "tu tus tú un una unas uno unos usted ustedes y ya yo él ésta éste"),
};

const struct sentence_language sentence_italian = {
    .names = "italian it ita",
    .leading = WORD_LIST(
        ' ', "all avv c.a ca cf cfr cit dott dr es ev fig gent gent.ma ing ingl it lat m.ta max med min on p.es pag "
             "preg prof rif rispett seg sig sigg spec spett tel ved vs"),
    .titles = WORD_LIST(
        ' ', "arch brig cap card cav col comm egr gen geom ill lic magg mons mr mrs pres proff rag rev s sac sen serg "
             "sig.na sig.ra ss st ten"),
    .before_count = WORD_LIST(
        ' ', "art artt c cap capp cc co col fasc figg l lett lib n nn nr num p pagg par pp sez t tab tav tavv tit v "
             "vol voll"),
    .inside = WORD_LIST(
        ' ', "a.c a.d ago apr c.so d.c dic ed edd eds f.lli feb febr genn giu ibid id jr lug mag nov op ott p.zza pl "
             "prov red s.n.c s.p.a s.r.l set sett snc soc spa srl trad univ v.le"),
    .closing = WORD_LIST(' ', "ecc etc segg sgg"),
    .openers = WORD_LIST(
        ' ', "a accanto ad adesso ai al alcune alcuni alla alle allo allora altre altri anche ancora appena "
             "attualmente avendo c che chi ci ciascuno ciò com come comunque con contro cosa così cui d da dai dal "
             "dalla dalle davanti degli dei del dell della delle dello dentro di dietro dopo dove due dunque durante "
             "e ecco ed egli ella entrambi era erano essa esse essi esso fino forse fra fu furono già gli grazie ha "
             "hanno i ieri il in infatti infine inoltre intanto invece io l la le lei li lo loro lui lungo ma mai "
             "malgrado me meglio mentre mia mio molte molti molto ne neanche negli nei nel nell nella nelle nessun "
             "nessuno noi non nonostante nostra nostro o oggi ogni oltre oppure ora parecchi per perché perciò però "
             "piuttosto più poco poi poiché presso prima proprio purtroppo può qualche quale quali quando quanto "
             "quasi quattro quel quella quelle quelli quello quest questa queste questi questo qui quindi s sarà se "
             "sebbene secondo sei sembra senza si sia sin solo sono sopra sotto sta stato su sua sue sugli sui sul "
             "sull sulla sulle suo suoi t tra tre troppo tu tutta tuttavia tutte tutti tutto un una uno va vi voi è"),
};

const struct sentence_language sentence_portuguese = {
    .names = "portuguese pt por",
    .leading = WORD_LIST(' ', "aprox cf dr dra eng ex p.ex prof profa sr sra srs srta v.g vd vs"),
    .titles = WORD_LIST(
        ' ', "alm arq brig cap card cel cmte d dep des dom dras drs enga exma exmo fr gen ilma ilmo ir maj min mons "
             "mr mrs pe pres profas profs rev sen sgt sras st sta sto ten v.exa v.s"),
    .before_count = WORD_LIST(
        ' ', "art arts c cap caps col doc exp fasc fig figs fl fls n no nos núm obs p par pg pgs pp pág págs sec séc "
             "sécs t tab tel v vol vols"),
    .inside = WORD_LIST(
        ' ', "a.c abr adm ago ap apto av bras cia co comp coord d.c depto dez dir e.c ed edit eds est fev hab ibid id "
             "inc inf jan jr jul jun lda ltd ltda mai máx mín nov op org orgs out prov publ pça r ref rod s.a set soc "
             "séc trad trav univ"),
    .closing = WORD_LIST(' ', "a.m etc p.m"),
    .openers = WORD_LIST(
        ' ', "a agora ainda algumas alguns ali além ambos antes ao aos apenas apesar após aquela aquele aqueles aqui "
             "as assim atualmente até cada caso com como conforme contra contudo da das de debaixo dentro depois "
             "desde dessa desse desta deste devido do dois dos duas durante e ela elas ele eles em embora enquanto "
             "entre entretanto então era eram essa essas esse esses esta estas este estes está eu foi foram graças "
             "hoje há isso isto já logo lá mais mas mediante mesmo meu minha muitas muito muitos na nada nas nem "
             "nessa nesse nesta neste ninguém no nos nossa nosso nossos não nós o onde ontem os ou outra outras outro "
             "outros para pela pelas pelo pelos perante pois por porque porém posteriormente pouco primeiro qual "
             "quando quantos quase que quem se segundo seja sem sempre ser seu seus sim sob sobre somente sua suas "
             "são tais tal também tampouco tanto tem tendo toda todas todavia todo todos três tu tudo um uma umas uns "
             "você vocês à às é"),
};

// The last one serves other languages in Cyrillic, too.

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

const struct sentence_language sentence_estonian = {
    .names = "estonian et est",
    .ordinals = true,
    .low_quotes = true,
    .leading = WORD_LIST(
        ' ', "ca dr e ehk ing ingl jms k.a ld lüh n nim nn nt näit pr prl prof pärn s.h s.o s.t saks sh sks sm st sün "
             "sünd tn u v.a v.t vn vt"),
    .titles = WORD_LIST(' ', "dir hr ins kapt kindr kol ltn mag maj mr mrs p"),
    .before_count = WORD_LIST(' ', "art hk jn joon lg lk nr p pt ptk s tab tel tlk vol"),
    .inside = WORD_LIST(
        ' ', "a aa apr aug dets e.kr e.m.a eaa jaan jr kop m.a.j milj mld mln nov okt p.kr ptk saj sept skp toim tuh "
             "veebr vrd"),
    .closing = WORD_LIST(' ', "etc jm jmt jne jpt jt ms"),
    .openers = WORD_LIST(
        ' ', "a aastal aastatel aga ainult alates alles eelkõige ees ega ei eks enamik enne ent esialgu esimene "
             "esmalt et ette hiljem hoolimata iga igal ise isegi ja ju juba just järel järgmine ka kaks kas kellel "
             "kes kogu kokku kolm koos kui kuid kuidas kuigi kuna kunagi kus kõige kõigepealt kõik küll ligi lisaks "
             "lõpuks ma me meie mida miks millal mina mis mitmed muu mõlemad mõned mõni nad nagu need neid nende nii "
             "niisugune ning nüüd olen oli olid on paljud peaaegu peale praegu pärast sa samal samas samuti seal "
             "sealt seda see seega seejuures seejärel sees seetõttu selle sellel selles sellest selline seni sest "
             "siin siis siiski sina ta taas tal te teda tegelikult teie teine tema temast tol too täna tänapäeval "
             "umbes vaatamata vahel vaid varem varsti veel viimane vist või võib ühel üks üle"),
};

const struct sentence_language sentence_finnish = {
    .names = "finnish fi fin",
    .ordinals = true,
    .leading = WORD_LIST(
        ' ', "alk engl ent esim ev evp huom ilm isl jatk jv kreik ks kts lat lyh ml mm muin n nim nk norj ns nyk os "
             "par pj prof puol ransk ruots s.o saks sis suom synt t.s tark tri ts v.a ven vir vrt vs vt"),
    .titles = WORD_LIST(
        ' ', "dos evl fil hra insin kand kapt kenr kom lis luutn lääk maist nti rov rva tkn toht ups yliluutn"),
    .before_count = WORD_LIST(' ', "art kl klo n:o nro p puh s ss taul tel v vol"),
    .inside = WORD_LIST(
        ' ', "eaa ekr jaa jkr jr julk kust käänt lk milj min mrd pain perust rak rek sek siht t tod toim tuh v"),
    .closing = WORD_LIST(' ', "etc jms jne tms yms"),
    .openers = WORD_LIST(
        ' ', "aikaisemmin ainakin ainoa aivan aluksi alun edelleen ehkä ei eikä eli en ennen ensimmäinen ensin entä "
             "erityisesti eräs esimerkiksi että he heidän heitä huolimatta hyvin hän häneen hänellä hänen häntä ilman "
             "itse ja joka jokainen joko jonka jos joskus joten jotka jotkut jotta jälkeen kahden kaikki kaksi kanssa "
             "kenties ketkä koko koska koskaan kuin kuinka kuitenkin kuka kukaan kun kyllä lisäksi lopuksi lopulta "
             "lähes me meidän miksi mikä minkä minulla minun minä missä miten mitä molemmat monet moni mutta muun "
             "muut myöhemmin myös ne niiden niin niinpä noin nykyinen nykyisin nyt näiden näin nämä oli olin olivat "
             "olla on onko ovat paitsi pian pitkään sama samalla samana se sekä sellainen sen seuraavana siellä "
             "sieltä siihen siinä siis siitä siksi silloin sillä silti sinä sitten sitä suomen suomessa taas tai te "
             "toinen tosin tuo tuolloin tällöin tämä tämän tänä tänään tässä tästä täällä useat usein vaan vai vaikka "
             "vain vasta vielä voi voidaan vuoden vuonna vuosina vuotta yhdessä yksi yleensä yli"),
};

const struct sentence_language sentence_turkish = {
    .names = "turkish tr tur",
    .ordinals = true,
    .leading = WORD_LIST(
        ' ', "ar arş av bknz bkz doç dr fr gör hz ing karş krş lat mad prof rus sn tic vdl yak yun çev ör örn öğr"),
    .titles = WORD_LIST(' ', "alb asb bn bnb bşk ecz gen korg mim müh op ord org ort st tuğg uzm yrd yzb"),
    .before_count = WORD_LIST(' ', "bl böl c fas hd kat md no nr s sf sh sy tab tel şk"),
    .inside = WORD_LIST(
        ' ', "a.ş alm apt aş cad cd dz ed haz i.s i.ö inş jr ltd m.s m.ö mah mh ml mn müd ort osm s.a sk sok t.c tl "
             "yay yy yön üniv şb şti"),
    .closing = WORD_LIST(' ', "etc vb vd vs"),
    .openers = WORD_LIST(
        ' ', "acaba ancak anlaşılan artık aslında asıl aynı ayrıca bana bazen bazı bazıları başka belki ben beni "
             "benim beş bile bir biraz biri birkaç birlikte birçok biz bize bizim bu buna bundan bunlar bunları "
             "bunların bunu bunun burada böyle böylece böylelikle bütün da daha dahası de demek değil diğer "
             "dolayısıyla dört dün elbette en evet eğer fakat gene genellikle gerek gerçekten gibi göre gün günümüzde "
             "hala hangi hatta hayır hem henüz hep her herkes hiç hiçbir iki ile ilk ise itibaren iyi içinde işte "
             "kadar karşın kendi kendisi kim kimse kısaca lakin madem nasıl ne neden nerede nereye nihayet niye niçin "
             "o olan oldukça on ona ondan onlar onları onların onu onun orada oysa rağmen sadece sana sanki sen seni "
             "senin siz sizin son sonra sonunda sonuçta sürekli tabii tam tamam tek tüm ve veya ya yahut yalnız yani "
             "yapılan yine yok yoksa yüzden zaman zaten zira çok çoğu çünkü öbür önce öncelikle öte öyle üstelik üç "
             "şey şimdi şu şöyle"),
};

const struct sentence_language sentence_greek = {
    .names = "greek el ell gre",
    .leading = WORD_LIST(
        ' ', "αγ αγγλ βλ γαλλ γερμ δηλ ελλ ενδ θεσ ιταλ κ κ.κ κα καθ κος κων λ.χ λατ λεωφ ν.α οδ παρ περ πλ πρβ πρβλ "
             "πρωτ ρωσ στρ συν τηλ τουρκ φρ χρ"),
    .titles = WORD_LIST(' ', "αντ δρ ιατρ λοχ μητρ ντρ πλοιαρχ πρεσβ πρόεδρ πρύτ ταξ υπ υπολ"),
    .before_count =
        WORD_LIST(' ', "άρθρ αρ αρθ αριθ εδ εικ κεφ κωδ πίν παράγρ πιν σ σελ σσ στ στίχ σχ τ τεύχ τομ τόμ φ φυλ χ ό.π"),
    .inside = WORD_LIST(
        ' ', "α.ε αι απρ αυγ γ.γ δεκ δισ δρχ ε.ε εκ εκατ εκδ επιμ ημ ιαν ιουλ ιουν κ.εκ κυβ μ.χ μαρ μμ μτφρ νοε νοεμ "
             "ο.ε ο.π οκτ π.δ π.μ π.χ προ σεπ σεπτ σημ τ.μ τετρ υ.γ υποσ φεβ χ.χ χιλ χλμ ωρ"),
    .closing = WORD_LIST(' ', "κ.ά κ.α κ.λ.π κ.λπ κ.ο.κ κ.τ.λ κλπ κτλ μ.μ"),
    .openers = WORD_LIST(
        ' ', "ένα ένας έτσι έχει έχουν έως ή ήταν αλλά αν ανάμεσα αντίθετα απ από αργότερα ας αυτά αυτές αυτή αυτήν "
             "αυτοί αυτού αυτό αυτός αφού βέβαια για γιατί δε δεν διότι δύο εάν είναι είχα είχαν είχε εγώ εδώ εκεί "
             "εκείνη εκείνο εκείνος εκτός εμείς εν ενώ επίσης επειδή επιπλέον εσείς εσύ η θα ιδιαίτερα κάθε κάποια "
             "κάποιοι κάποιος κάτι καθώς και κατά κι κυρίως λίγο λοιπόν μάλιστα μέσα μέχρι μία μα μας με μετά μεταξύ "
             "μη μια μόλις μόνο να ναι ο οι ομοίως ούτε πάντα παρά παράλληλα περίπου πια πιο ποια ποιος πολλά πολλές "
             "πολλοί ποτέ που πού πριν προς προφανώς πρόκειται πρώτα πώς σ σήμερα σαν σε στα στη στην στις στο στον "
             "στους συνήθως συνεπώς συχνά σύμφωνα τα τελικά τη την της τι τις το τον του τους των τότε τώρα υπάρχει "
             "υπάρχουν υπό φυσικά χωρίς ως ωστόσο όλα όλες όλη όλοι όμως όποιος όπου όπως όσο όταν ότι όχι ώστε"),
};

// ---- finding a language ----

static const struct sentence_language *const languages[] = {
    &sentence_english,   &sentence_czech,   &sentence_danish,     &sentence_dutch,   &sentence_estonian,
    &sentence_finnish,   &sentence_french,  &sentence_german,     &sentence_greek,   &sentence_italian,
    &sentence_norwegian, &sentence_polish,  &sentence_portuguese, &sentence_russian, &sentence_slovene,
    &sentence_spanish,   &sentence_swedish, &sentence_turkish,
};
enum { LANGUAGES = sizeof languages / sizeof languages[0] };

// Is the word in a space-separated list? For short lists in any order.
static bool is_among(const char *list, const char *word, size_t length) {
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

const struct sentence_language *sentence_language_find(const char *name) {
    enum { LONGEST_NAME = 32 };
    char lower[LONGEST_NAME] = "";
    size_t length = strlen(name);
    if (length == 0 || length >= LONGEST_NAME || strchr(name, ' '))
        return NULL;
    for (size_t i = 0; i < length; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    for (size_t i = 0; i < LANGUAGES; i++)
        if (is_among(languages[i]->names, lower, length))
            return languages[i];
    return NULL;
}

const struct sentence_language *sentence_language_at(size_t number) {
    return number < LANGUAGES ? languages[number] : NULL;
}

// ---- looking words up ----

// Copies the word in lower case; returns its length, 0 if it is too long to be in a list.
static size_t lower(const char *word, size_t length, char out[LONGEST_WORD + 4]) {
    size_t done = 0;
    for (size_t at = 0; at < length;) {
        unsigned char byte = (unsigned char)word[at];
        if (done >= LONGEST_WORD)
            return 0;
        if (byte < 0x80) {
            out[done++] = byte >= 'A' && byte <= 'Z' ? (char)(byte + 'a' - 'A') : (char)byte;
            at++;
            continue;
        }
        uint32_t character;
        at += utf8_decode((const unsigned char *)word + at, length - at, &character, NULL);
        done += utf8_encode(unicode_lower(character), out + done);
    }
    return done;
}

static bool has_ending(const char *word, size_t length, const char *endings) {
    for (const char *at = endings; at && *at;) {
        size_t bytes = strcspn(at, " ");
        if (length > bytes && memcmp(word + length - bytes, at, bytes) == 0)
            return true;
        at += bytes + (at[bytes] == ' ');
    }
    return false;
}

static bool is_capital(const char *word, size_t length) {
    uint32_t first;
    utf8_decode((const unsigned char *)word, length, &first, NULL);
    return unicode_lower(first) != first;
}

enum sentence_abbreviation sentence_abbreviation(const struct sentence_language *language, const char *word,
                                                 size_t length) {
    char text[LONGEST_WORD + 4];
    size_t bytes = length > 0 ? lower(word, length, text) : 0;
    if (bytes == 0)
        return SENTENCE_WORD;
    if (word_list_has(&language->leading, text, bytes) ||
        (is_capital(word, length) && word_list_has(&language->titles, text, bytes)))
        return SENTENCE_LEADS;
    if (word_list_has(&language->before_count, text, bytes))
        return SENTENCE_BEFORE_COUNT;
    if (word_list_has(&language->inside, text, bytes) || has_ending(text, bytes, language->endings))
        return SENTENCE_INSIDE;
    return word_list_has(&language->closing, text, bytes) ? SENTENCE_CLOSES : SENTENCE_WORD;
}

bool sentence_is_opener(const struct sentence_language *language, const char *word, size_t length) {
    char text[LONGEST_WORD + 4];
    size_t bytes = length > 0 ? lower(word, length, text) : 0;
    return bytes > 0 && word_list_has(&language->openers, text, bytes);
}

const struct sentence_language *sentence_word_language(const struct sentence_language *language, const char *word,
                                                       size_t length) {
    unsigned char first = length > 0 ? (unsigned char)*word : 0;
    if (first >= 0xD0 && first <= 0xD4)
        return &sentence_russian;
    return first == 0xCE || first == 0xCF ? &sentence_greek : language;
}
