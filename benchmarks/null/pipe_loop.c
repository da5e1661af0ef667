/* pipe_loop: the least loop in C over two pipes, measured as harness/child.py measures.
 *
 *   pipe_loop NAME "SERVER ..."
 *
 * It starts the server, a command line without quotes or "-" for one that answers
 * each read with fixed octets, and says "{}". Each line of
 * standard input with "calls": N makes so many calls, one at a time, and gets the CPU
 * time of this process per call; a line without gets the percentiles of all. It ends
 * with standard input. NAME means nothing here. POSIX only.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP_CALLS = 50, READ_SIZE = 64 * 1024, MAX_WORDS = 64 };

static const char request[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
    "\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"hi\"}}}\n";
static const char fixed[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":"
    "[{\"type\":\"text\",\"text\":\"hi\"}]}}\n";
static char answer[READ_SIZE];
static int to_server, from_server;
static int64_t *laps;
static size_t lap_count, lap_capacity;

static void die(const char *message)
{
    fprintf(stderr, "pipe_loop: %s\n", message);
    exit(2);
}

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void call(void)
{
    ssize_t n;
    if (write(to_server, request, sizeof request - 1) != (ssize_t)sizeof request - 1)
        die("the server has gone");
    do n = read(from_server, answer, sizeof answer);
    while (n > 0 && answer[n - 1] != '\n');
    if (n <= 0) die("the server has gone");
}

static void serve(void)
{
    while (read(STDIN_FILENO, answer, sizeof answer) > 0)
        if (write(STDOUT_FILENO, fixed, sizeof fixed - 1) < 0) break;
    _exit(0);
}

static void start(char *command)
{
    int serves_itself = !strcmp(command, "-");
    char *words[MAX_WORDS + 1] = {strtok(command, " ")};
    int in[2], out[2];
    for (size_t i = 1; i < MAX_WORDS && (words[i] = strtok(NULL, " ")); i++) continue;
    if (pipe(in) || pipe(out)) die("no pipes");
    pid_t pid = fork();
    if (pid < 0) die("no process");
    if (!pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        if (serves_itself) serve();
        execvp(words[0], words);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    to_server = in[1], from_server = out[0];
}

static void measure(size_t calls)
{
    for (size_t i = 0; i < WARM_UP_CALLS; i++) call();
    int64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < calls; i++) call();
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    for (size_t i = 0; i < WARM_UP_CALLS; i++) call();
    if (lap_count + calls > lap_capacity) {
        lap_capacity = 2 * (lap_count + calls);
        if (!(laps = realloc(laps, lap_capacity * sizeof *laps))) die("out of memory");
    }
    for (size_t i = 0; i < calls; i++) {
        int64_t before = now(CLOCK_MONOTONIC);
        call();
        laps[lap_count++] = now(CLOCK_MONOTONIC) - before;
    }
    printf("{\"cpu_us\": %.4f}\n", (double)cpu / (double)calls / 1e3);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The nearest rank, as in harness/measure.py. */
static double rank(double share)
{
    double exact = share * (double)lap_count;
    size_t above = (size_t)exact + ((double)(size_t)exact < exact);
    return (double)laps[above ? above - 1 : 0] / 1e3;
}

static void sum_up(void)
{
    if (!lap_count) die("nothing was measured");
    qsort(laps, lap_count, sizeof *laps, compare);
    printf("{\"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f}\n", rank(0.5), rank(0.99), rank(0.999));
}

int main(int argc, char **argv)
{
    char line[512];
    if (argc != 3) die("usage: pipe_loop NAME \"SERVER ...\"");
    signal(SIGPIPE, SIG_IGN);
    start(argv[2]);
    printf("{}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        const char *calls = strstr(line, "\"calls\":");
        if (calls) measure((size_t)strtoul(calls + 8, NULL, 10));
        else sum_up();
        fflush(stdout);
    }
    close(to_server);
    wait(NULL);
    return 0;
}
