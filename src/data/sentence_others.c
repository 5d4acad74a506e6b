// Estonian, Finnish, Turkish and Greek for the sentence splitter. See sentence_words.h for the lists.
#include "data/sentence_words.h"

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
