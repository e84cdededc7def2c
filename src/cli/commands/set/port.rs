//! `belay set port WORKLOAD http=8080 9090/UDP 8081-`

use anyhow::{anyhow, bail};
use serde_json::{Value, json};

use super::pods::{PodEdit, Pods, each_container, list, without_empty};
use super::{Place, change};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use belay_core::manifest::ObjectKey;

/// The arguments of `belay set port`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads (KIND/NAME …, KIND NAME …, or NAME …), and the ports: 8080, 53/UDP, http=8080; 8080- takes one away
    #[arg(value_name = "WORKLOAD|[NAME=]PORT[/PROTOCOL]", required = true)]
    words: Vec<String>,
    /// Select the container; needed if there are several
    #[arg(short, long = "container", value_name = "NAME")]
    container: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Port {
    number: u16,
    protocol: &'static str,
    name: Option<String>,
    gone: bool,
}

struct Ports {
    ports: Vec<Port>,
    container: Option<String>,
}

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let is_port = |word: &String| word.contains('=') || word.starts_with(|c: char| c.is_ascii_digit());
    let (ports, words): (Vec<String>, Vec<String>) = args.words.into_iter().partition(is_port);
    let ports = ports.iter().map(|word| read(word)).collect::<anyhow::Result<Vec<Port>>>()?;
    if ports.is_empty() {
        bail!("no port: say 8080, http=8080, 53/UDP, or 8080- to take one away");
    }
    change(globals, &args.place, &words, &Pods(Ports { ports, container: args.container })).await
}

fn read(word: &str) -> anyhow::Result<Port> {
    let odd = || anyhow!("{word:?} is not a port: 8080, http=8080, 53/UDP, or 8080- to take one away");
    let (rest, gone) = word.strip_suffix('-').map_or((word, false), |rest| (rest, true));
    let (name, rest) = rest.split_once('=').map_or((None, rest), |(name, rest)| (Some(name), rest));
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, "TCP"));
    let known = ["TCP", "UDP", "SCTP"].into_iter().find(|known| protocol.eq_ignore_ascii_case(known));
    let number = number.parse().ok().filter(|number| *number > 0);
    match (number, known) {
        (Some(number), Some(protocol)) if name != Some("") => {
            Ok(Port { number, protocol, name: name.map(str::to_owned), gone })
        }
        _ => Err(odd()),
    }
}

impl Port {
    fn is(&self, there: &Value) -> bool {
        there["containerPort"] == self.number && there["protocol"].as_str().unwrap_or("TCP") == self.protocol
    }

    fn value(&self) -> Value {
        let mut port = json!({"containerPort": self.number});
        if self.protocol != "TCP" {
            port["protocol"] = json!(self.protocol);
        }
        if let Some(name) = &self.name {
            port["name"] = json!(name);
        }
        port
    }
}

impl PodEdit for Ports {
    fn make(&self, object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()> {
        let names: Vec<&str> =
            spec["containers"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
        let container = match (&self.container, names.as_slice()) {
            (Some(container), _) => container.clone(),
            (None, [only]) => (*only).to_owned(),
            (None, _) => bail!("{object} has several containers: {}; say --container NAME", names.join(", ")),
        };
        each_container(object, spec, &container, |container| {
            for port in &self.ports {
                let all = list(container, "ports");
                let there = all.iter().position(|there| port.is(there));
                match there {
                    Some(at) if port.gone => drop(all.remove(at)),
                    None if port.gone => bail!("{object} has no port {}/{}", port.number, port.protocol),
                    Some(at) => {
                        if let Some(name) = &port.name {
                            all[at]["name"] = json!(name);
                        }
                    }
                    None => all.push(port.value()),
                }
            }
            without_empty(container, "ports");
            Ok(())
        })
    }

    fn done(&self) -> &'static str {
        "ports updated"
    }

    fn did(&self) -> String {
        let one = |port: &Port| format!("{}{}", if port.gone { "no " } else { "" }, port.number);
        format!("Set ports {}", self.ports.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written() {
        let port =
            |number, protocol, name: Option<&str>, gone| Port { number, protocol, name: name.map(str::to_owned), gone };
        assert_eq!(read("8080").unwrap(), port(8080, "TCP", None, false));
        assert_eq!(read("dns=53/udp").unwrap(), port(53, "UDP", Some("dns"), false));
        assert_eq!(read("8080-").unwrap(), port(8080, "TCP", None, true));
        for odd in ["", "0", "65536", "x=", "=80", "80/HTTP", "a=b", "8o"] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
