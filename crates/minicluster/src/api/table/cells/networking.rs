//! Rows of the kinds of networking.

use serde_json::{Value, json};

use super::{NONE, Row, UNSET, plain, selector};

/// Items shown before the rest is only counted.
const SHOWN: usize = 3;

pub(super) fn cells(row: &Row<'_>, kind: &str) -> Option<Vec<Value>> {
    let (name, age) = (row.name(), row.age());
    Some(match kind {
        "ingresses" => {
            let tls = row.count("/spec/tls") > 0;
            let ports = if tls { "80, 443" } else { "80" };
            let class = row.at("/metadata/annotations")["kubernetes.io/ingress.class"].as_str();
            let class = class.unwrap_or_else(|| row.text_or("/spec/ingressClassName", NONE));
            vec![name, json!(class), json!(hosts(row)), json!(addresses(row)), json!(ports), age]
        }
        "ingressclasses" => {
            let parameters = match row.at("/spec/parameters") {
                Value::Null => NONE.to_owned(),
                parameters => {
                    let group = plain(&parameters["apiGroup"]);
                    let group = if group.is_empty() { group } else { format!(".{group}") };
                    format!("{}{group}/{}", plain(&parameters["kind"]), plain(&parameters["name"]))
                }
            };
            vec![name, json!(row.text("/spec/controller")), json!(parameters), age]
        }
        "ipaddresses" => {
            let parent = row.at("/spec/parentRef");
            let parts = [&parent["group"], &parent["resource"], &parent["namespace"], &parent["name"]];
            let [group, resource, namespace, name_of] = parts.map(plain);
            let resource = if group.is_empty() { resource } else { format!("{resource}.{group}") };
            let parts = [resource, namespace, name_of].into_iter().filter(|part| !part.is_empty());
            vec![name, json!(parts.collect::<Vec<_>>().join("/"))]
        }
        "networkpolicies" => vec![name, json!(selector(row.at("/spec/podSelector"))), age],
        "servicecidrs" => {
            let ranges: Vec<String> = row.list("/spec/cidrs").iter().map(plain).collect();
            vec![name, json!(ranges.join(",")), age]
        }
        "endpointslices" => {
            vec![name, json!(row.text("/addressType")), json!(slice_ports(row)), json!(slice_addresses(row)), age]
        }
        _ => return None,
    })
}

fn some(items: &[String]) -> String {
    match items.len() {
        0 => NONE.to_owned(),
        count if count > SHOWN => format!("{} + {} more...", items[..SHOWN].join(","), count - SHOWN),
        _ => items.join(","),
    }
}

fn hosts(row: &Row<'_>) -> String {
    let hosts: Vec<String> =
        row.list("/spec/rules").iter().map(|rule| plain(&rule["host"])).filter(|host| !host.is_empty()).collect();
    if hosts.is_empty() { "*".to_owned() } else { some(&hosts) }
}

fn addresses(row: &Row<'_>) -> String {
    let given = row.list("/status/loadBalancer/ingress").iter();
    let given: Vec<&str> =
        given.filter_map(|ingress| ingress["ip"].as_str().or_else(|| ingress["hostname"].as_str())).collect();
    given.join(",")
}

fn slice_ports(row: &Row<'_>) -> String {
    let ports: Vec<String> = row
        .list("/ports")
        .iter()
        .map(|port| match &port["port"] {
            Value::Null => "*".to_owned(),
            number => number.to_string(),
        })
        .collect();
    if ports.is_empty() { UNSET.to_owned() } else { some(&ports) }
}

fn slice_addresses(row: &Row<'_>) -> String {
    let endpoints = row.list("/endpoints").iter();
    let addresses = endpoints.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
    let addresses: Vec<String> = addresses.map(plain).collect();
    if addresses.is_empty() { UNSET.to_owned() } else { some(&addresses) }
}
