/* pipe_loop: the least loop in C over two pipes, measured as client code is.
 *
 *   pipe_loop NAME "SERVER ..."
 *
 * It starts the server, a command line without quotes or "-" for one that answers
 * each read with fixed octets, and prints "{}". Each line of standard input with
 * "calls": N makes so many calls, one at a time, and is answered as
 * mcpwire/bench/code_child.py answers. It ends with standard input. NAME has no
 * meaning here. POSIX only.
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
    int64_t *times = malloc((calls + 1) * sizeof *times);
    if (!times) die("out of memory");
    for (size_t i = 0; i < WARM_UP_CALLS; i++) call();
    int64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    times[0] = now(CLOCK_MONOTONIC);
    for (size_t i = 1; i <= calls; i++) {
        call();
        times[i] = now(CLOCK_MONOTONIC);
    }
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"cpu\": %lld, \"elapsed\": %lld, \"latencies\": [",
           (long long)cpu, (long long)(times[calls] - times[0]));
    for (size_t i = 0; i < calls; i++)
        printf("%s%lld", i ? ", " : "", (long long)(times[i + 1] - times[i]));
    printf("]}\n");
    free(times);
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
        if (!calls) die("a request needs \"calls\"");
        measure((size_t)strtoul(calls + 8, NULL, 10));
        fflush(stdout);
    }
    close(to_server);
    wait(NULL);
    return 0;
}
