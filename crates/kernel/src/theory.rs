//! Queueing theory of tasks with shares.
