// Subnets, zones and quotas of an account. See aws.h.
#include "cluster/aws.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const struct json *object, const char *key) {
    const struct json *member = json_member(object, key);
    return member && member->type == JSON_STRING ? member->string : "";
}

static const struct json *list_of(const struct json *object, const char *key) {
    static const struct json nothing = {.type = JSON_ARRAY};
    const struct json *member = json_member(object, key);
    return member && member->type == JSON_ARRAY ? member : &nothing;
}

static bool is_true(const struct json *object, const char *key) {
    const struct json *member = json_member(object, key);
    return member && member->type == JSON_TRUE;
}

// The route table of a subnet: one associated with it, else the main one of its VPC.
static const struct json *table_of(const struct account_subnet *subnet, const struct json *tables) {
    const struct json *list = list_of(tables, "RouteTables"), *main_table = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct json *links = list_of(&list->items[i], "Associations");
        for (size_t k = 0; k < links->count; k++) {
            if (strcmp(text_of(&links->items[k], "SubnetId"), subnet->id) == 0)
                return &list->items[i];
            if (is_true(&links->items[k], "Main") && strcmp(text_of(&list->items[i], "VpcId"), subnet->vpc) == 0)
                main_table = &list->items[i];
        }
    }
    return main_table;
}

// Target of the default route.
static void follow_routes(struct account_subnet *subnet, const struct json *table) {
    const struct json *routes = list_of(table, "Routes");
    for (size_t i = 0; i < routes->count; i++) {
        const struct json *route = &routes->items[i];
        if (strcmp(text_of(route, "DestinationCidrBlock"), "0.0.0.0/0") != 0 ||
            strcmp(text_of(route, "State"), "blackhole") == 0)
            continue;
        if (strncmp(text_of(route, "GatewayId"), "igw-", 4) == 0)
            subnet->is_public = subnet->has_way_out = true;
        else if (*text_of(route, "NatGatewayId") || *text_of(route, "TransitGatewayId") ||
                 *text_of(route, "NetworkInterfaceId") || *text_of(route, "InstanceId") ||
                 strncmp(text_of(route, "GatewayId"), "vgw-", 4) == 0)
            subnet->has_way_out = true;
    }
}

int account_read_subnets(const struct json *subnets, const struct json *tables, struct account_subnets *out) {
    const struct json *list = list_of(subnets, "Subnets");
    *out = (struct account_subnets){.items = memory_alloc(sizeof *out->items * (list->count + 1))};
    for (size_t i = 0; i < list->count; i++) {
        const struct json *free_addresses = json_member(&list->items[i], "AvailableIpAddressCount");
        struct account_subnet subnet = {.id = text_of(&list->items[i], "SubnetId"),
                                        .vpc = text_of(&list->items[i], "VpcId"),
                                        .zone = text_of(&list->items[i], "AvailabilityZone")};
        if (free_addresses && free_addresses->type == JSON_NUMBER && free_addresses->number < 0x1p40)
            subnet.addresses = (int64_t)free_addresses->number;
        if (!*subnet.id)
            continue;
        follow_routes(&subnet, table_of(&subnet, tables));
        out->items[out->count++] = subnet;
    }
    return out->count > 0 ? 0
                          : error_set("this account has no subnet there; `pcluster configure` makes a VPC with a "
                                      "public and a private one");
}

static const struct account_subnet *find(const struct account_subnets *subnets, const char *id) {
    for (size_t i = 0; i < subnets->count; i++)
        if (strcmp(subnets->items[i].id, id) == 0)
            return &subnets->items[i];
    return NULL;
}

static bool is_among(const struct string_list *list, const char *text) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return list->count == 0;
}

// Rank of a subnet for the queues; 0: unsuitable.
static int worth(const struct account_subnet *subnet, const struct account_wish *wish, const char *vpc) {
    if (!is_among(wish->zones, subnet->zone) || (vpc && strcmp(vpc, subnet->vpc) != 0) || subnet->addresses < 1)
        return 0;
    if (subnet->is_public)
        return wish->needs_private ? 0 : 1;
    return subnet->has_way_out ? 2 : 0;
}

static int no_subnet(const struct account_wish *wish) {
    OWNED_BY(buffer_free) struct buffer zones = {0};
    for (int64_t i = 0; i < wish->zones->count; i++)
        buffer_printf(&zones, "%s%s", i ? ", " : "", wish->zones->items[i]);
    int status =
        error_set("no subnet for the queues: it must be %s%s%s; `pcluster configure` makes a VPC with a public and a "
                  "private one, or name a subnet with --subnet",
                  wish->needs_private ? "private, with a route to a NAT gateway, because machines with several network "
                                        "cards get no public address"
                                      : "one with a route to the internet",
                  zones.length ? ", in a zone that offers the machines: " : "", buffer_string(&zones));
    return status;
}

static int settled(const struct account_subnets *subnets, const char *id, const char *flag,
                   const struct account_subnet **chosen) {
    *chosen = id ? find(subnets, id) : NULL;
    if (!id || *chosen)
        return 0;
    return error_set(
        "%s %s: this account has no such subnet in this region; correct the line, or remove it to have one "
        "found",
        flag, id);
}

int account_choose(const struct account_subnets *subnets, const struct account_wish *wish,
                   const struct account_subnet *chosen[2], struct buffer *notes) {
    const struct account_subnet *head, *compute;
    TRY(settled(subnets, wish->head, "--head-subnet", &head));
    TRY(settled(subnets, wish->compute, "--subnet", &compute));
    for (size_t i = 0; !wish->compute && i < subnets->count; i++) {
        const struct account_subnet *one = &subnets->items[i];
        const char *vpc = head ? head->vpc : NULL;
        int value = worth(one, wish, vpc), best = compute ? worth(compute, wish, vpc) : 0;
        if (value > best || (value == best && value > 0 && one->addresses > compute->addresses))
            compute = one;
    }
    if (!compute)
        return no_subnet(wish);
    for (size_t i = 0; !wish->head && i < subnets->count; i++) {
        const struct account_subnet *one = &subnets->items[i];
        if (!one->is_public || strcmp(one->vpc, compute->vpc) != 0 || one->addresses < 1)
            continue;
        if (!head || (strcmp(one->zone, compute->zone) == 0 && strcmp(head->zone, compute->zone) != 0))
            head = one;
    }
    if (!head) {
        head = compute;
        buffer_printf(notes, "note: the VPC has no public subnet, so the head node gets no public address; `bevatron "
                             "cluster ssh` reaches it through Systems Manager.\n");
    }
    if (compute->is_public)
        buffer_printf(notes,
                      "note: the queues are in the public subnet %s; no private one has a route to a NAT "
                      "gateway.\n",
                      compute->id);
    if (!is_among(wish->zones, compute->zone))
        buffer_printf(notes, "note: zone %s of --subnet does not offer all machines of the queues.\n", compute->zone);
    chosen[0] = head;
    chosen[1] = compute;
    return 0;
}

static bool offers(const struct json *offerings, const char *zone, const char *type) {
    const struct json *list = list_of(offerings, "InstanceTypeOfferings");
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(text_of(&list->items[i], "Location"), zone) == 0 &&
            strcmp(text_of(&list->items[i], "InstanceType"), type) == 0)
            return true;
    return false;
}

void account_zones(const struct json *offerings, const struct string_list *types, struct string_list *zones) {
    const struct json *list = list_of(offerings, "InstanceTypeOfferings");
    for (size_t i = 0; i < list->count; i++) {
        const char *zone = text_of(&list->items[i], "Location");
        bool is_good = *zone && (zones->count == 0 || !is_among(zones, zone));
        for (int64_t k = 0; is_good && k < types->count; k++)
            is_good = offers(offerings, zone, types->items[k]);
        if (is_good)
            string_list_add(zones, zone);
    }
}

// The longest matching prefix wins; digits follow the letters of a family ("p4d", "inf2").
static const struct account_quota quotas[] = {
    {"p", "L-417A185B", "L-7212CCBC", "P instances"},         {"g", "L-DB2E81BA", "L-3819A6DF", "G and VT instances"},
    {"vt", "L-DB2E81BA", "L-3819A6DF", "G and VT instances"}, {"inf", "L-1945791B", "L-B5D1601B", "Inf instances"},
    {"trn", "L-2C3B7624", "L-6B0D517C", "Trn instances"},     {"x", "L-7295265B", "L-E3A00192", "X instances"},
    {"a", "L-1216C47A", "L-34B43A08", "Standard instances"},  {"c", "L-1216C47A", "L-34B43A08", "Standard instances"},
    {"d", "L-1216C47A", "L-34B43A08", "Standard instances"},  {"h", "L-1216C47A", "L-34B43A08", "Standard instances"},
    {"i", "L-1216C47A", "L-34B43A08", "Standard instances"},  {"m", "L-1216C47A", "L-34B43A08", "Standard instances"},
    {"r", "L-1216C47A", "L-34B43A08", "Standard instances"},  {"t", "L-1216C47A", "L-34B43A08", "Standard instances"},
    {"z", "L-1216C47A", "L-34B43A08", "Standard instances"},
};

const struct account_quota *account_quota_of(const char *type) {
    size_t letters = strspn(type, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof quotas / sizeof quotas[0]; i++)
        if (strlen(quotas[i].prefix) == letters && strncmp(quotas[i].prefix, type, letters) == 0)
            return &quotas[i];
    return NULL;
}
