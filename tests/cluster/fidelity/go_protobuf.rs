//! The numbers that fields have in protocol buffers, read from the reference server's own binary: they stand in the struct
//! tags of its Go types, from which the published `.proto` files are made. `BELAY_WRITE_FACTS=1` writes the file anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kube_facts::{Scalar, Type, facts};

use crate::go_types::{ELEMENT, FIELD_SIZE, Image, POINTER, STRUCT, STRUCT_FIELDS, go_name};
use crate::support::control_plane;

const FILE: &str = "crates/minicluster/src/api/protobuf/fields.txt";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The name and the type of each field, by number.
type Fields = BTreeMap<u32, (String, String)>;

const BOOL: u8 = 1;
const DOUBLE: u8 = 14;
const MAP: u8 = 21;
const SLICE: u8 = 23;
const STRING: u8 = 24;
const BYTE: u8 = 8;

#[test]
fn the_numbers_of_fields_are_the_reference_servers_own() {
    let Some(assets) = control_plane::assets("the numbers of fields") else { return };
    let table = table(&assets.join("kube-apiserver"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("BELAY_WRITE_FACTS").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let difference = written.lines().zip(table.lines()).find(|(a, b)| a != b);
    assert!(
        written == table,
        "{FILE} differs from the reference server, first at {difference:?}; BELAY_WRITE_FACTS=1 writes it anew"
    );
}

fn table(program: &Path) -> String {
    let image = Image::open(program);
    let structs = image.structs();
    let meta = [
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
        "DeleteOptions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "Status",
        "WatchEvent",
    ];
    let mut wanted: BTreeSet<String> = facts().types().map(|(name, _)| name.to_owned()).collect();
    wanted.extend(meta.map(|name| format!("{META}.{name}")));
    let mut todo: Vec<u64> = wanted.iter().filter_map(|name| structs.get(&go_name(name)).copied()).collect();
    let mut messages = BTreeMap::new();
    while let Some(ty) = todo.pop() {
        let name = name_of(&image, ty);
        if let std::collections::btree_map::Entry::Vacant(place) = messages.entry(name) {
            place.insert((fields(&image, ty, &mut todo), image.pointer(ty + STRUCT_FIELDS + 8) == 0));
        }
    }
    // A struct that has fields, and none with a number, has no form in protocol buffers; one without any has one.
    messages.retain(|_, (fields, is_empty): &mut (Fields, bool)| !fields.is_empty() || *is_empty);
    let mut table = String::new();
    for (message, (fields, _)) in messages {
        write!(table, "{message}").unwrap();
        for (number, (name, of)) in fields {
            let known = facts().named(&message).and_then(|ty| in_facts(&ty.at(&[&name])?.ty));
            let of = if known.as_ref() == Some(&of) { String::new() } else { format!(":{of}") };
            write!(table, " {number} {name}{of}").unwrap();
        }
        table.push('\n');
    }
    table
}

/// Returns a type as the facts have it, in the words of [`described`].
fn in_facts(ty: &Type) -> Option<String> {
    let text = match ty {
        Type::Named(name) => return Some(name.to_string()),
        Type::List(list) => return Some(format!("[]{}", in_facts(&list.items)?)),
        Type::Map(map) => return Some(format!("{{}}{}", in_facts(&map.values)?)),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Bytes => "bytes",
            Scalar::Int32 | Scalar::Int64 => "int",
            Scalar::Number => "double",
            Scalar::Boolean => "bool",
            Scalar::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            Scalar::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
            Scalar::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            Scalar::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        },
        Type::Struct(_) | Type::Any => return None,
    };
    Some(text.to_owned())
}

/// Returns the name and the type of a struct's fields by number. One without a name is in the JSON of the struct itself.
fn fields(image: &Image, ty: u64, todo: &mut Vec<u64>) -> Fields {
    let (first, count) = (image.pointer(ty + STRUCT_FIELDS), image.pointer(ty + STRUCT_FIELDS + 8));
    let mut fields = BTreeMap::new();
    for field in (0..count).map(|index| first + index * FIELD_SIZE) {
        let (_, tag, _) = image.name(image.pointer(field));
        let part = |key: &str| tag.split_once(&format!("{key}:\"")).and_then(|(_, rest)| rest.split('"').next());
        let Some(protobuf) = part("protobuf") else { continue };
        let Some(number) = protobuf.split(',').nth(1).and_then(|number| number.parse().ok()) else { continue };
        let own = protobuf.split(',').find_map(|part| part.strip_prefix("name=")).unwrap_or_default();
        let json = part("json").map_or(own, |json| json.split(',').next().unwrap_or_default());
        let name = match json {
            "" => "~",
            "-" => own,
            name => name,
        };
        let of = described(image, image.pointer(field + 8), todo);
        fields.insert(number, (name.to_owned(), of));
    }
    fields
}

fn described(image: &Image, ty: u64, todo: &mut Vec<u64>) -> String {
    let name = image.type_name(ty);
    match image.kind(ty) {
        BOOL => "bool".to_owned(),
        2..=12 => "int".to_owned(),
        DOUBLE => "double".to_owned(),
        STRING => "string".to_owned(),
        POINTER => described(image, image.pointer(ty + ELEMENT), todo),
        MAP => format!("{{}}{}", described(image, image.pointer(ty + ELEMENT + 8), todo)),
        SLICE => {
            let of = image.pointer(ty + ELEMENT);
            // Lists with a name are messages of their own.
            let wrapped = if name.ends_with(".ExtraValue") || name.ends_with(".Verbs") { "items:" } else { "" };
            match image.kind(of) {
                BYTE => "bytes".to_owned(),
                _ => format!("{wrapped}[]{}", described(image, of, todo)),
            }
        }
        STRUCT => {
            todo.push(ty);
            name_of(image, ty)
        }
        other => panic!("{name} is of a kind that has no form in protocol buffers: {other}"),
    }
}

/// `k8s.io/api/apps/v1.Deployment` is `io.k8s.api.apps.v1.Deployment`.
fn name_of(image: &Image, ty: u64) -> String {
    let name = image.package_and_name(ty);
    format!("io.k8s.{}", name.strip_prefix("k8s.io/").unwrap_or(&name).replace('/', "."))
}
