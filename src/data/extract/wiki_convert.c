// {{convert|5|km|mi}}: "5 kilometres (3.1 mi)". The most common template with numbers. On the wiki it is a script, so
// its text is in no dump. Rounding follows the wiki: as precise as the given number, but at least two digits.
#include "data/extract/wiki_template.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- units ----

enum wiki_unit_kind {
    UNIT_LENGTH,
    UNIT_AREA,
    UNIT_VOLUME,
    UNIT_MASS,
    UNIT_SPEED,
    UNIT_TEMPERATURE,
    UNIT_TEMPERATURE_CHANGE,
    UNIT_POWER,
    UNIT_ENERGY,
    UNIT_PRESSURE,
    UNIT_FORCE,
    UNIT_DENSITY,
    UNIT_FLOW,
    UNIT_PEOPLE,
    UNIT_TORQUE,
};

struct wiki_unit {
    const char *codes;  // separated by '|'
    enum wiki_unit_kind kind;
    double scale;  // in the base unit of its kind
    double zero;   // zero point, for temperatures
    const char *symbol;
    const char *target;             // its default target unit
    const char *singular, *plural;  // NULL: singular and an s
};

// Case matters: t is a tonne, T is not; ST is a short ton, st a stone. Base units: m, m², m³, kg, m/s, K, W, J, Pa, N,
// kg/m³, m³/s, 1/km², N⋅m.
static const struct wiki_unit units[] = {
    {"/km2|/sqkm|PD/km2|PD/sqkm", UNIT_PEOPLE, 1, 0, "/km²", "PD/sqmi", "inhabitant per square kilometre",
     "inhabitants per square kilometre"},
    {"/sqmi|PD/mi2|PD/sqmi", UNIT_PEOPLE, 0.3861021585424459, 0, "/sq mi", "PD/km2", "inhabitant per square mile",
     "inhabitants per square mile"},
    {"AU|au", UNIT_LENGTH, 149597870700, 0, "AU", "km", "astronomical unit", NULL},
    {"C|celsius|degC|°C", UNIT_TEMPERATURE, 1, 273.15, "°C", "F", "degree Celsius", "degrees Celsius"},
    {"C-change", UNIT_TEMPERATURE_CHANGE, 1, 0, "°C", "F-change", "degree Celsius", "degrees Celsius"},
    {"Cal|kcal", UNIT_ENERGY, 4184, 0, "kcal", "kJ", "kilocalorie", NULL},
    {"F|degF|°F", UNIT_TEMPERATURE, 5.0 / 9, 255.3722222222222, "°F", "C", "degree Fahrenheit", "degrees Fahrenheit"},
    {"F-change", UNIT_TEMPERATURE_CHANGE, 5.0 / 9, 0, "°F", "C-change", "degree Fahrenheit", "degrees Fahrenheit"},
    {"GPa", UNIT_PRESSURE, 1000000000, 0, "GPa", "psi", "gigapascal", NULL},
    {"J", UNIT_ENERGY, 1, 0, "J", "ftlbf", "joule", NULL},
    {"K", UNIT_TEMPERATURE, 1, 0, "K", "C", "kelvin", NULL},
    {"L|l|liter|litre", UNIT_VOLUME, 0.001, 0, "L", "USgal", "litre", NULL},
    {"LT|long ton", UNIT_MASS, 1016.0469088, 0, "long tons", "t", "long ton", NULL},
    {"MJ", UNIT_ENERGY, 1000000, 0, "MJ", "kWh", "megajoule", NULL},
    {"MPa", UNIT_PRESSURE, 1000000, 0, "MPa", "psi", "megapascal", NULL},
    {"MT|t|tonne", UNIT_MASS, 1000, 0, "t", "LT", "tonne", NULL},
    {"MW", UNIT_POWER, 1000000, 0, "MW", "hp", "megawatt", NULL},
    {"N", UNIT_FORCE, 1, 0, "N", "lbf", "newton", NULL},
    {"N.m|Nm|N·m", UNIT_TORQUE, 1, 0, "N⋅m", "lbft", "newton-metre", NULL},
    {"NM|nmi", UNIT_LENGTH, 1852, 0, "nmi", "km", "nautical mile", NULL},
    {"PJ", UNIT_ENERGY, 1000000000000000, 0, "PJ", "TWh", "petajoule", NULL},
    {"PS|metric hp", UNIT_POWER, 735.49875, 0, "PS", "kW", "metric horsepower", "metric horsepower"},
    {"Pa", UNIT_PRESSURE, 1, 0, "Pa", "psi", "pascal", NULL},
    {"ST|short ton|ton|tons", UNIT_MASS, 907.18474, 0, "short tons", "t", "short ton", NULL},
    {"TWh", UNIT_ENERGY, 3600000000000000, 0, "TWh", "PJ", "terawatt hour", NULL},
    {"U.S.gal|USgal|gal|usgal", UNIT_VOLUME, 0.003785411784, 0, "US gal", "L", "US gallon", NULL},
    {"USfloz|USoz|usoz", UNIT_VOLUME, 2.95735295625e-5, 0, "US fl oz", "mL", "US fluid ounce", NULL},
    {"USpt|pt", UNIT_VOLUME, 0.000473176473, 0, "US pt", "mL", "US pint", NULL},
    {"USqt", UNIT_VOLUME, 0.000946352946, 0, "US qt", "L", "US quart", NULL},
    {"W", UNIT_POWER, 1, 0, "W", "hp", "watt", NULL},
    {"ac|acre|acres", UNIT_AREA, 4046.8564224, 0, "acres", "ha", "acre", NULL},
    {"acre.ft|acreft", UNIT_VOLUME, 1233.48183754752, 0, "acre⋅ft", "m3", "acre-foot", "acre-feet"},
    {"atm", UNIT_PRESSURE, 101325, 0, "atm", "kPa", "atmosphere", NULL},
    {"bar", UNIT_PRESSURE, 100000, 0, "bar", "kPa", "bar", NULL},
    {"bbl|oilbbl", UNIT_VOLUME, 0.158987294928, 0, "bbl", "m3", "barrel", NULL},
    {"bhp|hp|ihp|shp", UNIT_POWER, 745.69987158227, 0, "hp", "kW", "horsepower", "horsepower"},
    {"cc|cm3|cucm", UNIT_VOLUME, 1e-6, 0, "cm³", "cuin", "cubic centimetre", NULL},
    {"chain", UNIT_LENGTH, 20.1168, 0, "chains", "m", "chain", NULL},
    {"cid|cuin|in3", UNIT_VOLUME, 1.6387064e-5, 0, "cu in", "cm3", "cubic inch", "cubic inches"},
    {"cm", UNIT_LENGTH, 0.01, 0, "cm", "in", "centimetre", NULL},
    {"cm2|sqcm", UNIT_AREA, 0.0001, 0, "cm²", "sqin", "square centimetre", NULL},
    {"cuft|ft3", UNIT_VOLUME, 0.028316846592, 0, "cu ft", "m3", "cubic foot", "cubic feet"},
    {"cuft/s|cufts", UNIT_FLOW, 0.028316846592, 0, "cu ft/s", "m3/s", "cubic foot per second", "cubic feet per second"},
    {"cum|m3|m³", UNIT_VOLUME, 1, 0, "m³", "cuft", "cubic metre", NULL},
    {"cumec|m3/s", UNIT_FLOW, 1, 0, "m³/s", "cuft/s", "cubic metre per second", "cubic metres per second"},
    {"cumi", UNIT_VOLUME, 4168181825.4405794, 0, "cu mi", "km3", "cubic mile", NULL},
    {"cuyd|yd3", UNIT_VOLUME, 0.764554857984, 0, "cu yd", "m3", "cubic yard", NULL},
    {"cwt", UNIT_MASS, 50.80234544, 0, "cwt", "kg", "hundredweight", "hundredweight"},
    {"dunam", UNIT_AREA, 1000, 0, "dunams", "ha", "dunam", NULL},
    {"fathom|ftm", UNIT_LENGTH, 1.8288, 0, "fathoms", "m", "fathom", NULL},
    {"feet|foot|ft", UNIT_LENGTH, 0.3048, 0, "ft", "m", "foot", "feet"},
    {"ftin", UNIT_LENGTH, 0.3048, 0, "ft", "m", "foot", "feet"},
    {"ft/s", UNIT_SPEED, 0.3048, 0, "ft/s", "m/s", "foot per second", "feet per second"},
    {"ft2|sqft", UNIT_AREA, 0.09290304, 0, "sq ft", "m2", "square foot", "square feet"},
    {"ftlbf", UNIT_ENERGY, 1.3558179483314, 0, "ft⋅lbf", "J", "foot-pound", NULL},
    {"furlong", UNIT_LENGTH, 201.168, 0, "furlongs", "m", "furlong", NULL},
    {"g", UNIT_MASS, 0.001, 0, "g", "oz", "gram", NULL},
    {"g/cm3", UNIT_DENSITY, 1000, 0, "g/cm³", "lb/cuin", "gram per cubic centimetre", "grams per cubic centimetre"},
    {"gr", UNIT_MASS, 6.479891e-5, 0, "gr", "mg", "grain", NULL},
    {"hL|hl", UNIT_VOLUME, 0.1, 0, "hL", "USgal", "hectolitre", NULL},
    {"hPa", UNIT_PRESSURE, 100, 0, "hPa", "inHg", "hectopascal", NULL},
    {"ha|hectare", UNIT_AREA, 10000, 0, "ha", "acre", "hectare", NULL},
    {"impgal", UNIT_VOLUME, 0.00454609, 0, "imp gal", "L", "imperial gallon", NULL},
    {"impoz", UNIT_VOLUME, 2.84130625e-5, 0, "imp fl oz", "mL", "imperial fluid ounce", NULL},
    {"in|inch|inches", UNIT_LENGTH, 0.0254, 0, "in", "mm", "inch", "inches"},
    {"in2|sqin", UNIT_AREA, 0.00064516, 0, "sq in", "cm2", "square inch", "square inches"},
    {"inHg", UNIT_PRESSURE, 3386.388640341, 0, "inHg", "kPa", "inch of mercury", "inches of mercury"},
    {"kJ", UNIT_ENERGY, 1000, 0, "kJ", "kcal", "kilojoule", NULL},
    {"kN", UNIT_FORCE, 1000, 0, "kN", "lbf", "kilonewton", NULL},
    {"kPa", UNIT_PRESSURE, 1000, 0, "kPa", "psi", "kilopascal", NULL},
    {"kW|kw", UNIT_POWER, 1000, 0, "kW", "hp", "kilowatt", NULL},
    {"kWh", UNIT_ENERGY, 3600000, 0, "kWh", "MJ", "kilowatt hour", NULL},
    {"kg|kilogram", UNIT_MASS, 1, 0, "kg", "lb", "kilogram", NULL},
    {"kg/m3", UNIT_DENSITY, 1, 0, "kg/m³", "lb/cuyd", "kilogram per cubic metre", "kilograms per cubic metre"},
    {"kilometer|kilometre|km", UNIT_LENGTH, 1000, 0, "km", "mi", "kilometre", NULL},
    {"km/h|kmph|kph", UNIT_SPEED, 1 / 3.6, 0, "km/h", "mph", "kilometre per hour", "kilometres per hour"},
    {"km/s", UNIT_SPEED, 1000, 0, "km/s", "mi/s", "kilometre per second", "kilometres per second"},
    {"km2|km²|sqkm|square kilometre", UNIT_AREA, 1000000, 0, "km²", "sqmi", "square kilometre", NULL},
    {"km3", UNIT_VOLUME, 1000000000, 0, "km³", "cumi", "cubic kilometre", NULL},
    {"kn|knot|kt", UNIT_SPEED, 1852.0 / 3600, 0, "kn", "km/h", "knot", NULL},
    {"lb|lbs|pound", UNIT_MASS, 0.45359237, 0, "lb", "kg", "pound", NULL},
    {"lb.ft|lbft", UNIT_TORQUE, 1.3558179483314, 0, "lb⋅ft", "Nm", "pound-foot", "pound-feet"},
    {"lb/cuin", UNIT_DENSITY, 27679.9047102, 0, "lb/cu in", "g/cm3", "pound per cubic inch", "pounds per cubic inch"},
    {"lb/cuyd", UNIT_DENSITY, 0.593276421257, 0, "lb/cu yd", "kg/m3", "pound per cubic yard", "pounds per cubic yard"},
    {"lbf", UNIT_FORCE, 4.4482216152605, 0, "lbf", "N", "pound-force", "pounds-force"},
    {"league", UNIT_LENGTH, 4828.032, 0, "leagues", "km", "league", NULL},
    {"ly", UNIT_LENGTH, 9460730472580800, 0, "ly", "pc", "light-year", NULL},
    {"m|meter|metre", UNIT_LENGTH, 1, 0, "m", "ft", "metre", NULL},
    {"m/s", UNIT_SPEED, 1, 0, "m/s", "ft/s", "metre per second", "metres per second"},
    {"m2|m²|sqm", UNIT_AREA, 1, 0, "m²", "sqft", "square metre", NULL},
    {"mL|ml", UNIT_VOLUME, 1e-6, 0, "mL", "USoz", "millilitre", NULL},
    {"mbar", UNIT_PRESSURE, 100, 0, "mbar", "inHg", "millibar", NULL},
    {"mg", UNIT_MASS, 1e-6, 0, "mg", "gr", "milligram", NULL},
    {"mi|mile|miles", UNIT_LENGTH, 1609.344, 0, "mi", "km", "mile", NULL},
    {"mi/s", UNIT_SPEED, 1609.344, 0, "mi/s", "km/s", "mile per second", "miles per second"},
    {"mi2|sqmi|square mile", UNIT_AREA, 2589988.110336, 0, "sq mi", "km2", "square mile", NULL},
    {"mm", UNIT_LENGTH, 0.001, 0, "mm", "in", "millimetre", NULL},
    {"mm2", UNIT_AREA, 1e-6, 0, "mm²", "sqin", "square millimetre", NULL},
    {"mmHg", UNIT_PRESSURE, 133.322387415, 0, "mmHg", "kPa", "millimetre of mercury", "millimetres of mercury"},
    {"mph", UNIT_SPEED, 0.44704, 0, "mph", "km/h", "mile per hour", "miles per hour"},
    {"nm", UNIT_LENGTH, 1e-9, 0, "nm", "in", "nanometre", NULL},
    {"oz", UNIT_MASS, 0.028349523125, 0, "oz", "g", "ounce", NULL},
    {"ozt|troy oz", UNIT_MASS, 0.0311034768, 0, "ozt", "g", "troy ounce", NULL},
    {"pc", UNIT_LENGTH, 30856775814913672, 0, "pc", "ly", "parsec", NULL},
    {"psi", UNIT_PRESSURE, 6894.757293168361, 0, "psi", "kPa", "pound per square inch", "pounds per square inch"},
    {"sqnmi", UNIT_AREA, 3429904, 0, "sq nmi", "km2", "square nautical mile", NULL},
    {"sqyd|yd2", UNIT_AREA, 0.83612736, 0, "sq yd", "m2", "square yard", NULL},
    {"st|stone", UNIT_MASS, 6.35029318, 0, "st", "kg", "stone", "stone"},
    {"um|µm|μm", UNIT_LENGTH, 1e-6, 0, "μm", "in", "micrometre", NULL},
    {"yard|yd", UNIT_LENGTH, 0.9144, 0, "yd", "m", "yard", NULL},
};

static const struct wiki_unit *find_unit(struct wiki_slice code) {
    for (size_t i = 0; code.length > 0 && i < sizeof units / sizeof units[0]; i++)
        for (const char *at = units[i].codes; *at;) {
            size_t length = strcspn(at, "|");
            if (length == code.length && memcmp(at, code.data, length) == 0)
                return &units[i];
            at += length + (at[length] == '|');
        }
    return NULL;
}

static bool is_temperature(const struct wiki_unit *unit) {
    return unit->kind == UNIT_TEMPERATURE || unit->kind == UNIT_TEMPERATURE_CHANGE;
}

static double change_unit(double value, const struct wiki_unit *from, const struct wiki_unit *to) {
    return (value * from->scale + from->zero - to->zero) / to->scale;
}

// ---- values ----

enum { MOST_VALUES = 4, LONGEST_VALUE = 32 };

struct quantity {
    struct wiki_slice text[MOST_VALUES];  // as written
    const char *between[MOST_VALUES];     // " to ", "–": before each but the first
    double value[MOST_VALUES];
    int decimals;  // of the most precise one; negative for trailing zeros
    int count;
};

// "1,234.5", "5+1/2", "3/4", "-2"; false if the text is not a number.
static bool read_value(struct wiki_slice text, double *value, int *decimals) {
    char plain[LONGEST_VALUE];
    size_t length = 0;
    if (wiki_begins(text, "−"))
        plain[length++] = '-', text = (struct wiki_slice){text.data + 3, text.length - 3};
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == ',')
            continue;
        if (!strchr("0123456789.+-/eE ", text.data[i]) || !text.data[i] || length + 1 >= LONGEST_VALUE)
            return false;
        plain[length++] = text.data[i];
    }
    plain[length] = '\0';
    char *end;
    *value = strtod(plain, &end);
    if (end == plain)
        return false;
    const char *point = strchr(plain, '.');
    *decimals = point ? (int)strspn(point + 1, "0123456789") : 0;
    if (!point)
        for (const char *digit = end; digit > plain && digit[-1] == '0' && *value != 0; digit--)
            (*decimals)--;
    if (*end == '/') {
        double divisor = strtod(end + 1, &end);
        *value = divisor != 0 ? *value / divisor : 0;
        *decimals = 0;
    } else if (*end == '+' || *end == ' ' || (*end == '-' && strchr(end, '/'))) {
        double numerator = strtod(end + 1, &end);
        double divisor = *end == '/' ? strtod(end + 1, &end) : 1;
        *value += divisor != 0 ? numerator / divisor : 0;
        *decimals = 0;
    }
    return *end == '\0' && isfinite(*value);
}

static const char *range_word(struct wiki_slice text) {
    static const struct {
        const char *word, *shown;
    } words[] = {
        {"to", " to "}, {"-", "–"},     {"–", "–"},          {"and", " and "},           {"or", " or "}, {"x", " by "},
        {"by", " by "}, {"×", " × "},   {"xx", " × "},       {"to(-)", " to "},          {"*", " × "},   {"+/-", " ± "},
        {"±", " ± "},   {"&", " and "}, {"and(-)", " and "}, {"to about", " to about "}, {"+", " + "}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (wiki_equal(text, words[i].word))
            return words[i].shown;
    return NULL;
}

// Reads "5" or "5|to|10", starting at argument *next.
static bool read_quantity(struct quantity *quantity, const struct wiki_call *call, int64_t *next) {
    int decimals;
    const char *between = "";
    *quantity = (struct quantity){.decimals = -100};
    while (quantity->count < MOST_VALUES) {
        int i = quantity->count;
        quantity->text[i] = wiki_call_at(call, *next);
        quantity->between[i] = between;
        if (!read_value(quantity->text[i], &quantity->value[i], &decimals))
            return false;
        quantity->decimals = decimals > quantity->decimals ? decimals : quantity->decimals;
        quantity->count++;
        ++*next;
        between = range_word(wiki_call_at(call, *next));
        if (!between)
            return true;
        ++*next;
    }
    return true;
}

static void put_number(struct buffer *out, double value, int decimals) {
    char text[64];
    if (decimals < 0) {
        double unit = pow(10, -decimals);
        value = round(value / unit) * unit;
        decimals = 0;
    }
    snprintf(text, sizeof text, "%.*f", decimals > 12 ? 12 : decimals, value);
    wiki_format_number(out, wiki_slice_of(strcmp(text, "-0") == 0 ? "0" : text));
}

// The wiki's default: the decimals of the input shifted by the magnitude of the factor, and at least two significant
// digits.
static int result_decimals(const struct quantity *from, int index, double result, const struct wiki_unit *to) {
    double input = from->value[index];
    if (is_temperature(to))
        return from->decimals > 0 ? from->decimals : 0;
    if (result == 0 || input == 0)
        return from->decimals > 0 ? from->decimals : 0;
    int moved = from->decimals + (int)lround(log10(fabs(input / result)));
    int two_digits = 1 - (int)floor(log10(fabs(result)) + 1e-9);
    return moved > two_digits ? moved : two_digits;
}

static void put_feet_inches(struct buffer *out, double metres) {
    int64_t inches = llround(metres / 0.0254);
    if (inches / 12)
        buffer_printf(out, "%lld ft ", (long long)(inches / 12));
    buffer_printf(out, "%lld in", (long long)(inches % 12));
}

static void put_result(struct buffer *out, const struct quantity *from, const struct wiki_unit *unit,
                       const struct wiki_unit *to) {
    bool as_feet = strcmp(to->codes, "ftin") == 0;
    for (int i = 0; i < from->count; i++) {
        double result = change_unit(from->value[i], unit, to);
        buffer_append_string(out, from->between[i]);
        if (as_feet)
            put_feet_inches(out, result * to->scale);
        else
            put_number(out, result, result_decimals(from, i, result, to));
    }
    if (!as_feet)
        buffer_printf(out, "%s%s", to->symbol[0] == '\'' ? "" : " ", to->symbol);
}

static void put_input(struct buffer *out, const struct quantity *from) {
    for (int i = 0; i < from->count; i++) {
        buffer_append_string(out, from->between[i]);
        if (memchr(from->text[i].data, '/', from->text[i].length) ||
            memchr(from->text[i].data, ',', from->text[i].length))
            wiki_append(out, from->text[i]);
        else
            wiki_format_number(out, from->text[i]);
    }
}

static void put_unit(struct buffer *out, const struct quantity *from, const struct wiki_unit *unit, bool short_names) {
    double last = from->value[from->count - 1];
    bool is_adjective = !short_names && out->length && out->data[out->length - 1] == '-';
    if (!is_adjective)
        buffer_append_byte(out, ' ');
    bool is_plural = !short_names && last != 1 && !is_adjective;
    buffer_append_string(out, short_names ? unit->symbol : is_plural && unit->plural ? unit->plural : unit->singular);
    if (is_plural && !unit->plural)
        buffer_append_byte(out, 's');
}

// {{convert|6|ft|1|in|m}}: the second unit is appended to the first, and the sum in the smaller unit is converted.
static const struct wiki_unit *join_second_unit(struct buffer *out, const struct wiki_call *call, struct quantity *from,
                                                const struct wiki_unit *unit, int64_t next) {
    double value;
    int decimals;
    const struct wiki_unit *small = find_unit(wiki_call_at(call, next + 1));
    if (!small || small->kind != unit->kind || !read_value(wiki_call_at(call, next), &value, &decimals))
        return unit;
    buffer_append_byte(out, ' ');
    wiki_append(out, wiki_call_at(call, next));
    buffer_printf(out, " %s", small->symbol);
    from->value[0] = value + change_unit(from->value[0], unit, small);
    from->decimals = decimals > 0 ? decimals : 0;
    return small;
}

void wiki_convert(struct buffer *out, const struct wiki_call *call) {
    struct quantity from;
    int64_t next = 1;
    if (!read_quantity(&from, call, &next)) {
        // A value we cannot convert: the original text is better than nothing.
        wiki_append(out, wiki_call_at(call, 1));
        if (wiki_call_at(call, 2).length)
            buffer_append_byte(out, ' ');
        wiki_append(out, wiki_call_at(call, 2));
        return;
    }
    struct wiki_slice code = wiki_call_at(call, next++), target = wiki_call_at(call, next);
    const struct wiki_unit *unit = find_unit(code);
    struct wiki_slice abbreviate = wiki_call_get(call, "abbr"), adjective = wiki_call_get(call, "adj");
    bool is_short = wiki_equal(abbreviate, "on") || wiki_equal(abbreviate, "in") || wiki_equal_case(call->name, "cvt");
    put_input(out, &from);
    if (!unit) {
        if (code.length)
            buffer_append_byte(out, ' ');
        wiki_append(out, code);
        return;
    }
    double next_value;
    int next_decimals;
    bool has_second = read_value(target, &next_value, &next_decimals) && find_unit(wiki_call_at(call, next + 1));
    if (wiki_begins(adjective, "on") && !is_short)
        buffer_append_byte(out, '-');
    put_unit(out, &from, unit, is_short || has_second || is_temperature(unit));
    if (has_second) {
        unit = join_second_unit(out, call, &from, unit, next);
        target = wiki_call_at(call, next + 2);
    }
    const struct wiki_unit *to = target.length ? find_unit(target) : find_unit(wiki_slice_of(unit->target));
    if (!to || to->kind != unit->kind)
        return;
    buffer_append_string(out, " (");
    put_result(out, &from, unit, to);
    buffer_append_byte(out, ')');
}
