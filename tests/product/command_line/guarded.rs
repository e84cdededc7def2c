//! `belay check` and `belay plan` say before a rollout what its analyses can prove.

use serde_json::Value;
use tokio::net::TcpListener;

use crate::fixture::Fixture;
use crate::program::{belay, finish};
use crate::support::canary::web;
use crate::support::prometheus::answer_over_http;

fn config(prometheus: &str) -> String {
    format!(
        r#"
[[source]]
name = "default"
repository = "/srv/shop.git"
bake = "10m"
analysis = ["errors"]

[[analysis]]
name = "errors"
prometheus = "{prometheus}"
bad = 'bad{{pod=~"{{{{pods}}}}"}}'
total = 'all{{pod=~"{{{{pods}}}}"}}'
"#
    )
}

#[test]
fn a_guard_that_sees_nothing_is_a_warning_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("belay.toml", &config("http://prometheus.invalid:9090"));
    let check = |steps: &str, more: &str| {
        write("web.yaml", &web(steps, "web:1"));
        let mut command = belay(folder.path());
        command.args(["check", "--config", "belay.toml"]).args(more.split_terminator(' '));
        finish(command, "")
    };
    let blind = check("1 20s", "");
    let warning = "warning: web.yaml:5:17: analysis \"errors\": this canary, with 1 of 5 pods, can prove nothing in 20s, however bad a \
                   version is";
    assert!(blind.code == 0 && blind.out.contains(warning), "{blind:?}");
    assert!(blind.err.contains("nothing wrong, and 1 warning"), "{blind:?}");
    let seen = check("1 10m", "");
    let note = "note: web.yaml:5:17: analysis \"errors\": this canary, with 1 of 5 pods, can prove in 10m: nothing \
                better than ";
    assert!(seen.out.contains(note) && seen.out.contains("at 100 requests a second"), "{seen:?}");
    assert!(seen.err.contains("nothing wrong.") && !seen.out.contains("warning"), "{seen:?}");
    let json: Value = serde_json::from_str(&check("1 20s", "-o json").out).unwrap();
    assert_eq!(
        (json["warnings"].as_array().unwrap().len(), json["notes"].as_array().unwrap().len()),
        (1, 1),
        "{json:#}"
    );
    let without = finish(
        {
            let mut command = belay(folder.path());
            command.arg("check");
            command
        },
        "",
    );
    assert!(!without.out.contains("analysis"), "no configuration, no analyses: {without:?}");
}

/// Returns the counter of a pod with 20 requests a second, of which one in a hundred is bad.
fn counter(request: &str, second: i64) -> Vec<(&'static str, i64)> {
    vec![("web-1", if request.contains("query=bad") { second / 5 } else { second * 20 })]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_it_for_the_present_traffic() {
    let mut stage = Fixture::new().await;
    stage.repository.commit_file("web.yaml", &web("1 10m", "web:1"), "First version");
    stage.repository.push();
    let mut command = stage.command();
    command.arg("--once");
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", stage.log());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(answer_over_http(listener, counter));
    stage.repository.commit_file("web.yaml", &web("1 10m", "web:2"), "Second version");
    stage.repository.push();
    let copy = stage.repository.clone_to("copy");
    let file = stage.home.path().join("belay.toml");
    let plan = |prometheus: &str, more: &[&str]| {
        std::fs::write(&file, config(prometheus)).unwrap();
        let mut command = belay(stage.home.path());
        command.args(["plan", "HEAD", "--config", &file.display().to_string()]).args(more);
        command.args(stage.globals()).current_dir(&copy);
        finish(command, "")
    };
    let planned = plan(&address, &[]);
    let note = "note: analysis \"errors\": with 20 requests a second, at most 1% of them bad, this canary, with 1 of 5 pods, can prove nothing better \
                than ";
    assert!(planned.code == 3 && planned.out.contains(note), "{planned:?}");
    assert!(planned.out.contains("this canary and its bake time can prove nothing better than "), "{planned:?}");
    let markdown = plan(&address, &["-o", "markdown"]);
    assert!(markdown.out.contains("- analysis \"errors\": with 20 requests a second"), "{markdown:?}");
    let json: Value = serde_json::from_str(&plan(&address, &["-o", "json"]).out).unwrap();
    assert_eq!(json["steps"][0]["guards"].as_array().unwrap().len(), 2, "{json:#}");
    serving.abort();
    drop(serving.await);
    let away = plan(&address, &[]);
    assert!(away.out.contains("at 100 requests a second"), "examples: {away:?}");
    let why = "note: analysis \"errors\": its present traffic is not known: Prometheus can't be reached";
    assert!(away.code == 3 && away.out.contains(why), "{away:?}");
}

#[test]
fn the_job_of_an_analysis_is_checked() {
    const CONFIG: &str = "[[source]]\nrepository = '/srv'\nbake = '5m'\nanalysis = ['smoke']\n[[analysis]]\nname = 'smoke'\n\
                          job = 'smoke/job.yaml'\n";
    const JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: smoke}\nspec:\n  template:\n    spec:\n      restartPolicy: \
                       Never\n      containers: [{name: app, image: smoke}]\n";
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("belay.toml", CONFIG);
    write("web.yaml", &web("1 10m", "web:1"));
    std::fs::create_dir(folder.path().join("smoke")).unwrap();
    for (file, code, told) in [
        (None, 1, "error: analysis \"smoke\": the repository has no file smoke/job.yaml\n--> web.yaml:1:1"),
        (
            Some(JOB.replace("image", "imag")),
            1,
            "error: image is missing in spec.template.spec.containers[0]\n --> smoke/job.yaml:8:20",
        ),
        (
            Some("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n".to_owned()),
            1,
            "Secret default/a is no Job\n--> smoke/job.yaml:1:1",
        ),
        (Some(JOB.to_owned()), 0, "1 object in 1 file, and nothing wrong."),
    ] {
        if let Some(file) = file {
            write("smoke/job.yaml", &file);
        }
        let mut command = belay(folder.path());
        command.args(["check", "--config", "belay.toml"]);
        let checked = finish(command, "");
        assert!(checked.code == code && format!("{}{}", checked.out, checked.err).contains(told), "{checked:?}");
    }
}
