//! The parent-death signal: child processes end when belay is killed, also those that heed no other signal.
//!
//! The kernel sends the signal when the *thread* ends that has started the child. So a child is started by the thread that waits
//! for it, and that ends it before it goes on.

use std::io;

/// Has this signal sent to the present process when the thread ends that has started it. To be called between the start of a child and its
/// program: it makes system calls alone, and takes no lock and no memory. `belay` is the number of the process that starts it.
///
/// # Errors
/// Fails where the kernel refuses, and when belay has been killed in between.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "functions of the C library")]
pub fn set(belay: u32, signal: i32) -> io::Result<()> {
    // SAFETY: the calls take numbers. None of them allocates.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::getppid().unsigned_abs() != belay {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

/// Does nothing: this system knows no such signal.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn set(_: u32, _: i32) -> io::Result<()> {
    Ok(())
}
