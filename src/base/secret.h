// Secrets: texts that cannot be guessed, for a token shared by processes of one job or one user, and copies of texts
// without their secrets (redact.h).
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

enum { SECRET_CHARACTERS = 32 };

// Writes 128 random bits as hexadecimal digits and a NUL. -1 if the system has no random numbers.
int secret_make(char text[SECRET_CHARACTERS + 1]);

// A copy, redacted; to be freed.
char *secret_redact(const char *text);

#endif
