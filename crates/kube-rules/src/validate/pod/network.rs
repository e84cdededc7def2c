//! The name resolution of a pod.

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::addresses::legacy_address;
use super::super::errors::{Errors, Path};
use super::super::names;

/// Checks the policy of name resolution.
pub fn dns_policy(policy: &str, at: &Path<'_>, errors: &mut Errors) {
    let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    match policy {
        "" => errors.required(at, ""),
        other if !known.contains(&other) => errors.not_supported(at, other, &known),
        _ => {}
    }
}

/// Checks the configuration of name resolution.
pub fn dns_config(config: &Value, policy: &str, at: &Path<'_>, errors: &mut Errors) {
    if policy == "None" {
        if config.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.required(at, detail);
            return;
        }
        if config.list("nameservers").is_empty() {
            errors.required(
                &at.field("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
            return;
        }
    }
    if config.is_null() {
        return;
    }
    let (servers, list) = (config.list("nameservers"), at.field("nameservers"));
    if servers.len() > 3 {
        let shown = Value::from(servers);
        errors.invalid(&list, &shown, "must not have more than 3 nameservers");
    }
    for (index, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        legacy_address(server, &list.index(index), errors);
    }
    let (searches, list) = (config.list("searches"), at.field("searches"));
    if searches.len() > 32 {
        errors.invalid(&list, &Value::from(searches), "must not have more than 32 search paths");
    }
    let length: usize = searches.iter().map(|search| search.as_str().unwrap_or_default().len()).sum();
    if length + searches.len().saturating_sub(1) > 2048 {
        errors.invalid(
            &list,
            &Value::from(searches),
            "must not have more than 2048 characters (including spaces) in the search list",
        );
    }
    for (index, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search == "." {
            continue;
        }
        let name = search.strip_suffix('.').unwrap_or(search);
        errors.each_invalid(&list.index(index), search, &names::search_domain(name));
    }
    let list = at.field("options");
    for (index, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.required(&list.index(index), "must not be empty");
        }
    }
}

/// Entries of the pod's hosts file.
pub fn host_aliases(aliases: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let at = at.index(index);
        let address = alias.text("ip");
        legacy_address(address, &at.field("ip"), errors);
        let list = at.field("hostnames");
        for (index, name) in alias.list("hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            errors.each_invalid(&list.index(index), name, &names::dns_1123_subdomain(name));
        }
    }
}
