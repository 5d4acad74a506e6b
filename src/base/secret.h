// A text that cannot be guessed, for a token that processes of one job or one user share.
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

enum { SECRET_CHARACTERS = 32 };

// Writes 128 random bits as hexadecimal digits and a zero byte. -1 if the system has no random numbers.
int secret_make(char text[SECRET_CHARACTERS + 1]);

#endif
