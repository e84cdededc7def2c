//! A folder of manifests that becomes a link, a submodule or a file is a complaint of `belay check` and `belay plan`, as it
//! is one of the daemon; nothing that was in it is deleted.

use std::path::Path;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::program::{Ran, belay, finish};
use crate::support::daemon::config_map;
use crate::support::repository::{Kind, Repository};

const SUBMODULE: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

/// Returns a repository with manifests in two folders.
fn two_folders() -> Repository {
    let mut repository = Repository::new();
    for name in ["kept", "lost"] {
        repository.write(format!("{name}/deep/cm.yaml"), config_map(name, "1"));
    }
    repository.write("README", "for people");
    repository.commit("Two folders");
    repository
}

/// Commits something else in the place of a folder.
fn replace(repository: &mut Repository, kind: Kind, content: &str) {
    repository.remove("lost/deep/cm.yaml");
    repository.put("lost", kind, content);
    repository.commit("Something else");
}

fn check(at: &Path) -> Ran {
    let mut command = belay(at);
    command.args(["check", "."]);
    finish(command, "")
}

#[test]
fn check_complains_about_a_folder_that_became_something_else() {
    for (kind, content, words) in [
        (Kind::Symlink, "/elsewhere", "has become a symbolic link"),
        (Kind::Submodule, SUBMODULE, "has become a submodule"),
        (Kind::File, "text", "has become a file without the ending of a manifest"),
    ] {
        let mut repository = two_folders();
        replace(&mut repository, kind, content);
        // Later commits change nothing about it.
        repository.commit_file("kept/deep/cm.yaml", &config_map("kept", "2"), "Another version");
        repository.push();
        let checked = check(&repository.clone_to("copy"));
        assert_eq!(checked.code, 1, "{checked:?}");
        let told = format!("the folder {words}");
        assert!(checked.out.contains(&told) && checked.out.contains("--> lost:1:1"), "{checked:?}");
        assert!(checked.out.contains("put the folder with its manifests back, or delete what is there"), "{checked:?}");
        // Its objects are elsewhere by now.
        repository.commit_file("moved.yaml", &config_map("lost", "1"), "Moved");
        repository.push();
        let moved = check(&repository.clone_to("moved"));
        assert_eq!(moved.code, 0, "{moved:?}");
    }
}

#[test]
fn check_does_not_complain_about_a_folder_that_was_deleted_first() {
    let mut repository = two_folders();
    repository.remove("lost/deep/cm.yaml");
    repository.commit("Away with it");
    repository.commit_file("lost", "text", "A file of that name");
    repository.push();
    let checked = check(&repository.clone_to("copy"));
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn check_complains_before_the_change_is_committed() {
    let repository = two_folders();
    repository.push();
    let copy = repository.clone_to("copy");
    std::fs::remove_dir_all(copy.join("lost")).unwrap();
    assert_eq!(check(&copy).code, 0, "a folder that is deleted is none");
    std::os::unix::fs::symlink("/elsewhere", copy.join("lost")).unwrap();
    let link = check(&copy);
    assert!(link.code == 1 && link.out.contains("the folder has become a symbolic link"), "{link:?}");
    std::fs::remove_file(copy.join("lost")).unwrap();
    std::fs::create_dir_all(copy.join("lost/.git")).unwrap();
    let other = check(&copy);
    assert!(other.code == 1 && other.out.contains("the folder has become a submodule"), "{other:?}");
    // Files that are not read are not missed.
    std::fs::write(copy.join(".belayignore"), "lost/\n").unwrap();
    assert_eq!(check(&copy).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_deletes_nothing_of_it() {
    let mut stage = Fixture::new().await;
    stage.repository = two_folders();
    stage.repository.push();
    let mut command = stage.command();
    command.arg("--once");
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", stage.log());
    replace(&mut stage.repository, Kind::Submodule, SUBMODULE);
    stage.repository.push();
    let copy = stage.repository.clone_to("copy");
    let config = stage.home.path().join("belay.toml");
    let source =
        "[[source]]\nname = \"default\"\nrepository = \"/srv/shop.git\"\nprune = true\nprune_limit = \"100%\"\n";
    std::fs::write(&config, source).unwrap();
    let config = config.display().to_string();
    let plan = |what: &[&str]| {
        let mut command = belay(stage.home.path());
        command.arg("plan").args(what).args(["--config", &config]).args(stage.globals()).current_dir(&copy);
        finish(command, "")
    };
    for what in [&["HEAD"][..], &["--from", "."]] {
        let text = plan(what);
        assert_eq!(text.code, 1, "{what:?}: {text:?}");
        assert!(text.out.contains("the folder has become a submodule"), "{what:?}: {text:?}");
        assert!(text.out.contains("ConfigMap default/lost is orphaned: "), "{what:?}: {text:?}");
        let json = plan(&[what, &["-o", "json"]].concat());
        let value: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(value["complaints"][0]["place"]["path"], "lost", "{value:#}");
        let steps = value["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["action"] != "delete"), "{value:#}");
    }
    // As soon as nothing is there, its object goes.
    stage.repository.remove("lost");
    stage.repository.commit("Away with it");
    stage.repository.push();
    let copy = stage.repository.clone_to("without");
    let mut command = belay(stage.home.path());
    command.args(["plan", "HEAD", "--config", &config]).args(stage.globals()).current_dir(&copy);
    let gone = finish(command, "");
    assert!(gone.code == 3 && gone.out.contains("ConfigMap default/lost is deleted"), "{gone:?}");
}
