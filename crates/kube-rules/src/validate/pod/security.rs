//! The user and the rights with which containers run.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path, Shown};
use super::super::names;
use super::paths::local_path;

/// Checks the security context of a container.
pub fn container(context: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if context.is_null() {
        return;
    }
    let privileged = context.flag("privileged");
    for name in ["runAsUser", "runAsGroup"] {
        if let Some(id) = context.int(name) {
            errors.each_invalid(&at.field(name), id, &names::user_id(id));
        }
    }
    if let Some(mount) = context.some("procMount").and_then(Value::as_str) {
        if !["Default", "Unmasked"].contains(&mount) {
            errors.not_supported(&at.field("procMount"), mount, &["Default", "Unmasked"]);
        }
        if mount == "Unmasked" && spec.get("hostUsers") != Some(&Value::Bool(false)) {
            errors.invalid(&at.field("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(&context["seccompProfile"], &at.field("seccompProfile"), errors);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        if privileged {
            errors.invalid(at, Shown::Plain(shown(context)), detail);
        }
        let added = context["capabilities"].list("add");
        if added.iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(at, Shown::Plain(shown(context)), detail);
        }
    }
    windows(&context["windowsOptions"], &at.field("windowsOptions"), errors);
    app_armor(&context["appArmorProfile"], &at.field("appArmorProfile"), errors);
}

/// Checks the options of Windows.
fn windows(options: &Value, at: &Path<'_>, errors: &mut Errors) {
    let text = |name: &str| options.some(name).and_then(Value::as_str);
    if let Some(name) = text("gmsaCredentialSpecName") {
        errors.each_invalid(&at.field("gmsaCredentialSpecName"), name, &names::dns_1123_subdomain(name));
    }
    if let Some(spec) = text("gmsaCredentialSpec") {
        if spec.is_empty() {
            errors.invalid(&at.field("gmsaCredentialSpec"), spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > 64 * 1024 {
            errors.too_long(&at.field("gmsaCredentialSpec"), 64 * 1024);
        }
    }
    if let Some(name) = text("runAsUserName") {
        for problem in windows_user(name) {
            errors.invalid(&at.field("runAsUserName"), name, &format!("runAsUserName{problem}"));
        }
    }
}

/// Returns the faults of a user's name on Windows, `DOMAIN\user` or `user`.
fn windows_user(name: &str) -> Vec<&'static str> {
    const FORBIDDEN: &str = "\"/\\:;|=,+*?<>@[]";
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if name.chars().any(char::is_control) {
        return vec![" cannot contain control characters"];
    }
    let ([user] | [_, user]) = name.split('\\').collect::<Vec<_>>()[..] else {
        return vec![" cannot contain more than one backslash"];
    };
    if user.is_empty() {
        return vec!["'s User cannot be empty"];
    }
    let mut problems = Vec::new();
    if user.chars().all(|letter| letter == '.' || letter == ' ') {
        problems.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(|letter| FORBIDDEN.contains(letter)) {
        problems.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    problems
}

/// Returns a context as errors show it: the internal type's fields, in its order.
fn shown(context: &Value) -> String {
    let fields = [
        "capabilities",
        "privileged",
        "seLinuxOptions",
        "windowsOptions",
        "runAsUser",
        "runAsGroup",
        "runAsNonRoot",
        "readOnlyRootFilesystem",
        "allowPrivilegeEscalation",
        "procMount",
        "seccompProfile",
        "appArmorProfile",
    ];
    let capabilities =
        |capabilities: &Value| format!("{{\"Add\":{},\"Drop\":{}}}", capabilities["add"], capabilities["drop"]);
    let field = |name: &&str| {
        let value = context.get(*name).unwrap_or(&Value::Null);
        let value = if *name == "capabilities" && !value.is_null() { capabilities(value) } else { value.to_string() };
        let spelled =
            if *name == "seLinuxOptions" { "SELinuxOptions".to_owned() } else { name[..1].to_uppercase() + &name[1..] };
        format!("\"{spelled}\":{value}")
    };
    format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
}

/// Checks a seccomp profile.
pub fn seccomp(profile: &Value, at: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let ty = profile.text("type");
    if ty.is_empty() {
        errors.required(&at.field("type"), "type is required when seccompProfile is set");
    }
    let local = profile.some("localhostProfile").and_then(Value::as_str);
    if ty == "Localhost" {
        match local {
            None => errors.required(&at.field("localhostProfile"), "must be set when seccomp type is Localhost"),
            Some(path) => {
                let path_at = at.field("localhostProfile");
                if path.is_empty() {
                    return;
                }
                local_path(path, &path_at, errors);
            }
        }
    } else {
        if !ty.is_empty() && !["RuntimeDefault", "Unconfined"].contains(&ty) {
            errors.not_supported(&at.field("type"), ty, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
        if local.is_some() {
            let shown =
                format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", profile["type"], profile["localhostProfile"]);
            let detail = "can only be set when seccomp type is Localhost";
            errors.invalid(&at.field("localhostProfile"), Shown::Plain(shown), detail);
        }
    }
}

fn app_armor(profile: &Value, at: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let ty = profile.text("type");
    let local = profile.some("localhostProfile").and_then(Value::as_str);
    match ty {
        "Localhost" => match local {
            None => errors.required(&at.field("localhostProfile"), "must be set when AppArmor type is Localhost"),
            Some(name) => {
                let trimmed = name.trim();
                if trimmed != name {
                    errors.invalid(&at.field("localhostProfile"), name, "must not be padded with whitespace");
                } else if trimmed.is_empty() {
                    errors.required(&at.field("localhostProfile"), "must be set when AppArmor type is Localhost");
                }
                if name.len() > 4095 {
                    errors.too_long(&at.field("localhostProfile"), 4095);
                }
            }
        },
        "RuntimeDefault" | "Unconfined" => {
            if let Some(name) = local {
                errors.invalid(&at.field("localhostProfile"), name, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&at.field("type"), "type is required when appArmorProfile is set"),
        other => errors.not_supported(&at.field("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

/// Checks the security context of a pod.
pub fn pod(context: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        if let Some(id) = context.int(name) {
            errors.each_invalid(&at.field(name), id, &names::user_id(id));
        }
    }
    let list = at.field("supplementalGroups");
    for (index, group) in context.list("supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        errors.each_invalid(&list.index(index), group, &names::user_id(group));
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        errors.invalid(
            &at.field("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    sysctls(context, &at.field("sysctls"), errors);
    windows(&context["windowsOptions"], &at.field("windowsOptions"), errors);
    if let Some(policy) = context.some("fsGroupChangePolicy").and_then(Value::as_str)
        && !["Always", "OnRootMismatch"].contains(&policy)
    {
        errors.not_supported(&at.field("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    seccomp(&context["seccompProfile"], &at.field("seccompProfile"), errors);
    app_armor(&context["appArmorProfile"], &at.field("appArmorProfile"), errors);
    errors.one_of(context, "supplementalGroupsPolicy", &["Merge", "Strict"], at);
    errors.one_of(context, "seLinuxChangePolicy", &["Recursive"], at);
}

fn sysctls(context: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, sysctl) in context.list("sysctls").iter().enumerate() {
        let name = sysctl.text("name");
        let name_at = at.index(index);
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_./".contains(&byte);
        if name.is_empty() {
            errors.required(&name_at.field("name"), "");
        } else if name.len() > 253 || !name.bytes().all(fits) || name.starts_with(['.', '/', '-', '_']) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&name_at.field("name"), name, detail);
        } else if !seen.insert(name) {
            errors.duplicate(&name_at.field("name"), name);
        }
    }
}
