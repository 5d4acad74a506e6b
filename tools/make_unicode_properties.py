#!/usr/bin/env python3
"""Writes src/data/tokenizer/unicode_properties.c: scripts and other properties that patterns name (\\p{Han}), and which
characters differ only in case. It asks Oniguruma, through the package tokenizers, so that they are the reference's own.

A property is a set of general categories, and ranges in which it is the other way round.

usage: tools/make_unicode_properties.py    (needs tokenizers; takes several minutes)
"""
import os

from tokenizers import Regex, normalizers

from make_unicode_tables import CATEGORIES, CHARACTERS, write_items, write_numbers

HERE = os.path.dirname(os.path.abspath(__file__))
PROPERTIES = """
    adlam,adlm aghb,caucasianalbanian ahom anatolianhieroglyphs,hluw arab,arabic armenian,armn armi,imperialaramaic
    avestan,avst bali,balinese bamu,bamum bass,bassavah batak,batk beng,bengali bhaiksuki,bhks bopo,bopomofo brah,brahmi
    brai,braille bugi,buginese buhd,buhid cakm,chakma canadianaboriginal,cans cari,carian cham cher,cherokee chorasmian,chrs
    common,zyyy copt,coptic,qaac cpmn,cyprominoan cprt,cypriot cuneiform,xsux cyrillic,cyrl deseret,dsrt deva,devanagari
    diak,divesakuru dogr,dogra dupl,duployan egyp,egyptianhieroglyphs elba,elbasan elym,elymaic ethi,ethiopic gara,garay
    geor,georgian glag,glagolitic gong,gunjalagondi gonm,masaramgondi goth,gothic gran,grantha greek,grek gujarati,gujr
    gukh,gurungkhema gurmukhi,guru han,hani hang,hangul hanifirohingya,rohg hano,hanunoo hatr,hatran hebr,hebrew
    hira,hiragana hmng,pahawhhmong hmnp,nyiakengpuachuehmong hung,oldhungarian inherited,qaai,zinh inscriptionalpahlavi,phli
    inscriptionalparthian,prti ital,olditalic java,javanese kaithi,kthi kali,kayahli kana,katakana kannada,knda kawi
    khar,kharoshthi khitansmallscript,kits khmer,khmr khoj,khojki khudawadi,sind kiratrai,krai lana,taitham lao,laoo
    latin,latn lepc,lepcha limb,limbu lina,lineara linb,linearb lisu lyci,lycian lydi,lydian mahajani,mahj maka,makasar
    malayalam,mlym mand,mandaic mani,manichaean marc,marchen medefaidrin,medf meeteimayek,mtei mend,mendekikakui
    merc,meroiticcursive mero,meroitichieroglyphs miao,plrd modi mong,mongolian mro,mroo mult,multani myanmar,mymr
    nabataean,nbat nagm,nagmundari nand,nandinagari narb,oldnortharabian newa newtailue,talu nko,nkoo nshu,nushu ogam,ogham
    olchiki,olck oldpermic,perm oldpersian,xpeo oldsogdian,sogo oldsoutharabian,sarb oldturkic,orkh olduyghur,ougr
    olonal,onao oriya,orya osage,osge osma,osmanya palm,palmyrene pauc,paucinhau phag,phagspa phlp,psalterpahlavi
    phnx,phoenician rejang,rjng runic,runr samaritan,samr saur,saurashtra sgnw,signwriting sharada,shrd shavian,shaw
    sidd,siddham sinh,sinhala sogd,sogdian sora,sorasompeng soyo,soyombo sund,sundanese sunu,sunuwar sylo,sylotinagri
    syrc,syriac tagalog,tglg tagb,tagbanwa taile,tale taiviet,tavt takr,takri tamil,taml tang,tangut tangsa,tnsa telu,telugu
    tfng,tifinagh thaa,thaana thai tibetan,tibt tirh,tirhuta todhri,todr toto tulutigalari,tutg ugar,ugaritic vai,vaii
    vith,vithkuqi wancho,wcho wara,warangciti yezi,yezidi yi,yiii zanabazarsquare,zanb

    ahex,asciihexdigit,xdigit alpha,alphabetic any ascii blank cased dash dia,diacritic ebase,emojimodifierbase
    ecomp,emojicomponent emod,emojimodifier emoji emojipresentation,epres ext,extender extendedpictographic,extpict
    hex,hexdigit ideo,ideographic joinc,joincontrol lower,lowercase math qmark,quotationmark regionalindicator,ri
    space,whitespace,wspace uideo,unifiedideograph upper,uppercase variationselector,vs
""".split()


def characters(pattern):
    """What one character of a pattern may be."""
    remove, found = normalizers.Replace(Regex(pattern), ""), set()
    for begin in range(0, len(CHARACTERS), 4096):
        text = "".join(map(chr, CHARACTERS[begin:begin + 4096]))
        found |= set(map(ord, text)) - set(map(ord, remove.normalize_str(text)))
    return found


def ranges(found):
    out = []
    for c in sorted(found):
        if out and (out[-1][1] == c - 1 or (c == 0xE000 and out[-1][1] == 0xD7FF)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def steps(pairs):
    out, before = [], 0
    for first, last in pairs:
        out += [first - before, last - first]
        before = last
    return out


def describe(found, categories):
    """The categories that a property is mostly made of, and where it is the other way round."""
    base = [i for i, members in enumerate(categories) if members and 2 * len(members & found) > len(members)]
    plain, rest = ranges(found), ranges(found ^ set().union(*(categories[i] for i in base)))
    return ([], plain) if len(plain) <= len(rest) else (base, rest)


def cases():
    """(character, the lowest of its cases, which stands for all), and (character, characters that it is without case)."""
    cased = sorted(characters(r"\p{Changes_When_Casefolded}") | characters(r"\p{Changes_When_Casemapped}"))
    text = "\n".join(map(chr, cased))
    single, several = [], []
    for c in cased:
        folded = chr(c).casefold()
        if len(folded) > 1:
            several.append((c, [*map(ord, folded)]))
        left = set(normalizers.Replace(Regex(f"(?i:[\\x{{{c:X}}}])"), "").normalize_str(text))
        same = [other for other in cased if chr(other) not in left]
        if min(same) != c:
            single.append((c, min(same)))
    lowest = dict(single)
    return single, [(c, [lowest.get(part, part) for part in parts]) for c, parts in several]


def fold_runs(pairs):
    out = []
    for c, other in pairs:
        difference = other - c
        if out and out[-1][3] == difference:
            first, last, step, _ = out[-1]
            if (first == last and c - last <= 2) or (first != last and c - last == step):
                out[-1] = (first, c, c - last, difference)
                continue
        out.append((c, c, 1, difference))
    return [number for run in out for number in run]


def main():
    categories = [characters(rf"\p{{{name}}}") for name in CATEGORIES]
    single, several = cases()
    rows, numbers = [], []
    for names in PROPERTIES:
        names = names.split(",")
        base, rest = describe(characters(rf"\p{{{names[0]}}}"), categories)
        rows.append('{"%s", %#x, %d}' % (" ".join(names), sum(1 << i for i in base), len(rest)))
        numbers += steps(rest)
    path = os.path.join(HERE, "../src/data/tokenizer/unicode_properties.c")
    with open(path, "w", encoding="utf-8") as file:
        file.write("// Written by tools/make_unicode_properties.py; unicode_category.c says what the numbers mean.\n"
                   '#include "data/tokenizer/character_set.h"\n\n// clang-format off\n'
                   "const struct unicode_property unicode_properties[] = {\n")
        write_items(file, rows)
        file.write("};\nconst size_t unicode_properties_count = sizeof unicode_properties / sizeof unicode_properties[0];\n\n"
                   "// For each range: how far its first character is after the last of the range before, or after 0, and how far its\n"
                   "// last is after its first.\n")
        write_numbers(file, "unicode_property_ranges", numbers)
        file.write("\n// Characters that equal others when case is ignored: first, last, step, difference.\n")
        write_numbers(file, "unicode_fold_runs", fold_runs(single), "int32_t")
        file.write("\n// Characters that equal several when case is ignored: the character, then up to three, 0 for none.\n")
        write_numbers(file, "unicode_fold_several", [n for c, to in several for n in [c, *to, 0, 0][:4]])


if __name__ == "__main__":
    main()
