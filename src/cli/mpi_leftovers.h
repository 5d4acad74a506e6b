// Leftovers of a killed mpirun: shared-memory segments of its ranks, which count as memory in use until they are
// removed, and its session folder. The system does not record their owners, so the first rank of each machine notes
// them in a small file of the user's, and a later start removes those of dead processes.
#ifndef CLI_MPI_LEFTOVERS_H
#define CLI_MPI_LEFTOVERS_H

// `base` is the folder for temporary files. Removes leftovers of dead runs of this program and user on this machine.
void mpi_leftovers_sweep(const char *base);
// Notes the possible leftovers of this rank's mpirun: `session` is its session folder, or NULL, `job` Open MPI's number
// of the job, used in names of segments, or NULL. To be called before MPI starts, since ranks may be killed during the
// start, and again afterwards, when the segments exist. Returns the file of the note, to be freed, or NULL if there is
// nothing to note.
char *mpi_leftovers_note(const char *base, const char *session, const char *job);
// For a run that ends well, whose mpirun cleans up itself. Takes ownership of the path; NULL is fine.
void mpi_leftovers_forget(char *note);

#endif
