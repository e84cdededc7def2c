//! JSON output against the schemas that are published: every run of a command in these tests is checked. The checker
//! knows just the words that the schemas use, and refuses a schema with another one.

use std::sync::OnceLock;

use serde_json::Value;

/// Words that say nothing about what fits.
const SILENT: [&str; 7] = ["$schema", "title", "description", "$defs", "format", "default", "pattern"];

/// Looks at what a command printed, if that is JSON that has a schema.
pub fn check<S: AsRef<str>>(args: &[S], out: &str) {
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    let json = args.windows(2).any(|pair| pair == ["-o", "json"]) || args.contains(&"-ojson");
    let known = ["history", "show", "status", "plan", "check", "version", "simulate", "import", "notify"];
    let Some(command) = args.iter().find(|arg| known.contains(arg)).filter(|_| json && !out.is_empty()) else { return };
    let (name, texts): (&str, Vec<&str>) = match *command {
        "history" if args.contains(&"--stats") => ("history --stats", vec![out]),
        "status" if args.contains(&"--wait") => ("status --wait", vec![out]),
        "status" if args.contains(&"--watch") || args.contains(&"-w") => ("status --watch", out.lines().collect()),
        "notify" => ("notify test", vec![out]),
        other => (other, vec![out]),
    };
    static SCHEMAS: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    let schemas = SCHEMAS
        .get_or_init(|| belay::cli::schemas().into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect());
    let (_, schema) = schemas.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no schema of {name}"));
    for text in texts {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"));
        if let Err(why) = fits(&value, schema, schema, "") {
            panic!("{args:?}: what is printed does not fit its schema: {why}\n{value:#}");
        }
    }
}

/// Checks that a value fits; fails with the reason.
pub fn fits(value: &Value, schema: &Value, root: &Value, at: &str) -> Result<(), String> {
    fits_beside(value, schema, root, at, &[])
}

/// Checks that a value fits a part of a schema: the fields of these names belong to the same object.
fn fits_beside(value: &Value, schema: &Value, root: &Value, at: &str, others: &[String]) -> Result<(), String> {
    if schema.as_bool() == Some(true) {
        return Ok(());
    }
    let words = schema.as_object().ok_or_else(|| format!("{at}: nothing fits {schema}"))?;
    // Words beside a choice belong to the same object.
    let beside = all_properties(schema, root).map(|own| [own.as_slice(), others].concat());
    let others = beside.as_deref().unwrap_or(others);
    for (word, said) in words {
        match word.as_str() {
            "$ref" => fits_beside(value, resolve(said, root), root, at, others)?,
            "type" => has_type(value, said, at)?,
            "const" if value != said => return Err(format!("{at} is {value}, not {said}")),
            "enum" if !items(said).contains(value) => return Err(format!("{at} is {value}, none of {said}")),
            "anyOf" | "oneOf" => {
                let tried = items(said).iter().map(|one| fits_beside(value, one, root, at, others));
                let tried: Vec<Result<(), String>> = tried.collect();
                if tried.iter().all(Result::is_err) {
                    return Err(format!("{at} fits none: {tried:?}"));
                }
            }
            "allOf" => items(said).iter().try_for_each(|one| fits_beside(value, one, root, at, others))?,
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(item, said, root, &format!("{at}[{index}]"))?;
                }
            }
            "required" => {
                if let Some(name) = items(said).iter().find(|name| value.get(name.as_str().unwrap()).is_none()) {
                    return Err(format!("{at} has no {name}"));
                }
            }
            "minimum" => {
                if value.as_f64() < said.as_f64() {
                    return Err(format!("{at} is {value}, less than {said}"));
                }
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = said.get(name) {
                        fits(member, schema, root, &format!("{at}.{name}"))?;
                    }
                }
            }
            "const" | "enum" | "additionalProperties" => {}
            silent if SILENT.contains(&silent) => {}
            other => return Err(format!("{at}: the checker does not know the word {other:?}")),
        }
    }
    if let Some(known) = beside.as_ref().filter(|_| words.contains_key("properties")) {
        for name in value.as_object().into_iter().flatten().map(|(name, _)| name) {
            if !known.contains(name) {
                return Err(format!("{at} has {name:?}, which the schema does not tell of"));
            }
        }
    }
    Ok(())
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn resolve<'s>(reference: &Value, root: &'s Value) -> &'s Value {
    let path = reference.as_str().and_then(|text| text.strip_prefix('#')).unwrap();
    root.pointer(path).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

/// The names of all fields that a schema tells of; `None` if it tells of none.
fn all_properties(schema: &Value, root: &Value) -> Option<Vec<String>> {
    let own = schema.get("properties").and_then(Value::as_object)?;
    let mut names: Vec<String> = own.keys().cloned().collect();
    for word in ["allOf", "oneOf", "anyOf"] {
        for part in schema.get(word).map(items).unwrap_or_default() {
            let part = part.get("$ref").map_or(part, |reference| resolve(reference, root));
            names.extend(all_properties(part, root).unwrap_or_default());
        }
    }
    Some(names)
}

fn has_type(value: &Value, said: &Value, at: &str) -> Result<(), String> {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    let one = said.as_str().is_some_and(is);
    let several = items(said).iter().filter_map(Value::as_str).any(is);
    if one || several { Ok(()) } else { Err(format!("{at} is {value}, not of type {said}")) }
}

#[test]
fn the_checker_refuses_what_does_not_fit() {
    let schemas = belay::cli::schemas();
    let (version, check) = (&schemas["version"], &schemas["check"]);
    let ok = serde_json::json!({"version": "1", "embeddedKubernetes": "1.36", "renderers": []});
    assert_eq!(fits(&ok, version, version, ""), Ok(()));
    for wrong in [
        serde_json::json!({"version": "1"}),
        serde_json::json!({"version": 1, "embeddedKubernetes": "1.36", "renderers": []}),
        serde_json::json!({"version": "1", "embeddedKubernetes": "1.36", "renderers": [], "more": 1}),
    ] {
        assert!(fits(&wrong, version, version, "").is_err(), "{wrong}");
    }
    let place = |line: i64| serde_json::json!({"path": "a", "line": line, "column": 1});
    let complaint = |place| serde_json::json!({"place": place, "object": null, "message": "m", "hint": null});
    let of = |place| serde_json::json!({"objects": 1, "complaints": [complaint(place)], "warnings": [], "notes": []});
    assert_eq!(fits(&of(place(1)), check, check, ""), Ok(()));
    assert!(fits(&of(place(-1)), check, check, "").is_err());
    assert!(fits(&of(serde_json::json!("a:1:1")), check, check, "").is_err());
}

/// The published schemas are those of the types. `BELAY_BLESS=1` writes them.
#[test]
fn the_published_schemas_are_up_to_date() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    let mut names = Vec::new();
    for (command, schema) in belay::cli::schemas() {
        let name = format!("{}.json", command.replace(" --", "-").replace(' ', "-"));
        let fresh = format!("{schema:#}\n");
        if std::env::var_os("BELAY_BLESS").is_some() {
            std::fs::write(folder.join(&name), &fresh).unwrap();
        }
        let text = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(text == fresh, "docs/schemas/{name} is old: run this test with BELAY_BLESS=1");
        names.push(name);
    }
    let mut there: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    names.sort();
    assert_eq!(there, names);
    let page = std::fs::read_to_string(folder.parent().unwrap().join("output.md")).unwrap();
    for name in names {
        assert!(page.contains(&format!("(schemas/{name})")), "docs/output.md does not name {name}");
    }
}
