/* http_null: an MCP server over Streamable HTTP that costs almost nothing.
 *
 *   http_null [--legacy | --modern] [--json | --sse] [--bytes N] [--tools N [--pages N]]
 *
 * It listens on a free port of 127.0.0.1, prints the number and a newline, and ends when
 * its standard input does. One process, one poll(); connections are kept alive, and all
 * answers to what one read() brought leave in one write(). Of a request it looks at the
 * verb, the length and the body's top-level `id` and `method`: no path, no header field
 * beyond that, no session is checked.
 *
 * --legacy  (default) `server/discover` gets status 400, `initialize` a session's id
 * --modern  `server/discover` offers 2026-07-28, results carry what it asks for
 * --json    (default) responses are JSON with their length
 * --sse     they are one SSE event, in chunks
 * --bytes N the text block of `tools/call` is N bytes long
 * --tools N `tools/list` has N tools, on as many pages as --pages says (1)
 *
 * What is no request gets 202, DELETE 200, other verbs 405. A request whose length is
 * not told by `content-length` gets 411, and its connection is closed. POSIX only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROGRAM "http_null"
#include "answers.h"

enum { MAX_PLACES = 8192, STDIN_PLACE = 0, LISTEN_PLACE = 1, FIRST_PLACE = 2 };

#define CRLF "\r\n"
#define STATUS(text) "HTTP/1.1 " text CRLF
#define NO_BODY "Content-Length: 0" CRLF CRLF
#define SESSION "Mcp-Session-Id: 00000000-0000-4000-8000-000000000000" CRLF
#define JSON "Content-Type: application/json" CRLF "Content-Length: "
#define SSE "Content-Type: text/event-stream" CRLF "Cache-Control: no-cache" CRLF \
    "Transfer-Encoding: chunked" CRLF CRLF
#define EVENT "event: message\ndata: "
#define LAST_CHUNK CRLF "0" CRLF CRLF
#define REFUSAL \
    "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Bad Request: No valid session\"},\"id\":null}"

static struct pollfd places[MAX_PLACES];
static buffer inputs[MAX_PLACES];
static size_t place_count = FIRST_PLACE;
static buffer output, body;
static int modern, sse;

static void append_number(buffer *b, size_t number, const char *format)
{
    char digits[32];
    append(b, digits, (size_t)snprintf(digits, sizeof digits, format, number));
}

/* ---- one request ----------------------------------------------------------------- */

static void answer_json(const char *status, const char *fields)
{
    append_text(&output, status);
    append_text(&output, fields);
    append_text(&output, JSON);
    append_number(&output, body.size, "%zu" CRLF CRLF);
    append(&output, body.bytes, body.size);
}

static void answer_event(const char *fields)
{
    append_text(&output, STATUS("200 OK"));
    append_text(&output, fields);
    append_text(&output, SSE);
    append_number(&output, sizeof EVENT - 1 + body.size + 2, "%zx" CRLF);
    append_text(&output, EVENT);
    append(&output, body.bytes, body.size);
    append_text(&output, "\n\n" LAST_CHUNK);
}

static void answer_post(const char *p, const char *end)
{
    slice id, method;
    if (!find_request(p, end, &id, &method)) {
        append_text(&output, STATUS("202 Accepted") NO_BODY);
        return;
    }
    const buffer *tail = find_answer(method, p, end);
    body.size = 0;
    if (!tail && is_key(method, "server/discover", 15)) {
        append_text(&body, REFUSAL);
        answer_json(STATUS("400 Bad Request"), "");
        return;
    }
    append_id(&body, id);
    if (!tail) append_text(&body, NOT_FOUND);
    else append(&body, tail->bytes, tail->size);
    body.size--; /* the newline that ends a line on stdio */
    if (!tail) {
        answer_json(modern ? STATUS("404 Not Found") : STATUS("200 OK"), "");
        return;
    }
    const char *fields = is_key(method, "initialize", 10) ? SESSION : "";
    if (sse) answer_event(fields);
    else answer_json(STATUS("200 OK"), fields);
}

static int is_verb(const char *p, const char *verb) { return !strncmp(p, verb, strlen(verb)); }

/* Returns the end of the head, behind the empty line, or NULL. */
static const char *find_body(const char *p, const char *end)
{
    while ((p = memchr(p, '\r', (size_t)(end - p)))) {
        if (end - p < 4) return NULL;
        if (!memcmp(p, CRLF CRLF, 4)) return p + 4;
        p += 2;
    }
    return NULL;
}

/* Returns the length that a head tells; 0 where there is none, -1 where it is not so. */
static long find_length(const char *p, const char *end)
{
    static const char length[] = "content-length:", coding[] = "transfer-encoding:";
    while ((p = memchr(p, '\n', (size_t)(end - p))) && ++p < end) {
        if ((*p | 32) == 'c' && !strncasecmp(p, length, sizeof length - 1))
            return strtol(p + sizeof length - 1, NULL, 10);
        if ((*p | 32) == 't' && !strncasecmp(p, coding, sizeof coding - 1)) return -1;
    }
    return 0;
}

/* Answers each whole request and keeps the rest; returns 0 where one cannot be read. */
static int answer_requests(buffer *input)
{
    const char *p = input->bytes, *end = p + input->size;
    while (p < end) {
        const char *content = find_body(p, end);
        if (!content) break;
        long length = find_length(p, content);
        if (length < 0) {
            append_text(&output, STATUS("411 Length Required") "Connection: close" CRLF NO_BODY);
            return 0;
        }
        if (end - content < length) break;
        if (is_verb(p, "POST ")) answer_post(content, content + length);
        else if (is_verb(p, "DELETE ")) append_text(&output, STATUS("200 OK") NO_BODY);
        else append_text(&output, STATUS("405 Method Not Allowed") "Allow: POST, DELETE" CRLF NO_BODY);
        p = content + length;
    }
    input->size = (size_t)(end - p);
    memmove(input->bytes, p, input->size);
    return 1;
}

/* ---- connections ----------------------------------------------------------------- */

/* The socket blocks in writing alone: whoever asks reads, too. */
static int flush_output(int fd)
{
    const char *p = output.bytes;
    size_t left = output.size;
    output.size = 0;
    while (left) {
        ssize_t n = send(fd, p, left, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return 0;
        p += n;
        left -= (size_t)n;
    }
    return 1;
}

static int serve(size_t place)
{
    buffer *input = &inputs[place];
    int fd = places[place].fd;
    reserve(input, READ_SIZE / 4);
    ssize_t n = recv(fd, input->bytes + input->size, input->capacity - input->size, 0);
    if (n < 0 && errno == EINTR) return 1;
    if (n <= 0) return 0;
    input->size += (size_t)n;
    int goes_on = answer_requests(input);
    return flush_output(fd) && goes_on;
}

static void add_connection(void)
{
    int one = 1, fd = accept(places[LISTEN_PLACE].fd, NULL, NULL);
    if (fd < 0) return;
    if (place_count == MAX_PLACES) die("too many connections");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    inputs[place_count].size = 0;
    places[place_count++] = (struct pollfd){fd, POLLIN, 0};
}

/* The last connection moves to the place of the one that goes; buffers stay for reuse. */
static void drop_connection(size_t place)
{
    close(places[place].fd);
    buffer freed = inputs[place];
    places[place] = places[--place_count];
    inputs[place] = inputs[place_count];
    inputs[place_count] = freed;
}

/* Some systems allow 1,024 open files unless a program asks for more. */
static void allow_places(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int listen_somewhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, MAX_PLACES)
        || getsockname(fd, (struct sockaddr *)&address, &size))
        die("could not listen on 127.0.0.1");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Tells whether standard input has ended; whatever comes there is thrown away. */
static int is_over(void)
{
    char nothing[256];
    ssize_t n = read(STDIN_FILENO, nothing, sizeof nothing);
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

int main(int argc, char **argv)
{
    size_t text_size = (size_t)-1, tools = 0, tool_pages = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--modern")) modern = 1;
        else if (!strcmp(argv[i], "--legacy")) modern = 0;
        else if (!strcmp(argv[i], "--sse")) sse = 1;
        else if (!strcmp(argv[i], "--json")) sse = 0;
        else if (!strcmp(argv[i], "--bytes") && i + 1 < argc) text_size = parse_size(argv[++i]);
        else if (!strcmp(argv[i], "--tools") && i + 1 < argc) tools = parse_size(argv[++i]);
        else if (!strcmp(argv[i], "--pages") && i + 1 < argc) tool_pages = parse_size(argv[++i]);
        else die("usage: http_null [--legacy | --modern] [--json | --sse] [--bytes N] [--tools N [--pages N]]");
    }
    signal(SIGPIPE, SIG_IGN);
    allow_places();
    prepare_answers(modern, text_size);
    if (tools && tool_pages) prepare_pages(modern, tools, tool_pages);
    places[STDIN_PLACE] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    places[LISTEN_PLACE] = (struct pollfd){listen_somewhere(), POLLIN, 0};

    for (;;) {
        if (poll(places, (nfds_t)place_count, -1) < 0) {
            if (errno == EINTR) continue;
            die("poll failed");
        }
        /* From the last: what drop_connection moves has had its turn. */
        for (size_t place = place_count; place-- > FIRST_PLACE;)
            if (places[place].revents && !serve(place)) drop_connection(place);
        if (places[LISTEN_PLACE].revents) add_connection();
        if (places[STDIN_PLACE].revents && is_over()) return 0;
    }
}
