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
    const char *symbol, *singular, *plural;
    const char *target;  // its default target unit
};

// Case matters: t is a tonne, T is not; ST is a short ton, st a stone. Base units: m, m², m³, kg, m/s, K, W, J, Pa, N,
// kg/m³, m³/s, 1/km², N⋅m.
static const struct wiki_unit units[] = {
    {"/km2|/sqkm|PD/km2|PD/sqkm", UNIT_PEOPLE, 1, 0, "/km²", "inhabitant per square kilometre",
     "inhabitants per square kilometre", "PD/sqmi"},
    {"/sqmi|PD/mi2|PD/sqmi", UNIT_PEOPLE, 0.3861021585424459, 0, "/sq mi", "inhabitant per square mile",
     "inhabitants per square mile", "PD/km2"},
    {"AU|au", UNIT_LENGTH, 149597870700, 0, "AU", "astronomical unit", "astronomical units", "km"},
    {"C|celsius|degC|°C", UNIT_TEMPERATURE, 1, 273.15, "°C", "degree Celsius", "degrees Celsius", "F"},
    {"C-change", UNIT_TEMPERATURE_CHANGE, 1, 0, "°C", "degree Celsius", "degrees Celsius", "F-change"},
    {"Cal|kcal", UNIT_ENERGY, 4184, 0, "kcal", "kilocalorie", "kilocalories", "kJ"},
    {"F|degF|°F", UNIT_TEMPERATURE, 5.0 / 9, 255.3722222222222, "°F", "degree Fahrenheit", "degrees Fahrenheit", "C"},
    {"F-change", UNIT_TEMPERATURE_CHANGE, 5.0 / 9, 0, "°F", "degree Fahrenheit", "degrees Fahrenheit", "C-change"},
    {"GPa", UNIT_PRESSURE, 1000000000, 0, "GPa", "gigapascal", "gigapascals", "psi"},
    {"J", UNIT_ENERGY, 1, 0, "J", "joule", "joules", "ftlbf"},
    {"K", UNIT_TEMPERATURE, 1, 0, "K", "kelvin", "kelvins", "C"},
    {"L|l|liter|litre", UNIT_VOLUME, 0.001, 0, "L", "litre", "litres", "USgal"},
    {"LT|long ton", UNIT_MASS, 1016.0469088, 0, "long tons", "long ton", "long tons", "t"},
    {"MJ", UNIT_ENERGY, 1000000, 0, "MJ", "megajoule", "megajoules", "kWh"},
    {"MPa", UNIT_PRESSURE, 1000000, 0, "MPa", "megapascal", "megapascals", "psi"},
    {"MT|t|tonne", UNIT_MASS, 1000, 0, "t", "tonne", "tonnes", "LT"},
    {"MW", UNIT_POWER, 1000000, 0, "MW", "megawatt", "megawatts", "hp"},
    {"N", UNIT_FORCE, 1, 0, "N", "newton", "newtons", "lbf"},
    {"N.m|Nm|N·m", UNIT_TORQUE, 1, 0, "N⋅m", "newton-metre", "newton-metres", "lbft"},
    {"NM|nmi", UNIT_LENGTH, 1852, 0, "nmi", "nautical mile", "nautical miles", "km"},
    {"PJ", UNIT_ENERGY, 1000000000000000, 0, "PJ", "petajoule", "petajoules", "TWh"},
    {"PS|metric hp", UNIT_POWER, 735.49875, 0, "PS", "metric horsepower", "metric horsepower", "kW"},
    {"Pa", UNIT_PRESSURE, 1, 0, "Pa", "pascal", "pascals", "psi"},
    {"ST|short ton|ton|tons", UNIT_MASS, 907.18474, 0, "short tons", "short ton", "short tons", "t"},
    {"TWh", UNIT_ENERGY, 3600000000000000, 0, "TWh", "terawatt hour", "terawatt hours", "PJ"},
    {"U.S.gal|USgal|gal|usgal", UNIT_VOLUME, 0.003785411784, 0, "US gal", "US gallon", "US gallons", "L"},
    {"USfloz|USoz|usoz", UNIT_VOLUME, 2.95735295625e-5, 0, "US fl oz", "US fluid ounce", "US fluid ounces", "mL"},
    {"USpt|pt", UNIT_VOLUME, 0.000473176473, 0, "US pt", "US pint", "US pints", "mL"},
    {"USqt", UNIT_VOLUME, 0.000946352946, 0, "US qt", "US quart", "US quarts", "L"},
    {"W", UNIT_POWER, 1, 0, "W", "watt", "watts", "hp"},
    {"ac|acre|acres", UNIT_AREA, 4046.8564224, 0, "acres", "acre", "acres", "ha"},
    {"acre.ft|acreft", UNIT_VOLUME, 1233.48183754752, 0, "acre⋅ft", "acre-foot", "acre-feet", "m3"},
    {"atm", UNIT_PRESSURE, 101325, 0, "atm", "atmosphere", "atmospheres", "kPa"},
    {"bar", UNIT_PRESSURE, 100000, 0, "bar", "bar", "bars", "kPa"},
    {"bbl|oilbbl", UNIT_VOLUME, 0.158987294928, 0, "bbl", "barrel", "barrels", "m3"},
    {"bhp|hp|ihp|shp", UNIT_POWER, 745.69987158227, 0, "hp", "horsepower", "horsepower", "kW"},
    {"cc|cm3|cucm", UNIT_VOLUME, 1e-6, 0, "cm³", "cubic centimetre", "cubic centimetres", "cuin"},
    {"chain", UNIT_LENGTH, 20.1168, 0, "chains", "chain", "chains", "m"},
    {"cid|cuin|in3", UNIT_VOLUME, 1.6387064e-5, 0, "cu in", "cubic inch", "cubic inches", "cm3"},
    {"cm", UNIT_LENGTH, 0.01, 0, "cm", "centimetre", "centimetres", "in"},
    {"cm2|sqcm", UNIT_AREA, 0.0001, 0, "cm²", "square centimetre", "square centimetres", "sqin"},
    {"cuft|ft3", UNIT_VOLUME, 0.028316846592, 0, "cu ft", "cubic foot", "cubic feet", "m3"},
    {"cuft/s|cufts", UNIT_FLOW, 0.028316846592, 0, "cu ft/s", "cubic foot per second", "cubic feet per second", "m3/s"},
    {"cum|m3|m³", UNIT_VOLUME, 1, 0, "m³", "cubic metre", "cubic metres", "cuft"},
    {"cumec|m3/s", UNIT_FLOW, 1, 0, "m³/s", "cubic metre per second", "cubic metres per second", "cuft/s"},
    {"cumi", UNIT_VOLUME, 4168181825.4405794, 0, "cu mi", "cubic mile", "cubic miles", "km3"},
    {"cuyd|yd3", UNIT_VOLUME, 0.764554857984, 0, "cu yd", "cubic yard", "cubic yards", "m3"},
    {"cwt", UNIT_MASS, 50.80234544, 0, "cwt", "hundredweight", "hundredweight", "kg"},
    {"dunam", UNIT_AREA, 1000, 0, "dunams", "dunam", "dunams", "ha"},
    {"fathom|ftm", UNIT_LENGTH, 1.8288, 0, "fathoms", "fathom", "fathoms", "m"},
    {"feet|foot|ft", UNIT_LENGTH, 0.3048, 0, "ft", "foot", "feet", "m"},
    {"ftin", UNIT_LENGTH, 0.3048, 0, "ft", "foot", "feet", "m"},
    {"ft/s", UNIT_SPEED, 0.3048, 0, "ft/s", "foot per second", "feet per second", "m/s"},
    {"ft2|sqft", UNIT_AREA, 0.09290304, 0, "sq ft", "square foot", "square feet", "m2"},
    {"ftlbf", UNIT_ENERGY, 1.3558179483314, 0, "ft⋅lbf", "foot-pound", "foot-pounds", "J"},
    {"furlong", UNIT_LENGTH, 201.168, 0, "furlongs", "furlong", "furlongs", "m"},
    {"g", UNIT_MASS, 0.001, 0, "g", "gram", "grams", "oz"},
    {"g/cm3", UNIT_DENSITY, 1000, 0, "g/cm³", "gram per cubic centimetre", "grams per cubic centimetre", "lb/cuin"},
    {"gr", UNIT_MASS, 6.479891e-5, 0, "gr", "grain", "grains", "mg"},
    {"hL|hl", UNIT_VOLUME, 0.1, 0, "hL", "hectolitre", "hectolitres", "USgal"},
    {"hPa", UNIT_PRESSURE, 100, 0, "hPa", "hectopascal", "hectopascals", "inHg"},
    {"ha|hectare", UNIT_AREA, 10000, 0, "ha", "hectare", "hectares", "acre"},
    {"impgal", UNIT_VOLUME, 0.00454609, 0, "imp gal", "imperial gallon", "imperial gallons", "L"},
    {"impoz", UNIT_VOLUME, 2.84130625e-5, 0, "imp fl oz", "imperial fluid ounce", "imperial fluid ounces", "mL"},
    {"in|inch|inches", UNIT_LENGTH, 0.0254, 0, "in", "inch", "inches", "mm"},
    {"in2|sqin", UNIT_AREA, 0.00064516, 0, "sq in", "square inch", "square inches", "cm2"},
    {"inHg", UNIT_PRESSURE, 3386.388640341, 0, "inHg", "inch of mercury", "inches of mercury", "kPa"},
    {"kJ", UNIT_ENERGY, 1000, 0, "kJ", "kilojoule", "kilojoules", "kcal"},
    {"kN", UNIT_FORCE, 1000, 0, "kN", "kilonewton", "kilonewtons", "lbf"},
    {"kPa", UNIT_PRESSURE, 1000, 0, "kPa", "kilopascal", "kilopascals", "psi"},
    {"kW|kw", UNIT_POWER, 1000, 0, "kW", "kilowatt", "kilowatts", "hp"},
    {"kWh", UNIT_ENERGY, 3600000, 0, "kWh", "kilowatt hour", "kilowatt hours", "MJ"},
    {"kg|kilogram", UNIT_MASS, 1, 0, "kg", "kilogram", "kilograms", "lb"},
    {"kg/m3", UNIT_DENSITY, 1, 0, "kg/m³", "kilogram per cubic metre", "kilograms per cubic metre", "lb/cuyd"},
    {"kilometer|kilometre|km", UNIT_LENGTH, 1000, 0, "km", "kilometre", "kilometres", "mi"},
    {"km/h|kmph|kph", UNIT_SPEED, 1 / 3.6, 0, "km/h", "kilometre per hour", "kilometres per hour", "mph"},
    {"km/s", UNIT_SPEED, 1000, 0, "km/s", "kilometre per second", "kilometres per second", "mi/s"},
    {"km2|km²|sqkm|square kilometre", UNIT_AREA, 1000000, 0, "km²", "square kilometre", "square kilometres", "sqmi"},
    {"km3", UNIT_VOLUME, 1000000000, 0, "km³", "cubic kilometre", "cubic kilometres", "cumi"},
    {"kn|knot|kt", UNIT_SPEED, 1852.0 / 3600, 0, "kn", "knot", "knots", "km/h"},
    {"lb|lbs|pound", UNIT_MASS, 0.45359237, 0, "lb", "pound", "pounds", "kg"},
    {"lb.ft|lbft", UNIT_TORQUE, 1.3558179483314, 0, "lb⋅ft", "pound-foot", "pound-feet", "Nm"},
    {"lb/cuin", UNIT_DENSITY, 27679.9047102, 0, "lb/cu in", "pound per cubic inch", "pounds per cubic inch", "g/cm3"},
    {"lb/cuyd", UNIT_DENSITY, 0.593276421257, 0, "lb/cu yd", "pound per cubic yard", "pounds per cubic yard", "kg/m3"},
    {"lbf", UNIT_FORCE, 4.4482216152605, 0, "lbf", "pound-force", "pounds-force", "N"},
    {"league", UNIT_LENGTH, 4828.032, 0, "leagues", "league", "leagues", "km"},
    {"ly", UNIT_LENGTH, 9460730472580800, 0, "ly", "light-year", "light-years", "pc"},
    {"m|meter|metre", UNIT_LENGTH, 1, 0, "m", "metre", "metres", "ft"},
    {"m/s", UNIT_SPEED, 1, 0, "m/s", "metre per second", "metres per second", "ft/s"},
    {"m2|m²|sqm", UNIT_AREA, 1, 0, "m²", "square metre", "square metres", "sqft"},
    {"mL|ml", UNIT_VOLUME, 1e-6, 0, "mL", "millilitre", "millilitres", "USoz"},
    {"mbar", UNIT_PRESSURE, 100, 0, "mbar", "millibar", "millibars", "inHg"},
    {"mg", UNIT_MASS, 1e-6, 0, "mg", "milligram", "milligrams", "gr"},
    {"mi|mile|miles", UNIT_LENGTH, 1609.344, 0, "mi", "mile", "miles", "km"},
    {"mi/s", UNIT_SPEED, 1609.344, 0, "mi/s", "mile per second", "miles per second", "km/s"},
    {"mi2|sqmi|square mile", UNIT_AREA, 2589988.110336, 0, "sq mi", "square mile", "square miles", "km2"},
    {"mm", UNIT_LENGTH, 0.001, 0, "mm", "millimetre", "millimetres", "in"},
    {"mm2", UNIT_AREA, 1e-6, 0, "mm²", "square millimetre", "square millimetres", "sqin"},
    {"mmHg", UNIT_PRESSURE, 133.322387415, 0, "mmHg", "millimetre of mercury", "millimetres of mercury", "kPa"},
    {"mph", UNIT_SPEED, 0.44704, 0, "mph", "mile per hour", "miles per hour", "km/h"},
    {"nm", UNIT_LENGTH, 1e-9, 0, "nm", "nanometre", "nanometres", "in"},
    {"oz", UNIT_MASS, 0.028349523125, 0, "oz", "ounce", "ounces", "g"},
    {"ozt|troy oz", UNIT_MASS, 0.0311034768, 0, "ozt", "troy ounce", "troy ounces", "g"},
    {"pc", UNIT_LENGTH, 30856775814913672, 0, "pc", "parsec", "parsecs", "ly"},
    {"psi", UNIT_PRESSURE, 6894.757293168361, 0, "psi", "pound per square inch", "pounds per square inch", "kPa"},
    {"sqnmi", UNIT_AREA, 3429904, 0, "sq nmi", "square nautical mile", "square nautical miles", "km2"},
    {"sqyd|yd2", UNIT_AREA, 0.83612736, 0, "sq yd", "square yard", "square yards", "m2"},
    {"st|stone", UNIT_MASS, 6.35029318, 0, "st", "stone", "stone", "kg"},
    {"um|µm|μm", UNIT_LENGTH, 1e-6, 0, "μm", "micrometre", "micrometres", "in"},
    {"yard|yd", UNIT_LENGTH, 0.9144, 0, "yd", "yard", "yards", "m"},
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
    if (short_names)
        buffer_append_string(out, unit->symbol);
    else
        buffer_append_string(out, last == 1 || is_adjective ? unit->singular : unit->plural);
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
