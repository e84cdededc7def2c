//! The pages under `docs/` and the README, run: every block that shows commands is carried out against an embedded cluster of its own, and
//! what it shows is compared with what is printed; every configuration is read; every manifest is checked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use belay::config::Config;
use minicluster::Script;

use crate::program::run;
use crate::served::Served;

/// A block of a page.
struct Block {
    line: usize,
    info: String,
    text: String,
    /// The file that a reader is told to save it as.
    saved: Option<String>,
}

/// One command of a page: what it should print, and how it should exit.
struct Shown {
    line: usize,
    command: String,
    expected: Vec<String>,
    exit: i32,
}

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    pages.sort();
    assert!(pages.len() >= 13, "{pages:?}");
    pages
}

/// The hidden commands of a page (`<!-- machine: … -->`) that are about the machine that runs the test: a reader has a
/// name in Git, this repository somewhere, and a terminal of another width. Everything else a reader must see.
const MACHINE: [&str; 7] = [
    "export GIT_CONFIG_GLOBAL=/dev/null",
    "git config --global user.name Ada; git config --global user.email ada@example.com",
    "ln -s \"$SOURCES\" ~/belay",
    "ln -s \"$SOURCES/manifests\" manifests",
    "export COLUMNS=80",
    "mv ~/.kube ~/.hidden",
    "mv ~/.hidden ~/.kube",
];

/// Returns true when a hidden command is about the machine alone.
fn is_about_the_machine(hidden: &str) -> bool {
    MACHINE.contains(&hidden) || hidden.split("; ").all(|part| MACHINE.contains(&part))
}

/// Returns the file that a line says the block after it is to be saved as: its last word, `web.yaml`, and a colon.
fn saved_as(line: &str) -> Option<&str> {
    let (_, name) = line.strip_suffix("`:")?.rsplit_once('`')?;
    (name.ends_with(".yaml")).then_some(name)
}

/// Returns the fenced blocks of a page, and the hidden commands (`<!-- machine: … -->`) as blocks of their own.
fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        assert!(!line.contains("<!-- run:"), "{}:{}: a reader does not see this", page.display(), index + 1);
        if let Some(info) = line.strip_prefix("```") {
            open = !open;
            if open {
                let saved = saved_as(before).filter(|_| info.trim() == "yaml").map(str::to_owned);
                blocks.push(Block { line: index + 1, info: info.trim().to_owned(), text: String::new(), saved });
            }
        } else if open {
            let block = blocks.last_mut().unwrap();
            block.text.push_str(line);
            block.text.push('\n');
        } else if let Some(hidden) = line.strip_prefix("<!-- machine: ").and_then(|rest| rest.strip_suffix(" -->")) {
            let place = format!("{}:{}", page.display(), index + 1);
            assert!(is_about_the_machine(hidden), "{place}: a reader does not see {hidden:?}");
            let text = format!("$ {hidden}\n…\n");
            blocks.push(Block { line: index + 1, info: "console".to_owned(), text, saved: None });
        }
        if !line.trim().is_empty() {
            before = line;
        }
    }
    assert!(!open, "{}: a block is not closed", page.display());
    blocks
}

/// Returns the commands of a block. `# exit code 3` behind one says how it ends.
fn commands(block: &Block) -> Vec<Shown> {
    if let Some(file) = &block.saved {
        let command = format!("mkdir -p \"$(dirname {file})\" && cat > {file} <<'END'\n{}END", block.text);
        return vec![Shown { line: block.line, command, expected: Vec::new(), exit: 0 }];
    }
    let mut shown: Vec<Shown> = Vec::new();
    for (index, line) in block.text.lines().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            let exit = command.split("# exit code ").nth(1).map_or(0, |code| code.trim().parse().unwrap());
            let line = block.line + index + 1;
            shown.push(Shown { line, command: command.to_owned(), expected: Vec::new(), exit });
        } else {
            shown.last_mut().expect("a console block begins with a command").expected.push(line.to_owned());
        }
    }
    shown
}

/// Returns the commands of a page as one script, that tells before and after each where it is.
fn script(commands: &[Shown]) -> String {
    let mut script = String::from("export PS1= ; cd \"$HOME\"\n");
    for (index, shown) in commands.iter().enumerate() {
        let command = match shown.command.strip_suffix(" &") {
            Some(command) => format!("{command} > \"$HOME/background.log\" 2>&1 &"),
            None => shown.command.clone(),
        };
        let _ = write!(script, "printf '\\036%s\\n' {index}\n{command}\nprintf '\\036=%s\\n' $?\n");
    }
    script.push_str("kill $(jobs -p) 2>/dev/null; wait\n");
    script
}

/// Returns a line in which what differs from run to run looks the same: ids, times, ages, widths.
fn plain(line: &str) -> String {
    let word = |word: &str| {
        let hexadecimal = word.chars().all(|c| c.is_ascii_hexdigit());
        let unit = |unit: &str| word.strip_suffix(unit).is_some_and(|number| number.parse::<u64>().is_ok());
        if hexadecimal && [7, 40].contains(&word.len()) {
            "<id>".to_owned()
        } else if ["s", "m", "h", "d"].iter().any(|letter| unit(letter)) {
            "<time>".to_owned()
        } else {
            word.to_owned()
        }
    };
    let mut plain = String::new();
    for part in line.split_whitespace() {
        let (before, rest) = part.split_at(part.len() - part.trim_start_matches(['(', '"', '[']).len());
        let core = rest.trim_end_matches([')', ',', ':', ';', '"', ']', '.']);
        let _ = write!(plain, "{before}{}{} ", word(core), &rest[core.len()..]);
    }
    plain.trim_end().to_owned()
}

/// Returns true when lines are as shown; `…` stands for anything in a line, a line of its own for any lines.
fn fits(expected: &[String], printed: &[&str]) -> bool {
    match (expected, printed) {
        ([], []) => true,
        ([first, rest @ ..], _) if first.trim() == "…" => {
            (0..=printed.len()).any(|skip| fits(rest, &printed[skip..]))
        }
        ([first, rest @ ..], [line, more @ ..]) => line_fits(&plain(first), &plain(line)) && fits(rest, more),
        _ => false,
    }
}

fn line_fits(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = printed.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        let Some(at) = rest.find(part.trim()) else { return false };
        rest = &rest[at + part.trim().len()..];
    }
    last.is_some_and(|last| last.is_empty()) || rest.is_empty()
}

/// Returns the output of each command, and its exit code.
fn results(output: &str, commands: usize) -> Vec<(String, i32)> {
    let mut results: Vec<(String, i32)> = vec![(String::new(), -1); commands];
    let mut at: Option<usize> = None;
    for line in output.split_inclusive('\n') {
        let (printed, mark) = line.split_once('\u{1e}').unwrap_or((line, ""));
        if let Some(index) = at {
            let result: &mut (String, i32) = &mut results[index];
            result.0.push_str(printed);
        }
        match (mark.trim().strip_prefix('='), at) {
            (Some(code), Some(index)) => results[index].1 = code.parse().unwrap(),
            _ if !mark.is_empty() => at = Some(mark.trim().parse::<usize>().unwrap()),
            _ => {}
        }
    }
    results
}

/// Runs a page; what does not happen as shown.
async fn run_page(page: &Path) -> Vec<String> {
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let commands: Vec<Shown> = blocks(page)
        .iter()
        .filter(|block| block.info == "console" || block.saved.is_some())
        .flat_map(commands)
        .collect();
    if commands.is_empty() {
        return Vec::new();
    }
    let served = Served::new().await;
    let programs = Path::new(env!("CARGO_BIN_EXE_belay")).parent().unwrap();
    let assets = std::env::var("KUBEBUILDER_ASSETS").unwrap_or_default();
    let path = format!("{}:{}:{assets}", programs.display(), std::env::var("PATH").unwrap_or_default());
    for (program, page) in [("git", ""), ("kubectl", "kustomize.md"), ("helm", "helm.md")] {
        // Rendering tools are run by belay.
        let uses = name == page || commands.iter().any(|shown| shown.command.contains(program));
        let there = path.split(':').any(|folder| Path::new(folder).join(program).is_file());
        if uses && !there {
            eprintln!("there is no {program}: skipped: docs/{name}");
            return Vec::new();
        }
    }
    let file = served.home().join("page.sh");
    std::fs::write(&file, format!("exec 2>&1\n{}", script(&commands))).unwrap();
    let mut bash = Command::new("timeout");
    bash.args(["120", "bash"]).arg(&file).env_clear().current_dir(served.home()).env("HOME", served.home());
    bash.env("PATH", path).env("NO_COLOR", "1").env("SOURCES", env!("CARGO_MANIFEST_DIR")).env("COLUMNS", "100");
    for (key, value) in [("NAME", "Ada"), ("EMAIL", "ada@example.com")] {
        bash.env(format!("GIT_AUTHOR_{key}"), value).env(format!("GIT_COMMITTER_{key}"), value);
    }
    let output = tokio::task::spawn_blocking(move || bash.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = std::fs::read_to_string(served.home().join("background.log")).unwrap_or_default();
    let mut wrong = Vec::new();
    for (shown, (printed, code)) in commands.iter().zip(results(&text, commands.len())) {
        let place = format!("docs/{name}:{}: {}", shown.line, shown.command);
        let lines: Vec<&str> = printed.lines().collect();
        if code != shown.exit || !fits(&shown.expected, &lines) {
            wrong.push(format!("{place}\nexited with {code} and printed\n{printed}"));
        }
    }
    if !wrong.is_empty() && !log.is_empty() {
        wrong.push(format!("docs/{name}: the log is\n{log}"));
    }
    wrong
}

/// Returns true when a printed text contains the README's text of the demo.
pub fn has_what_the_readme_shows(printed: &str) -> bool {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let shown = blocks(&page).into_iter().find(|block| block.info == "text demo").expect("the demo in the README");
    let any = || std::iter::once("…".to_owned());
    let expected: Vec<String> = any().chain(shown.text.lines().map(str::to_owned)).chain(any()).collect();
    fits(&expected, &printed.lines().collect::<Vec<_>>())
}

#[test]
fn nothing_that_a_reader_needs_is_hidden() {
    assert!(is_about_the_machine("export GIT_CONFIG_GLOBAL=/dev/null; ln -s \"$SOURCES\" ~/belay"));
    assert!(!is_about_the_machine("export STATE_DIRECTORY=$HOME/state"));
    assert!(!is_about_the_machine("export GIT_CONFIG_GLOBAL=/dev/null; git init"));
    assert_eq!(saved_as("Save this as `web.yaml`:"), Some("web.yaml"));
    assert_eq!((saved_as("`web.yaml` is there:"), saved_as("It says `web`:")), (None, None));
    for page in pages() {
        blocks(&page);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_does_what_the_page_shows() {
    let mut wrong = Vec::new();
    let only = std::env::var("BELAY_PAGE").unwrap_or_default();
    for page in pages().iter().filter(|page| page.to_string_lossy().contains(&only)) {
        wrong.extend(run_page(page).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_other_block_is_what_it_says() {
    let home = tempfile::tempdir().unwrap();
    for page in pages() {
        for block in blocks(&page) {
            let place = format!("{}:{}", page.display(), block.line);
            match block.info.as_str() {
                "console" => {}
                // Neither a compiler nor a builder of images is asked for here.
                "sh" => {
                    let built = |line: &str| line.starts_with("cargo ") || line.starts_with("docker build ");
                    assert!(block.text.lines().all(built), "{place}: {}", block.text);
                }
                // It needs a server, or is for root alone: only its grammar is looked at.
                "sh hook" | "sh root" => {
                    let script = home.path().join("hook");
                    std::fs::write(&script, &block.text).unwrap();
                    let read = std::process::Command::new("sh").arg("-n").arg(&script).status().unwrap();
                    assert!(read.success(), "{place}");
                }
                "ini unit" => {
                    let reads = |line: &str| line == "[Service]" || line.starts_with("LoadCredential");
                    assert!(block.text.lines().all(reads), "{place}: {}", block.text);
                }
                // The demo's own test looks at it.
                "text demo" => {}
                "nginx" => nginx_reads(&home.path().join("nginx"), &block.text, &place),
                "toml oauth2-proxy" => drop(block.text.parse::<toml::Table>().unwrap()),
                "toml" => drop(Config::parse(&block.text, &place).unwrap_or_else(|error| panic!("{place}: {error}"))),
                "yaml" => {
                    let folder = home.path().join("manifests");
                    std::fs::create_dir_all(&folder).unwrap();
                    std::fs::write(folder.join("one.yaml"), &block.text).unwrap();
                    let ran = run(home.path(), &["check", "manifests"]);
                    assert_eq!(ran.code, 0, "{place}: {ran:?}");
                }
                "yaml fates" => drop(Script::parse(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"))),
                "json" => drop(serde_json::from_str::<serde_json::Value>(&block.text).unwrap()),
                "yaml pipeline" | "yaml prometheus" => {
                    drop(serde_yaml::from_str::<serde_json::Value>(&block.text).unwrap())
                }
                other => panic!("{place}: nothing runs a block of {other:?}"),
            }
        }
    }
}

/// nginx reads it, if it is installed (Debian: nginx-light), with a certificate and passwords that are there.
fn nginx_reads(folder: &Path, text: &str, place: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["belay.example.com".to_owned()]).unwrap();
    let files = [
        ("belay.crt", made.cert.pem()),
        ("belay.key", made.signing_key.serialize_pem()),
        ("belay.htpasswd", String::new()),
    ];
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    let own = folder.display().to_string();
    let text = text.replace("/etc/nginx", &own).replace("listen 443", &format!("listen unix:{own}/socket"));
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|of| format!("{of}_temp_path {own}/{of};"));
    let whole = format!(
        "pid {own}/pid; error_log {own}/log; events {{}} http {{ access_log off; {} {text} }}",
        temporary.join(" ")
    );
    std::fs::write(folder.join("nginx.conf"), whole).unwrap();
    let nginx = ["nginx", "/usr/sbin/nginx"].map(Path::new).into_iter().find_map(|program| {
        std::process::Command::new(program).arg("-t").arg("-c").arg(folder.join("nginx.conf")).output().ok()
    });
    match nginx {
        Some(read) => assert!(read.status.success(), "{place}: {}", String::from_utf8_lossy(&read.stderr)),
        None => eprintln!("not looked at: {place}: there is no nginx"),
    }
}

/// Links between the pages lead somewhere.
#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let file = link.split('#').next().unwrap();
            if !file.is_empty() && !link.contains("://") {
                assert!(page.parent().unwrap().join(file).exists(), "{}: {link}", page.display());
            }
        }
    }
}

/// The reference of the configuration is the one that the code gives. `BELAY_BLESS=1` writes it.
#[test]
fn the_configuration_reference_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (mark, end) =
        ("<!-- generated: from the types that read the file -->\n", "<!-- end of what is generated -->\n");
    let (before, rest) = text.split_once(mark).expect("the mark");
    let (_, after) = rest.split_once(end).expect("the end mark");
    let fresh = format!("{before}{mark}\n{}{end}{after}", belay::config::reference());
    if std::env::var_os("BELAY_BLESS").is_some() {
        std::fs::write(&page, &fresh).unwrap();
    }
    assert!(text == fresh, "docs/configuration.md is old: run this test with BELAY_BLESS=1");
}

#[test]
fn the_schema_is_printed() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["run", "--print-config-schema"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(schema, belay::config::schema());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
