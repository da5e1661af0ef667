/* stdio_null: an MCP server over stdio that costs almost nothing.
 *
 *   stdio_null [--legacy | --modern] [--bytes N] [--tools N [--pages N]]
 *
 * It answers with fixed text, so that what a benchmark measures is the client. A line
 * is looked at only as far as its top-level `id` and `method`; all answers to what one
 * read() brought leave in one write(). It ends when its input does.
 *
 * --legacy  (default) `server/discover` is an unknown method, results are plain
 * --modern  `server/discover` offers 2026-07-28, results carry what it asks for
 * --bytes N the text block of `tools/call` is N bytes long
 * --tools N `tools/list` has N tools, on as many pages as --pages says (1)
 *
 * Lines that are no request (notifications, responses, noise) are ignored. Keys are
 * compared as bytes: an `id` spelled with JSON escapes is not found. POSIX only.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define PROGRAM "stdio_null"
#include "answers.h"

enum { FLUSH_SIZE = 1024 * 1024 };

static buffer output;

static void flush_output(void)
{
    const char *p = output.bytes;
    size_t left = output.size;
    while (left) {
        ssize_t n = write(STDOUT_FILENO, p, left);
        if (n < 0) {
            if (errno == EINTR) continue;
            exit(0); /* nobody reads any more */
        }
        p += n;
        left -= (size_t)n;
    }
    output.size = 0;
}

static void answer_line(const char *line, const char *end)
{
    slice id, method;
    if (!find_request(line, end, &id, &method)) return;
    const buffer *tail = find_answer(method, line, end);
    append_id(&output, id);
    if (!tail) append(&output, NOT_FOUND, sizeof NOT_FOUND - 1);
    else append(&output, tail->bytes, tail->size);
    if (output.size >= FLUSH_SIZE) flush_output();
}

/* Answers each whole line and keeps the rest; `scanned` bytes hold no newline. */
static void answer_lines(buffer *input, size_t scanned)
{
    const char *line = input->bytes, *stop = input->bytes + input->size;
    const char *newline = memchr(line + scanned, '\n', input->size - scanned);
    while (newline) {
        answer_line(line, newline);
        line = newline + 1;
        newline = memchr(line, '\n', (size_t)(stop - line));
    }
    if (line != input->bytes) {
        input->size = (size_t)(stop - line);
        memmove(input->bytes, line, input->size);
    }
}

int main(int argc, char **argv)
{
    int modern = 0;
    size_t text_size = (size_t)-1, tools = 0, tool_pages = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--modern")) modern = 1;
        else if (!strcmp(argv[i], "--legacy")) modern = 0;
        else if (!strcmp(argv[i], "--bytes") && i + 1 < argc) text_size = parse_size(argv[++i]);
        else if (!strcmp(argv[i], "--tools") && i + 1 < argc) tools = parse_size(argv[++i]);
        else if (!strcmp(argv[i], "--pages") && i + 1 < argc) tool_pages = parse_size(argv[++i]);
        else die("usage: stdio_null [--legacy | --modern] [--bytes N] [--tools N [--pages N]]");
    }
    signal(SIGPIPE, SIG_IGN);
    prepare_answers(modern, text_size);
    if (tools && tool_pages) prepare_pages(modern, tools, tool_pages);

    buffer input = {0};
    for (;;) {
        reserve(&input, READ_SIZE);
        ssize_t n = read(STDIN_FILENO, input.bytes + input.size, input.capacity - input.size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        size_t scanned = input.size;
        input.size += (size_t)n;
        answer_lines(&input, scanned);
        flush_output();
    }
}
