//! A compromised tool and its limits.
#![cfg(target_os = "linux")]

use super::super::confine::{AllowedPaths, confine};
use super::super::program::ProgramKind;
use super::*;

/// Does something on a thread that is confined as tools are.
fn confined<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let private = tempfile::tempdir().unwrap();
    let work = || {
        let allowed =
            AllowedPaths { private: private.path(), program: Path::new("/bin/sh"), kind: &ProgramKind::Static };
        assert!(confine(&allowed).network, "this kernel has no seccomp");
        work()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Returns the number of a system call's error; 0 for none.
#[expect(unsafe_code, reason = "system calls that a tool would make")]
fn call(number: i64, arguments: [usize; 4]) -> i32 {
    // SAFETY: the arguments are numbers and null pointers, which the kernel refuses.
    let done = unsafe { libc::syscall(number, arguments[0], arguments[1], arguments[2], arguments[3]) };
    if done < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

#[test]
fn calls_that_reach_beyond_a_tool_are_refused() {
    let parent = usize::try_from(std::os::unix::process::parent_id()).unwrap();
    let own = usize::try_from(std::process::id()).unwrap();
    let refused = confined(|| {
        [
            ("limits of belay", call(libc::SYS_prlimit64, [parent, 7, 0, 0])),
            ("limits by its own number", call(libc::SYS_prlimit64, [own, 7, 0, 0])),
            ("clock", call(libc::SYS_clock_settime, [0, 0, 0, 0])),
            ("clock, older", call(libc::SYS_settimeofday, [0, 0, 0, 0])),
            ("hostname", call(libc::SYS_sethostname, [0, 0, 0, 0])),
            ("shared memory", call(libc::SYS_shmget, [0, 4096, 0o1600, 0])),
            ("semaphores", call(libc::SYS_semget, [0, 1, 0o1600, 0])),
            ("queues", call(libc::SYS_msgget, [0, 0o1600, 0, 0])),
            ("queues of POSIX", call(libc::SYS_mq_open, [0, 0, 0, 0])),
            ("priority of belay", call(libc::SYS_setpriority, [0, parent, 19, 0])),
            ("processors of belay", call(libc::SYS_sched_setaffinity, [parent, 8, 0, 0])),
            ("handle of belay", call(libc::SYS_pidfd_open, [parent, 0, 0, 0])),
            ("kernel's log", call(libc::SYS_syslog, [3, 0, 0, 0])),
            ("namespaces", call(libc::SYS_unshare, [0x1000_0000, 0, 0, 0])),
        ]
    });
    for (what, error) in refused {
        assert_eq!(error, libc::EPERM, "{what}");
    }
    let own = confined(|| call(libc::SYS_prlimit64, [0, 7, 0, 0]));
    assert_eq!(own, 0, "its own limits it may read");
}

#[test]
fn a_tool_has_no_capabilities_and_gets_none() {
    let (_folder, tools) = script("sleep 2; exit 1");
    let tree = one_unit();
    let renderer = Renderer::new(Options::default(), tools, None);
    let status = std::thread::scope(|scope| {
        let rendering = scope.spawn(|| rendered(&renderer, &tree));
        let status = loop {
            let children = fs::read_dir("/proc/self/task").unwrap().flatten();
            let children = children.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
            let ids: Vec<String> =
                children.flat_map(|ids| ids.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
            let found = ids.iter().filter_map(|id| {
                let command = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
                command.contains("load-restrictor").then(|| fs::read_to_string(format!("/proc/{id}/status")).ok())?
            });
            if let Some(found) = found.into_iter().next() {
                break found;
            }
            assert!(!rendering.is_finished(), "it ended before it was seen");
            std::thread::yield_now();
        };
        drop(rendering.join().unwrap());
        status
    });
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(line(set), "0000000000000000", "{set}");
    }
    assert_eq!(line("NoNewPrivs:"), "1");
}

fn one_unit() -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.file("kustomization.yaml", "");
    tree
}

/// A program that is no script makes no process: nothing can be left behind when belay is killed.
#[test]
fn a_program_makes_no_processes() {
    let perl = Path::new("/usr/bin/perl");
    if !perl.exists() {
        eprintln!("there is no perl: nothing is tried");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kustomize");
    fs::copy(perl, &program).unwrap();
    // perl reads its first argument as the path of a program.
    let mut tree = MemoryTree::default();
    tree.file("build", "$child = fork; print STDERR defined $child ? 'made' : \"refused: $!\"; exit 1\n");
    tree.file("kustomization.yaml", "transformers: [x.yaml]\n");
    let tools = Tools { kustomize: Some(program), helm: None };
    let said = rendered(&Renderer::new(Options::default(), tools, None), &tree)[0].complaints[0].to_string();
    assert!(said.contains("refused: Operation not permitted"), "{said}");
}

/// A program without libraries can read nothing but its own folder, by absolute paths neither.
#[test]
fn a_generator_reads_no_file_of_this_machine() {
    let Some(tools) = real_tools() else { return };
    let path = ["/usr/lib/os-release", "/etc/ld.so.cache"].into_iter().find(|path| Path::new(path).exists());
    let path = path.expect("a file beside the libraries");
    let mut tree = MemoryTree::default();
    // A file outside of its folder has the tool read any path.
    tree.file("over/kustomization.yaml", "generators: [g.yaml]\npatches: [{path: ../p.yaml}]\n");
    tree.file("p.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: g}\ndata: {a: b}\n");
    tree.file(
        "over/g.yaml",
        format!("apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {{name: g}}\nname: g\nfiles: [x={path}]\n"),
    );
    if !confinement().files {
        return;
    }
    let files = rendered(&Renderer::new(Options::default(), tools, None), &tree);
    assert!(files[0].manifests.is_empty(), "{files:?}");
    let said = files[0].complaints[0].to_string();
    assert!(said.contains("permission denied"), "{said}");
}
