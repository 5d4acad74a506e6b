// Removes datasets from a cache (cache_entry.h) that have not been used for long. An entry that a process has open is
// never removed: the process holds a shared lock on a file in it, and removing takes an exclusive one. Locks may not
// reach other machines, so nothing is removed from file systems that machines share.
#ifndef DATA_CACHE_PRUNE_H
#define DATA_CACHE_PRUNE_H

enum { CACHE_UNUSED_DAYS = 30 };

// The name of the file in an entry that its users lock (file_lock_keep).
extern const char cache_used_name[];
// The beginning of a dataset's description; other entries stay.
extern const char cache_dataset_words[];

// Removes datasets of that folder that were last used CACHE_UNUSED_DAYS ago. Failures are left for the next time.
void cache_prune(const char *root);

#endif
