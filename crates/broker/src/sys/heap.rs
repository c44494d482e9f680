//! The allocator.

/// Gives memory that the allocator holds and nobody uses back to the system, as far as it can.
pub fn trim_heap() {
    // SAFETY: glibc's call takes its own locks, may be made on any thread and moves nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
