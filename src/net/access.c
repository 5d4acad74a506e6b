// The process's access to S3: credentials, the regions of buckets, S3's clock, and what is known about objects. Looked
// up on first use, kept under one lock, renewed before it expires.
#include "net/internal.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Credentials that expire within RENEW_SECONDS are renewed if possible.
enum { RENEW_SECONDS = 300, CACHE_SLOTS = 4096 };

// A fact known under a name: the region of a bucket, or the real address of a printable one.
struct known_name {
    char *name, *value;
    struct known_name *next;
};

struct cached_object {
    struct remote_object object;
    struct cached_object *next;
};

static struct {
    pthread_mutex_t lock;
    char *(*get)(const char *name);
    char *endpoint;
    struct remote_patience patience;
    bool is_known;  // credentials and region were looked up
    struct aws_credentials credentials;
    char *region, *found_endpoint;
    bool has_ca_file;     // it was looked up
    char *ca_file;        // NULL for the system's
    double skew_seconds;  // S3's clock minus ours
    struct known_name *regions, *hidden;
    struct cached_object *objects[CACHE_SLOTS];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct known_name *known_find(struct known_name *list, const char *name) {
    while (list && strcmp(list->name, name) != 0)
        list = list->next;
    return list;
}

static void known_set(struct known_name **list, const char *name, const char *value) {
    struct known_name *entry = known_find(*list, name);
    if (!entry) {
        entry = memory_alloc(sizeof *entry);
        *entry = (struct known_name){.name = memory_string(name), .next = *list};
        *list = entry;
    }
    free(entry->value);
    entry->value = memory_string(value);
}

static void known_free(struct known_name **list) {
    while (*list) {
        OWNED struct known_name *entry = *list;
        *list = entry->next;
        free(entry->name);
        free(entry->value);
    }
}

void remote_set_environment(char *(*get)(const char *name)) {
    state.get = get;
}

void remote_set_endpoint(const char *url) {
    free(state.endpoint);
    state.endpoint = memory_string(url);
}

void remote_set_patience(const struct remote_patience *patience) {
    state.patience = *patience;
}

struct remote_patience remote_patience(void) {
    struct remote_patience patience = state.patience;
    patience.attempts = patience.attempts > 0 ? patience.attempts : 8;
    patience.backoff_seconds = patience.backoff_seconds > 0 ? patience.backoff_seconds : 0.5;
    patience.stall_seconds = patience.stall_seconds > 0 ? patience.stall_seconds : 60;
    patience.part_bytes = patience.part_bytes > 0 ? patience.part_bytes : (size_t)8 << 20;
    patience.streams = patience.streams > 0 ? patience.streams : 8;
    return patience;
}

static void forget_credentials(void) {
    credentials_free(&state.credentials);
    free(state.region);
    free(state.found_endpoint);
    state.region = state.found_endpoint = NULL;
    state.is_known = false;
}

void remote_object_free(struct remote_object *object) {
    free(object->url);
    free(object->tag);
    *object = (struct remote_object){0};
}

void remote_forget(void) {
    pthread_mutex_lock(&state.lock);
    forget_credentials();
    free(state.ca_file);
    state.ca_file = NULL;
    state.has_ca_file = false;
    state.skew_seconds = 0;
    known_free(&state.regions);
    known_free(&state.hidden);
    for (size_t i = 0; i < CACHE_SLOTS; i++)
        while (state.objects[i]) {
            struct cached_object *next = state.objects[i]->next;
            remote_object_free(&state.objects[i]->object);
            free(state.objects[i]);
            state.objects[i] = next;
        }
    pthread_mutex_unlock(&state.lock);
}

// ---- credentials ----

// Call with the lock held.
static int look_for_credentials(void) {
    struct aws_context context;
    TRY(aws_context_open(&context, state.get));
    int status = credentials_find(&state.credentials, &context);
    if (status == 0) {
        state.region = aws_context_region(&context);
        state.found_endpoint = aws_context_endpoint(&context, "s3");
        state.is_known = true;
        if (state.credentials.source)
            log_debug("S3: credentials from %s", state.credentials.source);
    }
    aws_context_close(&context);
    return status;
}

// Certificates to trust, for S3 and for any other address. Unreadable files of the AWS tools are an error for S3 alone.
static void find_ca_file(void) {
    struct aws_context context;
    if (state.has_ca_file)
        return;
    state.has_ca_file = true;
    if (aws_context_open(&context, state.get) == 0) {
        state.ca_file = aws_context_ca_file(&context);
        aws_context_close(&context);
        return;
    }
    error_clear();
    context = (struct aws_context){.get = state.get};
    state.ca_file = memory_string(aws_context_get(&context, "AWS_CA_BUNDLE"));
}

static bool expires_soon(double seconds) {
    return state.credentials.expires > 0 &&
           (double)state.credentials.expires < clock_wall_seconds() + state.skew_seconds + seconds;
}

// Replaces credentials that are about to expire; if there are no newer ones, the old ones are used while they are
// valid.
static int renew(void) {
    struct aws_credentials old = state.credentials;
    state.credentials = (struct aws_credentials){0};
    char *region = state.region, *endpoint = state.found_endpoint;
    state.region = state.found_endpoint = NULL;
    state.is_known = false;
    int status = look_for_credentials();
    // If there were credentials, finding none is also a failure of their source.
    if (status == 0 && !state.credentials.access_key)
        status = error_set("the credentials from %s are gone", old.source ? old.source : "?");
    if (status == 0) {
        credentials_free(&old);
        free(region);
        free(endpoint);
        return 0;
    }
    forget_credentials();
    state.credentials = old;
    state.region = region;
    state.found_endpoint = endpoint;
    state.is_known = true;
    if (expires_soon(0))
        return -1;
    log_warn("S3: the credentials expire soon and cannot be renewed yet: %s", error_message());
    error_clear();
    return 0;
}

static int make_ready(void) {
    if (!state.is_known)
        return look_for_credentials();
    return state.credentials.renews && expires_soon(RENEW_SECONDS) ? renew() : 0;
}

static const char *region_of(const char *bucket) {
    const struct known_name *known = known_find(state.regions, bucket);
    return known ? known->value : state.region ? state.region : "us-east-1";
}

int remote_access_take(struct remote_access *access, const char *bucket) {
    *access = (struct remote_access){0};
    TRY(http_load());
    pthread_mutex_lock(&state.lock);
    int status = make_ready();
    if (status == 0) {
        find_ca_file();
        const struct aws_credentials *own = &state.credentials;
        const char *endpoint = state.endpoint ? state.endpoint : state.found_endpoint;
        *access = (struct remote_access){
            .credentials = {.access_key = memory_string(own->access_key),
                            .secret_key = memory_string(own->secret_key),
                            .session_token = memory_string(own->session_token),
                            .expires = own->expires,
                            .renews = own->renews,
                            .source = memory_string(own->source)},
            .region = memory_string(region_of(bucket)),
            .endpoint = memory_string(endpoint),
            .ca_file = memory_string(state.ca_file),
            .time = (int64_t)(clock_wall_seconds() + state.skew_seconds),
        };
    }
    pthread_mutex_unlock(&state.lock);
    return status;
}

int remote_access_take_plain(struct remote_access *access) {
    *access = (struct remote_access){0};
    TRY(http_load());
    pthread_mutex_lock(&state.lock);
    find_ca_file();
    access->ca_file = memory_string(state.ca_file);
    pthread_mutex_unlock(&state.lock);
    return 0;
}

void remote_access_free(struct remote_access *access) {
    credentials_free(&access->credentials);
    free(access->region);
    free(access->endpoint);
    free(access->ca_file);
    *access = (struct remote_access){0};
}

// Call with the lock held.
static bool has_other_keys(const char *stale_access_key, const char *stale_token) {
    const struct aws_credentials *own = &state.credentials;
    return own->access_key && (strcmp(own->access_key, stale_access_key) != 0 ||
                               strcmp(own->session_token ? own->session_token : "", stale_token) != 0);
}

bool remote_renew(const char *stale_access_key, const char *stale_token) {
    pthread_mutex_lock(&state.lock);
    bool is_new = has_other_keys(stale_access_key, stale_token);
    if (!is_new && state.credentials.renews && renew() == 0)
        is_new = has_other_keys(stale_access_key, stale_token);
    else if (!is_new)
        error_clear();
    pthread_mutex_unlock(&state.lock);
    return is_new;
}

// ---- facts from answers ----

bool remote_learn_region(const char *bucket, const char *region) {
    pthread_mutex_lock(&state.lock);
    bool is_new = strcmp(region_of(bucket), region) != 0;
    if (is_new)
        known_set(&state.regions, bucket, region);
    pthread_mutex_unlock(&state.lock);
    return is_new;
}

bool remote_learn_time(double server_seconds) {
    pthread_mutex_lock(&state.lock);
    double skew = server_seconds - clock_wall_seconds(), change = skew - state.skew_seconds;
    bool is_new = change > 60 || change < -60;
    if (is_new)
        state.skew_seconds = skew;
    pthread_mutex_unlock(&state.lock);
    if (is_new)
        log_warn("S3: this machine's clock is %.0f s %s; signing with S3's time. Set the clock, e.g. with chrony",
                 skew > 0 ? skew : -skew, skew > 0 ? "slow" : "fast");
    return is_new;
}

// ---- addresses with secrets ----

// Two addresses that differ only in their secrets are two files: the later one gets a number.
char *remote_hide(const char *url) {
    char *printable = secret_redact(url);
    if (strcmp(printable, url) == 0)
        return printable;
    pthread_mutex_lock(&state.lock);
    char *name = memory_string(printable);
    const struct known_name *entry;
    for (int number = 2; (entry = known_find(state.hidden, name)) && strcmp(entry->value, url) != 0; number++) {
        free(name);
        name = memory_printf("%s#%d", printable, number);
    }
    known_set(&state.hidden, name, url);
    pthread_mutex_unlock(&state.lock);
    free(printable);
    return name;
}

char *remote_reveal(const char *url) {
    pthread_mutex_lock(&state.lock);
    const struct known_name *entry = known_find(state.hidden, url);
    char *address = memory_string(entry ? entry->value : url);
    pthread_mutex_unlock(&state.lock);
    return address;
}

// ---- objects ----

static struct cached_object **slot_of(const char *url) {
    return &state.objects[hash_bytes(url, strlen(url), 0) % CACHE_SLOTS];
}

static void copy_object(struct remote_object *to, const struct remote_object *from) {
    *to = *from;
    to->url = memory_string(from->url);
    to->tag = memory_string(from->tag);
}

bool remote_cache_find(struct remote_object *object, const char *url) {
    pthread_mutex_lock(&state.lock);
    const struct cached_object *entry = *slot_of(url);
    while (entry && strcmp(entry->object.url, url) != 0)
        entry = entry->next;
    if (entry)
        copy_object(object, &entry->object);
    pthread_mutex_unlock(&state.lock);
    return entry != NULL;
}

void remote_cache_add(const struct remote_object *object) {
    pthread_mutex_lock(&state.lock);
    struct cached_object **slot = slot_of(object->url), *entry = *slot;
    while (entry && strcmp(entry->object.url, object->url) != 0)
        entry = entry->next;
    if (!entry) {
        entry = memory_alloc(sizeof *entry);
        copy_object(&entry->object, object);
        entry->next = *slot;
        *slot = entry;
    }
    pthread_mutex_unlock(&state.lock);
}
