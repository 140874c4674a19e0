/* load: an HTTP/1.1 client that measures and prints one JSON object.
 *
 * usage: load -P port -m ns|st -c connections -d seconds -w seconds [-r rate] [-n tokens] [-p seed] [-b bytes]
 *             [-H 'Name: value']... [-x path] [-M model] [-1] [-e seconds]
 *
 *   -m      plain (ns) or streamed (st) answers         -c   connections, all opened at once
 *   -d -w   duration and, within it, warm-up: what ends before the warm-up is over is not counted
 *   -r      requests per second from a schedule; time counts from the schedule, so that a late start is seen
 *           (without it each connection asks again as soon as it was answered)
 *   -n -p   max_tokens and seed of the request: engine.c says what the engine makes of seed
 *   -b      bytes of prompt                             -H   header line, may be repeated
 *   -x -M   path and model name                         -1   one request on each connection, then silence
 *   -e      seconds that answers under way are waited for at the end, when nothing new is asked
 *
 * Out, in microseconds: lat, whole answer; ttf, time to the first token; ow, way of a token from the engine's send() to
 * our recv(); gap, between two tokens of a stream. rps, cps: answers and tokens per second after the warm-up. recvs:
 * calls of recv(); far fewer than chunks means that tokens were put together on the way. errs: answers other than 200
 * and connections lost while an answer was due; refused: the former alone. asked: requests begun; left: those that had
 * no end yet.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 20000
#define MAX_ERRORS 100000
#define STAMP 21 /* a quote, T and 19 digits */
#define CARRY 32 /* bytes of one recv() that are looked at again with the next: more than a stamp */

struct conn {
    int fd, index;
    enum { IDLE, HEAD, BODY } state;
    bool chunked, until_close, ok, writing, last;
    char head[16384], carry[CARRY];
    size_t head_len, carry_len, sent;
    int64_t body_left, asked, last_token;
};

struct sample {
    float *value;
    size_t n, room;
};

static struct conn conns[MAX_CONNECTIONS];
static int idle[MAX_CONNECTIONS], n_idle, n_conns = 1, port, poller;
static char *request;
static size_t request_len;
static struct sample whole, first, way, gap;
static long answers, errors, refused, tokens, recvs, connects, asked, busy;
static bool streamed, once, ending;
static double rate;
static int64_t warm;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void add(struct sample *s, int64_t ns) {
    if (s->n == s->room)
        s->value = realloc(s->value, (s->room = s->room ? s->room * 2 : 1 << 16) * sizeof *s->value);
    s->value[s->n++] = ns / 1e3;
}

static int order(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print(const char *name, struct sample *s) {
    static const struct {
        const char *name;
        double part;
    } percentiles[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"max", 1}};
    if (s->n)
        qsort(s->value, s->n, sizeof *s->value, order);
    for (int i = 0; i < 4; i++)
        printf(",\"%s_%s\":%.1f", name, percentiles[i].name, s->n ? s->value[(size_t)(percentiles[i].part * (s->n - 1))] : 0.0);
}

static void watch(struct conn *c, int how, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(poller, how, c->fd, &e);
}

static void open_one(struct conn *c) {
    int one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connect(c->fd, (void *)&a, sizeof a);
    connects++;
    c->writing = true;
    watch(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void write_to(struct conn *c) {
    if (c->state != IDLE && c->sent < request_len) {
        ssize_t n = send(c->fd, request + c->sent, request_len - c->sent, MSG_NOSIGNAL);
        if (n > 0)
            c->sent += n;
    }
    bool more = c->state != IDLE && c->sent < request_len;
    if (more != c->writing) {
        c->writing = more;
        watch(c, EPOLL_CTL_MOD, EPOLLIN | (more ? EPOLLOUT : 0));
    }
}

static void ask(struct conn *c, int64_t t) {
    c->state = HEAD;
    c->head_len = c->carry_len = c->sent = 0;
    c->last_token = 0;
    c->asked = t;
    asked++;
    busy++;
    write_to(c);
}

static void next(struct conn *c) {
    c->state = IDLE;
    busy--;
    if (ending)
        return;
    if (rate)
        idle[n_idle++] = c->index;
    else if (!once && errors < MAX_ERRORS)
        ask(c, now());
}

static void finish(struct conn *c, int64_t t) {
    if (!c->ok) {
        errors++;
        refused++;
    } else if (t >= warm) {
        answers++;
        add(&whole, t - c->asked);
    }
    if (c->last) { /* what is asked on it now would not be read */
        close(c->fd);
        open_one(c);
    }
    next(c);
}

static void closed(struct conn *c) {
    close(c->fd);
    bool asking = c->state != IDLE;
    if (c->state == BODY && c->until_close && c->ok && now() >= warm) {
        answers++;
        add(&whole, now() - c->asked);
    } else if (asking && !(c->state == BODY && c->until_close)) {
        errors++;
    }
    c->state = IDLE;
    open_one(c);
    if (asking)
        next(c);
}

/* Take the head out of what came. Returns how many of the bytes belong to it; all while it is incomplete. */
static size_t read_head(struct conn *c, const char *data, size_t len) {
    size_t before = c->head_len, room = sizeof c->head - 1 - before, take = len < room ? len : room;
    memcpy(c->head + before, data, take);
    c->head_len += take;
    c->head[c->head_len] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end)
        return len;
    *end = 0;
    c->ok = !strncmp(c->head + 8, " 200", 4);
    if (!c->ok && errors < 2)
        fprintf(stderr, "%.60s\n", c->head);
    const char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->chunked = strcasestr(c->head, "transfer-encoding: chunked") != NULL;
    c->last = strcasestr(c->head, "\r\nconnection: close") != NULL;
    c->until_close = !c->chunked && !length;
    c->body_left = length ? atoll(length + 17) : 0;
    c->state = BODY;
    return end + 4 - c->head - before;
}

static void read_tokens(struct conn *c, const char *data, const char *end, int64_t t) {
    for (const char *p = data; (p = memmem(p, end - p, "\"T0", 3)) && end - p >= STAMP; p += STAMP) {
        int64_t sent = atoll(p + 2);
        if (!c->last_token && (t >= warm || once))
            add(&first, t - c->asked);
        if (t >= warm) {
            tokens++;
            add(&way, t - sent);
            if (c->last_token)
                add(&gap, t - c->last_token);
        }
        c->last_token = t;
    }
}

/* Look at a piece of a body that lies behind CARRY free bytes. True when it was the last. */
static bool read_body(struct conn *c, char *data, size_t len, int64_t t) {
    bool over = !c->chunked && !c->until_close && (c->body_left -= len) <= 0;
    if (!c->chunked && !streamed)
        return over;
    char *start = memcpy(data - c->carry_len, c->carry, c->carry_len), *end = data + len;
    if (streamed)
        read_tokens(c, start, end, t);
    size_t all = end - start;
    if (c->chunked && all >= 5 && !memcmp(end - 5, "0\r\n\r\n", 5) && (all < 7 || end[-6] == '\n'))
        over = true;
    c->carry_len = all < CARRY ? all : CARRY;
    memcpy(c->carry, end - c->carry_len, c->carry_len);
    for (size_t i = 0; i + STAMP <= c->carry_len; i++) /* a stamp that was whole counts once */
        if (c->carry[i] == '"' && c->carry[i + 1] == 'T')
            c->carry[i] = ' ';
    return over;
}

static void read_from(struct conn *c) {
    static char buffer[CARRY + (1 << 18)];
    ssize_t n;
    do {
        char *data = buffer + CARRY;
        n = recv(c->fd, data, sizeof buffer - CARRY - 1, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            closed(c);
            return;
        }
        recvs++;
        int64_t t = now();
        size_t len = n;
        data[len] = 0;
        if (c->state == HEAD) {
            size_t used = read_head(c, data, len);
            data += used; /* the head's bytes are behind it now: free for the carry, which is empty */
            len -= used;
        }
        if (c->state == BODY && read_body(c, data, len, t)) {
            finish(c, t);
            return;
        }
    } while (n == (ssize_t)(sizeof buffer - CARRY - 1));
}

static void usage(void) {
    fprintf(stderr, "usage: load -P port -m ns|st -c connections -d seconds -w seconds [-r rate] [-n tokens] [-p seed] "
                    "[-b bytes] [-H 'Name: value']... [-x path] [-M model] [-1] [-e seconds]\n");
    exit(2);
}

static void write_request(const char *path, const char *headers, const char *model, long max_tokens, long seed, int prompt) {
    char *body = malloc(prompt + 1000);
    int len = sprintf(body, "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"Answer in one sentence.\"},"
                            "{\"role\":\"user\",\"content\":\"", model);
    for (int i = 0; i < prompt; i++)
        body[len++] = i % 7 == 6 ? ' ' : 'a' + i % 26;
    len += sprintf(body + len, "\"}],\"max_tokens\":%ld,\"seed\":%ld,\"temperature\":0.7,\"stream\":%s}", max_tokens, seed,
                   streamed ? "true" : "false");
    request = malloc(len + strlen(headers) + 1000);
    request_len = sprintf(request, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: load/1\r\nAccept: */*\r\n%s"
                                   "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, port, headers, len, body);
    free(body);
}

int main(int argc, char **argv) {
    double duration = 3, warm_up = 0.5, extra = 0;
    long max_tokens = 64, seed = 0;
    int option, prompt = 0;
    char headers[8192] = "";
    const char *path = "/v1/chat/completions", *model = "bench";
    while ((option = getopt(argc, argv, "P:m:c:d:w:r:n:p:b:H:x:M:1e:")) > 0)
        switch (option) {
        case 'P': port = atoi(optarg); break;
        case 'm': streamed = !strcmp(optarg, "st"); break;
        case 'c': n_conns = atoi(optarg); break;
        case 'd': duration = atof(optarg); break;
        case 'w': warm_up = atof(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'n': max_tokens = atol(optarg); break;
        case 'p': seed = atol(optarg); break;
        case 'b': prompt = atoi(optarg); break;
        case 'x': path = optarg; break;
        case 'M': model = optarg; break;
        case '1': once = true; break;
        case 'e': extra = atof(optarg); break;
        case 'H':
            if (strlen(headers) + strlen(optarg) + 3 > sizeof headers)
                usage();
            strcat(strcat(headers, optarg), "\r\n");
            break;
        default: usage();
        }
    if (!port || n_conns < 1 || n_conns > MAX_CONNECTIONS || duration <= warm_up || optind < argc)
        usage();
    signal(SIGPIPE, SIG_IGN);
    write_request(path, headers, model, max_tokens, seed, prompt);
    poller = epoll_create1(0);
    int64_t begin = now(), end = begin + duration * 1e9, last = end + extra * 1e9, due = begin;
    warm = begin + warm_up * 1e9;
    for (int i = 0; i < n_conns; i++) {
        conns[i].index = i;
        open_one(&conns[i]);
        if (rate)
            idle[n_idle++] = i;
        else
            ask(&conns[i], now());
    }
    struct epoll_event events[512];
    for (int64_t t; (t = now()) < end || (busy && t < last);) {
        ending = t >= end;
        int64_t wait = (ending ? last : end) - t;
        if (rate && !ending) {
            for (; due <= t && n_idle; due += 1e9 / rate) /* without an idle connection it stays due: it is late then */
                ask(&conns[idle[--n_idle]], due);
            if (due > t && due - t < wait)
                wait = due - t;
        }
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        int n = epoll_pwait2(poller, events, 512, &timeout, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                write_to(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                read_from(c);
        }
    }
    double seconds = (now() - warm) / 1e9;
    printf("{\"rps\":%.1f,\"done\":%ld,\"errs\":%ld,\"refused\":%ld,\"asked\":%ld,\"left\":%ld,\"chunks\":%ld,\"cps\":%.1f,\"recvs\":%ld,\"conns\":%ld,\"win\":%.2f",
           answers / seconds, answers, errors, refused, asked, busy, tokens, tokens / seconds, recvs, connects, seconds);
    print("lat", &whole);
    if (streamed) {
        print("ttf", &first);
        print("ow", &way);
        print("gap", &gap);
    }
    printf("}\n");
    return 0;
}
