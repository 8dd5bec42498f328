"""What reads a user's file with a library that a damaged file can crash.

`trigpoint.core.apart` calls these functions in a process of their own: they take and return what JSON can
say, and arrays, and none of them imports torch."""
