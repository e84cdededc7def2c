//! Acting as somebody else, by headers.

use http::HeaderMap;

use super::{Attributes, Authorizer};
use crate::api::ApiError;
use crate::api::call::User;
use crate::api::query::decode;

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const ACCOUNT: &str = "system:serviceaccount:";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Returns the user that a user acts as; `None` if no header says so.
///
/// # Errors
/// 400 where the headers name no user, 403 where this is not allowed.
pub(super) fn impersonated(
    authorizer: &Authorizer,
    user: &User,
    headers: &HeaderMap,
) -> Result<Option<User>, ApiError> {
    let wanted = asked_for(headers);
    if wanted == User::default() {
        return Ok(None);
    }
    if wanted.name.is_empty() {
        return Err(ApiError::bad_request(format!("requested {} without impersonating a user name", in_go(&wanted))));
    }
    let account = account(&wanted.name);
    let demand = |group: &str, resource: &str, namespace: Option<&str>, name: &str| {
        authorizer.demand(user, &Attributes { verb: "impersonate", group, resource, namespace, name, path: "" })
    };
    match account {
        Some((namespace, name)) => demand("", "serviceaccounts", Some(namespace), name)?,
        None => demand("", "users", None, &wanted.name)?,
    }
    for group in &wanted.groups {
        demand("", "groups", None, group)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            demand(AUTHENTICATION, &format!("userextras/{key}"), None, value)?;
        }
    }
    if !wanted.uid.is_empty() {
        demand(AUTHENTICATION, "uids", None, &wanted.uid)?;
    }
    let groups = groups(&wanted, account);
    Ok(Some(User { groups, ..wanted }))
}

/// Returns the user in the headers.
fn asked_for(headers: &HeaderMap) -> User {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
    let extra = headers.keys().filter_map(|header| {
        let key = header.as_str().strip_prefix(EXTRA)?;
        // Characters that a header's name can't hold are escaped in it.
        let key = decode(key).to_lowercase();
        Some((key, texts(header.as_str())))
    });
    User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: texts("impersonate-group"),
        extra: extra.collect(),
    }
}

/// Returns the namespace and the name of the service account that a user is.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Returns the groups that come with a user, besides those that were asked for.
fn groups(wanted: &User, account: Option<(&str, &str)>) -> Vec<String> {
    let mut groups = wanted.groups.clone();
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let said = groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if !said && wanted.name != ANONYMOUS {
        groups.push(AUTHENTICATED.to_owned());
    }
    groups
}

/// Returns a user as the reference writes one.
fn in_go(user: &User) -> String {
    let strings = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        if values.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", quoted.join(", ")) }
    };
    let extra: Vec<String> = user.extra.iter().map(|(key, values)| format!("{key:?}:{}", strings(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{}, Extra:map[string][]string{extra}}}",
        user.name,
        user.uid,
        strings(&user.groups)
    )
}
