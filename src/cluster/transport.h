// The network that a run really uses, from NCCL's log with NCCL_DEBUG=INFO, fi_info and the kernel.
#ifndef CLUSTER_TRANSPORT_H
#define CLUSTER_TRANSPORT_H

#include "base/buffer.h"

enum transport { TRANSPORT_UNKNOWN, TRANSPORT_TCP, TRANSPORT_IB, TRANSPORT_EFA };

const char *transport_name(enum transport transport);  // "tcp", …; "unknown"
// The network in an NCCL log: the one that it uses, not those that it found on the way. TRANSPORT_UNKNOWN if the log
// does not name one.
enum transport transport_of_log(const char *log);
// Interfaces for EFA that libfabric sees on this machine, from fi_info's answer. 0 for none.
int transport_efa_interfaces(const char *fi_info);
// Ports of InfiniBand (or RoCE) cards that are up, in the kernel's tree at `folder`, /sys/class/infiniband. EFA's own
// cards are listed there too and do not count. 0 if there is no such folder.
int transport_ib_ports(const char *folder);

// Expected bus bandwidth in GB/s of an all-reduce of 256 MiB between machines of a type; 0 if no figure is known.
double transport_expected_busbw(const char *machine, int nodes);

#endif
