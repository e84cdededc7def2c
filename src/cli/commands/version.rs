//! `belay version`

use crate::cli::exit::Exit;
use crate::cli::output::answer::{RendererAnswer, VersionAnswer};
use crate::cli::output::{Format, say, say_value};
use crate::render::{FoundTool, Tools, confinement};
use kube_facts::facts;

/// The arguments of `belay version`.
#[derive(clap::Args)]
pub struct Args {
    /// Select the output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
}

pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Args { output } = *args;
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Format::Json | Format::Yaml => {
            let (version, embedded_kubernetes) = (version.to_owned(), facts().kubernetes.clone());
            let tools = Tools::default();
            let renderers = tools.kustomize().into_iter().chain(tools.helm()).map(|found| renderer(&found)).collect();
            let not_confined = not_confined();
            say_value(&VersionAnswer { version, embedded_kubernetes, renderers, not_confined }, output)?;
        }
        Format::Table | Format::Wide | Format::Name => {
            say(format!("belay {version}"));
            tools(&Tools::default()).iter().for_each(say);
        }
    }
    Ok(Exit::Done)
}

fn renderer(found: &FoundTool) -> RendererAnswer {
    let (tool, program) = (found.tool.name(), found.program.display().to_string());
    match found.version() {
        Ok(version) => RendererAnswer { tool, program, version: Some(version), error: None },
        Err(failure) => RendererAnswer { tool, program, version: None, error: Some(failure.message().to_owned()) },
    }
}

/// Returns the rendering tools that were found, and their confinement.
pub(in crate::cli) fn tools(tools: &Tools) -> Vec<String> {
    let found = |what: &str, found: Option<FoundTool>| match found.map(|found| (found.version(), found)) {
        None => format!("{what}: not found"),
        Some((Ok(version), found)) => format!("{what}: {} {version} ({})", found.tool, found.program.display()),
        Some((Err(failure), found)) => format!("{what}: {}: {}", found.program.display(), failure.message()),
    };
    let mut lines = vec![found("kustomize", tools.kustomize()), found("helm", tools.helm())];
    lines.extend(not_confined().map(|open| format!("rendering: {open}")));
    lines
}

/// Returns the limits that the rendering tools lack here: because of an old kernel, or of a container that refuses
/// belay the means.
pub(in crate::cli) fn not_confined() -> Option<String> {
    let confined = confinement();
    let open: Vec<&str> = [(confined.files, "files of this machine"), (confined.network, "the network")]
        .into_iter()
        .filter_map(|(kept, what)| (!kept).then_some(what))
        .collect();
    (!open.is_empty()).then(|| format!("this kernel does not keep the tools from {}", open.join(" and ")))
}
