//! The programs that render.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::child::{ChildFailure, ChildLimits, Run, run};

/// A program that renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `kustomize`.
    Kustomize,
    /// `kubectl`, which has kustomize in it.
    Kubectl,
    /// `helm`.
    Helm,
}

/// The places that are searched for the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// The program that renders kustomizations, kustomize or kubectl; by default the first of them on the PATH.
    pub kustomize: Option<PathBuf>,
    /// The program that renders charts; by default helm on the PATH.
    pub helm: Option<PathBuf>,
}

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTool {
    /// The tool.
    pub tool: Tool,
    /// Its path.
    pub program: PathBuf,
}

impl Tools {
    /// Returns the tool that renders kustomizations. It is searched for each time.
    #[must_use]
    pub fn kustomize(&self) -> Option<FoundTool> {
        match &self.kustomize {
            Some(named) => {
                let is_kubectl = named.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kubectl"));
                found(if is_kubectl { Tool::Kubectl } else { Tool::Kustomize }, named)
            }
            None => on_path(Tool::Kustomize).or_else(|| on_path(Tool::Kubectl)),
        }
    }

    /// Returns the tool that renders charts. It is searched for each time.
    #[must_use]
    pub fn helm(&self) -> Option<FoundTool> {
        match &self.helm {
            Some(named) => found(Tool::Helm, named),
            None => on_path(Tool::Helm),
        }
    }
}

impl FoundTool {
    /// Returns the version that the program prints.
    ///
    /// # Errors
    ///
    /// When it can't be run, or says nothing.
    pub fn version(&self) -> Result<String, ChildFailure> {
        let private = tempfile::tempdir().map_err(|error| ChildFailure::Machine(error.to_string()))?;
        let arguments: &[&str] = match self.tool {
            Tool::Kustomize => &["version"],
            Tool::Kubectl => &["version", "--client"],
            Tool::Helm => &["version", "--short"],
        };
        let asked = Run {
            program: &self.program,
            arguments: arguments.iter().map(OsString::from).collect(),
            folder: private.path().to_owned(),
            private: private.path(),
        };
        let limits = ChildLimits { time: Duration::from_secs(10), ..ChildLimits::default() };
        let said = run(&asked, &limits, &CancellationToken::new(), &|| {})?;
        let said = String::from_utf8_lossy(&said);
        let words = said.split_whitespace().find(|word| {
            word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit()) && word.contains('.')
        });
        words.map(ToOwned::to_owned).ok_or_else(|| ChildFailure::Said("it does not tell its version".to_owned()))
    }

    /// Returns the identity of this program, to distinguish it from another version of it, without running it.
    pub(super) fn identity(&self) -> String {
        let (size, modified) = fs::metadata(&self.program).map_or((0, 0), |data| (data.size(), data.mtime()));
        format!("{} {size} {modified}", self.program.display())
    }
}

impl Tool {
    /// Returns the name of its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tool::Kustomize => "kustomize",
            Tool::Kubectl => "kubectl",
            Tool::Helm => "helm",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn on_path(tool: Tool) -> Option<FoundTool> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .find_map(|folder| found(tool, &folder.join(tool.name())))
}

fn found(tool: Tool, program: &Path) -> Option<FoundTool> {
    let program = fs::canonicalize(program).ok()?;
    let data = fs::metadata(&program).ok()?;
    (data.is_file() && data.permissions().mode() & 0o111 != 0).then_some(FoundTool { tool, program })
}
