//! Every pod has a volume with the token of its account, under a name that each server makes up.

use kube::Client;
use serde_json::json;

const PREFIX: &str = "kube-api-access-";
const SUFFIX: usize = 5;

/// The number of times that the account is asked for.
const ATTEMPTS: usize = 5;

/// A text without the made-up part of such names.
pub fn without_names(text: &str) -> String {
    let mut parts = text.split(PREFIX);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let is_made_up =
            part.get(..SUFFIX).is_some_and(|made_up| made_up.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let rest = if is_made_up { &part[SUFFIX..] } else { part };
        format!("{text}{PREFIX}{}{rest}", if is_made_up { "(name)" } else { "" })
    })
}

/// Makes the account that pods need, if no controller does, unless there is one.
pub async fn make_default_account(client: &Client, namespace: &str) {
    let account = json!({ "metadata": { "name": "default" } }).to_string();
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let mut answered = String::new();
    for _ in 0..ATTEMPTS {
        let request = http::Request::post(&path).header("Content-Type", "application/json");
        let answer = client.send(request.body(account.clone().into_bytes().into()).unwrap()).await.unwrap();
        match answer.status().as_u16() {
            201 | 409 => return,
            // A real server on a busy machine gives requests up.
            429 | 503 | 504 => answered = answer.status().to_string(),
            _ => panic!("the account of {namespace}: {}", answer.status()),
        }
    }
    panic!("the account of {namespace}: {answered}, {ATTEMPTS} times");
}

#[test]
fn only_what_is_made_up_is_left_out() {
    let text = "from kube-api-access-7qzwz (ro), kube-api-access-x and \"kube-api-access-mg8zj\"";
    assert_eq!(
        without_names(text),
        "from kube-api-access-(name) (ro), kube-api-access-x and \"kube-api-access-(name)\""
    );
}
