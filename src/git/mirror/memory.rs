//! The limits of libgit2's memory. The content of a repository decides how much it asks for: a pack of 564 KiB can hold
//! an object of 400 MB, and an object that is stored as a difference is rebuilt from all objects that it differs from.
//! libgit2 asks for the memory of an object before it inflates it, so a limit on its requests also limits the inflated
//! objects.
//!
//! Its allocator is replaced by one that counts. While an operation on a mirror runs ([`bounded`]), a request beyond the
//! limits is answered as if the machine had no more memory: libgit2 gives the operation up, and the error says so.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::allocator;

/// The largest number of bytes of one operation at once: an index of 750,000 objects, or an object of 50 MB that is
/// stored as a difference, with its base and the difference.
pub(in crate::git) const OPERATION: usize = 160 << 20;
/// The largest number of bytes of all operations of the process at once, with those that libgit2 keeps between them.
const PROCESS: usize = 192 << 20;
/// The number of bytes, held at the end of an operation, from which on a mirror that keeps more than [`LITTLE`]
/// releases it.
const KEPT: usize = 24 << 20;
/// The number of bytes from which on every mirror releases its memory: the rest is for operations.
const KEPT_BY_ALL: usize = PROCESS / 2;
/// The least amount that is worth giving back to the system, in bytes: the C library searches all its memory for that.
const LITTLE: usize = 1 << 20;

/// The bytes that libgit2 holds.
static HELD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The bytes that the operation of this thread holds, if one runs.
    static OF_OPERATION: Cell<Option<isize>> = const { Cell::new(None) };
    /// The most that it held at once.
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// The largest request of this operation that was refused.
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// The memory of an operation after its end.
pub(in crate::git) struct Used {
    /// The largest request that was refused, in bytes, if one was.
    pub(in crate::git) refused: Option<usize>,
    /// The most that it held at once, in bytes.
    pub(in crate::git) peak: usize,
    /// The number of bytes more that libgit2 keeps after it than before. Handles that are closed give it back.
    pub(in crate::git) kept: isize,
}

/// Returns true when libgit2 keeps more between operations than it should, and a mirror that keeps so many bytes is to
/// release them.
pub(in crate::git) fn is_too_much(kept: isize) -> bool {
    let held = HELD.load(Ordering::Relaxed);
    held > KEPT_BY_ALL || (held > KEPT && usize::try_from(kept).unwrap_or(0) > LITTLE)
}

/// Runs an operation within the limits. One inside another belongs to it.
pub(in crate::git) fn bounded<T>(operation: impl FnOnce() -> T) -> (T, Used) {
    let outer = OF_OPERATION.get();
    if outer.is_none() {
        OF_OPERATION.set(Some(0));
        PEAK.set(0);
        REFUSED.set(0);
    }
    let ends = EndsOnDrop(outer.is_none());
    let result = operation();
    // An operation inside another is counted as that one's.
    let kept = if outer.is_none() { OF_OPERATION.get().unwrap_or(0) } else { 0 };
    drop(ends);
    let refused = REFUSED.get();
    let peak = usize::try_from(PEAK.get()).unwrap_or(0);
    (result, Used { refused: (refused > 0).then_some(refused), peak, kept })
}

/// Gives freed memory that the C library keeps back to the system, if so many bytes were freed that it is worth it.
pub(in crate::git) fn give_back(freed: usize) {
    if freed > LITTLE {
        allocator::give_back();
    }
}

/// Ends an operation, also if it panics.
struct EndsOnDrop(bool);

impl Drop for EndsOnDrop {
    fn drop(&mut self) {
        if self.0 {
            OF_OPERATION.set(None);
        }
    }
}

/// The allocator as libgit2 knows it (`git2/sys/alloc.h`).
#[repr(C)]
struct Allocator {
    allocate: unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void,
    reallocate: unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

/// Makes libgit2 use the counting allocator, and sets the bounds that it knows itself. Its allocations from before stay
/// good: both take memory from the C library.
///
/// # Safety
///
/// Nobody may use libgit2 meanwhile: it keeps this in globals without a lock.
#[expect(unsafe_code, reason = "libgit2's allocator can only be replaced through its C interface")]
pub(in crate::git) unsafe fn install() {
    /// The largest number of objects of a pack that is fetched: the memory of their index must fit into an operation.
    const OBJECTS: usize = 750_000;
    /// The largest size of an object that is stored as a difference, in bytes.
    const DIFFERENCE: usize = 64 << 20;
    allocator::limit_arenas();
    let mut allocator = Allocator { allocate, reallocate, free };
    // SAFETY: the caller keeps everybody else away. libgit2 copies the struct, and takes a `size_t` for the others.
    let done = unsafe {
        let allocator = std::ptr::from_mut(&mut allocator);
        [
            libgit2_sys::git_libgit2_opts(libgit2_sys::GIT_OPT_SET_ALLOCATOR as c_int, allocator),
            libgit2_sys::git_libgit2_opts(libgit2_sys::GIT_OPT_SET_PACK_MAX_OBJECTS as c_int, OBJECTS),
            libgit2_sys::git_libgit2_opts(libgit2_sys::GIT_OPT_SET_PACK_MAX_OBJECT_SIZE as c_int, DIFFERENCE),
        ]
    };
    if done.iter().any(|code| *code != 0) {
        tracing::warn!("failed to bound the memory of libgit2");
    }
}

/// Returns true when an operation may have so much more; if not, that is noted.
fn may_have(more: usize) -> bool {
    let Some(held) = OF_OPERATION.get() else { return true };
    let of_operation = usize::try_from(held).unwrap_or(0).saturating_add(more);
    let of_process = HELD.load(Ordering::Relaxed).saturating_add(more);
    let may = of_operation <= OPERATION && of_process <= PROCESS;
    if !may {
        REFUSED.set(REFUSED.get().max(more));
    }
    may
}

fn count(taken: usize, given: usize) {
    HELD.fetch_add(taken, Ordering::Relaxed);
    // Memory that was allocated before the counting began is given back, too.
    let less = |held: usize| Some(held.saturating_sub(given));
    let _: Result<usize, usize> = HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    if let Some(held) = OF_OPERATION.get() {
        let change = isize::try_from(taken).unwrap_or(0) - isize::try_from(given).unwrap_or(0);
        let held = held.saturating_add(change);
        OF_OPERATION.set(Some(held));
        PEAK.set(PEAK.get().max(held));
    }
}

#[expect(unsafe_code, reason = "called by libgit2")]
unsafe extern "C" fn allocate(size: usize, _: *const c_char, _: c_int) -> *mut c_void {
    if !may_have(size) {
        return std::ptr::null_mut();
    }
    // SAFETY: `malloc` takes any size; it returns a pointer of its own, or null, and `malloc_usable_size` takes both.
    unsafe {
        let memory = libc::malloc(size);
        count(libc::malloc_usable_size(memory), 0);
        memory
    }
}

#[expect(unsafe_code, reason = "called by libgit2")]
unsafe extern "C" fn reallocate(memory: *mut c_void, size: usize, _: *const c_char, _: c_int) -> *mut c_void {
    // SAFETY: libgit2 hands over a pointer from one of these functions, or null; all of them come from the C library.
    unsafe {
        let before = libc::malloc_usable_size(memory);
        if size > before && !may_have(size - before) {
            return std::ptr::null_mut();
        }
        let moved = libc::realloc(memory, size);
        if !moved.is_null() {
            count(libc::malloc_usable_size(moved), before);
        }
        moved
    }
}

#[expect(unsafe_code, reason = "called by libgit2")]
unsafe extern "C" fn free(memory: *mut c_void) {
    // SAFETY: as for `reallocate`.
    unsafe {
        count(0, libc::malloc_usable_size(memory));
        libc::free(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_given_no_more_than_its_limit() {
        let (may, used) = bounded(|| {
            count(OPERATION - 100, 0);
            let may = (may_have(100), may_have(101));
            count(0, OPERATION - 100);
            may
        });
        assert_eq!((may, used.refused), ((true, false), Some(101)));
        assert!(used.peak >= OPERATION - 100 && used.kept < 100, "{} {}", used.peak, used.kept);
        let ((), used) = bounded(|| assert!(may_have(OPERATION)));
        assert_eq!(used.refused, None);
        assert!(may_have(usize::MAX), "outside of an operation nothing is refused");
    }
}
