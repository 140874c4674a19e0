/* engine: answers like a vLLM server at next to no cost, so that the gateway in front of it is what is measured.
 *
 * usage: engine PORT                          loopback only; one thread; epoll; HTTP/1.1 with keep-alive
 *
 * GET /v1/models   the model "bench"          any other GET   200 without a body (a health check)
 * POST anything    a chat completion of about 600 bytes or, when the body says "stream": true, an event stream with
 *                  one send() for each token, as vLLM under uvicorn does
 *
 * Fields of the body that matter; all others are ignored:
 *   max_tokens, max_completion_tokens   events in the stream, 64 without
 *   stream_options.include_usage        one more event, with the count of tokens
 *   seed = 0                            tokens as fast as the sockets take them, in turn over all streams
 *   0 < seed < 1000000                  a token each `seed` microseconds, each stream with a phase of its own
 *   seed >= 1000000                     a token each `seed - 1000000` microseconds, all streams in the same instant:
 *                                       one step of a real engine makes a token for every running request
 *   seed < 0                            one token at once, and then none until the client leaves
 *
 * A token's text is T and 19 digits of CLOCK_MONOTONIC in ns, read back by load.c on the same host. Fields are found by
 * searching for their quoted names: this is a measuring device that trusts its client, not a server to copy.
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
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_FD 20000
#define SYNC 1000000
#define HEAD_OF "HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"

struct conn {
    int fd;
    uint32_t number; /* file descriptors come back, numbers do not */
    char *in;
    size_t in_len, in_room;
    char unsent[1024]; /* what a full socket did not take */
    size_t unsent_len;
    bool streaming, usage, together, last_request, dead;
    int64_t tokens_left, tokens, period, due;
};

struct ref {
    int fd;
    uint32_t number;
};

struct timer {
    int64_t due;
    struct ref to;
};

static struct conn *conns[MAX_FD];
static struct ref eager[MAX_FD], turn[MAX_FD]; /* streams that send as fast as they can */
static struct timer heap[MAX_FD * 2];          /* streams that keep a pace; earliest first */
static int n_eager, n_heap, poller;
static int dead[MAX_FD], n_dead;
static uint32_t numbers;
static char completion[1400], models[800];
static size_t completion_len, models_len;

static const char EMPTY[] = HEAD_OF "content-length: 0\r\n\r\n";
static const char STREAM[] = HEAD_OF "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
static const char COMPLETION[] =
    "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"bench\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A gateway stands in front of a model "
    "server and lets through only what it knows. Paths, methods, fields and bodies: each of them is looked at before "
    "anything is sent on, and whatever has no name in its policy stays outside.\",\"refusal\":null,\"reasoning\":null,"
    "\"function_call\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}],\"usage\":{"
    "\"prompt_tokens\":42,\"total_tokens\":106,\"completion_tokens\":64,\"prompt_tokens_details\":null},"
    "\"prompt_logprobs\":null,\"kv_transfer_params\":null}";
static const char MODELS[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"vllm\","
    "\"root\":\"bench\",\"parent\":null,\"max_model_len\":4096,\"permission\":[]}]}";
static const char EVENT[] = "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                            "\"model\":\"bench\",\"choices\":[";

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct conn *find(struct ref r) {
    struct conn *c = conns[r.fd];
    return c && c->number == r.number && !c->dead ? c : NULL;
}

/* Connections are closed when a round of events is over, so that no descriptor is used again within it. */
static void drop(struct conn *c) {
    if (!c->dead)
        dead[n_dead++] = c->fd;
    c->dead = true;
    c->streaming = false;
}

static void watch(struct conn *c, uint32_t events) {
    struct epoll_event e = {.events = events, .data.fd = c->fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

static void put(struct conn *c, const char *data, size_t len) {
    ssize_t sent = c->dead ? (ssize_t)len : c->unsent_len ? 0 : send(c->fd, data, len, MSG_NOSIGNAL);
    if (sent == (ssize_t)len)
        return;
    size_t done = sent < 0 ? 0 : sent;
    if ((sent < 0 && errno != EAGAIN) || c->unsent_len + len - done > sizeof c->unsent) {
        drop(c);
        return;
    }
    memcpy(c->unsent + c->unsent_len, data + done, len - done);
    c->unsent_len += len - done;
    watch(c, EPOLLIN | EPOLLOUT);
}

/* Send what the socket did not take before. True when nothing is left. */
static bool flush(struct conn *c) {
    ssize_t sent = send(c->fd, c->unsent, c->unsent_len, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN)
            drop(c);
        return false;
    }
    c->unsent_len -= sent;
    memmove(c->unsent, c->unsent + sent, c->unsent_len);
    if (c->unsent_len)
        return false;
    watch(c, EPOLLIN);
    return true;
}

static void put_event(struct conn *c, const char *event, int len) {
    char chunk[700];
    put(c, chunk, sprintf(chunk, "%x\r\n%s\r\n", len, event));
}

static void put_token(struct conn *c) {
    char event[600];
    c->tokens_left--;
    int n = sprintf(event, "data: %s{\"index\":0,\"delta\":{\"content\":\"T%019lld\"},\"logprobs\":null,\"finish_reason\":%s}]}\n\n",
                    EVENT, (long long)now(), c->tokens_left ? "null" : "\"stop\"");
    put_event(c, event, n);
}

static void put_end(struct conn *c) {
    char event[600];
    if (c->usage) {
        int n = sprintf(event, "data: %s],\"usage\":{\"prompt_tokens\":42,\"total_tokens\":%lld,\"completion_tokens\":%lld}}\n\n",
                        EVENT, (long long)(42 + c->tokens), (long long)c->tokens);
        put_event(c, event, n);
    }
    static const char DONE[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    put(c, DONE, sizeof DONE - 1);
    c->streaming = false;
    if (c->last_request)
        drop(c);
}

/* Send a stream's next token, and after the last one its end. True while the stream goes on. */
static bool advance(struct conn *c) {
    if (c->tokens_left)
        put_token(c);
    if (!c->dead && !c->tokens_left && !c->unsent_len)
        put_end(c);
    return c->streaming;
}

static void schedule(struct timer t) {
    int i = n_heap++;
    for (; i && heap[(i - 1) / 2].due > t.due; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = t;
}

static struct timer earliest(void) {
    struct timer first = heap[0], last = heap[--n_heap];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < n_heap && heap[child + 1].due < heap[child].due)
            child++;
        if (child >= n_heap || heap[child].due >= last.due)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

/* What follows a field's name and colon; NULL where the body has no such field. The body ends in a NUL. */
static const char *value(const char *body, size_t len, const char *quoted) {
    const char *p = memmem(body, len, quoted, strlen(quoted));
    if (!p)
        return NULL;
    p += strlen(quoted);
    return p + strspn(p, " :");
}

static bool is_true(const char *value) { return value && !strncmp(value, "true", 4); }
static int64_t number(const char *value, int64_t otherwise) { return value ? atoll(value) : otherwise; }

static void answer(struct conn *c, const char *head, char *body, size_t len) {
    if (head[0] == 'G') {
        if (strncmp(head, "GET /v1/models ", 15))
            put(c, EMPTY, sizeof EMPTY - 1);
        else
            put(c, models, models_len);
        return;
    }
    char after = body[len];
    body[len] = 0;
    if (!is_true(value(body, len, "\"stream\""))) {
        put(c, completion, completion_len);
    } else {
        int64_t seed = number(value(body, len, "\"seed\""), 0);
        c->tokens = number(value(body, len, "\"max_completion_tokens\""), 64);
        c->tokens = c->tokens_left = number(value(body, len, "\"max_tokens\""), c->tokens);
        c->usage = is_true(value(body, len, "\"include_usage\""));
        c->together = seed >= SYNC;
        c->period = seed % SYNC * 1000;
        c->streaming = true;
        c->number = ++numbers; /* timers of the stream before this one end here */
        put(c, STREAM, sizeof STREAM - 1);
        struct ref self = {c->fd, c->number};
        int64_t t = now();
        if (seed < 0) {
            advance(c);
        } else if (!c->period) {
            eager[n_eager++] = self;
        } else if (advance(c)) {
            c->due = c->together ? (t / c->period + 1) * c->period : t + (int64_t)(drand48() * c->period);
            schedule((struct timer){c->due, self});
        }
    }
    body[len] = after;
}

/* Answer the requests that are complete, one stream at a time. */
static void serve(struct conn *c) {
    while (!c->streaming && !c->dead && c->in_len) {
        c->in[c->in_len] = 0;
        char *end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
        if (!end)
            return;
        char *body = end + 4, *field;
        size_t len = 0;
        *end = 0;
        c->last_request = strcasestr(c->in, "\r\nconnection: close") != NULL;
        bool chunked = strcasestr(c->in, "\r\ntransfer-encoding: chunked") != NULL;
        if ((field = strcasestr(c->in, "\r\ncontent-length:")))
            len = strtoul(field + 17, NULL, 10);
        *end = '\r';
        size_t there = c->in + c->in_len - body;
        if (chunked) {
            char *last = memmem(body, there, "\r\n0\r\n\r\n", 7);
            if (!last)
                return;
            len = last + 7 - body;
        }
        if (there < len)
            return;
        answer(c, c->in, body, len);
        c->in_len = there - len;
        memmove(c->in, body + len, c->in_len);
        if (c->last_request && !c->streaming)
            drop(c);
    }
}

static void read_from(struct conn *c) {
    if (c->in_room - c->in_len < 4096)
        c->in = realloc(c->in, (c->in_room *= 2) + 1);
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_room - c->in_len, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        drop(c);
    if (n <= 0)
        return;
    c->in_len += n;
    serve(c);
}

static void accept_all(int listener) {
    static bool told;
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_FD) {
            close(fd);
            errno = EMFILE;
            break;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = conns[fd] = calloc(1, sizeof *c);
        c->fd = fd;
        c->number = ++numbers;
        c->in = malloc((c->in_room = 8192) + 1);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
    if (errno != EAGAIN && errno != ECONNABORTED && !told) {
        told = true;
        fprintf(stderr, "engine: %s; connections wait or were closed, so this run is void\n", strerror(errno));
    }
}

static void run_timers(void) {
    for (int64_t t = now(); n_heap && heap[0].due <= t;) {
        struct timer due = earliest();
        struct conn *c = find(due.to);
        if (!c || !c->streaming)
            continue;
        c->due = due.due + c->period;
        if (c->due < t) /* late: tokens that were missed are not made up for */
            c->due = c->together ? (t / c->period + 1) * c->period : t + c->period;
        if (c->unsent_len || advance(c))
            schedule((struct timer){c->due, due.to});
        else
            serve(c);
    }
}

static void run_eager(void) {
    int n = n_eager;
    memcpy(turn, eager, n * sizeof *turn);
    n_eager = 0;
    for (int i = 0; i < n; i++) {
        struct conn *c = find(turn[i]);
        if (!c || !c->streaming || c->unsent_len)
            continue; /* a full socket comes back with EPOLLOUT */
        if (!advance(c))
            serve(c);
        else if (!c->unsent_len)
            eager[n_eager++] = turn[i];
    }
}

static void on_event(struct conn *c, uint32_t events) {
    if (events & EPOLLOUT && c->unsent_len && flush(c) && c->streaming) {
        if (!c->tokens_left)
            put_end(c), serve(c);
        else if (!c->period)
            eager[n_eager++] = (struct ref){c->fd, c->number};
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !c->dead)
        read_from(c);
}

static int listen_at(const char *path) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    unlink(path);
    if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) {
        perror("engine");
        exit(1);
    }
    return fd;
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) {
        perror("engine");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: engine PORT [PATH]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    completion_len = sprintf(completion, HEAD_OF "content-length: %zu\r\ncontent-type: application/json\r\n\r\n%s",
                             strlen(COMPLETION), COMPLETION);
    models_len = sprintf(models, HEAD_OF "content-length: %zu\r\ncontent-type: application/json\r\n\r\n%s", strlen(MODELS), MODELS);
    int listener = listen_on(atoi(argv[1])), local = argc == 3 ? listen_at(argv[2]) : -1;
    poller = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, events[512];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
    e.data.fd = local;
    if (local >= 0)
        epoll_ctl(poller, EPOLL_CTL_ADD, local, &e);
    for (;;) {
        int64_t wait = n_eager ? 0 : n_heap ? heap[0].due - now() : INT64_MAX / 2;
        if (wait < 0)
            wait = 0;
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        int n = epoll_pwait2(poller, events, 512, &timeout, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = conns[events[i].data.fd];
            if (events[i].data.fd == listener || events[i].data.fd == local)
                accept_all(events[i].data.fd);
            else if (c && !c->dead)
                on_event(c, events[i].events);
        }
        run_timers();
        run_eager();
        while (n_dead) {
            struct conn *c = conns[dead[--n_dead]];
            conns[c->fd] = NULL;
            close(c->fd);
            free(c->in);
            free(c);
        }
    }
}
