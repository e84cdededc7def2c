//! Real Git repositories in a temporary folder: a bare one that is pushed to, and the commits that a test makes.
//!
//! Commits are built from their trees upwards, with no index and no files in between, so that a test can make what no
//! careful tool would: file names that are not UTF-8, two entries of one name, clocks that run backwards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use git2::build::CheckoutBuilder;
use git2::{ObjectType, Oid, PushOptions, RemoteCallbacks, Signature, Time};

/// The kind of a tree's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A file.
    File,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link; its content is its target.
    Symlink,
    /// A commit of another repository.
    Submodule,
}

impl Kind {
    fn mode(self) -> &'static str {
        match self {
            Kind::File => "100644",
            Kind::Executable => "100755",
            Kind::Symlink => "120000",
            Kind::Submodule => "160000",
        }
    }
}

/// All files of one commit: path (bytes, `/` between folders) to kind and blob.
pub type Files = BTreeMap<Vec<u8>, (Kind, String)>;

/// A bare repository and, beside it, the commits that have not been pushed yet.
pub struct Repository {
    folder: tempfile::TempDir,
    work: git2::Repository,
    bare: PathBuf,
    branch: String,
    files: Files,
    snapshots: BTreeMap<String, Files>,
    author: (String, String),
    at: i64,
}

impl Repository {
    /// Returns an empty bare repository, whose branch is to be `main`. Nothing has been committed.
    pub fn new() -> Repository {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bare = folder.path().join("deploy.git");
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).initial_head("main");
        git2::Repository::init_opts(&bare, &options).expect("a bare repository");
        let work = git2::Repository::init_opts(folder.path().join("work.git"), &options).expect("a second one");
        Repository {
            folder,
            work,
            bare,
            branch: "main".to_owned(),
            files: Files::new(),
            snapshots: BTreeMap::new(),
            author: ("Ada".to_owned(), "ada@example.com".to_owned()),
            at: 1_760_000_000,
        }
    }

    /// Returns the folder of the bare repository: what `repository` in the configuration names.
    pub fn path(&self) -> &Path {
        &self.bare
    }

    /// Returns a path for something else beside it, in the same temporary folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Nobody reaches the bare repository any more.
    pub fn go_away(&self) {
        std::fs::rename(&self.bare, self.beside("away")).expect("it is there");
    }

    /// It is where it was.
    pub fn come_back(&self) {
        std::fs::rename(self.beside("away"), &self.bare).expect("it was there");
    }

    /// Sets the author of the commits from here on.
    pub fn author(&mut self, name: &str, email: &str) -> &mut Repository {
        self.author = (name.to_owned(), email.to_owned());
        self
    }

    /// When the next commit is made, in seconds since 1970; each further one is a minute later.
    pub fn at(&mut self, seconds: i64) -> &mut Repository {
        self.at = seconds;
        self
    }

    /// Writes a file, to be part of the next commit.
    pub fn write(&mut self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> &mut Repository {
        self.put(path, Kind::File, content)
    }

    /// Writes an entry of any kind; for a submodule the content is the 40 digits of a commit.
    pub fn put(&mut self, path: impl AsRef<[u8]>, kind: Kind, content: impl AsRef<[u8]>) -> &mut Repository {
        let id = match kind {
            Kind::Submodule => String::from_utf8(content.as_ref().to_vec()).expect("a commit id"),
            _ => self.work.blob(content.as_ref()).expect("a blob").to_string(),
        };
        self.files.insert(path.as_ref().to_vec(), (kind, id));
        self
    }

    /// Removes a file, or a folder with all that is in it.
    pub fn remove(&mut self, path: impl AsRef<[u8]>) -> &mut Repository {
        let folder = [path.as_ref(), b"/"].concat();
        self.files.retain(|name, _| name != path.as_ref() && !name.starts_with(&folder));
        self
    }

    /// Returns the files as they are now, committed or not.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The files of a commit made here.
    pub fn files_at(&self, commit: &str) -> &Files {
        &self.snapshots[commit]
    }

    /// Commits what there is and returns the commit's 40 digits.
    pub fn commit(&mut self, message: &str) -> String {
        let parents: Vec<String> = self.tip().into_iter().collect();
        self.commit_with(&parents, message)
    }

    /// Writes one file and commits it.
    pub fn commit_file(&mut self, path: &str, content: &str, message: &str) -> String {
        self.write(path, content);
        self.commit(message)
    }

    /// Commits what there is, with these parents, whatever they are.
    pub fn commit_with(&mut self, parents: &[String], message: &str) -> String {
        let tree = self.write_tree(&self.files);
        self.commit_tree(tree, parents, message)
    }

    /// Commits a tree that was made with [`Repository::raw_tree`].
    pub fn commit_tree(&mut self, tree: Oid, parents: &[String], message: &str) -> String {
        let who = Signature::new(&self.author.0, &self.author.1, &Time::new(self.at, 60)).expect("a signature");
        let parents: Vec<_> = parents.iter().map(|id| self.work.find_commit(oid(id)).expect("a parent")).collect();
        let parents: Vec<_> = parents.iter().collect();
        let tree = self.work.find_tree(tree).expect("a tree");
        let id = self.work.commit(None, &who, &who, message, &tree, &parents).expect("a commit");
        self.at += 60;
        self.move_branch(id);
        self.snapshots.insert(id.to_string(), self.files.clone());
        id.to_string()
    }

    /// Forgets the commits that it made, as far as memory goes: the files of each, and what libgit2 caches of them.
    pub fn forget_commits(&mut self) {
        self.snapshots.clear();
        self.work = git2::Repository::open(self.work.path()).expect("the same repository");
    }

    /// Commits raw bytes as a commit object: for authors and messages that git2 would refuse to write.
    pub fn commit_raw(&mut self, bytes: &[u8]) -> String {
        let id = self.work.odb().expect("the objects").write(ObjectType::Commit, bytes).expect("a commit");
        self.move_branch(id);
        self.snapshots.insert(id.to_string(), self.files.clone());
        id.to_string()
    }

    /// Returns the id of the tree that the next commit would have.
    pub fn tree(&self) -> String {
        self.write_tree(&self.files).to_string()
    }

    /// Returns a tree of exactly these entries (mode, name, 40 digits), in this order, however wrong.
    pub fn raw_tree(&self, entries: &[(&str, &[u8], &str)]) -> Oid {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(oid(id).as_bytes());
        }
        self.work.odb().expect("the objects").write(ObjectType::Tree, &bytes).expect("a tree")
    }

    /// Returns the 40 digits of a blob with this content.
    pub fn blob(&self, content: impl AsRef<[u8]>) -> String {
        self.work.blob(content.as_ref()).expect("a blob").to_string()
    }

    /// Merges branches into the present one. A file that both sides changed stays as it is here; what the next
    /// [`Repository::write`] calls before [`Repository::commit_with`] do is up to the test.
    pub fn merge(&mut self, branches: &[&str], message: &str) -> String {
        let mut parents: Vec<String> = self.tip().into_iter().collect();
        for branch in branches {
            let theirs = self.tip_of(branch).expect("a branch to merge");
            let ours = oid(&parents[0]);
            let base = self.work.merge_base(ours, oid(&theirs)).expect("a common ancestor").to_string();
            let (base, other) = (self.snapshots[&base].clone(), self.snapshots[&theirs].clone());
            for path in base.keys().chain(other.keys()) {
                if other.get(path) != base.get(path) && self.files.get(path) == base.get(path) {
                    match other.get(path) {
                        Some(entry) => drop(self.files.insert(path.clone(), entry.clone())),
                        None => drop(self.files.remove(path)),
                    }
                }
            }
            parents.push(theirs);
        }
        self.commit_with(&parents, message)
    }

    /// Makes a branch where the present one is, and goes there.
    pub fn branch(&mut self, name: &str) -> &mut Repository {
        let tip = oid(&self.tip().expect("a commit to branch from"));
        self.branch = name.to_owned();
        self.move_branch(tip);
        self
    }

    /// Goes to a branch that exists; what was not committed is gone.
    pub fn switch(&mut self, name: &str) -> &mut Repository {
        let tip = self.tip_of(name).expect("a branch to go to");
        self.branch = name.to_owned();
        self.files = self.snapshots[&tip].clone();
        self
    }

    /// Goes to a branch that has no commits, and no files.
    pub fn orphan(&mut self, name: &str) -> &mut Repository {
        self.branch = name.to_owned();
        self.files.clear();
        self
    }

    /// Moves the present branch to a commit; what was not committed is gone.
    pub fn reset(&mut self, commit: &str) -> &mut Repository {
        self.move_branch(oid(commit));
        self.files = self.snapshots[commit].clone();
        self
    }

    /// Returns the commit that the present branch is at.
    pub fn tip(&self) -> Option<String> {
        self.tip_of(&self.branch)
    }

    /// Returns the commit that a branch is at.
    pub fn tip_of(&self, branch: &str) -> Option<String> {
        self.work.refname_to_id(&format!("refs/heads/{branch}")).ok().map(|id| id.to_string())
    }

    /// Pushes the present branch; fails if that is not a fast-forward.
    pub fn push(&self) {
        self.push_refspec(&format!("refs/heads/{0}:refs/heads/{0}", self.branch));
    }

    /// Pushes the present branch, whatever was there.
    pub fn force_push(&self) {
        self.push_refspec(&format!("+refs/heads/{0}:refs/heads/{0}", self.branch));
    }

    /// Deletes a branch of the bare repository.
    pub fn delete_pushed(&self, branch: &str) {
        self.push_refspec(&format!(":refs/heads/{branch}"));
    }

    /// Tags the present commit and pushes the tag; `message` makes it an annotated one.
    pub fn tag(&mut self, name: &str, message: Option<&str>) {
        let tip = self.work.find_object(oid(&self.tip().expect("a commit")), None).expect("the commit");
        match message {
            None => drop(self.work.tag_lightweight(name, &tip, true).expect("a tag")),
            Some(message) => {
                let who = Signature::new(&self.author.0, &self.author.1, &Time::new(self.at, 0)).expect("a signature");
                self.work.tag(name, &tip, &who, message, true).expect("a tag");
            }
        }
        self.push_refspec(&format!("+refs/tags/{name}:refs/tags/{name}"));
    }

    /// Pushes a refspec.
    pub fn push_refspec(&self, refspec: &str) {
        let mut remote = self.work.remote_anonymous(&self.bare.display().to_string()).expect("a remote");
        let mut callbacks = RemoteCallbacks::new();
        callbacks.push_update_reference(|name, refusal| {
            assert!(refusal.is_none(), "{name} was refused: {refusal:?}");
            Ok(())
        });
        remote.push(&[refspec], Some(PushOptions::new().remote_callbacks(callbacks))).expect("a push");
    }

    /// Returns a clone with its files checked out, for the commands that edit: returns its folder.
    pub fn clone_to(&self, name: &str) -> PathBuf {
        let path = self.beside(name);
        let mut builder = git2::build::RepoBuilder::new();
        builder.with_checkout(CheckoutBuilder::new()).branch(&self.branch);
        let clone = builder.clone(&self.bare.display().to_string(), &path).expect("a clone");
        let mut config = clone.config().expect("its configuration");
        config.set_str("user.name", &self.author.0).expect("a name");
        config.set_str("user.email", &self.author.1).expect("an address");
        path
    }

    fn move_branch(&self, to: Oid) {
        let name = format!("refs/heads/{}", self.branch);
        self.work.reference(&name, to, true, "moved by a test").expect("a branch that moves");
    }

    fn write_tree(&self, files: &Files) -> Oid {
        let mut folders: BTreeMap<&[u8], Files> = BTreeMap::new();
        let mut entries: Vec<(Vec<u8>, &str, String)> = Vec::new();
        for (path, (kind, id)) in files {
            match path.iter().position(|byte| *byte == b'/') {
                Some(at) => {
                    let inner = folders.entry(&path[..at]).or_default();
                    inner.insert(path[at + 1..].to_vec(), (*kind, id.clone()));
                }
                None => entries.push((path.clone(), kind.mode(), id.clone())),
            }
        }
        for (name, inner) in folders {
            entries.push((name.to_vec(), "40000", self.write_tree(&inner).to_string()));
        }
        // Git sorts a folder as if its name ended in a slash.
        let slash = |mode: &str| if mode == "40000" { b"/".to_vec() } else { Vec::new() };
        entries.sort_by_key(|(name, mode, _)| [name.clone(), slash(mode)].concat());
        let entries: Vec<_> = entries.iter().map(|(name, mode, id)| (*mode, name.as_slice(), id.as_str())).collect();
        self.raw_tree(&entries)
    }
}

impl Default for Repository {
    fn default() -> Repository {
        Repository::new()
    }
}

fn oid(digits: &str) -> Oid {
    Oid::from_str(digits).expect("40 hexadecimal digits")
}
