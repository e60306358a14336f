/* A stand-in for the driver's NVML library: just what the monitor asks for. It answers from a table in a shared
   file that the test writes to while this runs, in the same process or in another (see fake_nvml.py, which has the
   same table as ctypes structures). Signatures, codes and structures follow NVML's public header. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GPUS 16
#define PORTS 18
#define PROCESSES 16
#define MIGS 7
#define RULES 12
#define EVENTS 1024
#define COUNTED 64

enum {
    OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NOT_LOADED = 9, TIMEOUT = 10, LOST = 15
};
enum { XID_EVENT = 8, FIELD_TX = 138, FIELD_RX = 139, FIELD_LINKS = 91, FIELD_RECOVERY = 230, ULL = 3 };

/* The table */

typedef struct { char function[48]; int code; } rule;
typedef struct { int up, kind, version; char remote[32]; } port;
typedef struct { unsigned pid, kind; uint64_t bytes; } program;
typedef struct { int is_mig, present; char uuid[96]; uint64_t bytes; } mig;
typedef struct {
    int is_mig;                   /* 0; must come first, as in `mig` */
    char name[96], uuid[96], bus_id[32];
    uint64_t memory_total_bytes, memory_used_bytes, memory_reserved_bytes;
    unsigned utilisation, power_mw, power_limit_mw;
    int temperature_c, major, minor;
    uint64_t clock_reasons, ecc_corrected, ecc_uncorrected;
    unsigned remapped[4], retired_pages, recovery;
    unsigned pcie_tx_kb_s, pcie_rx_kb_s;
    uint64_t nvlink_tx_kib, nvlink_rx_kib, energy_mj;
    uint64_t cpus[16], numas;
    int mig_on;
    mig migs[MIGS];
    unsigned char fabric_cluster[16];
    unsigned fabric_clique, fabric_state;
    unsigned port_count;
    port ports[PORTS];
    unsigned program_count;
    program programs[PROCESSES];
    int lost, lost_code, calls_to_live; /* calls_to_live: answers left until it is lost; below 0: no end */
    rule rules[RULES];            /* functions that this GPU answers with a code */
} gpu;
typedef struct { int gpu, xid; } event;
typedef struct { char function[48]; unsigned calls; } counter;
typedef struct {
    int init_code, version_code;  /* version_code: what every call answers, once it is not 0 */
    unsigned count, calls, slow_ms;
    char slow_function[48];       /* empty: all are slow */
    char driver[32];
    gpu gpus[GPUS];
    int levels[GPUS][GPUS], p2p[3][GPUS][GPUS];
    event events[EVENTS];
    unsigned event_head, event_tail;
    counter counters[COUNTED];
} table;

static table *t;
unsigned fake_size(void) { return sizeof(table); }

int fake_attach(const char *path) {
    int file = open(path, O_RDWR);
    if (file < 0) return NOT_LOADED;
    void *at = mmap(NULL, sizeof(table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) return NOT_LOADED;
    t = at;
    return OK;
}

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("FAKE_NVML");
    if (path) fake_attach(path);
}

/* What every call does first */

static void wait_ms(unsigned ms) {
    struct timespec left = { ms / 1000, (long)(ms % 1000) * 1000000 };
    nanosleep(&left, NULL);
}

static void count(const char *function) {
    t->calls++;
    for (int i = 0; i < COUNTED; i++) {
        counter *c = &t->counters[i];
        if (!c->function[0]) strncpy(c->function, function, sizeof c->function - 1);
        if (!strcmp(c->function, function)) { c->calls++; return; }
    }
}

static int begin(const char *function) {
    if (!t) return NOT_LOADED;
    count(function);
    if (!t->slow_function[0] || !strcmp(t->slow_function, function))
        for (unsigned waited = 0; waited < t->slow_ms; waited++) wait_ms(1); /* until the test calls it off */
    return t->version_code;
}

static int begin_on(gpu *g, const char *function) {
    int code = begin(function);
    if (code) return code;
    if (g->is_mig) return OK;
    if (g->calls_to_live == 0) g->lost = 1;
    if (g->calls_to_live > 0) g->calls_to_live--;
    if (g->lost) return g->lost_code;
    for (int i = 0; i < RULES; i++)
        if (!strcmp(g->rules[i].function, function)) return g->rules[i].code;
    return OK;
}

#define BEGIN do { int code_ = begin(__func__); if (code_) return code_; } while (0)
#define ON(g) do { int code_ = begin_on((g), __func__); if (code_) return code_; } while (0)

static int index_of(gpu *g) { return (int)(g - t->gpus); }
static int say(const char *text, char *to, unsigned size) {
    if (strlen(text) >= size) return SMALL;
    strcpy(to, text);
    return OK;
}

/* The whole machine */

int nvmlInitWithFlags(unsigned flags) { (void)flags; BEGIN; return t->init_code; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "some error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { BEGIN; return say(t->driver, text, size); }
int nvmlDeviceGetCount_v2(unsigned *n) { BEGIN; *n = t->count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, gpu **handle) {
    if (!t || i >= t->count) return INVALID;
    *handle = &t->gpus[i];
    ON(*handle);
    return OK;
}

/* What a GPU is */

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; uint8_t cluster[16]; unsigned status; uint32_t clique; uint8_t state; uint32_t health; } fabric;

int nvmlDeviceGetName(gpu *g, char *text, unsigned size) { ON(g); return say(g->name, text, size); }
int nvmlDeviceGetUUID(gpu *g, char *text, unsigned size) {
    ON(g);
    return say(g->is_mig ? ((mig *)g)->uuid : g->uuid, text, size);
}
int nvmlDeviceGetPciInfo_v3(gpu *g, pci *p) {
    ON(g);
    if (g->is_mig) return NOT_SUPPORTED;
    strcpy(p->bus_id, g->bus_id);
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(gpu *g, memory_v2 *m) {
    ON(g);
    if (g->is_mig) { m->total = ((mig *)g)->bytes; return OK; }
    m->total = g->memory_total_bytes;
    m->used = g->memory_used_bytes;
    m->reserved = g->memory_reserved_bytes;
    return OK;
}
int nvmlDeviceGetMemoryInfo(gpu *g, memory_v1 *m) {
    ON(g);
    m->total = g->memory_total_bytes;
    m->used = g->memory_used_bytes + g->memory_reserved_bytes;
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(gpu *g, int *major, int *minor) {
    ON(g);
    *major = g->major;
    *minor = g->minor;
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(gpu *g, unsigned *mw) { ON(g); *mw = g->power_limit_mw; return OK; }
int nvmlDeviceGetCpuAffinity(gpu *g, unsigned words, uint64_t *mask) {
    ON(g);
    for (unsigned i = 0; i < words; i++) mask[i] = i < 16 ? g->cpus[i] : 0;
    return OK;
}
int nvmlDeviceGetMemoryAffinity(gpu *g, unsigned words, uint64_t *mask, unsigned scope) {
    (void)scope;
    ON(g);
    for (unsigned i = 0; i < words; i++) mask[i] = i ? 0 : g->numas;
    return OK;
}
int nvmlDeviceGetMigMode(gpu *g, unsigned *now, unsigned *pending) { ON(g); *now = *pending = g->mig_on; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(gpu *g, unsigned *n) { ON(g); *n = MIGS; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(gpu *g, unsigned i, mig **handle) {
    ON(g);
    if (i >= MIGS || !g->migs[i].present) return NOT_FOUND;
    *handle = &g->migs[i];
    return OK;
}
int nvmlDeviceGetGpuFabricInfoV(gpu *g, fabric *f) {
    ON(g);
    memcpy(f->cluster, g->fabric_cluster, 16);
    f->status = OK;
    f->clique = g->fabric_clique;
    f->state = (uint8_t)g->fabric_state;
    return OK;
}

/* How a GPU is doing */

typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned version; int sensor, celsius; } heat;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { uint32_t id, scope; int64_t at, took; int type, code; union { double d; unsigned u; unsigned long long ull; } value; } field;

int nvmlDeviceGetUtilizationRates(gpu *g, rates *r) { ON(g); r->gpu = g->utilisation; return OK; }
int nvmlDeviceGetPowerUsage(gpu *g, unsigned *mw) { ON(g); *mw = g->power_mw; return OK; }
int nvmlDeviceGetTemperatureV(gpu *g, heat *h) { ON(g); h->celsius = g->temperature_c; return OK; }
int nvmlDeviceGetTemperature(gpu *g, int sensor, unsigned *c) {
    ON(g);
    if (sensor) return NOT_SUPPORTED;
    *c = (unsigned)g->temperature_c;
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(gpu *g, unsigned long long *bits) { ON(g); *bits = g->clock_reasons; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(gpu *g, unsigned long long *bits) { ON(g); *bits = g->clock_reasons; return OK; }
int nvmlDeviceGetPcieThroughput(gpu *g, int way, unsigned *kb_s) {
    ON(g);
    *kb_s = way ? g->pcie_rx_kb_s : g->pcie_tx_kb_s;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(gpu *g, int type, int counter, unsigned long long *n) {
    ON(g);
    if (counter) return NOT_SUPPORTED;
    *n = type ? g->ecc_uncorrected : g->ecc_corrected;
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(gpu *g, unsigned long long *mj) { ON(g); *mj = g->energy_mj; return OK; }
int nvmlDeviceGetRemappedRows(gpu *g, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ON(g);
    *corrected = g->remapped[0];
    *uncorrected = g->remapped[1];
    *pending = g->remapped[2];
    *failed = g->remapped[3];
    return OK;
}
int nvmlDeviceGetRetiredPages(gpu *g, int cause, unsigned *n, unsigned long long *pages) {
    ON(g);
    unsigned room = *n;
    *n = cause ? g->retired_pages : 0;
    if (room < *n || !pages) return *n ? SMALL : OK;
    for (unsigned i = 0; i < *n; i++) pages[i] = i;
    return OK;
}

static int programs(gpu *g, unsigned kind, unsigned *n, process *found) {
    unsigned room = *n, count = 0;
    for (unsigned i = 0; i < g->program_count; i++) {
        if (g->programs[i].kind != kind) continue;
        if (count < room) { found[count].pid = g->programs[i].pid; found[count].used = g->programs[i].bytes; }
        count++;
    }
    *n = count;
    return count > room ? SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(gpu *g, unsigned *n, process *p) { ON(g); return programs(g, 0, n, p); }
int nvmlDeviceGetComputeRunningProcesses_v2(gpu *g, unsigned *n, process *p) { ON(g); return programs(g, 0, n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(gpu *g, unsigned *n, process *p) { ON(g); return programs(g, 1, n, p); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu *g, unsigned *n, process *p) { ON(g); return programs(g, 2, n, p); }

static int field_of(gpu *g, field *f) {
    f->type = ULL;
    switch (f->id) {
    case FIELD_LINKS: f->value.ull = g->port_count; return OK;
    case FIELD_TX: f->value.ull = g->nvlink_tx_kib; return g->port_count ? OK : NOT_SUPPORTED;
    case FIELD_RX: f->value.ull = g->nvlink_rx_kib; return g->port_count ? OK : NOT_SUPPORTED;
    case FIELD_RECOVERY: f->value.ull = g->recovery; return OK;
    default: return NOT_SUPPORTED;
    }
}
int nvmlDeviceGetFieldValues(gpu *g, int n, field *fields) {
    ON(g);
    for (int i = 0; i < n; i++) fields[i].code = field_of(g, &fields[i]);
    return OK;
}

/* How GPUs are joined */

int nvmlDeviceGetTopologyCommonAncestor(gpu *a, gpu *b, int *level) {
    ON(a);
    *level = t->levels[index_of(a)][index_of(b)];
    return *level < 0 ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetP2PStatus(gpu *a, gpu *b, int how, int *status) {
    ON(a);
    if (how < 0 || how > 2) return INVALID;
    *status = t->p2p[how][index_of(a)][index_of(b)];
    return *status < 0 ? NOT_SUPPORTED : OK;
}

#define PORT(g, i) do { ON(g); if (!(g)->port_count) return NOT_SUPPORTED; if ((i) >= (g)->port_count) return INVALID; } while (0)
int nvmlDeviceGetNvLinkState(gpu *g, unsigned i, unsigned *up) { PORT(g, i); *up = g->ports[i].up; return OK; }
int nvmlDeviceGetNvLinkVersion(gpu *g, unsigned i, unsigned *version) { PORT(g, i); *version = g->ports[i].version; return OK; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu *g, unsigned i, pci *p) {
    PORT(g, i);
    if (!g->ports[i].remote[0]) return NOT_SUPPORTED;
    strcpy(p->bus_id, g->ports[i].remote);
    return OK;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(gpu *g, unsigned i, int *kind) {
    PORT(g, i);
    *kind = g->ports[i].kind;
    return *kind < 0 ? NOT_SUPPORTED : OK;
}

/* Events. A set is told only about GPUs that were registered with it, and fails while one of those is lost. */

typedef struct { unsigned watched; } set;
typedef struct { gpu *device; unsigned long long type, data; unsigned gi, ci; } event_data;

int nvmlEventSetCreate(set **made) { BEGIN; *made = calloc(1, sizeof(set)); return OK; }
int nvmlEventSetFree(set *s) { BEGIN; free(s); return OK; }
int nvmlDeviceRegisterEvents(gpu *g, unsigned long long types, set *s) {
    ON(g);
    if (types != XID_EVENT) return NOT_SUPPORTED;
    s->watched |= 1u << index_of(g);
    return OK;
}

static int next_event(set *s, event_data *data) {
    while (t->event_head != t->event_tail) {
        event e = t->events[t->event_head++ % EVENTS];
        if (e.gpu >= 0 && !(s->watched >> e.gpu & 1)) continue;
        memset(data, 0, sizeof *data);
        data->device = e.gpu < 0 ? NULL : &t->gpus[e.gpu];
        data->type = XID_EVENT;
        data->data = e.xid;
        return 1;
    }
    return 0;
}
int nvmlEventSetWait_v2(set *s, event_data *data, unsigned timeout_ms) {
    BEGIN;
    if (next_event(s, data)) return OK;
    for (int i = 0; i < GPUS; i++)
        if (s->watched >> i & 1 && t->gpus[i].lost) return LOST;
    wait_ms(timeout_ms);
    return next_event(s, data) ? OK : TIMEOUT;
}
