//! A prefetch hint, on processors that take one.

/// Bytes that come into the cache at once.
const LINE_BYTES: usize = 64;

/// Begins to bring the first `bytes` of `value` into the cache, without waiting for them. Changes
/// nothing but speed; does nothing on other processors than x86-64.
#[inline]
pub fn prefetch<T>(value: &T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..bytes.min(size_of::<T>()).div_ceil(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        // SAFETY: a prefetch touches nothing that the program can see, and the address lies within
        // `value`; SSE is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(line * LINE_BYTES)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, bytes, LINE_BYTES);
}
