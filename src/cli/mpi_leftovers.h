// What a killed mpirun leaves: shared-memory segments of its ranks, which count as memory in use until they are
// removed, and its session folder. The system does not record whose they are, so the first rank of each machine notes
// them in a small file of the user's, and a later start removes what belongs to processes that are gone.
#ifndef CLI_MPI_LEFTOVERS_H
#define CLI_MPI_LEFTOVERS_H

// `base` is the folder for temporary files. Removes what dead runs of this program and user have left on this machine.
void mpi_leftovers_sweep(const char *base);
// Notes what this rank's mpirun would leave: `session` is its session folder, or NULL, `job` Open MPI's number of the
// job, by which segments are named, or NULL. To be called before MPI starts, since ranks may be killed meanwhile, and
// again afterwards, when the segments are there. Returns the file of the note, to be freed, or NULL if there is nothing
// to note.
char *mpi_leftovers_note(const char *base, const char *session, const char *job);
// This run ends well, and its mpirun cleans up itself. Takes the path over; NULL is fine.
void mpi_leftovers_forget(char *note);

#endif
