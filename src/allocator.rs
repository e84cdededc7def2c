//! The C library's allocator: how many arenas it makes, and when it gives freed memory back to the system.

use std::ffi::c_int;

/// Bounds the arenas of the C library's allocator. It has eight for each processor by default, and memory that short threads have
/// freed in one is not used for another. The library reads the limit only until it has made some: a program calls this before it
/// starts threads.
#[expect(unsafe_code, reason = "a function of the C library")]
pub fn limit_arenas() {
    const ARENAS: c_int = 2;
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, and does its own locking.
    if unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) } == 0 {
        tracing::warn!("failed to limit the arenas of the C library's allocator");
    }
}

/// Gives the freed memory that the C library keeps back to the system. It searches all its memory for that.
#[expect(unsafe_code, reason = "a function of the C library")]
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, and does its own locking.
    unsafe {
        libc::malloc_trim(0);
    }
}
