//! System calls that a tool is refused, and rights that it is started without.

use std::collections::BTreeMap;
use std::io;

use crate::parent_death_signal;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// The system calls that rendering needs not. `setsid` would leave the process group that is ended with the tool.
const REFUSED: &[i64] = &[
    // The network.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_setsid,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Objects that outlive it: shared memory, queues and semaphores.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // The clock and the names of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // The kernel's own matters.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_quotactl,
    libc::SYS_personality,
];

/// Calls that only this kind of machine has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The bit of calls in the numbering of x32, in which some calls have numbers of their own.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const OWN_NUMBERS: std::ops::Range<i64> = 512..548;

/// The highest number of a capability, with room for new ones.
const CAPABILITIES: libc::c_ulong = 63;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let machine = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine)?.try_into()?)
}

/// Denies the present thread, and its children, system calls that rendering needs none of.
pub(super) fn refuse_calls() -> Result<(), seccompiler::Error> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    {
        let numbers: Vec<i64> = rules.keys().copied().chain(OWN_NUMBERS).chain([libc::SYS_prlimit64]).collect();
        rules.extend(numbers.into_iter().map(|call| (call | X32, Vec::new())));
    }
    // Its own limits it may lower; those of another process, belay's among them, it may neither read nor set.
    let of_others = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![of_others])?]);
    apply_filter(&filter(rules, libc::EPERM)?)
}

/// Returns a filter for a call that the start of a tool needs, and a tool does not: pairs of sockets.
pub(super) fn no_pairs() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: Rules = BTreeMap::from([(libc::SYS_socketpair, Vec::new())]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_socketpair | X32, Vec::new());
    filter(rules, libc::EPERM)
}

/// Filters that keep a program from making processes; threads it may make.
pub(super) fn no_processes() -> Result<Vec<BpfProgram>, seccompiler::Error> {
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let no_thread = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), 0)?;
    let mut refused: Rules = BTreeMap::from([(libc::SYS_clone, vec![SeccompRule::new(vec![no_thread])?])]);
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone | X32, libc::SYS_fork | X32, libc::SYS_vfork | X32] {
        refused.insert(call, Vec::new());
    }
    // Its flags are in memory, out of a filter's reach. Programs do without it where the kernel has none.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![filter(refused, libc::EPERM)?, filter(unknown, libc::ENOSYS)?])
}

/// Takes all capabilities from the present thread and its children, for good.
#[expect(unsafe_code, reason = "functions of the C library")]
pub(super) fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    const VERSION: u32 = 0x2008_0522;
    let header = Header { version: VERSION, process: 0 };
    let none = [0_u32; 6];
    // SAFETY: the calls take numbers, and two pointers to values that live until they return, of the sizes that this version
    // of the header says.
    unsafe {
        for capability in 0..=CAPABILITIES {
            // Fails for those that the kernel does not know, and for who has no right to: who has no capabilities either.
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        // Fails where the kernel has none.
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) == 0;
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Has a program that is started from the present process inherit no file but standard input, output and error.
#[expect(unsafe_code, reason = "functions of the C library")]
fn close_others_at_program() {
    /// The most files that are looked at one by one, where the kernel can't do it at once.
    const FILES: u64 = 65_536;
    // SAFETY: the calls take numbers, and a pointer to a value that lives until they return. None of them allocates.
    unsafe {
        let (first, last): (libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX);
        if libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) == 0 {
            return;
        }
        let mut limit = libc::rlimit { rlim_cur: FILES, rlim_max: FILES };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        for file in 3..i32::try_from(limit.rlim_max.min(FILES)).unwrap_or(0) {
            // Fails where there is none of that number.
            libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// Prepares a tool between its start and its program: it ends when belay is killed, has no files of belay, takes no more than its
/// limits, and makes no processes if `filters` forbid it.
#[expect(unsafe_code, reason = "functions of the C library")]
pub(super) fn before_program(belay: u32, bounds: &[(u32, u64)], filters: &[BpfProgram]) -> io::Result<()> {
    parent_death_signal::set(belay, libc::SIGKILL)?;
    // SAFETY: the calls take numbers, and a pointer to a value that lives until they return. None of them allocates.
    unsafe {
        close_others_at_program();
        for (resource, bound) in bounds {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(*resource, &raw mut limit) != 0 {
                return Err(io::Error::last_os_error());
            }
            // If belay itself has a lower limit, so has the tool.
            let bound = limit.rlim_max.min(*bound);
            limit = libc::rlimit { rlim_cur: bound, rlim_max: bound };
            if libc::setrlimit(*resource, &raw const limit) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    for filter in filters {
        apply_filter(filter).map_err(|_| io::Error::from_raw_os_error(libc::ENOSYS))?;
    }
    Ok(())
}
