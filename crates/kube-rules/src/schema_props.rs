//! Schemas within schemas. Go reads the value in the place of a schema, a list of them or a boolean by itself: it drops
//! unknown parts, and says nothing.

use kube_facts::Type;

const KINDS: [&str; 3] = ["JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"];

/// Returns the type of a schema that stands at a place of this type, if one may stand there among others.
pub fn within(ty: &Type) -> Option<Type> {
    let Type::Named(name) = ty else { return None };
    // Asked of every value of every object, of which few are of these types.
    if !name.starts_with("io.k8s.apiext") {
        return None;
    }
    let end = KINDS.iter().find(|kind| name.ends_with(*kind))?;
    Some(Type::named(format!("{}JSONSchemaProps", name.strip_suffix(end)?)))
}
