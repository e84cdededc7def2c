//! Tests of the reading for a page: in bytes, and by how many requests at once.

use super::*;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::git::{Credentials, Follow};

/// A state folder with the mirror of a source, and its two commits.
struct Mirrored {
    state: tempfile::TempDir,
    commit: Commit,
}

/// Returns a Deployment with this image, in a document of its own.
fn deployment(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  selector: {{matchLabels: {{app: \
         {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: web, image: \
         \"{image}\"}}]}}\n"
    )
}

/// Returns the input from which `git fast-import` makes a commit of these files.
fn commit(message: &str, files: impl Iterator<Item = (String, String)>) -> String {
    let mut text = format!(
        "commit refs/heads/main\ncommitter Ada <ada@example.com> 1600000000 +0000\ndata {}\n{message}\n",
        message.len()
    );
    for (path, content) in files {
        text.push_str(&format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len()));
    }
    text
}

/// Returns the mirror of a repository in which these files are first so, and then so.
fn mirrored(files: &[(&str, String, String)]) -> Mirrored {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("deploy.git");
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(&path).args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        git.spawn().expect("git is needed")
    };
    assert!(git(&["init", "--quiet", "--bare"]).wait().unwrap().success());
    let before = files.iter().map(|(path, before, _)| ((*path).to_owned(), before.clone()));
    let after = files.iter().map(|(path, _, after)| ((*path).to_owned(), after.clone()));
    let mut import = git(&["fast-import", "--quiet"]);
    let text = format!("{}{}", commit("First", before), commit("Second", after));
    import.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    let folder = state.path().join("sources/shop");
    let location = path.to_str().unwrap().parse().unwrap();
    let (mirror, _) = Mirror::open(&folder, location, Credentials::default(), Limits::default()).unwrap();
    let fetched = mirror.fetch(&Follow::Branch("main".to_owned()), &CancellationToken::new()).unwrap();
    let commit = mirror.commit(&fetched.head).unwrap();
    Mirrored { state, commit }
}

fn object(path: &str, name: &str) -> RecordedObject {
    let key = format!("Deployment default/{name}");
    let read = read_file(path, deployment(name, "a:1").as_bytes(), &Scopes::new("default"));
    let object = read.manifests[0].key.clone();
    assert_eq!(object.to_string(), key);
    RecordedObject { source: "shop".to_owned(), namespace: "default".to_owned(), path: path.to_owned(), object }
}

fn read(of: &Mirrored, objects: &[RecordedObject]) -> CommitDiff {
    let stop = CancellationToken::new();
    Reading::new(&stop).read(of.state.path(), &of.commit, &objects.iter().cloned().collect())
}

#[test]
fn only_the_files_of_recorded_objects_are_read() {
    let (before, after) = (deployment("web", "web:1"), deployment("web", "web:2"));
    let noise = |letter: &str| format!("# {}\n", letter.repeat(7 << 20));
    let mut files = vec![("prod/web.yaml", before.clone(), after.clone())];
    let names: Vec<String> = (0..6).map(|number| format!("elsewhere/{number}.yaml")).collect();
    files.extend(names.iter().map(|name| (name.as_str(), noise("a"), noise("b"))));
    let of = mirrored(&files);
    let diff = read(&of, &[object("prod/web.yaml", "web")]);
    assert_eq!(diff.read, (before.len() + after.len()) as u64);
    let [ManifestDiff { fields, more: false, .. }] = &diff.diffs[..] else { panic!("{diff:?}") };
    let [FieldDiff { path, before: Some(before), after: Some(after) }] = &fields[..] else { panic!("{diff:?}") };
    assert!(path.contains("image") && before == "web:1" && after == "web:2", "{diff:?}");
    assert_eq!(diff.missing, None);
    assert_eq!(read(&of, &[]), CommitDiff::default());
    // A recorded place that leads nowhere, or is no file.
    for path in ["prod", "prod/none.yaml", "../prod/web.yaml", "prod/web.yaml/x.yaml", "a\0b.yaml", ""] {
        assert_eq!(read(&of, &[RecordedObject { path: path.to_owned(), ..object("x.yaml", "web") }]).read, 0);
    }
}

#[test]
fn files_are_read_up_to_a_number_of_bytes() {
    let padded = |image: &str, bytes: usize| format!("{}# {}\n", deployment("web", image), "x".repeat(bytes));
    let size = usize::try_from(FILE).unwrap();
    let names: Vec<String> = (0..12).map(|number| format!("{number:02}.yaml")).collect();
    let of = mirrored(
        &names
            .iter()
            .map(|name| (name.as_str(), padded("web:1", size - 1024), padded("web:2", size - 1024)))
            .collect::<Vec<_>>(),
    );
    let objects: Vec<RecordedObject> = names.iter().map(|name| object(name, "web")).collect();
    let diff = read(&of, &objects);
    assert!(diff.read <= BYTES && diff.read > BYTES - 2 * FILE, "{}", diff.read);
    assert!(diff.diffs.len() >= 3 && diff.diffs.len() < names.len(), "{}", diff.diffs.len());
    assert!(diff.missing.is_some());
    // One that is too large on one side is passed over.
    let of = mirrored(&[("web.yaml", padded("web:1", 10), padded("web:2", size))]);
    let diff = read(&of, &[object("web.yaml", "web")]);
    assert!(diff.diffs.is_empty() && diff.missing.unwrap().contains("web.yaml"));
}

#[test]
fn what_is_shown_is_bounded_too() {
    let labels = |value: &str| -> String {
        let keys: String = (0..300).map(|number| format!("    key{number}: \"{value}\"\n")).collect();
        format!("    a-long: \"{}\"\n{keys}", value.repeat(2 * VALUE))
    };
    let with = |name: &str, value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations:\n{}", labels(value))
    };
    let all = |value: &str| (0..10).map(|number| with(&format!("m{number}"), value)).collect::<Vec<_>>().join("---\n");
    let of = mirrored(&[("a.yaml", all("a"), all("b"))]);
    let keys = read_file("a.yaml", all("a").as_bytes(), &Scopes::new("default")).manifests;
    let objects: Vec<RecordedObject> = keys
        .iter()
        .map(|manifest| RecordedObject { object: manifest.key.clone(), ..object("a.yaml", "web") })
        .collect();
    assert_eq!(objects.len(), 10);
    let diff = read(&of, &objects);
    assert_eq!(diff.diffs.iter().map(|diff| diff.fields.len()).sum::<usize>(), FIELDS_OF_ALL);
    assert!(diff.diffs.iter().all(|diff| diff.more && diff.fields.len() <= FIELDS));
    let longest = diff.diffs.iter().flat_map(|diff| &diff.fields).filter_map(|field| field.after.as_ref());
    assert_eq!(longest.map(|text| text.chars().count()).max(), Some(VALUE));
}

#[test]
fn a_request_that_is_gone_is_read_for_no_more() {
    let of = mirrored(&[("web.yaml", deployment("web", "web:1"), deployment("web", "web:2"))]);
    let stop = CancellationToken::new();
    stop.cancel();
    let objects = [object("web.yaml", "web")].into();
    assert_eq!(Reading::new(&stop).read(of.state.path(), &of.commit, &objects), CommitDiff::default());
}

#[tokio::test]
async fn requests_are_read_for_one_after_the_other_and_what_was_read_is_kept() {
    let of = mirrored(&[("web.yaml", deployment("web", "web:1"), deployment("web", "web:2"))]);
    let reader = DiffReader::new(of.state.path().to_owned());
    let objects: BTreeSet<RecordedObject> = [object("web.yaml", "web")].into();
    let first = reader.read(&of.commit, objects.clone()).await;
    assert_eq!(first.diffs.len(), 1);
    // Without the mirror nothing could be read again.
    std::fs::remove_dir_all(of.state.path().join("sources")).unwrap();
    assert!(Arc::ptr_eq(&first, &reader.read(&of.commit, objects.clone()).await));
    for number in 0..2 * KEPT {
        let other = Commit { id: format!("{number:040x}").parse().unwrap(), ..of.commit.clone() };
        reader.read(&other, objects.clone()).await;
    }
    assert_eq!(reader.kept.lock().unwrap().len(), KEPT);
    assert!(reader.read(&of.commit, objects).await.diffs.is_empty(), "it was let go");
}

#[tokio::test(start_paused = true)]
async fn a_page_whose_turn_does_not_come_is_shown_without() {
    let of = mirrored(&[("web.yaml", deployment("web", "web:1"), deployment("web", "web:2"))]);
    let reader = DiffReader::new(Path::new("/nowhere").to_owned());
    let turn = Arc::clone(&reader.turn).acquire_owned().await.unwrap();
    let waits = reader.read(&of.commit, [object("web.yaml", "web")].into()).await;
    assert!(waits.missing.as_ref().unwrap().contains("load this one again"));
    drop(turn);
    assert_eq!(reader.read(&of.commit, [object("web.yaml", "web")].into()).await.missing, None);
}

#[test]
fn a_file_is_divided_where_its_documents_end() {
    let parts = |text: &'static str| {
        documents(text.as_bytes()).map(|part| std::str::from_utf8(part).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(parts("a\n---\nb\n--- c\n---"), ["a\n", "---\nb\n", "--- c\n", "---"]);
    assert_eq!((parts(""), parts("---\na"), parts("a: |\n  ---\n")), (vec![""], vec!["---\na"], vec!["a: |\n  ---\n"]));
}
