//! What programs say when they give up: the words of C libraries and runtimes.
