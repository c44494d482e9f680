//! Real-time scheduling for the threads that serve: SCHED_FIFO, affinity, locked memory.
