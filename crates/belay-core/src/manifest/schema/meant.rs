//! The right place for a field that stands too far out.

use kube_facts::{Struct, Type};

/// The fields that are entered to look for it: elsewhere the same name mostly means something else.
const ON_THE_WAY: [&str; 6] = ["spec", "template", "jobTemplate", "containers", "metadata", "selector"];

/// Returns the nearest place below a struct that has a field of this name: `template.spec.containers`.
pub(super) fn below(name: &str, inner: &Struct) -> Option<String> {
    /// The number of levels down, and of structs, to search for it.
    const LEVELS: usize = 4;
    const MOST: usize = 2000;
    let mut level: Vec<(String, &Struct)> = vec![(String::new(), inner)];
    let mut seen = 0;
    for _ in 0..LEVELS {
        let mut next = Vec::new();
        for (path, outer) in level {
            for (field, ty) in outer.fields.iter().filter(|(field, _)| !(path.is_empty() && *field == "status")) {
                let Some(found) = structure(&ty.ty) else { continue };
                seen += 1;
                let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                if found.fields.contains_key(name) {
                    return Some(path);
                }
                if seen < MOST && ON_THE_WAY.contains(&field.as_str()) {
                    next.push((path, found));
                }
            }
        }
        level = next;
    }
    None
}

/// Returns the struct that a type is, or a list of.
fn structure(ty: &Type) -> Option<&Struct> {
    match ty.resolve() {
        Type::Struct(inner) => Some(inner),
        Type::List(list) => structure(&list.items),
        _ => None,
    }
}
