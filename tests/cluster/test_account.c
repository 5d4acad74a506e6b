// The content of an account: which subnet is public, which zone offers all machines, and which pair of subnets a
// cluster gets.
#include "cluster/aws.h"
#include "test.h"

static const char subnets_text[] = "{\"Subnets\": ["
                                   "{\"SubnetId\": \"subnet-pub-a\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": "
                                   "\"r-1a\", \"AvailableIpAddressCount\": 20},"
                                   "{\"SubnetId\": \"subnet-pub-b\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": "
                                   "\"r-1b\", \"AvailableIpAddressCount\": 20},"
                                   "{\"SubnetId\": \"subnet-nat-a\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": "
                                   "\"r-1a\", \"AvailableIpAddressCount\": 900},"
                                   "{\"SubnetId\": \"subnet-nat-b\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": "
                                   "\"r-1b\", \"AvailableIpAddressCount\": 250},"
                                   "{\"SubnetId\": \"subnet-shut\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": "
                                   "\"r-1b\", \"AvailableIpAddressCount\": 5000},"
                                   "{\"SubnetId\": \"subnet-lone\", \"VpcId\": \"vpc-2\", \"AvailabilityZone\": "
                                   "\"r-1c\", \"AvailableIpAddressCount\": 99}]}";
static const char tables_text[] =
    "{\"RouteTables\": ["
    "{\"VpcId\": \"vpc-1\", \"Associations\": [{\"Main\": true}], \"Routes\": [{\"DestinationCidrBlock\": "
    "\"10.0.0.0/16\", "
    "\"GatewayId\": \"local\"}]},"
    "{\"VpcId\": \"vpc-1\", \"Associations\": [{\"SubnetId\": \"subnet-pub-a\"}, {\"SubnetId\": \"subnet-pub-b\"}], "
    "\"Routes\": [{\"DestinationCidrBlock\": \"0.0.0.0/0\", \"GatewayId\": \"igw-1\"}]},"
    "{\"VpcId\": \"vpc-1\", \"Associations\": [{\"SubnetId\": \"subnet-nat-a\"}, {\"SubnetId\": \"subnet-nat-b\"}], "
    "\"Routes\": [{\"DestinationCidrBlock\": \"0.0.0.0/0\", \"NatGatewayId\": \"nat-1\"}]},"
    "{\"VpcId\": \"vpc-2\", \"Associations\": [{\"Main\": true}], \"Routes\": [{\"DestinationCidrBlock\": "
    "\"0.0.0.0/0\", "
    "\"GatewayId\": \"igw-2\"}]}]}";

struct account_lab {
    struct json *subnets, *tables;
    struct account_subnets all;
    struct string_list zones;
    struct buffer notes;
};

static void open_lab(struct account_lab *lab) {
    *lab = (struct account_lab){0};
    EXPECT_OK(json_parse(&lab->subnets, subnets_text, strlen(subnets_text), "subnets"));
    EXPECT_OK(json_parse(&lab->tables, tables_text, strlen(tables_text), "tables"));
    EXPECT_OK(account_read_subnets(lab->subnets, lab->tables, &lab->all));
}

static void close_lab(struct account_lab *lab) {
    free(lab->all.items);
    json_free(lab->subnets);
    json_free(lab->tables);
    string_list_free(&lab->zones);
    buffer_free(&lab->notes);
}

TEST(routes_tell_what_is_public) {
    struct account_lab lab;
    open_lab(&lab);
    static const bool is_public[] = {true, true, false, false, false, true};
    static const bool has_way_out[] = {true, true, true, true, false, true};
    EXPECT_INT((int)lab.all.count, 6);
    for (size_t i = 0; i < lab.all.count; i++)
        EXPECT(lab.all.items[i].is_public == is_public[i] && lab.all.items[i].has_way_out == has_way_out[i]);
    close_lab(&lab);
}

TEST(the_best_pair) {
    struct account_lab lab;
    const struct account_subnet *chosen[2];
    open_lab(&lab);
    // The subnet with more addresses wins; the head node is in the same zone.
    EXPECT_OK(account_choose(&lab.all, &(struct account_wish){.zones = &lab.zones, .needs_private = true}, chosen,
                             &lab.notes));
    EXPECT_STRING(chosen[0]->id, "subnet-pub-a");
    EXPECT_STRING(chosen[1]->id, "subnet-nat-a");
    // Only one zone has the machines.
    string_list_add(&lab.zones, "r-1b");
    EXPECT_OK(account_choose(&lab.all, &(struct account_wish){.zones = &lab.zones, .needs_private = true}, chosen,
                             &lab.notes));
    EXPECT_STRING(chosen[0]->id, "subnet-pub-b");
    EXPECT_STRING(chosen[1]->id, "subnet-nat-b");
    EXPECT_INT((int)lab.notes.length, 0);
    // Given choices are kept.
    EXPECT_OK(account_choose(&lab.all, &(struct account_wish){.zones = &lab.zones, .head = "subnet-pub-a"}, chosen,
                             &lab.notes));
    EXPECT_STRING(chosen[0]->id, "subnet-pub-a");
    EXPECT_ERROR(account_choose(&lab.all, &(struct account_wish){.zones = &lab.zones, .compute = "subnet-x"}, chosen,
                                &lab.notes),
                 "--subnet subnet-x: this account has no such subnet");
    close_lab(&lab);
}

TEST(no_private_subnet) {
    struct account_lab lab;
    const struct account_subnet *chosen[2];
    open_lab(&lab);
    string_list_add(&lab.zones, "r-1c");
    EXPECT_ERROR(account_choose(&lab.all, &(struct account_wish){.zones = &lab.zones, .needs_private = true}, chosen,
                                &lab.notes),
                 "private, with a route to a NAT gateway");
    EXPECT_OK(account_choose(&lab.all, &(struct account_wish){.zones = &lab.zones}, chosen, &lab.notes));
    EXPECT_STRING(chosen[1]->id, "subnet-lone");
    EXPECT(strstr(buffer_string(&lab.notes), "in the public subnet subnet-lone") != NULL);
    close_lab(&lab);
}

TEST(zones_that_offer_all) {
    static const char text[] = "{\"InstanceTypeOfferings\": [{\"InstanceType\": \"a\", \"Location\": \"r-1a\"}, "
                               "{\"InstanceType\": \"b\", \"Location\": \"r-1b\"}, {\"InstanceType\": \"a\", "
                               "\"Location\": \"r-1b\"}, {\"InstanceType\": \"a\"}]}";
    struct json *offerings;
    struct string_list types = {0}, zones = {0};
    EXPECT_OK(json_parse(&offerings, text, strlen(text), "offerings"));
    string_list_add(&types, "a");
    string_list_add(&types, "b");
    account_zones(offerings, &types, &zones);
    EXPECT_INT(zones.count, 1);
    EXPECT_STRING(zones.items[0], "r-1b");
    string_list_free(&types);
    string_list_free(&zones);
    json_free(offerings);
}

TEST(quotas) {
    EXPECT_STRING(account_quota_of("p4d.24xlarge")->code, "L-417A185B");
    EXPECT_STRING(account_quota_of("g5.xlarge")->code, "L-DB2E81BA");
    EXPECT_STRING(account_quota_of("c5n.18xlarge")->code, "L-1216C47A");
    EXPECT_STRING(account_quota_of("inf2.xlarge")->code, "L-1945791B");
    EXPECT(account_quota_of("u-6tb1.metal") == NULL);
    EXPECT(account_quota_of("") == NULL);
}

TEST_MAIN(TEST_CASE(routes_tell_what_is_public), TEST_CASE(the_best_pair), TEST_CASE(no_private_subnet),
          TEST_CASE(zones_that_offer_all), TEST_CASE(quotas))
