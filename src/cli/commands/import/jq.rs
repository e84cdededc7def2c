//! jq's expressions as JSON pointers.

/// Returns `.spec.template.spec.containers[].image` as a JSON pointer; also `[] | select(.name == "app") |`.
pub(super) fn pointer_of(expression: &str) -> Option<String> {
    let mut pointer = String::new();
    for (index, part) in expression.split('|').map(str::trim).enumerate() {
        let selected = part.strip_prefix("select(").and_then(|rest| rest.strip_suffix(')'));
        if let Some((name, value)) = selected.and_then(|selected| selected.split_once("==")) {
            let name = name.trim().strip_prefix('.')?;
            let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
            let plain =
                |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
            let list = pointer.strip_suffix("/*").filter(|_| plain(name) && plain(value))?;
            pointer = format!("{list}/[{name}={value}]");
            continue;
        }
        let rest = part.strip_prefix('.')?;
        if index > 0 && rest.is_empty() {
            return None;
        }
        for step in rest.split('.') {
            let (step, each) = match step.trim_end_matches('?').strip_suffix("[]") {
                Some(step) => (step, true),
                None => (step, false),
            };
            let quoted = step.strip_prefix("[\"").and_then(|step| step.strip_suffix("\"]"));
            let step = quoted.unwrap_or(step);
            if step.is_empty() || !step.chars().all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c)) {
                return None;
            }
            pointer.push('/');
            pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
            pointer.push_str(if each { "/*" } else { "" });
        }
    }
    Some(pointer).filter(|pointer| !pointer.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_a_pointer_where_it_can_be_one() {
        let of = |text: &str| pointer_of(text).unwrap_or_default();
        assert_eq!(of(".spec.replicas"), "/spec/replicas");
        assert_eq!(of(".webhooks[]?.clientConfig.caBundle"), "/webhooks/*/clientConfig/caBundle");
        assert_eq!(
            of(".spec.template.spec.containers[] | select(.name == \"app\") | .resources"),
            "/spec/template/spec/containers/[name=app]/resources"
        );
        for odd in ["", ".", ".a | length", ".a[0]", "..", ".a[] | select(.b > 1)", ".a | select(.b == \"c\")"] {
            assert_eq!(of(odd), "", "{odd}");
        }
    }
}
