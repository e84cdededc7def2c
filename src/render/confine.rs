//! Takes from the present thread, and from what it starts, what a tool that renders does not need. Both of the kernel's means
//! are a thread's own and are handed on to its children: a thread that is confined and then starts the tool needs no code
//! between fork and exec. What has been taken can't be had again; the thread ends with the tool.

use std::path::{Path, PathBuf};

/// What a tool may see.
#[derive(Debug)]
pub(super) struct AllowedPaths<'a> {
    /// What it may write.
    pub private: &'a Path,
    /// The program that it is.
    pub program: &'a Path,
}

/// What the kernel keeps a tool from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Other files.
    pub files: bool,
    /// The network.
    pub network: bool,
}

/// Where the libraries of programs lie.
#[cfg(target_os = "linux")]
const LIBRARIES: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/nix/store",
    "/gnu/store",
    "/sys/kernel/mm/transparent_hugepage",
];
/// What loads programs that have libraries.
#[cfg(target_os = "linux")]
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
/// Where the programs lie that a script starts.
#[cfg(target_os = "linux")]
const PROGRAMS: [&str; 6] = ["/bin", "/usr/bin", "/usr/local/bin", "/nix/store", "/gnu/store", "/usr/lib"];

/// Confines the present thread, as far as the kernel can.
#[cfg(target_os = "linux")]
pub(super) fn confine(allowed: &AllowedPaths<'_>) -> Confinement {
    Confinement { files: restrict_files(allowed).unwrap_or(false), network: linux::refuse_calls().is_ok() }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &AllowedPaths<'_>) -> Confinement {
    Confinement { files: false, network: false }
}

/// Whether a program is a text that another one reads.
#[cfg(target_os = "linux")]
fn is_script(program: &Path) -> bool {
    use std::io::Read;
    let mut begins = [0; 2];
    std::fs::File::open(program).is_ok_and(|mut file| file.read_exact(&mut begins).is_ok()) && &begins == b"#!"
}

#[cfg(target_os = "linux")]
fn restrict_files(allowed: &AllowedPaths<'_>) -> Result<bool, landlock::RulesetError> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
        path_beneath_rules,
    };
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut programs: Vec<PathBuf> = LOADERS.iter().map(PathBuf::from).collect();
    programs.push(allowed.program.to_owned());
    if is_script(allowed.program) {
        programs.extend(PROGRAMS.iter().map(PathBuf::from));
    }
    // Only of folders may it be asked to list them.
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules([allowed.private], AccessFs::from_all(abi)))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(["/dev/urandom", "/dev/random", "/dev/zero"], AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(LIBRARIES, read))?
        .add_rules(path_beneath_rules(programs, read | AccessFs::Execute))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

    /// What rendering needs none of: the network, other processes, the kernel's own matters. `setsid` would leave the
    /// process group that is ended with the tool.
    const REFUSED: [i64; 35] = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_setsid,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_quotactl,
    ];

    pub(super) fn refuse_calls() -> Result<(), seccompiler::Error> {
        let rules: BTreeMap<i64, Vec<_>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let machine = std::env::consts::ARCH.try_into()?;
        let filter: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine)?.try_into()?;
        apply_filter(&filter)
    }
}
