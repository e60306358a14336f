/* A stand-in for the driver's NVML library: just what the monitor asks for, answered from tables that a test fills in.
   Compiled by test_nvml.py; signatures follow NVML's public documentation. */
#include <string.h>

#define MAX 16
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, SMALL = 7, LOST = 15 };

typedef struct {
    char name[96], uuid[96], bus[32];
    unsigned long long total, used;
    unsigned utilisation, power_mw, temperature, pid_count, pids[8];
    int lost, bare; /* bare: sensors and NVLink are not supported */
    unsigned links;
    char remote[18][32]; /* bus id at the far end of each link */
    int remote_kind[18]; /* 0 a GPU, 2 a switch */
    int down[18];
} gpu;

gpu fake_gpus[MAX];
int fake_levels[MAX][MAX];
int fake_p2p[MAX][MAX];
unsigned fake_count = 0;
int fake_init = OK;

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;

#define ASK(g, supported) if ((g)->lost) return LOST; if (!(supported)) return NOT_SUPPORTED

static int index_of(gpu *g) { return (int)(g - fake_gpus); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return fake_init; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "some error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "580.1", size); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = fake_count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, gpu **handle) {
    if (i >= fake_count) return INVALID;
    *handle = &fake_gpus[i];
    return fake_gpus[i].lost ? LOST : OK;
}
int nvmlDeviceGetName(gpu *g, char *text, unsigned size) { ASK(g, 1); strncpy(text, g->name, size); return OK; }
int nvmlDeviceGetUUID(gpu *g, char *text, unsigned size) { ASK(g, 1); strncpy(text, g->uuid, size); return OK; }
int nvmlDeviceGetPciInfo_v3(gpu *g, pci *p) { ASK(g, 1); strcpy(p->bus_id, g->bus); return OK; }
int nvmlDeviceGetMemoryInfo_v2(gpu *g, memory *m) {
    ASK(g, 1);
    m->total = g->total;
    m->used = g->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(gpu *g, rates *r) { ASK(g, !g->bare); r->gpu = g->utilisation; return OK; }
int nvmlDeviceGetPowerUsage(gpu *g, unsigned *mw) { ASK(g, !g->bare); *mw = g->power_mw; return OK; }
int nvmlDeviceGetTemperature(gpu *g, int sensor, unsigned *c) {
    ASK(g, !g->bare && sensor == 0);
    *c = g->temperature;
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(gpu *g, unsigned *count, process *found) {
    ASK(g, !g->bare);
    unsigned room = *count;
    *count = g->pid_count;
    if (room < g->pid_count) return SMALL;
    for (unsigned i = 0; i < g->pid_count; i++) found[i].pid = g->pids[i];
    return OK;
}
int nvmlDeviceGetTopologyCommonAncestor(gpu *a, gpu *b, int *level) {
    ASK(a, fake_levels[index_of(a)][index_of(b)] >= 0);
    *level = fake_levels[index_of(a)][index_of(b)];
    return OK;
}
int nvmlDeviceGetP2PStatus(gpu *a, gpu *b, int how, int *status) {
    (void)how;
    ASK(a, fake_p2p[index_of(a)][index_of(b)] >= 0);
    *status = fake_p2p[index_of(a)][index_of(b)];
    return OK;
}
int nvmlDeviceGetNvLinkState(gpu *g, unsigned link, unsigned *up) {
    ASK(g, !g->bare);
    if (link >= g->links) return INVALID;
    *up = !g->down[link];
    return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu *g, unsigned link, pci *p) {
    ASK(g, g->remote[link][0]);
    strcpy(p->bus_id, g->remote[link]);
    return OK;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(gpu *g, unsigned link, int *kind) {
    ASK(g, g->remote[link][0]);
    *kind = g->remote_kind[link];
    return OK;
}
