//! `belay import`: what an object of Flux or Argo CD comes to, and what of it has no counterpart.

use belay::config::{Config, Drift, SetValue, SourceConfig};

use serde_json::{Value, json};

use crate::program::{Ran, belay, finish, run};

fn import(text: &str) -> (Vec<SourceConfig>, Ran) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("object.yaml"), text).unwrap();
    let mut command = belay(home.path());
    command.args(["import", "object.yaml"]).current_dir(home.path());
    let ran = finish(command, "");
    if ran.out.is_empty() {
        return (Vec::new(), ran);
    }
    std::fs::write(home.path().join("belay.toml"), &ran.out).unwrap();
    let mut check = belay(home.path());
    check.args(["run", "--check-config", "--config", "belay.toml"]).current_dir(home.path());
    let checked = finish(check, "");
    assert!(!checked.err.contains("belay.toml:") && checked.code != 2, "{checked:?}\n{}", ran.out);
    (Config::parse(&ran.out, "belay.toml").unwrap().source, ran)
}

const REPOSITORY: &str = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: shop, namespace: flux-system}\n\
    spec:\n  interval: 1m0s\n  url: https://git.example.com/shop.git\n  ref: {branch: live}\n  secretRef: {name: git}\n  ignore: |\n    \
    # not these\n    *.test.yaml\n";

#[test]
fn a_kustomization_of_flux_becomes_a_source() {
    let (sources, ran) = import(&format!(
        "{REPOSITORY}---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: infra, namespace: \
         flux-system}}\nspec: {{path: ./infra, prune: true, sourceRef: {{kind: GitRepository, name: shop}}}}\n---\napiVersion: \
         kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: shop, namespace: flux-system}}\nspec:\n  path: \
         ./apps/shop\n  sourceRef: {{kind: GitRepository, name: shop}}\n  dependsOn: [{{name: infra}}, {{name: other}}]\n  \
         postBuild: {{substitute: {{colour: blue}}}}\n  wait: true\n"
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    let [infra, shop] = sources.as_slice() else { panic!("{ran:?}") };
    assert_eq!((infra.name.as_str(), &*infra.path.to_string(), infra.prune), ("infra", "infra", true));
    assert_eq!((shop.name.as_str(), &*shop.path.to_string(), shop.prune), ("shop", "apps/shop", false));
    assert_eq!((shop.branch.as_str(), shop.after.as_deref()), ("live", Some("infra")));
    assert_eq!((shop.interval.to_string(), shop.exclude.clone()), ("1m".to_owned(), vec!["*.test.yaml".to_owned()]));
    let told: Vec<&str> = ran.err.lines().collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("warning: object.yaml:8:3: spec.secretRef has no counterpart ("), "{told:?}");
    assert!(told.iter().any(|line| line.contains(": spec.postBuild has no counterpart (write the values")), "{told:?}");
    assert!(told.iter().any(|line| line.contains(": spec.dependsOn[1] has no counterpart")), "{told:?}");
    assert!(!ran.err.contains("blue"), "{told:?}");
}

#[test]
fn programs_read_the_sources_and_what_has_no_counterpart() {
    let home = tempfile::tempdir().unwrap();
    let kustomization = format!(
        "{REPOSITORY}---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: infra, namespace: \
         flux-system}}\nspec: {{path: ./infra, prune: true, sourceRef: {{kind: GitRepository, name: shop}}}}\n"
    );
    std::fs::write(home.path().join("a.yaml"), kustomization).unwrap();
    let ran = run(home.path(), &["import", "a.yaml", "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let source = &answer["sources"][0];
    assert_eq!((&source["name"], &source["path"], &source["prune"]), (&json!("infra"), &json!("infra"), &json!(true)));
    let warning = &answer["warnings"][0];
    assert_eq!((&warning["place"]["path"], &warning["place"]["line"]), (&json!("a.yaml"), &json!(8)));
    assert_eq!(answer["errors"], json!([]));
    let named = run(home.path(), &["import", "a.yaml", "-o", "name"]);
    assert_eq!((named.code, named.out.as_str()), (0, "infra\n"));

    std::fs::write(home.path().join("odd.yaml"), "a: [\n").unwrap();
    let ran = run(home.path(), &["import", "odd.yaml", "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &answer["sources"]), (1, &json!([])));
    assert_eq!(answer["errors"][0]["place"]["path"], "odd.yaml");
}

#[test]
fn several_files_are_read_as_one() {
    let home = tempfile::tempdir().unwrap();
    let kustomization = |name: &str, on: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
             spec: {{path: ./{name}, sourceRef: {{kind: GitRepository, name: shop}}{on}}}\n"
        )
    };
    std::fs::write(home.path().join("a.yaml"), kustomization("shop", ", dependsOn: [{name: infra}]")).unwrap();
    std::fs::write(home.path().join("b.yaml"), kustomization("infra", "")).unwrap();
    std::fs::write(home.path().join("odd.yaml"), "a: [\n").unwrap();
    let import = |files: &[&str], input: &str| {
        let mut command = belay(home.path());
        command.arg("import").args(files).current_dir(home.path());
        finish(command, input)
    };
    let ran = import(&["a.yaml", "b.yaml", "-"], REPOSITORY);
    assert_eq!(ran.code, 0, "{ran:?}");
    let sources = Config::parse(&ran.out, "belay.toml").unwrap().source;
    let told: Vec<_> =
        sources.iter().map(|one| (one.name.as_str(), one.branch.as_str(), one.after.as_deref())).collect();
    assert_eq!(told, [("shop", "live", Some("infra")), ("infra", "live", None)]);
    assert!(ran.err.contains("warning: -:8:3: spec.secretRef"), "{ran:?}");
    // A fault in one file does not keep the others from being read.
    let ran = import(&["odd.yaml", "a.yaml", "-"], REPOSITORY);
    assert!(ran.code == 1 && ran.err.contains("error: odd.yaml:") && ran.out.contains("name = \"shop\""), "{ran:?}");
    assert!(import(&["-", "a.yaml", "-"], "").err.contains("standard input can be read only once"));
    assert!(import(&["a.yaml", "nowhere.yaml"], "").err.contains("failed to read nowhere.yaml"));
    assert_eq!(import(&[], "").code, 2);
}

#[test]
fn what_waits_for_nothing_that_is_here_does_not_wait() {
    let one = |name: &str, on: &str| {
        format!(
            "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}}}\nspec: {{sourceRef: \
             {{kind: GitRepository, name: shop}}, dependsOn: [{{name: {on}}}]}}\n"
        )
    };
    let (sources, ran) = import(&format!("{REPOSITORY}{}{}{}", one("a", "b"), one("b", "a"), one("c", "gone")));
    let after: Vec<Option<&str>> = sources.iter().map(|source| source.after.as_deref()).collect();
    assert_eq!(after, [Some("b"), None, None], "{ran:?}");
    assert_eq!(ran.err.matches("dependsOn[0] has no counterpart among these objects").count(), 2, "{ran:?}");
}

#[test]
fn a_release_of_flux_becomes_a_chart() {
    let (sources, ran) = import(&format!(
        "{REPOSITORY}---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, namespace: \
         shop}}\nspec:\n  interval: 5m\n  chart:\n    spec:\n      chart: ./charts/web\n      sourceRef: {{kind: GitRepository, name: \
         shop, namespace: flux-system}}\n      valuesFiles: [charts/web/values.yaml, live/web.yaml]\n  values: {{db: {{login: \
         hunter2hunter2}}}}\n  driftDetection:\n    mode: enabled\n    ignore:\n    - {{paths: [/spec/replicas], target: {{kind: \
         Deployment}}}}\n"
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    let source = &sources[0];
    let helm = &source.helm[0];
    assert_eq!(
        (helm.chart.as_str(), helm.release.as_deref(), helm.namespace.as_deref()),
        ("charts/web", Some("web"), Some("shop"))
    );
    assert_eq!(helm.values, ["/charts/web/values.yaml", "/live/web.yaml", "values-web.yaml"]);
    assert_eq!((source.prune, source.drift, &*source.path.to_string()), (true, Drift::Correct, "charts/web"));
    assert_eq!(
        (source.ignore[0].kind.as_deref(), source.ignore[0].fields[0].to_string()),
        (Some("Deployment"), "/spec/replicas".to_owned())
    );
    assert!(
        ran.err.contains("spec.values has no counterpart (commit what it holds as charts/web/values-web.yaml"),
        "{ran:?}"
    );
    assert!(!ran.err.contains("hunter2") && !ran.out.contains("hunter2") && !ran.err.contains("login"), "{ran:?}");
}

fn kustomization(source: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: shop, namespace: \
         flux-system}}\nspec: {{path: ./production, prune: true, sourceRef: {{{source}}}}}\n"
    )
}

/// A source of Flux that is no Git repository holds manifests, not charts.
#[test]
fn manifests_that_are_made_elsewhere_have_a_repository_that_they_are_made_from() {
    for kind in ["OCIRepository", "ExternalArtifact", "Bucket"] {
        let (sources, ran) = import(&kustomization(&format!("kind: {kind}, name: shop")));
        assert!(sources.is_empty() && ran.code == 1, "{ran:?}");
        assert!(ran.err.contains(kind) && ran.err.contains("the Git repository with those files"), "{ran:?}");
        assert!(!ran.err.contains("chart") && !ran.err.contains("helm"), "{ran:?}");
    }
}

/// `flux bootstrap` and a FluxInstance make the GitRepository by themselves: it is in no file.
#[test]
fn a_repository_that_is_in_no_file_can_be_given() {
    let text = kustomization("kind: GitRepository, name: flux-system");
    let (sources, ran) = import(&text);
    assert_eq!((ran.code, sources.len()), (0, 1), "{ran:?}");
    assert_eq!(sources[0].repository, "https://git.example.com/flux-system.git");
    assert_eq!((&*sources[0].path.to_string(), sources[0].prune), ("production", true));
    assert!(ran.err.contains("not among what was read, so `repository` is a placeholder"), "{ran:?}");
    assert!(ran.err.contains("--repository URL"), "{ran:?}");
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("object.yaml"), &text).unwrap();
    let mut command = belay(home.path());
    command
        .args(["import", "object.yaml", "--repository", "https://git.example.com/fleet.git"])
        .current_dir(home.path());
    let ran = finish(command, "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains("repository = \"https://git.example.com/fleet.git\"\n"), "{ran:?}");
}

#[test]
fn a_chart_that_lies_elsewhere_is_to_be_put_into_the_repository() {
    let (sources, ran) = import(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\nspec:\n  chart:\n    spec:\n      chart: \
         web\n      sourceRef: {kind: HelmRepository, name: bitnami}\n",
    );
    assert!(sources.is_empty() && ran.code == 1 && ran.out.is_empty(), "{ran:?}");
    assert!(ran.err.starts_with("error: object.yaml:8:7: spec.chart.spec.sourceRef names no GitRepository"), "{ran:?}");
    assert!(ran.err.contains("put the chart into it"), "{ran:?}");
}

fn application(spec: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: shop, namespace: argocd}}\nspec:\n{spec}"
    )
}

#[test]
fn an_application_of_plain_manifests_becomes_a_source() {
    let (sources, ran) = import(&application(
        "  project: default\n  destination: {server: 'https://kubernetes.default.svc', namespace: shop}\n  source:\n    repoURL: \
         https://git.example.com/shop.git\n    targetRevision: v1.*\n    path: apps/shop\n    directory: {include: '{a.yaml,b/*}', \
         exclude: '*.json'}\n  syncPolicy:\n    automated: {prune: true, selfHeal: true}\n    syncOptions: [CreateNamespace=true, \
         ServerSideApply=true]\n  ignoreDifferences:\n  - {group: apps, kind: Deployment, jsonPointers: [/spec/replicas], \
         jqPathExpressions: ['.spec.template | keys']}\n",
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    let source = &sources[0];
    assert_eq!(
        (source.tag.as_deref(), &*source.path.to_string(), source.prune, source.drift),
        (Some("v1.*"), "apps/shop", true, Drift::Correct)
    );
    assert_eq!(source.include, ["/apps/shop/**/a.yaml", "/apps/shop/b/*"]);
    assert_eq!(source.exclude, ["/apps/shop/**/*.json", "/apps/shop/*/"]);
    assert_eq!(source.ignore[0].fields.len(), 1);
    let told = |part: &str| assert!(ran.err.contains(part), "{part}: {ran:?}");
    told("spec.syncPolicy.syncOptions[0] has no counterpart (commit a manifest of the Namespace)");
    told("spec.destination.namespace has no counterpart (write `namespace:`");
    told("spec.ignoreDifferences[0].jqPathExpressions[0] has no counterpart");
    assert_eq!(ran.err.lines().count(), 3, "{ran:?}");
}

#[test]
fn an_application_with_several_sources_becomes_several() {
    let (sources, ran) = import(&application(
        "  destination: {name: elsewhere, namespace: shop}\n  sources:\n  - repoURL: https://git.example.com/shop.git\n    \
         targetRevision: main\n    path: charts/web\n    helm:\n      valueFiles: [values-live.yaml, $values/live/web.yaml, \
         $other/web.yaml]\n      values: 'login: hunter2hunter2'\n      parameters: [{name: image.tag, value: '1,2'}, {name: \
         db.password, value: hunter2hunter2}]\n  - {repoURL: 'https://git.example.com/shop.git', targetRevision: main, ref: \
         values}\n  - {repoURL: 'https://git.example.com/shop.git', targetRevision: main, path: live, kustomize: {namePrefix: a-}}\n",
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    let [chart, live] = sources.as_slice() else { panic!("{ran:?}") };
    assert_eq!((chart.name.as_str(), live.name.as_str(), &*live.path.to_string()), ("shop", "shop-2", "live"));
    let helm = &chart.helm[0];
    assert_eq!((helm.release.as_deref(), helm.namespace.as_deref()), (Some("shop"), Some("shop")));
    assert_eq!(helm.values, ["values-live.yaml", "/live/web.yaml", "values-shop.yaml"]);
    assert_eq!(helm.set.iter().collect::<Vec<_>>(), [(&"image.tag".to_owned(), &SetValue::Text("1\\,2".to_owned()))]);
    assert_eq!((chart.drift, chart.prune), (Drift::Report, false));
    assert!(!ran.err.contains("hunter2") && !ran.out.contains("hunter2"), "{ran:?}");
    for part in [
        "valueFiles[2] has no counterpart",
        "helm.values has no counterpart",
        "parameters[1] may be secret, and is left out",
        "namePrefix has no counterpart (write it into the kustomization",
        "spec.destination.name has no counterpart (`context`",
        "spec is not automated",
    ] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
}

/// A chart may lie at the root of its repository.
#[test]
fn a_chart_at_the_root_of_its_repository_is_named() {
    let (sources, ran) = import(&application(
        "  source:\n    repoURL: https://git.example.com/chart.git\n    targetRevision: main\n    path: .\n    helm:\n      \
         valuesObject: {size: 1}\n      parameters: [{name: boot, value: c2VjcmV0IGhlcmU5}]\n",
    ));
    assert_eq!(ran.code, 0, "{ran:?}");
    let [source] = sources.as_slice() else { panic!("{ran:?}") };
    assert_eq!((source.helm[0].chart.as_str(), source.helm[0].release.as_deref()), (".", Some("shop")));
    assert!(ran.err.contains("commit what it holds as values-shop.yaml"), "{ran:?}");
    assert!(ran.err.contains("parameters[0] may be secret") && !ran.out.contains("c2Vj"), "{ran:?}");
    let (sources, ran) = import(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: chart}\nspec: {url: \
         'https://git.example.com/chart.git', ref: {branch: main}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: \
         HelmRelease\nmetadata: {name: web, namespace: shop}\nspec: {chart: {spec: {chart: ./, sourceRef: {kind: \
         GitRepository, name: chart}}}}\n",
    );
    assert_eq!((ran.code, sources[0].helm[0].chart.as_str()), (0, "."), "{ran:?}");
}

#[test]
fn a_list_is_read_and_what_is_none_of_these_is_named() {
    let (sources, ran) = import(&format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}\n- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}\n- {{apiVersion: \
         argoproj.io/v1alpha1, kind: ApplicationSet, metadata: {{name: a}}}}\n",
        application("  source: {repoURL: 'https://git.example.com/shop.git', path: shop}\n")
            .replace('\n', "\n  ")
            .trim_end()
    ));
    assert_eq!((sources.len(), ran.code), (1, 1), "{ran:?}");
    assert!(
        ran.err.contains("this object is left out") && ran.err.contains("an ApplicationSet has no counterpart"),
        "{ran:?}"
    );
    let (_, nothing) = import("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert!(nothing.code == 1 && nothing.err.contains("object.yaml:1:1: no Kustomization"), "{nothing:?}");
    let (_, odd) = import("a: [\n");
    assert!(odd.code == 1 && odd.err.starts_with("error: object.yaml:"), "{odd:?}");
    let secret =
        application("  source: {repoURL: 'https://ada:hunter2hunter2@git.example.com/shop.git', path: shop}\n");
    let (_, url) = import(&secret);
    assert!(url.code == 1 && url.err.contains("put them into files") && !url.err.contains("hunter2"), "{url:?}");
}

#[test]
fn what_is_too_large_is_not_read_in_part() {
    let (sources, ran) = import(&format!("{REPOSITORY}{}", "#".repeat(16 << 20)));
    assert!(sources.is_empty() && ran.code != 0, "{:?}", ran.code);
    assert!(ran.err.contains("object.yaml: it is larger than 16 MiB"), "{}", ran.err);
}
