//! The commits of `belay set`: who made them, and how they are signed, as Git would do it.

use std::process::Command;

use crate::editing::Copy;
use crate::program::{belay, finish};

#[test]
fn a_signed_commit_is_signed() {
    let copy = Copy::new();
    let key = copy.home.path().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("there is no ssh-keygen: skipped: a signed commit");
        return;
    }
    copy.git(&["config", "commit.gpgsign", "true"]);
    copy.git(&["config", "gpg.format", "ssh"]);
    copy.git(&["config", "user.signingkey", &key.display().to_string()]);
    let ran = copy.belay(&["set", "image", "web", "app=nginx:1.27"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(copy.git(&["cat-file", "commit", "HEAD"]).contains("BEGIN SSH SIGNATURE"));
}

#[test]
fn who_commits_is_found_as_git_finds_it() {
    let copy = Copy::new();
    let set = |image: &str, variables: &[(&str, &str)]| {
        let mut command = belay(copy.home.path());
        command.args(["set", "image", "web", &format!("app=nginx:{image}")]).current_dir(copy.folder.join("shop"));
        command.envs(variables.iter().copied());
        finish(command, "")
    };
    let told = |image: &str, variables: &[(&str, &str)]| {
        let ran = set(image, variables);
        assert_eq!(ran.code, 0, "{variables:?}: {ran:?}");
        copy.git(&["log", "-1", "--date=iso-strict", "--format=%an <%ae> %ad; %cn <%ce>"]).trim().to_owned()
    };
    let date = ("GIT_AUTHOR_DATE", "2026-02-03T04:05:06+02:00");
    assert_eq!(
        told("2", &[("GIT_AUTHOR_NAME", "Grace"), ("GIT_AUTHOR_EMAIL", "grace@example.com"), date]),
        "Grace <grace@example.com> 2026-02-03T04:05:06+02:00; Ada <ada@example.com>"
    );
    assert_eq!(
        told("3", &[("GIT_COMMITTER_NAME", "Robot"), ("GIT_COMMITTER_EMAIL", "ci@example.com"), date]),
        "Ada <ada@example.com> 2026-02-03T04:05:06+02:00; Robot <ci@example.com>"
    );
    let pair = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "author.name"), ("GIT_CONFIG_VALUE_0", "Edith"), date];
    assert_eq!(told("4", &pair), "Edith <ada@example.com> 2026-02-03T04:05:06+02:00; Ada <ada@example.com>");
    let wrong = set("5", &[("GIT_AUTHOR_DATE", "some day")]);
    assert!(wrong.code == 1 && wrong.err.contains("GIT_AUTHOR_DATE \"some day\""), "{wrong:?}");

    // Without a word in the repository, what the files of the environment say.
    copy.git(&["config", "--unset", "user.name"]);
    copy.git(&["config", "--unset", "user.email"]);
    let nobody = set("5", &[]);
    assert!(nobody.code == 1 && nobody.err.contains("Git does not know who you are"), "{nobody:?}");
    let file = copy.home.path().join("other-config");
    std::fs::write(&file, "[user]\n\tname = Linus\n").unwrap();
    let global = ("GIT_CONFIG_GLOBAL", file.to_str().unwrap());
    assert_eq!(
        told("5", &[global, ("EMAIL", "linus@example.com"), date]),
        "Linus <linus@example.com> 2026-02-03T04:05:06+02:00; Linus <linus@example.com>"
    );
    std::fs::write(copy.home.path().join(".gitconfig"), "[user]\n\tname = Ada\n\temail = a@example.com\n").unwrap();
    assert!(told("6", &[date]).starts_with("Ada <a@example.com> 2026"));
    assert_eq!(set("7", &[("GIT_CONFIG_GLOBAL", "/dev/null")]).code, 1, "the other file does not count then");
    // All as git itself says it.
    let mut git = Command::new("git");
    git.args(["var", "GIT_AUTHOR_IDENT"])
        .env("HOME", copy.home.path())
        .env(global.0, global.1)
        .env("EMAIL", "linus@example.com");
    git.env(date.0, date.1).current_dir(&copy.folder);
    assert!(finish(git, "").out.starts_with("Linus <linus@example.com> "));
}

#[test]
fn a_commit_is_signed_with_gpg_too() {
    let copy = Copy::new();
    // Its sockets want a short path.
    let keys = tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap();
    let gpg = |args: &[&str]| {
        let mut command = Command::new("gpg");
        command.args(args).env("GNUPGHOME", keys.path());
        command.output().is_ok_and(|ran| ran.status.success())
    };
    let make =
        ["--batch", "--passphrase", "", "--quick-generate-key", "Ada <ada@example.com>", "ed25519", "sign", "never"];
    if !gpg(&make) {
        eprintln!("there is no gpg that makes keys: skipped: a commit signed with it");
        return;
    }
    copy.git(&["config", "commit.gpgsign", "true"]);
    for (image, key) in [("2", None), ("3", Some("ada@example.com")), ("4", Some("nobody@example.com"))] {
        key.iter().for_each(|key| drop(copy.git(&["config", "user.signingkey", key])));
        let mut command = belay(copy.home.path());
        command.args(["set", "image", "web", &format!("app=nginx:{image}")]).env("GNUPGHOME", keys.path());
        command.current_dir(copy.folder.join("shop"));
        let ran = finish(command, "");
        if key == Some("nobody@example.com") {
            assert!(ran.code == 1 && ran.err.contains("failed to sign the commit with gpg"), "{ran:?}");
            continue;
        }
        assert_eq!(ran.code, 0, "{ran:?}");
        let mut verify = Command::new("git");
        verify.args(["verify-commit", "--raw", "HEAD"]).env("GNUPGHOME", keys.path()).env("HOME", copy.home.path());
        verify.current_dir(&copy.folder);
        let verified = finish(verify, "");
        assert!(verified.code == 0 && verified.err.contains("GOODSIG"), "{verified:?}");
    }
    gpg(&["--batch", "--yes", "--delete-secret-keys", "ada@example.com"]);
    drop(Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", keys.path()).status());
}
