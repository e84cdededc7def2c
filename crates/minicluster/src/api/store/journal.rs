//! The store on disk: one file to which every write is appended, and synced, before it is answered, so that nothing that was
//! answered is lost when the process is killed or the power fails. From time to time the file is rewritten with the
//! present objects.
//!
//! The file begins with a line that names its format. Then come records: the length of its body (4 bytes), the
//! beginning of its body's SHA-256 (8 bytes), the body: the writes that were made together. The last record may be
//! torn, by a kill or a loss of power: it was never answered, and is dropped. Damage anywhere else is an error. All
//! numbers are little-endian.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::storage_key::GroupResource;
use super::stored::Stored;

const HEADER: &[u8] = b"minicluster's state 1\n";
const NAME: &str = "state";
const NEW_NAME: &str = "state.new";
const LOCK_NAME: &str = "lock";
/// Bytes before a record's body.
const HEAD: usize = 12;
/// The longest record.
const LONGEST: usize = 256 << 20;
/// The file is rewritten when it has grown by as much as it held, and at least by this.
const GROWTH: u64 = 16 << 20;
/// The largest file. The content of a cluster must fit into memory long before.
const LARGEST: u64 = 8 << 30;

/// The reason for which a cluster's state can't be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The files can't be read or written.
    #[error("failed to keep the cluster's state in {path}: {source}")]
    Files {
        /// The path.
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
    /// Another cluster keeps its state there.
    #[error("failed to keep the cluster's state in {0}: another cluster is using it")]
    Taken(PathBuf),
    /// The file was changed by something else, or the disk is failing.
    #[error("failed to read {path}: damaged at byte {at}; move the file away to begin anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The place.
        at: u64,
    },
}

/// One write, as it lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// An object from then on.
    Put { group_resource: GroupResource, path: String, revision: u64, fields: Vec<String>, object: Vec<u8> },
    /// An object is gone.
    Delete { group_resource: GroupResource, path: String, revision: u64 },
    /// The store has come this far.
    Revision(u64),
}

/// A write that is to be kept.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) group_resource: GroupResource,
    /// The object from then on, or as it was when it was deleted.
    pub(super) object: Arc<Stored>,
    pub(super) deleted: bool,
}

/// The file while it is written.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    file: File,
    /// Held while this lives, so that no other process writes.
    _lock: File,
    /// The bytes of the file, and those it had when it was last rewritten.
    length: u64,
    settled: u64,
    failed: CancellationToken,
}

impl Journal {
    /// Opens the file in a folder, which is made if there is none, and gives every entry in it to `take`.
    pub(super) fn open(folder: &Path, mut take: impl FnMut(Entry)) -> Result<Journal, KeepError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| KeepError::Files { path, source }
        };
        fs::create_dir_all(folder).map_err(fail(folder))?;
        let lock_path = folder.join(LOCK_NAME);
        let lock = private().create(true).write(true).truncate(false).open(&lock_path).map_err(fail(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeepError::Taken(folder.to_owned())),
            Err(TryLockError::Error(source)) => return Err(KeepError::Files { path: lock_path, source }),
        }
        let path = folder.join(NAME);
        let mut file =
            private().create(true).read(true).write(true).truncate(false).open(&path).map_err(fail(&path))?;
        let whole = file.metadata().map_err(fail(&path))?.len();
        let good = read(&path, &file, whole, &mut take)?;
        let length = if good == 0 {
            file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(fail(&path))?;
            file.write_all(HEADER).map_err(fail(&path))?;
            HEADER.len() as u64
        } else {
            file.set_len(good).and_then(|()| file.seek(SeekFrom::Start(good))).map_err(fail(&path))?;
            good
        };
        let failed = CancellationToken::new();
        let folder = folder.to_owned();
        Ok(Journal { folder, file, _lock: lock, length, settled: length, failed })
    }

    /// Returns the token that is cancelled when a write could not be kept.
    pub(super) fn failed(&self) -> CancellationToken {
        self.failed.clone()
    }

    /// Appends writes, those in a list that were made together, and returns when they are on the disk.
    pub(super) fn append(&mut self, writes: &[Vec<Noted>]) {
        if self.failed.is_cancelled() {
            return;
        }
        let mut records = Vec::new();
        for together in writes {
            let mut body = Vec::new();
            together.iter().for_each(|noted| noted.write(&mut body));
            if body.len() > LONGEST {
                return self.fail(&io::Error::from(io::ErrorKind::FileTooLarge));
            }
            record(&mut records, &body);
        }
        let written = if self.length.saturating_add(records.len() as u64) > LARGEST {
            Err(io::Error::from(io::ErrorKind::FileTooLarge))
        } else if records.is_empty() {
            Ok(())
        } else {
            // Nothing that was answered may be lost with the power, nor may a later record be there without an earlier one.
            self.file.write_all(&records).and_then(|()| self.file.sync_data())
        };
        match written {
            Ok(()) => self.length += records.len() as u64,
            Err(error) => self.fail(&error),
        }
    }

    /// Returns true when the file holds much that is out of date.
    pub(super) fn is_due(&self) -> bool {
        self.length > self.settled.saturating_add(self.settled.max(GROWTH)) && !self.failed.is_cancelled()
    }

    /// Rewrites the file with these objects and nothing else. A kill leaves either the old file or the new one.
    pub(super) fn settle(&mut self, revision: u64, objects: &[Noted]) {
        if let Err(error) = self.write_anew(revision, objects) {
            self.fail(&error);
        }
    }

    fn write_anew(&mut self, revision: u64, objects: &[Noted]) -> io::Result<()> {
        let (new, path) = (self.folder.join(NEW_NAME), self.folder.join(NAME));
        let file = private().create(true).truncate(true).write(true).open(&new)?;
        let mut out = io::BufWriter::new(file);
        out.write_all(HEADER)?;
        let mut length = HEADER.len();
        let (mut body, mut whole) = (vec![b'='], Vec::new());
        body.extend_from_slice(&revision.to_le_bytes());
        record(&mut whole, &body);
        for noted in objects {
            length += whole.len();
            out.write_all(&whole)?;
            body.clear();
            whole.clear();
            noted.write(&mut body);
            record(&mut whole, &body);
        }
        length += whole.len();
        out.write_all(&whole)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()?;
        self.file = file;
        self.length = length as u64;
        self.settled = self.length;
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        tracing::error!(%error, folder = %self.folder.display(), "failed to keep the cluster's state");
        self.failed.cancel();
    }
}

/// Files that only their owner may read: Secrets are among the objects.
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

impl Noted {
    /// Appends the write as it lies in a record's body.
    fn write(&self, body: &mut Vec<u8>) {
        let Noted { group_resource, object, deleted } = self;
        if *deleted {
            return head(body, b'-', group_resource, &object.path, object.revision);
        }
        head(body, b'+', group_resource, &object.path, object.revision);
        number(body, object.fields.len());
        object.fields.iter().for_each(|field| text(body, field.as_bytes()));
        let length = body.len();
        number(body, 0);
        object.write_json(body);
        let written = u32::try_from(body.len() - length - 4).unwrap_or(u32::MAX);
        body[length..length + 4].copy_from_slice(&written.to_le_bytes());
    }
}

/// Appends a record.
fn record(out: &mut Vec<u8>, body: &[u8]) {
    number(out, body.len());
    out.extend_from_slice(&Sha256::digest(body)[..8]);
    out.extend_from_slice(body);
}

fn head(body: &mut Vec<u8>, what: u8, group_resource: &GroupResource, path: &str, revision: u64) {
    body.push(what);
    body.extend_from_slice(&revision.to_le_bytes());
    [&*group_resource.group, &*group_resource.resource, path].iter().for_each(|part| text(body, part.as_bytes()));
}

fn text(body: &mut Vec<u8>, text: &[u8]) {
    number(body, text.len());
    body.extend_from_slice(text);
}

/// Lengths are bounded far below 4 GiB by the limits of requests.
fn number(body: &mut Vec<u8>, number: usize) {
    body.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

/// Reads all records; how many bytes of the file are good.
fn read(path: &Path, file: &File, whole: u64, take: &mut impl FnMut(Entry)) -> Result<u64, KeepError> {
    let files = |source| KeepError::Files { path: path.to_owned(), source };
    let damaged = |at| KeepError::Damaged { path: path.to_owned(), at };
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut header = vec![0; HEADER.len().min(usize::try_from(whole).unwrap_or(usize::MAX))];
    file.read_exact(&mut header).map_err(files)?;
    if header != HEADER {
        // A file that was being begun, or something else.
        return if HEADER.starts_with(&header) { Ok(0) } else { Err(damaged(0)) };
    }
    let mut at = HEADER.len() as u64;
    let mut body = Vec::new();
    while whole - at >= HEAD as u64 {
        let mut head = [0; HEAD];
        file.read_exact(&mut head).map_err(files)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let end = at + (HEAD + length) as u64;
        if end > whole {
            // Torn.
            return Ok(at);
        }
        if length > LONGEST {
            return Err(damaged(at));
        }
        body.resize(length, 0);
        file.read_exact(&mut body).map_err(files)?;
        if Sha256::digest(&body)[..8] != head[4..] {
            return if end == whole { Ok(at) } else { Err(damaged(at)) };
        }
        let mut rest = body.as_slice();
        while !rest.is_empty() {
            take(entry(&mut rest).ok_or_else(|| damaged(at))?);
        }
        at = end;
    }
    Ok(at)
}

fn entry(rest: &mut &[u8]) -> Option<Entry> {
    let what = take_bytes(rest, 1)?[0];
    let revision = u64::from_le_bytes(take_bytes(rest, 8)?.try_into().ok()?);
    if what == b'=' {
        return Some(Entry::Revision(revision));
    }
    let group_resource = GroupResource { group: take_text(rest)?.into(), resource: take_text(rest)?.into() };
    let path = take_text(rest)?;
    match what {
        b'-' => Some(Entry::Delete { group_resource, path, revision }),
        b'+' => {
            let count = take_number(rest)?;
            let fields = (0..count).map(|_| take_text(rest)).collect::<Option<Vec<_>>>()?;
            let length = take_number(rest)?;
            let object = take_bytes(rest, length)?.to_vec();
            Some(Entry::Put { group_resource, path, revision, fields, object })
        }
        _ => None,
    }
}

fn take_bytes<'b>(rest: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let bytes = take_bytes(rest, 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = take_number(rest)?;
    String::from_utf8(take_bytes(rest, length)?.to_vec()).ok()
}
