//! Takes permissions that a renderer does not need from the present thread and its children. Both of the kernel's means
//! are a thread's own and are handed on to its children: a thread that is confined and then starts the tool needs no
//! code between fork and exec. A right that has been taken can't be had again; the thread ends with the tool.

use std::path::{Path, PathBuf};

use super::program::ProgramKind;

/// The paths that a tool may see.
#[derive(Debug)]
pub(super) struct AllowedPaths<'a> {
    /// The folder that it may write to.
    pub private: &'a Path,
    /// The program that it is.
    pub program: &'a Path,
    /// The kind of program.
    pub kind: &'a ProgramKind,
}

/// The limits that the kernel enforces on a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Other files.
    pub files: bool,
    /// The network.
    pub network: bool,
}

/// The files that every program may read: the kernel's memory management.
#[cfg(target_os = "linux")]
const KERNEL: [&str; 1] = ["/sys/kernel/mm/transparent_hugepage"];
/// The folders of the libraries that a script's programs need.
#[cfg(target_os = "linux")]
const LIBRARIES: [&str; 8] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/nix/store", "/gnu/store"];
/// The loaders of programs that have libraries.
#[cfg(target_os = "linux")]
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
/// The loader's cache of libraries.
#[cfg(target_os = "linux")]
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// The folders of the programs that a script starts.
#[cfg(target_os = "linux")]
const PROGRAMS: [&str; 6] = ["/bin", "/usr/bin", "/usr/local/bin", "/nix/store", "/gnu/store", "/usr/lib"];

/// Confines the present thread, as far as the kernel can.
#[cfg(target_os = "linux")]
pub(super) fn confine(allowed: &AllowedPaths<'_>) -> Confinement {
    let files = restrict_files(allowed).unwrap_or(false);
    // A process that may not drop them has none.
    let _ = super::refused_calls::drop_capabilities();
    Confinement { files, network: super::refused_calls::refuse_calls().is_ok() }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &AllowedPaths<'_>) -> Confinement {
    Confinement { files: false, network: false }
}

#[cfg(target_os = "linux")]
fn restrict_files(allowed: &AllowedPaths<'_>) -> Result<bool, landlock::RulesetError> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
        path_beneath_rules,
    };
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut programs = vec![allowed.program.to_owned()];
    let mut readable: Vec<PathBuf> = KERNEL.iter().map(PathBuf::from).collect();
    match allowed.kind {
        ProgramKind::Static => {}
        ProgramKind::Dynamic(files) => {
            programs.extend(files.iter().cloned());
            readable.push(LOADER_CACHE.into());
        }
        ProgramKind::Script => {
            programs.extend(LOADERS.iter().chain(&PROGRAMS).map(PathBuf::from));
            readable.extend(LIBRARIES.iter().map(PathBuf::from));
        }
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
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(programs, read | AccessFs::Execute))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
