//! The walls between modules: who may name whom, which words have one home, and no clock in a pure room.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/limits.rs"]
mod limits;

#[path = "tidy/english.rs"]
mod english;

/// The rooms of the same crate that a room may import. The manifests of the crates say which crates may import which.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("backoff", &[]),
    ("blocking", &[]),
    ("parent_death_signal", &[]),
    ("clock", &[]),
    ("allocator", &[]),
    ("interim_answers", &[]),
    ("regular_file", &["systemd_unit"]),
    ("systemd_unit", &[]),
    ("state_folder", &[]),
    ("telemetry", &[]),
    ("plain_line", &["manifest"]),
    ("secrets", &[]),
    ("http_client", &["tls"]),
    ("prometheus", &["blocking", "config", "http_client", "plain_line", "secrets", "tls", "user_agent"]),
    ("tls", &["regular_file"]),
    ("user_agent", &[]),
    ("config", &["regular_file"]),
    ("manifest", &[]),
    ("rollout", &["manifest", "span"]),
    ("span", &[]),
    (
        "git",
        &[
            "allocator",
            "backoff",
            "parent_death_signal",
            "interim_answers",
            "regular_file",
            "state_folder",
            "systemd_unit",
            "tls",
            "user_agent",
        ],
    ),
    ("cluster", &["backoff", "clock", "interim_answers", "telemetry", "user_agent"]),
    ("history", &["blocking", "regular_file", "state_folder"]),
    (
        "notices",
        &[
            "history",
            "config",
            "backoff",
            "clock",
            "plain_line",
            "regular_file",
            "secrets",
            "telemetry",
            "tls",
            "user_agent",
        ],
    ),
    ("render", &["backoff", "blocking", "parent_death_signal", "regular_file", "state_folder"]),
    (
        "daemon",
        &[
            "allocator",
            "git",
            "cluster",
            "history",
            "render",
            "config",
            "backoff",
            "blocking",
            "clock",
            "prometheus",
            "state_folder",
            "telemetry",
        ],
    ),
    ("web", &["daemon", "git", "cluster", "history", "config", "clock", "telemetry"]),
];

/// Words that have one home: a room, or a folder of one.
const HOMES: &[(&str, &[&str])] = &[
    ("git2::", &["git"]),
    ("rusqlite", &["history/sqlite"]),
    ("println!", &["cli"]),
    ("notify::", &["git"]),
    ("kube::Client", &["cluster", "minicluster", "daemon", "cli"]),
    // The rest of belay can't tell the embedded cluster from a real one.
    ("minicluster::", &["minicluster", "cli", "clock"]),
    ("kube_rules::", &["kube-rules", "minicluster", "cli"]),
];

/// Words that a pure room may not say: it takes facts and the time as arguments.
const NOT_IN_PURE_ROOMS: &[&str] = &[
    "std::fs",
    "std::env",
    // Addresses are values; sockets are not.
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "tokio::",
    "kube::",
    "async fn",
    "Clock",
    "Timestamp::now",
    "Instant",
    "SystemTime",
];

const PURE: &[&str] = &["manifest", "rollout", "span", "kube-facts", "kube-rules"];

struct Source {
    path: PathBuf,
    room: String,
    /// The code without comment lines and without unit tests, which stand at the end of a file.
    code: String,
}

/// The beginnings of a file's unit tests.
const UNIT_TESTS: [&str; 3] = ["#[cfg(test)]\nmod tests", "\nmod tests {", "\npub(super) mod tests {"];

impl Source {
    /// Returns true when it is of this room, or in this folder of one: `history/sqlite`.
    fn is_in(&self, home: &str) -> bool {
        self.room == home || home.contains('/') && self.path.ancestors().any(|folder| folder.ends_with(home))
    }
}

/// Returns the files of all crates. A room is a folder or file at the top of `belay` or `belay-core`; the other crates
/// are one room each.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for (folder, crate_room) in [
        ("src", None),
        ("crates/belay-core/src", None),
        ("crates/minicluster/src", Some("minicluster")),
        ("crates/kube-facts/src", Some("kube-facts")),
        ("crates/kube-rules/src", Some("kube-rules")),
    ] {
        collect(&root.join(folder), crate_room, &mut sources);
    }
    sources
}

fn collect(root: &Path, crate_room: Option<&str>, sources: &mut Vec<Source>) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(root).unwrap();
                let first = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).unwrap();
                let text = UNIT_TESTS.iter().fold(text.as_str(), |text, begin| text.split(begin).next().unwrap());
                let code =
                    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
                let room = crate_room.unwrap_or_else(|| first.trim_end_matches(".rs")).to_owned();
                sources.push(Source { room, path, code });
            }
        }
    }
}

#[test]
fn imports_run_one_way() {
    for source in sources() {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(room, _)| *room == source.room) else { continue };
        assert!(
            !source.code.contains("use crate::{"),
            "{}: name each room in an import of its own",
            source.path.display()
        );
        for after in source.code.split("crate::").skip(1) {
            let named: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let fine = named == source.room || allowed.contains(&named.as_str());
            assert!(fine, "{}: the room {} may not import {named}", source.path.display(), source.room);
        }
    }
}

/// The crates that are one room each: their files are named from `crate::` on.
const WHOLE_CRATES: &[&str] = &["kube-facts", "kube-rules", "minicluster"];

/// Inside a room, no file imports what imports it, directly or by way of others.
#[test]
fn no_file_imports_what_imports_it() {
    let all = sources();
    for room in MAY_IMPORT.iter().map(|(room, _)| *room).chain(WHOLE_CRATES.iter().copied()) {
        let files = RoomFiles::of(room, &all);
        let edges = files.edges();
        for start in edges.keys() {
            let mut reached: BTreeSet<&str> = BTreeSet::new();
            let mut next: Vec<&str> = edges[start].iter().map(String::as_str).collect();
            while let Some(module) = next.pop() {
                if reached.insert(module) {
                    next.extend(edges.get(module).into_iter().flatten().map(String::as_str));
                }
            }
            let ways_back = |module: &&&str| edges[**module].contains(*start);
            let last: Vec<&&str> = reached.iter().filter(ways_back).collect();
            assert!(!reached.contains(start), "{room}::{start} imports what imports it: {last:?}");
        }
    }
}

/// The files of a room by the paths of their modules inside of it, and its own `mod.rs` or `lib.rs` under an empty path.
struct RoomFiles<'s> {
    /// The beginning of the paths that lead into the room, `crate::git::`.
    prefix: String,
    modules: BTreeMap<String, &'s Source>,
    /// The paths that files offer, and the paths for which they stand.
    reexports: BTreeMap<String, String>,
}

impl<'s> RoomFiles<'s> {
    fn of(room: &str, all: &'s [Source]) -> RoomFiles<'s> {
        let is_crate = WHOLE_CRATES.contains(&room);
        let prefix = if is_crate { "crate::".to_owned() } else { format!("crate::{room}::") };
        let of_room = all.iter().filter(|source| source.room == room);
        let modules = of_room.map(|source| (module(source).unwrap_or_default(), source)).collect();
        let mut files = RoomFiles { prefix, modules, reexports: BTreeMap::new() };
        let reexports = files.modules.iter().flat_map(|(name, source)| {
            let offered = ["pub use ", "pub(super) use ", "pub(crate) use "];
            let imports = offered.iter().flat_map(|keyword| imports(&source.code, keyword));
            let named =
                imports.filter_map(|import| Some((joined(name, &import.name), files.full(&import.path, name)?)));
            named.filter(|(offered, path)| offered != path).collect::<Vec<_>>()
        });
        files.reexports = reexports.collect();
        files
    }

    /// Returns the modules that each module imports, or names by their paths.
    fn edges(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let files = self.modules.iter().filter(|(name, _)| !name.is_empty());
        let edges = files.map(|(name, source)| {
            let imported = imports(&source.code, "use ").into_iter().map(|import| import.path);
            let paths = imported.chain(spelled_out(&source.code)).filter_map(|path| self.full(&path, name));
            let targets = paths.filter_map(|path| self.module_of(path)).filter(|target| target != name);
            (name.as_str(), targets.collect())
        });
        edges.collect()
    }

    /// Returns a path from the room's own root that a file says; `None` if it leads out of the room.
    fn full(&self, path: &str, file: &str) -> Option<String> {
        let head = path.split("::").next().unwrap_or_default();
        if self.modules.contains_key(&joined(file, head)) {
            return Some(joined(file, path));
        }
        in_room(path, &self.prefix, file)
    }

    /// Returns the module that defines what a path names, past all that only offer it. A module goes before a function of
    /// the same name.
    fn module_of(&self, path: String) -> Option<String> {
        const HOPS: usize = 8;
        let mut path = path;
        for _ in 0..HOPS {
            let known = |begin: &&str| self.modules.contains_key(*begin) || self.reexports.contains_key(*begin);
            let begin = beginnings(&path).find(known)?;
            if self.modules.contains_key(begin) {
                return Some(begin.to_owned());
            }
            path = format!("{}{}", self.reexports[begin], &path[begin.len()..]);
        }
        None
    }
}

/// Returns the path of a file's module inside its room, `a::b`; `None` for the room's own `mod.rs` or `lib.rs`.
fn module(source: &Source) -> Option<String> {
    let parts: Vec<String> = source
        .path
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let at = parts.iter().rposition(|part| *part == source.room)?;
    let is_named = |part: &&str| !["src", "lib", "mod"].contains(part);
    let parts: Vec<&str> = parts[at + 1..].iter().map(String::as_str).filter(is_named).collect();
    (!parts.is_empty()).then(|| parts.join("::"))
}

/// One imported path.
struct Import {
    path: String,
    /// The name that it has from then on.
    name: String,
}

/// Returns the paths that a file imports, each in full: `use a::{b, c::d};` is `a::b` and `a::c::d`.
fn imports(code: &str, keyword: &str) -> Vec<Import> {
    let trees = code.split_inclusive('\n').scan(0, |at, line| {
        let begin = *at + (line.len() - line.trim_start().len());
        *at += line.len();
        Some(&code[begin..])
    });
    let uses = trees.filter_map(|rest| rest.strip_prefix(keyword)?.split(';').next());
    uses.flat_map(|tree| expanded("", &tree.replace(" as ", "=")))
        .map(|path| {
            let (path, alias) = path.split_once('=').unwrap_or((&path, ""));
            let path = path.strip_suffix("::self").unwrap_or(path);
            let name = if alias.is_empty() { path.rsplit("::").next().unwrap_or(path) } else { alias };
            Import { name: name.to_owned(), path: path.to_owned() }
        })
        .collect()
}

/// Returns the paths that code spells out where it uses something.
fn spelled_out(code: &str) -> impl Iterator<Item = String> {
    let is_inner = |c: char| c.is_alphanumeric() || "_:$".contains(c);
    let begins = ["crate::", "super::"].into_iter().flat_map(|begin| code.match_indices(begin));
    let whole = begins.filter(move |(at, _)| !code[..*at].ends_with(is_inner) && !code[..*at].ends_with("(in "));
    let paths = whole.map(move |(at, _)| code[at..].split(|c| !is_inner(c)).next().unwrap_or_default().to_owned());
    // Those that end with colons are the beginnings of lists in imports.
    paths.filter(|path| !path.ends_with(':'))
}

fn expanded(prefix: &str, tree: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in tree.chars().filter(|letter| !letter.is_whitespace()) {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(letter),
        }
    }
    let one = |part: &String| match part.split_once('{') {
        Some((before, list)) => expanded(&format!("{prefix}{before}"), list.strip_suffix('}').unwrap_or(list)),
        None => vec![format!("{prefix}{part}")],
    };
    parts.iter().filter(|part| !part.is_empty()).flat_map(one).collect()
}

/// Returns a path from the room's own root that a file says; `None` if it leads out of the room.
fn in_room(path: &str, prefix: &str, file: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix(prefix) {
        return Some(rest.to_owned());
    }
    let (mut module, mut rest) = (file, path);
    while let Some(further) = rest.strip_prefix("super::").filter(|_| !module.is_empty()) {
        (module, rest) = (module.rsplit_once("::").map_or("", |(above, _)| above), further);
    }
    (rest != path && !rest.starts_with("super::")).then(|| joined(module, rest))
}

fn joined(module: &str, path: &str) -> String {
    if module.is_empty() { path.to_owned() } else { format!("{module}::{path}") }
}

/// Returns a path and all that it leads through, the longest first.
fn beginnings(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once("::").map(|(begin, _)| begin))
}

/// Returns the longest module that a path leads through.
fn named_in(path: &str, modules: &BTreeMap<String, &Source>) -> Option<String> {
    beginnings(path).find(|begin| modules.contains_key(*begin)).map(str::to_owned)
}

/// In a crate the name of a type stands for one thing, but for a few. `Args` is what each command understands.
#[test]
fn a_type_name_stands_for_one_thing() {
    const AT_MOST: usize = 10;
    let mut named: BTreeMap<(String, String), BTreeSet<PathBuf>> = BTreeMap::new();
    let is_test =
        |path: &Path| path.components().any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for source in sources().into_iter().filter(|source| !is_test(source.path.strip_prefix(root).unwrap())) {
        let folder = source.path.ancestors().find(|folder| folder.ends_with("src")).unwrap().display().to_string();
        for line in source.code.lines() {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let at = words.iter().position(|word| ["struct", "enum", "trait"].contains(word));
            let Some(name) = at.and_then(|at| words.get(at + 1)).filter(|name| !["", "Args"].contains(name)) else {
                continue;
            };
            if name.starts_with(char::is_uppercase) && !line.trim_start().starts_with('"') {
                named.entry((folder.clone(), (*name).to_owned())).or_default().insert(source.path.clone());
            }
        }
    }
    let mut twice: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((folder, name), _) in named.into_iter().filter(|(_, files)| files.len() > 1) {
        twice.entry(folder).or_default().push(name);
    }
    for (folder, names) in twice {
        assert!(names.len() <= AT_MOST, "{folder}: these names stand for several types each: {names:?}");
    }
}

#[test]
fn words_have_one_home() {
    for source in sources().iter().filter(|source| !["main", "lib"].contains(&source.room.as_str())) {
        for (word, homes) in HOMES {
            let fine = homes.iter().any(|home| source.is_in(home)) || !contains_word(&source.code, word);
            assert!(fine, "{}: {word} belongs to {homes:?}", source.path.display());
        }
    }
}

/// The beginnings of a text that is a statement of SQL.
const SQL: &[&str] = &["SELECT ", "INSERT ", "UPDATE ", "DELETE FROM ", "CREATE TABLE ", "PRAGMA ", "VACUUM"];

#[test]
fn sql_has_one_home() {
    let says_sql = |code: &str| SQL.iter().any(|word| code.contains(&format!("\"{word}")));
    let all = sources();
    for source in all.iter().filter(|source| !source.is_in("history/sqlite")) {
        assert!(!says_sql(&source.code), "{}: SQL belongs to history/sqlite", source.path.display());
    }
    assert!(all.iter().filter(|source| says_sql(&source.code)).count() > 15, "statements are no longer recognised");
}

#[test]
fn pure_rooms_touch_nothing() {
    let all = sources();
    let test_files: BTreeSet<PathBuf> = all.iter().flat_map(test_files).collect();
    let is_pure = |source: &&Source| PURE.contains(&source.room.as_str()) && !test_files.contains(&source.path);
    for source in all.iter().filter(is_pure) {
        for word in NOT_IN_PURE_ROOMS {
            assert!(!contains_word(&source.code, word), "{}: {word} in a pure room", source.path.display());
        }
    }
}

/// Returns the files beside this one that it declares as modules of tests.
fn test_files(source: &Source) -> Vec<PathBuf> {
    let declared = source.code.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
    declared.map(|(name, _)| source.path.with_file_name(name).with_extension("rs")).collect()
}

/// The folders of the daemon, each above those that it may import.
const FOLDERS: &[&str] = &[
    "publish",
    "shared",
    "repository",
    "records",
    "planning",
    "rollout",
    "rollout/kinds",
    "rollout/rollback",
    "live",
    "source",
    "source/state",
    "leadership",
];

/// Imports against the order of the folders. Nothing may be added.
const AGAINST_THE_ORDER: &[(&str, &str)] =
    &[("shared/context", "repository/source_repository"), ("planning/plan_once", "leadership/lease")];

#[test]
fn folders_of_the_daemon_import_those_before_them() {
    let all = sources();
    let modules: BTreeMap<String, &Source> = all
        .iter()
        .filter(|source| source.room == "daemon")
        .filter_map(|source| Some((module(source)?, source)))
        .collect();
    for (name, source) in &modules {
        if !name.contains("::") {
            continue;
        }
        let imported = imports(&source.code, "use ").into_iter();
        for path in imported.filter_map(|import| in_room(&import.path, "crate::daemon::", name)) {
            let Some(named) = named_in(&path, &modules) else { continue };
            let (from, to) = (name.replace("::", "/"), named.replace("::", "/"));
            let is_allowed = rank(&to) <= rank(&from) || AGAINST_THE_ORDER.contains(&(from.as_str(), to.as_str()));
            assert!(is_allowed, "{from} imports {to}, whose folder comes after its own");
        }
    }
}

/// The loop alone changes what is known of a source: no folder below it has a method of it.
#[test]
fn an_impl_of_the_loop_lies_in_its_folder() {
    let is_of_loop = |line: &str| {
        let of = line.strip_prefix("impl").map(|rest| rest.rsplit(" for ").next().unwrap_or(rest));
        of.is_some_and(|of| ["Source {", "State {"].contains(&of.trim()))
    };
    for source in sources().iter().filter(|source| source.room == "daemon") {
        let is_in_folder = source.path.to_string_lossy().contains("/daemon/source/");
        assert!(is_in_folder || !source.code.lines().any(is_of_loop), "{}: lies in source", source.path.display());
    }
}

/// Returns the position of a file's folder in [`FOLDERS`]; the folders inside of one count as that one.
fn rank(file: &str) -> usize {
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let at = FOLDERS.iter().position(|folder| *folder == first(file));
    at.unwrap_or_else(|| panic!("{file} is in no folder of the daemon that is known"))
}

#[test]
fn the_map_names_every_file_of_the_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let (_, table) = map.split_once("# Inside the daemon").unwrap();
    let table = table.split("\n//! # ").next().unwrap();
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut folder = "";
    for row in table.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1) {
        let (first, rest) = row.split_once('|').unwrap();
        folder = first.trim().split('`').nth(1).unwrap_or(folder);
        rows.entry(folder).or_default().extend(rest.split('`').skip(1).step_by(2));
    }
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), FOLDERS.iter().copied().collect::<BTreeSet<_>>());
    for (folder, names) in rows {
        let path = root.join("src/daemon").join(folder);
        for entry in fs::read_dir(&path).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap();
            let is_row = FOLDERS.contains(&format!("{folder}/{name}").as_str());
            let is_named = names.contains(&name) || ["mod", "tests"].contains(&name) || is_row;
            assert!(is_named, "the map does not name {name} of {folder}");
        }
        for name in names.into_iter().filter(|name| !name.contains(' ')) {
            let is_here = path.join(name).is_dir() || path.join(name).with_extension("rs").exists();
            assert!(is_here || names_a_place(root, name), "the map names {name}, which is not there");
        }
    }
}

/// Returns true when a file or folder that the map names exists: from the top, or from a room on.
fn names_a_place(root: &Path, name: &str) -> bool {
    ["", "src", "src/daemon", "crates/belay-core/src"].iter().any(|from| {
        let path = root.join(from).join(name.trim_end_matches(".rs"));
        path.is_dir() || path.with_extension("rs").exists()
    })
}

/// Returns the names in code style of a section of the map.
fn names_in(section: &str) -> impl Iterator<Item = &str> {
    section.split("\n//! # ").next().unwrap().split('`').skip(1).step_by(2)
}

#[test]
fn the_map_names_files_of_the_other_rooms_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    for section in ["# Inside the core", "# Inside the other rooms"] {
        let (_, table) = map.split_once(section).unwrap();
        let is_file = |name: &&str| name.contains('/') && !name.starts_with("belay.dev");
        let files: Vec<&str> = names_in(table).filter(is_file).collect();
        assert!(files.len() > 15, "{files:?}");
        for name in files {
            assert!(names_a_place(root, name), "the map names {name}, which is not there");
        }
    }
}

#[test]
fn no_cupboards() {
    for source in sources() {
        let path = source.path.display().to_string();
        for name in ["util", "utils", "common", "helper", "helpers", "misc"] {
            assert!(
                !path.contains(&format!("/{name}.rs")) && !path.contains(&format!("/{name}/")),
                "{path}: a cupboard"
            );
        }
    }
}

/// The simulation's checkers judge the daemon: they read raw requests, objects, rows and lines, and share no code with it.
#[test]
fn the_checkers_share_no_code_with_the_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/simulation");
    let mut files: Vec<PathBuf> = ["history_rows.rs", "findings.rs", "run.rs"].map(|name| root.join(name)).to_vec();
    files.extend(fs::read_dir(root.join("checks")).unwrap().map(|entry| entry.unwrap().path()));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("belay::"), "{}: a checker uses belay's own code", file.display());
    }
}

#[test]
fn the_map_names_every_room() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    for source in sources().iter().filter(|source| !["lib", "main"].contains(&source.room.as_str())) {
        let link = source.room.replace('-', "_");
        assert!(map.contains(&format!("| [`{link}`] |")), "src/lib.rs: the map does not name {}", source.room);
    }
}

fn contains_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}

/// One line of `tests/statements.md`.
struct Statement<'t> {
    number: &'t str,
    tests: Vec<&'t str>,
    note: &'t str,
}

fn statements(text: &str) -> Vec<Statement<'_>> {
    let mut all = Vec::new();
    for row in text.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells[0].starts_with(|first: char| first.is_ascii_digit()) {
            let [number, _, tests, note] = cells[..] else { panic!("{}: a line has four cells", cells[0]) };
            all.push(Statement { number, tests: tests.split('`').skip(1).step_by(2).collect(), note });
        }
    }
    all
}

/// A test that is named as `file::function`, as `file::case` for a case that has a number, or as a file of data.
fn is_there(root: &Path, test: &str) -> bool {
    let (file, name) = test.split_once("::").map_or((test, None), |(file, name)| (file, Some(name)));
    let Ok(text) = fs::read_to_string(root.join(file)) else { return false };
    name.is_none_or(|name| text.contains(&format!("fn {name}(")) || text.contains(&format!("case!(\"{name}\",")))
}

/// The table of what the founding documents promise: every test exists, and every line has one or says why not.
#[test]
fn every_statement_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("tests/statements.md")).unwrap();
    let all = statements(&text);
    assert!(all.len() > 100, "{}", all.len());
    let mut wrong = Vec::new();
    for Statement { number, tests, note } in &all {
        let missing = tests.iter().filter(|test| !is_there(root, test));
        wrong.extend(missing.map(|test| format!("{number}: there is no {test}")));
        if tests.is_empty() && !note.starts_with("Not in Kubernetes") && !note.starts_with("Open: ") {
            wrong.push(format!("{number}: neither a test nor a reason"));
        }
    }
    let mut numbers: Vec<&str> = all.iter().map(|one| one.number).collect();
    numbers.sort_unstable();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a number stands twice");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
