// Units of measurement of {{convert}}.
#ifndef DATA_EXTRACT_WIKI_CONVERT_H
#define DATA_EXTRACT_WIKI_CONVERT_H

#include "data/extract/wiki_slice.h"

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
    const char *code;
    enum wiki_unit_kind kind;
    double scale;  // in the base unit of its kind
    double zero;   // zero point, for temperatures
    const char *symbol, *singular, *plural;
    const char *target;  // its default target unit
};

const struct wiki_unit *wiki_unit_find(struct wiki_slice code);  // NULL if unknown
bool wiki_unit_is_temperature(const struct wiki_unit *unit);
double wiki_unit_change(double value, const struct wiki_unit *from, const struct wiki_unit *to);

#endif
