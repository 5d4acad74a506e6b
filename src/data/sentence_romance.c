// French, Spanish, Italian and Portuguese for the sentence splitter. See sentence_words.h for the lists.
#include "data/sentence_words.h"

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
