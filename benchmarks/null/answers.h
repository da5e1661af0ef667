/* What the null servers share: finding id and method of a message, and the fixed
 * answers. POSIX only. The includer defines PROGRAM, the name it complains under. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_SIZE = 256 * 1024 };

typedef struct {
    const char *start;
    size_t size;
} slice;

typedef struct {
    char *bytes;
    size_t size, capacity;
} buffer;

static void die(const char *message)
{
    fprintf(stderr, PROGRAM ": %s\n", message);
    exit(2);
}

static void reserve(buffer *b, size_t more)
{
    if (b->capacity - b->size >= more) return;
    while (b->capacity - b->size < more) b->capacity = b->capacity ? b->capacity * 2 : READ_SIZE;
    b->bytes = realloc(b->bytes, b->capacity);
    if (!b->bytes) die("out of memory");
}

static void append(buffer *b, const char *bytes, size_t size)
{
    reserve(b, size);
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

static void append_text(buffer *b, const char *text) { append(b, text, strlen(text)); }

/* ---- finding the top-level id and method of one line ------------------------------
 * Every function takes the rest of the line and returns where it stopped, or NULL when
 * the line ended inside a value. */

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
    return p;
}

/* p stands behind the opening quote; returns behind the closing one. */
static const char *skip_string(const char *p, const char *end)
{
    for (; p < end; p++) {
        if (*p == '"') return p + 1;
        if (*p == '\\') p++;
    }
    return NULL;
}

static const char *skip_value(const char *p, const char *end)
{
    size_t depth = 0;
    if (p < end && *p != '{' && *p != '[' && *p != '"') {
        while (p < end && *p != ',' && *p != '}' && *p != ' ' && *p != '\t' && *p != '\r') p++;
        return p;
    }
    while (p < end) {
        switch (*p++) {
        case '"':
            p = skip_string(p, end);
            if (!p) return NULL;
            break;
        case '{': case '[': depth++; break;
        case '}': case ']': depth--; break;
        default: continue;
        }
        if (depth == 0) return p;
    }
    return NULL;
}

static int is_key(slice key, const char *name, size_t size)
{
    return key.size == size && memcmp(key.start, name, size) == 0;
}

/* Finds id (its bytes as they stand, quotes included) and method (without quotes).
 * Stops as soon as it has both, so params behind them are never read. */
static int find_request(const char *p, const char *end, slice *id, slice *method)
{
    *id = *method = (slice){NULL, 0};
    p = skip_space(p, end);
    if (p == end || *p++ != '{') return 0;
    for (;;) {
        slice key, value;
        p = skip_space(p, end);
        if (p == end || *p++ != '"') return 0;
        key.start = p;
        if (!(p = skip_string(p, end))) return 0;
        key.size = (size_t)(p - key.start) - 1;
        p = skip_space(p, end);
        if (p == end || *p++ != ':') return 0;
        value.start = p = skip_space(p, end);
        if (p == end || !(p = skip_value(p, end))) return 0;
        value.size = (size_t)(p - value.start);
        if (is_key(key, "id", 2)) {
            char first = *value.start;
            if (first != '"' && first != '-' && (first < '0' || first > '9')) return 0;
            *id = value;
        } else if (is_key(key, "method", 6)) {
            if (*value.start != '"') return 0;
            method->start = value.start + 1;
            method->size = value.size - 2;
        }
        if (id->start && method->start) return 1;
        p = skip_space(p, end);
        if (p == end || *p++ != ',') return 0;
    }
}

/* ---- the answers --------------------------------------------------------------- */

#define CAPABILITIES "\"capabilities\":{\"tools\":{}}"
#define SERVER "{\"name\":\"null\",\"version\":\"1\"}"
#define STAMP "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":" SERVER "}"
#define COMPLETE "\"resultType\":\"complete\","
#define CACHEABLE "\"ttlMs\":0,\"cacheScope\":\"public\","
#define NOT_FOUND ",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n"
#define TOOLS \
    "\"tools\":[{\"name\":\"echo\",\"description\":\"Return a fixed text\",\"inputSchema\":" \
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}}]"

typedef struct {
    const char *method;
    size_t method_size;
    buffer tail; /* what follows the id, newline included */
} answer;

enum { MAX_ANSWERS = 8, VERSION_COUNT = 4, VERSION_SIZE = 10 };
static answer answers[MAX_ANSWERS];
static size_t answer_count;

/* The session era's revisions; the first is the answer to whoever asks for another. */
static const char *const versions[VERSION_COUNT] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
static buffer initialize_tails[VERSION_COUNT];

/* Opens the answer to a method; the caller appends the result's members and "}}\n". */
static buffer *add_answer(const char *method)
{
    answer *a = &answers[answer_count++];
    a->method = method;
    a->method_size = strlen(method);
    append_text(&a->tail, ",\"result\":{");
    return &a->tail;
}

static void prepare_answers(int modern, size_t text_size)
{
    buffer *b = add_answer("tools/call"); /* the first row is compared first */
    if (modern) append_text(b, COMPLETE);
    append_text(b, "\"content\":[{\"type\":\"text\",\"text\":\"");
    if (text_size == (size_t)-1) {
        append_text(b, "hello");
    } else {
        reserve(b, text_size);
        memset(b->bytes + b->size, 'x', text_size);
        b->size += text_size;
    }
    append_text(b, "\"}]");
    if (modern) append_text(b, "," STAMP);
    append_text(b, "}}\n");

    b = add_answer("tools/list");
    if (modern) append_text(b, COMPLETE CACHEABLE);
    append_text(b, TOOLS);
    if (modern) append_text(b, "," STAMP);
    append_text(b, "}}\n");

    b = add_answer("ping");
    if (modern) append_text(b, COMPLETE STAMP);
    append_text(b, "}}\n");

    for (size_t i = 0; i < VERSION_COUNT; i++) {
        b = &initialize_tails[i];
        append_text(b, ",\"result\":{\"protocolVersion\":\"");
        append_text(b, versions[i]);
        append_text(b, "\"," CAPABILITIES ",\"serverInfo\":" SERVER "}}\n");
    }

    if (modern) {
        b = add_answer("server/discover");
        append_text(b, COMPLETE "\"supportedVersions\":[\"2026-07-28\"]," CAPABILITIES "," CACHEABLE STAMP "}}\n");
    }
}

/* ---- long lists --------------------------------------------------------------------
 * The n-th request for the tools gets the n-th page, whatever it says, and the one after
 * the last gets the first again: whoever asks for all of them gets all of them. */

static buffer *pages;
static size_t page_count, next_page_index;

static void prepare_pages(int modern, size_t tools, size_t count)
{
    static const char tool[] =
        "{\"name\":\"tool_%zu\",\"description\":\"Return a fixed text\",\"inputSchema\":"
        "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}}";
    char text[256];
    pages = calloc(count, sizeof *pages);
    if (!pages) die("out of memory");
    page_count = count;
    for (size_t page = 0, number = 0; page < count; page++) {
        buffer *b = &pages[page];
        append_text(b, ",\"result\":{");
        if (modern) append_text(b, COMPLETE CACHEABLE);
        append_text(b, "\"tools\":[");
        for (size_t stop = tools * (page + 1) / count, first = number; number < stop; number++) {
            if (number != first) append_text(b, ",");
            append(b, text, (size_t)snprintf(text, sizeof text, tool, number));
        }
        append_text(b, "]");
        if (page + 1 < count)
            append(b, text, (size_t)snprintf(text, sizeof text, ",\"nextCursor\":\"%zu\"", page + 1));
        if (modern) append_text(b, "," STAMP);
        append_text(b, "}}\n");
    }
}

static const buffer *next_page(void)
{
    const buffer *page = &pages[next_page_index];
    next_page_index = (next_page_index + 1) % page_count;
    return page;
}

/* Appends the start of a response; the tail of an answer, or an error, is to follow. */
static void append_id(buffer *b, slice id)
{
    static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":";
    append(b, head, sizeof head - 1);
    append(b, id.start, id.size);
}

/* Returns which revision is asked for: the first string after "protocolVersion". */
static size_t find_version(const char *p, const char *end)
{
    static const char key[] = "\"protocolVersion\"";
    for (; end - p > (long)sizeof key; p++) {
        if (memcmp(p, key, sizeof key - 1)) continue;
        p += sizeof key - 1;
        p = memchr(p, '"', (size_t)(end - p));
        if (!p || end - ++p < VERSION_SIZE) break;
        for (size_t i = 0; i < VERSION_COUNT; i++)
            if (!memcmp(p, versions[i], VERSION_SIZE)) return i;
        break;
    }
    return 0;
}

/* Returns what follows the id in the answer to a method, or NULL. Of `initialize` alone
 * more is looked at: some clients refuse any revision but the one that they ask for. */
static const buffer *find_answer(slice method, const char *message, const char *end)
{
    if (page_count && is_key(method, "tools/list", 10)) return next_page();
    for (size_t i = 0; i < answer_count; i++)
        if (is_key(method, answers[i].method, answers[i].method_size)) return &answers[i].tail;
    if (is_key(method, "initialize", 10)) return &initialize_tails[find_version(message, end)];
    return NULL;
}

static size_t parse_size(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 0) die("a number of at least 0 is wanted");
    return (size_t)n;
}
