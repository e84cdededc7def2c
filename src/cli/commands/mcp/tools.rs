//! The tools: a command each. The arguments of a call become words of its command line, checked and bounded.

use std::path::{Component, Path};

use serde_json::{Map, Value, json};

use crate::cli::args::workload::Named;

/// The longest text of an argument, in bytes.
const TEXT: usize = 512;
/// The word of a flag that is on.
const ON: &str = "true";
/// The largest number of an argument.
const NUMBER: u64 = 1000;

/// The word that asks for all namespaces.
pub(super) const ALL_NAMESPACES: &str = "--all-namespaces";

/// A tool.
#[derive(Debug)]
pub(super) struct McpTool {
    /// Its name.
    pub(super) name: &'static str,
    about: &'static str,
    /// The beginning of its command line.
    words: &'static [&'static str],
    /// True if a daemon elsewhere can be asked.
    pub(super) takes_server: bool,
    arguments: &'static [ToolArgument],
}

/// An argument of a tool.
#[derive(Debug)]
struct ToolArgument {
    name: &'static str,
    about: &'static str,
    kind: ArgumentKind,
    /// The option that it is the value of; an argument without one stands alone.
    option: Option<&'static str>,
    /// The word that stands for it if it is missing.
    default: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum ArgumentKind {
    Text,
    /// `true`, or nothing.
    Flag,
    Number,
    /// KIND/NAME of a live workload.
    Live,
    /// A file or folder of the folder that may be read.
    File,
    OneOf(&'static [&'static str]),
}

use ArgumentKind::{File, Flag, Live, Number, OneOf, Text};

const fn option(name: &'static str, kind: ArgumentKind, option: &'static str, about: &'static str) -> ToolArgument {
    ToolArgument { name, about, kind, option: Some(option), default: None }
}

const fn alone(name: &'static str, kind: ArgumentKind, about: &'static str) -> ToolArgument {
    ToolArgument { name, about, kind, option: None, default: None }
}

const NAMESPACE: ToolArgument = option("namespace", Text, "--namespace", "Only objects of this namespace");
const SOURCE: ToolArgument = option("source", Text, "--source", "The name of a source of belay");
const SINCE: ToolArgument =
    option("since", Text, "--since", "From this time on: 2h, 7d, 2026-11-19, 2026-11-19T08:00:00Z");
const UNTIL: ToolArgument =
    option("until", Text, "--until", "Until this time, or the end of this day; written as since");
const WORKLOAD: ToolArgument = alone("workload", Text, "Only this workload: NAME or KIND/NAME");

/// All of them.
pub(super) const TOOLS: [McpTool; 7] = [
    McpTool {
        name: "status",
        about: "The state of each source and workload: the commit, what is held, what is wrong, and why. As belay status.",
        words: &["status", "--output=json"],
        takes_server: true,
        arguments: &[
            WORKLOAD,
            ToolArgument { default: Some(ALL_NAMESPACES), ..NAMESPACE },
            option("commit", Text, "--commit", "Only workloads at this commit: the beginning of its id"),
            option("state", Text, "--state", "Only these states, as held,failed"),
        ],
    },
    McpTool {
        name: "history",
        about: "The rollouts, newest first: commit, author, outcome, reason, evidence. As belay history.",
        words: &["history", "--output=json"],
        takes_server: true,
        arguments: &[
            WORKLOAD,
            NAMESPACE,
            option("commit", Text, "--commit", "Only this commit: the beginning of its id"),
            option("author", Text, "--author", "Only commits of this author: a part of the name or address"),
            SINCE,
            UNTIL,
            SOURCE,
            option("failed", Flag, "--failed", "Only failures"),
            ToolArgument {
                default: Some("--limit=20"),
                ..option("limit", Number, "--limit", "At most this number of records; 20 by default")
            },
        ],
    },
    McpTool {
        name: "show",
        about: "One commit: each object that it touched, its outcome, reason, steps and evidence (pods, exit codes, last log \
                lines, events). As belay show.",
        words: &["show", "--output=json"],
        takes_server: true,
        arguments: &[alone("commit", Text, "The beginning of the commit's id")],
    },
    McpTool {
        name: "stats",
        about: "How often is deployed, the lead time, the share of failures, the time to restore; of the last 30 days by \
                default. As belay history --stats.",
        words: &["history", "--stats", "--output=json"],
        takes_server: true,
        arguments: &[
            SOURCE,
            SINCE,
            UNTIL,
            option("by", OneOf(&["source", "workload", "month"]), "--by", "A line for each of these"),
        ],
    },
    McpTool {
        name: "plan",
        about: "The changes that a rollout of the manifests here would make in the cluster, by a dry run. Values of Secrets are \
                masked. As belay plan.",
        words: &["plan", "--output=json"],
        takes_server: false,
        arguments: &[
            option("folder", File, "--from", "The folder with the manifests, from the root of those that may be read"),
            SOURCE,
            NAMESPACE,
        ],
    },
    McpTool {
        name: "check",
        about: "Complaints and warnings about the manifests here, each with its place, without a cluster. As belay check.",
        words: &["check", "--output=json"],
        takes_server: false,
        arguments: &[alone("path", File, "The folder or file, from the root of those that may be read"), NAMESPACE],
    },
    McpTool {
        name: "simulate",
        about: "A rollout step by step in virtual time: pods, sizes, bounds, the deadline. Takes either file or live. As belay \
                simulate.",
        words: &["simulate", "--output=json"],
        takes_server: false,
        arguments: &[
            alone("file", File, "The file with the workload"),
            alone("after", File, "The file with the workload after the change"),
            alone("live", Live, "A workload of the cluster, as KIND/NAME"),
            option("workload", Text, "--workload", "The workload of the file, as KIND/NAME, if it has several"),
            option("image", Text, "--image", "The new image"),
            option("replicas", Number, "--replicas", "The number of pods"),
            option("ready_after", Text, "--ready-after", "The time after which new pods are ready, as 5s"),
            option("crash_after", Text, "--crash-after", "The time after which new pods crash, as 3s"),
            option("broken", Flag, "--broken", "The new pods never become ready"),
            NAMESPACE,
        ],
    },
];

/// Returns the tool with this name.
pub(super) fn called(name: &str) -> Option<&'static McpTool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl McpTool {
    /// Returns the description of the tool, with the schema of its arguments.
    pub(super) fn described(&self) -> Value {
        let schema = |argument: &ToolArgument| match argument.kind {
            Text | Live | File => json!({"type": "string", "maxLength": TEXT, "description": argument.about}),
            Flag => json!({"type": "boolean", "description": argument.about}),
            Number => json!({"type": "integer", "minimum": 0, "maximum": NUMBER, "description": argument.about}),
            OneOf(words) => json!({"type": "string", "enum": words, "description": argument.about}),
        };
        let properties: Map<String, Value> =
            self.arguments.iter().map(|argument| (argument.name.to_owned(), schema(argument))).collect();
        let required: &[&str] = if self.name == "show" { &["commit"] } else { &[] };
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        })
    }

    /// Returns the words of the command line for a call. `folder` is the one that may be read.
    pub(super) fn command_line(&self, arguments: &Map<String, Value>, folder: &Path) -> Result<Vec<String>, String> {
        if let Some(unknown) = arguments.keys().find(|name| self.arguments.iter().all(|known| known.name != *name)) {
            let known: Vec<&str> = self.arguments.iter().map(|argument| argument.name).collect();
            return Err(format!("there is no argument {unknown:?}; there is {}", known.join(", ")));
        }
        let mut words: Vec<String> = self.words.iter().map(|word| (*word).to_owned()).collect();
        let mut last = vec!["--".to_owned()];
        for argument in self.arguments {
            let named = |why: String| format!("{}: {why}", argument.name);
            let Some(value) = arguments.get(argument.name).filter(|value| !value.is_null()) else {
                words.extend(argument.default.map(str::to_owned));
                continue;
            };
            let word = argument.kind.word(value, folder).map_err(named)?;
            match (argument.kind, argument.option) {
                (Flag, option) => words.extend(option.filter(|_| word == ON).map(str::to_owned)),
                (_, Some(option)) => words.push(format!("{option}={word}")),
                (_, None) => last.push(word),
            }
        }
        words.extend(last);
        Ok(words)
    }
}

impl ArgumentKind {
    /// Returns the word for a value.
    fn word(self, value: &Value, folder: &Path) -> Result<String, String> {
        match self {
            Flag => value.as_bool().map(|is_on| is_on.to_string()).ok_or_else(|| "it is true or false".to_owned()),
            Number => {
                let number = value.as_u64().filter(|number| *number <= NUMBER);
                number
                    .map(|number| number.to_string())
                    .ok_or_else(|| format!("it is a whole number from 0 to {NUMBER}"))
            }
            Text => text(value).map(str::to_owned),
            OneOf(words) => {
                let text = text(value)?;
                let is_one = words.contains(&text);
                is_one.then(|| text.to_owned()).ok_or_else(|| format!("it is one of {}", words.join(", ")))
            }
            Live => {
                let text = text(value)?;
                let named: Named = text.parse()?;
                named.kind.map(|_| text.to_owned()).ok_or_else(|| "write KIND/NAME".to_owned())
            }
            File => inside(text(value)?, folder),
        }
    }
}

/// Returns a text of bounded length that no program reads as more than one line.
fn text(value: &Value) -> Result<&str, String> {
    let text = value.as_str().ok_or("it is a text")?;
    match text {
        "" => Err("it is empty".to_owned()),
        text if text.len() > TEXT => Err(format!("it is longer than {TEXT} bytes")),
        text if text.chars().any(char::is_control) => Err("it has control characters".to_owned()),
        text => Ok(text),
    }
}

/// Returns the path of a file or folder that is inside of another, links followed.
fn inside(path: &str, folder: &Path) -> Result<String, String> {
    let outside = || format!("{path:?} is outside of the folder that may be read; name it from there, without ..");
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(path).components().all(is_plain) {
        return Err(outside());
    }
    let found = folder.join(path).canonicalize().map_err(|error| format!("{path:?}: {error}"))?;
    if !found.starts_with(folder) {
        return Err(outside());
    }
    Ok(format!("./{}", path.trim_start_matches("./")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, arguments: &Value, folder: &Path) -> Result<String, String> {
        let words = called(name).unwrap().command_line(arguments.as_object().unwrap(), folder)?;
        Ok(words.join(" "))
    }

    #[test]
    fn arguments_are_words() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("good")).unwrap();
        for (name, arguments, expected) in [
            ("status", json!({}), "status --output=json --all-namespaces --"),
            (
                "status",
                json!({"namespace": "shop", "workload": "deploy/web"}),
                "status --output=json --namespace=shop -- deploy/web",
            ),
            (
                "history",
                json!({"failed": true, "limit": 3, "workload": "-o"}),
                "history --output=json --failed --limit=3 -- -o",
            ),
            ("history", json!({"failed": false, "author": null}), "history --output=json --limit=20 --"),
            ("history", json!({"author": "--server=x"}), "history --output=json --author=--server=x --limit=20 --"),
            ("show", json!({"commit": "--help"}), "show --output=json -- --help"),
            ("stats", json!({"by": "month"}), "history --stats --output=json --by=month --"),
            ("plan", json!({"folder": "good"}), "plan --output=json --from=./good --"),
            ("check", json!({"path": "."}), "check --output=json -- ./."),
            (
                "simulate",
                json!({"live": "deploy/web", "broken": true}),
                "simulate --output=json --broken -- deploy/web",
            ),
        ] {
            assert_eq!(line(name, &arguments, &root).as_deref(), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn other_arguments_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        for (name, arguments, says) in [
            ("status", json!({"wait": true}), "there is no argument \"wait\""),
            ("status", json!({"workload": 7}), "workload: it is a text"),
            ("status", json!({"workload": "a\u{0}b"}), "control characters"),
            ("status", json!({"workload": "a\nb"}), "control characters"),
            ("status", json!({"workload": ""}), "it is empty"),
            ("status", json!({"workload": "x".repeat(TEXT + 1)}), "longer than 512 bytes"),
            ("history", json!({"limit": -1}), "a whole number"),
            ("history", json!({"limit": 1001}), "a whole number"),
            ("history", json!({"limit": "1"}), "a whole number"),
            ("history", json!({"failed": "yes"}), "true or false"),
            ("stats", json!({"by": "year"}), "one of source, workload, month"),
            ("check", json!({"path": "/etc"}), "outside"),
            ("check", json!({"path": "../x"}), "outside"),
            ("check", json!({"path": "a/../../x"}), "outside"),
            ("check", json!({"path": "link"}), "outside"),
            ("check", json!({"path": "link/passwd"}), "outside"),
            ("check", json!({"path": "-"}), "No such file"),
            ("simulate", json!({"live": "../web.yaml"}), "there is no kind"),
            ("simulate", json!({"live": "web"}), "write KIND/NAME"),
            ("simulate", json!({"live": "-"}), "write KIND/NAME"),
        ] {
            let refused = line(name, &arguments, &root).unwrap_err();
            assert!(refused.contains(says), "{arguments}: {refused}");
        }
    }

    #[test]
    fn every_tool_is_described_by_a_schema() {
        for tool in &TOOLS {
            let described = tool.described();
            assert_eq!(described["inputSchema"]["additionalProperties"], false);
            assert_eq!(described["annotations"]["readOnlyHint"], true);
            let properties = described["inputSchema"]["properties"].as_object().unwrap();
            assert!(properties.values().all(|one| one["description"].as_str().is_some_and(|about| !about.is_empty())));
            assert_eq!(properties.len(), tool.arguments.len(), "{}", tool.name);
        }
    }
}
