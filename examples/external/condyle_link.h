/* A program's side of Condyle's shared memory: signals in, commands out. C11, Linux; the layout is in docs/software_in_the_loop.md.
 *
 *     struct condyle_link link;
 *     if (condyle_connect(&link, "robot", 10.0)) { fprintf(stderr, "%s\n", link.message); return 1; }
 *     const double *v = condyle_signal(&link, "v");
 *     while (condyle_receive(&link) > 0) {
 *         for (int i = 0; i < 6; i++) link.command[i] = -0.5 * v[i];
 *         condyle_send(&link);
 *     }
 *     condyle_close(&link, "");
 */
#ifndef CONDYLE_LINK_H
#define CONDYLE_LINK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONDYLE_VERSION 1
#define CONDYLE_SERVER 0 /* the byte of the file that each side locks */
#define CONDYLE_CLIENT 1

struct condyle_header {
    char magic[8];
    uint32_t version, mode;
    uint64_t file_bytes;
    double dt;
    uint32_t every, table_rows;
    uint64_t table_offset, text_offset, text_bytes;
    uint64_t state_offset, state_count, command_offset, command_count;
    uint32_t server_pid, client_pid;
    uint8_t reserved_0[24];
    _Atomic uint32_t state_sequence;
    uint32_t server_end;
    uint64_t state_tick;
    double state_time;
    uint64_t server_heartbeat;
    uint8_t reserved_1[32];
    _Atomic uint32_t command_sequence;
    uint32_t client_end;
    uint64_t command_tick, client_heartbeat;
    uint8_t reserved_2[40];
    char server_reason[256], client_reason[256];
};

struct condyle_row {
    char name[96];
    uint32_t kind, first, count, axes, shape[4];
};

struct condyle_link {
    struct condyle_header *header;
    int file;
    uint32_t seen;   /* the last state that was received */
    uint64_t tick;   /* of the state */
    double time;     /* of the state, s */
    double *state;   /* a copy of all signals, in their order */
    double *command; /* to be filled before condyle_send */
    char message[512];
};

static inline uint64_t condyle_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* whether another open file holds the lock of a side, which the kernel releases when that process ends */
static inline int condyle_locked(const struct condyle_link *link, int side)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = side, .l_len = 1};
    return fcntl(link->file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static inline const struct condyle_row *condyle_find(const struct condyle_link *link, const char *name, uint32_t kind)
{
    const struct condyle_row *row = (const void *)((const char *)link->header + link->header->table_offset);
    for (uint32_t i = 0; i < link->header->table_rows; i++)
        if (row[i].kind == kind && strncmp(row[i].name, name, sizeof row[i].name) == 0)
            return &row[i];
    return NULL;
}

/* the numbers of a signal in link->state, and of a command in link->command; NULL if there is none of that name */
static inline const double *condyle_signal(const struct condyle_link *link, const char *name)
{
    const struct condyle_row *row = condyle_find(link, name, 0);
    return row ? link->state + row->first : NULL;
}

static inline double *condyle_command(const struct condyle_link *link, const char *name)
{
    const struct condyle_row *row = condyle_find(link, name, 1);
    return row ? link->command + row->first : NULL;
}

static inline int condyle_fail(struct condyle_link *link, const char *what, const char *about)
{
    snprintf(link->message, sizeof link->message, "%s%s", what, about);
    if (link->header)
        munmap(link->header, link->header->file_bytes);
    if (link->file >= 0)
        close(link->file);
    free(link->state);
    free(link->command);
    link->header = NULL, link->state = link->command = NULL, link->file = -1;
    return -1;
}

/* 0 when connected; -1 with a sentence in link->message. `name` is that of the server, or a path; it waits some seconds for it. */
static inline int condyle_connect(struct condyle_link *link, const char *name, double wait)
{
    char path[512];
    struct stat found;
    const uint64_t end = condyle_now() + (uint64_t)(1e9 * wait);
    const struct timespec rest = {.tv_nsec = 20000000};
    *link = (struct condyle_link){.file = -1};
    snprintf(path, sizeof path, strchr(name, '/') ? "%s" : "/dev/shm/condyle-%s", name);
    for (;; nanosleep(&rest, NULL)) {
        const int last = condyle_now() > end;
        if ((link->file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)) < 0) {
            if (last)
                return condyle_fail(link, "no simulation serves at ", path);
            continue;
        }
        if (fstat(link->file, &found) == 0 && (size_t)found.st_size >= sizeof *link->header) {
            void *memory = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, link->file, 0);
            if (memory == MAP_FAILED)
                return condyle_fail(link, "the shared memory cannot be mapped: ", path);
            link->header = memory;
            atomic_thread_fence(memory_order_acquire);
            if (memcmp(link->header->magic, "CDYLLINK", 8) == 0 && condyle_locked(link, CONDYLE_SERVER))
                break;
            munmap(memory, (size_t)found.st_size);
            link->header = NULL;
        }
        close(link->file);
        link->file = -1;
        if (last)
            return condyle_fail(link, "this is no shared memory of a simulation that runs: ", path);
    }
    if (link->header->version != CONDYLE_VERSION)
        return condyle_fail(link, "the shared memory has another version of the layout: ", path);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = CONDYLE_CLIENT, .l_len = 1};
    if (fcntl(link->file, F_OFD_SETLK, &lock))
        return condyle_fail(link, "another program is connected to ", path);
    link->state = calloc(link->header->state_count + 1, sizeof(double));
    link->command = calloc(link->header->command_count + 1, sizeof(double));
    if (!link->state || !link->command)
        return condyle_fail(link, "there is no memory for the signals of ", path);
    link->header->client_heartbeat = condyle_now();
    link->header->client_pid = (uint32_t)getpid();
    return 0;
}

/* 1 with the next state; 0 when the run is over; -1 if the simulation ended without a word. The reason is in link->message.
 * It waits as long as the simulation lives. */
static inline int condyle_receive(struct condyle_link *link)
{
    struct condyle_header *h = link->header;
    const double *numbers = (const double *)((const char *)h + h->state_offset);
    for (;;) {
        const uint32_t now = atomic_load_explicit(&h->state_sequence, memory_order_acquire);
        if (now != link->seen && !(now & 1u)) {
            link->tick = h->state_tick, link->time = h->state_time;
            const uint32_t over = h->server_end;
            memcpy(link->state, numbers, h->state_count * sizeof(double));
            atomic_thread_fence(memory_order_acquire);
            if (atomic_load_explicit(&h->state_sequence, memory_order_relaxed) != now)
                continue; /* it was written while it was read */
            link->seen = now;
            if (over)
                snprintf(link->message, sizeof link->message, "%.255s", h->server_reason);
            return over ? 0 : 1;
        }
        const struct timespec slice = {.tv_nsec = 20000000};
        syscall(SYS_futex, &h->state_sequence, FUTEX_WAIT, now, &slice, NULL, 0);
        h->client_heartbeat = condyle_now();
        if (atomic_load(&h->state_sequence) == now && !condyle_locked(link, CONDYLE_SERVER)) {
            snprintf(link->message, sizeof link->message, "the simulation (process %u) ended without a word after tick %llu",
                     h->server_pid, (unsigned long long)link->tick);
            return -1;
        }
    }
}

/* link->command answers the last state that was received; with a reason, the program ends the run */
static inline void condyle_write(struct condyle_link *link, const char *end)
{
    struct condyle_header *h = link->header;
    const uint32_t now = atomic_load_explicit(&h->command_sequence, memory_order_relaxed);
    atomic_store_explicit(&h->command_sequence, now + 1u, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    h->command_tick = link->tick;
    memcpy((char *)h + h->command_offset, link->command, h->command_count * sizeof(double));
    if (end) {
        snprintf(h->client_reason, sizeof h->client_reason, "%s", end);
        h->client_end = 1;
    }
    h->client_heartbeat = condyle_now();
    atomic_store_explicit(&h->command_sequence, now + 2u, memory_order_release);
    syscall(SYS_futex, &h->command_sequence, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

static inline void condyle_send(struct condyle_link *link) { condyle_write(link, NULL); }

/* ends the run if it is not over */
static inline void condyle_close(struct condyle_link *link, const char *reason)
{
    if (!link->header)
        return;
    if (!link->header->server_end)
        condyle_write(link, reason);
    char kept[sizeof link->message];
    memcpy(kept, link->message, sizeof kept);
    condyle_fail(link, kept, "");
}

#endif /* CONDYLE_LINK_H */
