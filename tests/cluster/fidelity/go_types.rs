//! The Go types behind the API's objects, read from the reference server's own binary: every Go program carries the
//! names, fields and struct tags of its types for reflection, and those say what no API document does: which fields are
//! pointers, which are written although they are empty, and what a type is called in an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A field as Go declares it: its type, and `?` where it is left out when empty, `??` where even a zero struct is.
pub type Declared = String;

/// Reads the fields of the struct types that OpenAPI names, by those names. Types with a JSON form of their own are left
/// out.
pub fn read<'a>(
    program: &Path,
    names: impl Iterator<Item = &'a String>,
) -> BTreeMap<String, BTreeMap<String, Declared>> {
    let image = Image::open(program);
    let structs = image.structs();
    let mut found = BTreeMap::new();
    for name in names {
        let Some(at) = structs.get(&go_name(name)) else { panic!("{name} is no type of {}", program.display()) };
        let mut fields = BTreeMap::new();
        if image.fields_of(*at, &mut fields) && !fields.is_empty() {
            found.insert(name.clone(), fields);
        }
    }
    found
}

/// `io.k8s.api.apps.v1.Deployment` is `k8s.io/api/apps/v1.Deployment`.
pub fn go_name(openapi: &str) -> String {
    let (package, name) = openapi.rsplit_once('.').unwrap();
    let package = package.strip_prefix("io.k8s.").unwrap().replace('.', "/");
    format!("k8s.io/{package}.{name}")
}

pub struct Image {
    bytes: Vec<u8>,
    /// Address, size and place in the file.
    sections: BTreeMap<String, (u64, u64, u64)>,
    /// The base of the addresses of names and types.
    base: u64,
}

// The layout of `internal/abi.Type` on 64-bit machines.
const FLAGS: u64 = 20;
const KIND: u64 = 23;
const NAME: u64 = 40;
pub const ELEMENT: u64 = 48;
pub const STRUCT_FIELDS: u64 = 56;
const STRUCT_PACKAGE: u64 = 80;
pub const FIELD_SIZE: u64 = 24;
const HAS_PACKAGE: u8 = 1;
const EXTRA_STAR: u8 = 2;
pub const POINTER: u8 = 22;
pub const STRUCT: u8 = 25;

impl Image {
    pub fn open(program: &Path) -> Image {
        let mut image = Image { bytes: fs::read(program).unwrap(), sections: BTreeMap::new(), base: 0 };
        assert_eq!(&image.bytes[..5], b"\x7fELF\x02", "a 64-bit ELF file");
        let headers = image.word(0x28);
        let (size, count, names) = (image.half(0x3a), image.half(0x3c), image.half(0x3e));
        let names_at = image.word(headers + size * names + 0x18);
        for index in 0..count {
            let header = headers + size * index;
            let at = (names_at + u64::from(image.quarter(header))) as usize;
            let end = at + image.bytes[at..].iter().position(|byte| *byte == 0).unwrap();
            let name = String::from_utf8_lossy(&image.bytes[at..end]).into_owned();
            // Sections without contents in the file have no place there.
            if image.quarter(header + 4) != 8 {
                let place = (image.word(header + 0x10), image.word(header + 0x20), image.word(header + 0x18));
                image.sections.insert(name, place);
            }
        }
        image.base = image.sections[".rodata"].0;
        image
    }

    fn half(&self, at: u64) -> u64 {
        u64::from(u16::from_le_bytes(self.bytes[at as usize..][..2].try_into().unwrap()))
    }

    fn quarter(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.bytes[at as usize..][..4].try_into().unwrap())
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes[at as usize..][..8].try_into().unwrap())
    }

    /// Returns the place in the file of an address.
    fn place(&self, address: u64) -> u64 {
        let section = self.sections.values().find(|(start, size, _)| (*start..start + size).contains(&address));
        let (start, _, offset) = section.unwrap_or_else(|| panic!("address {address:#x} is in no section"));
        offset + address - start
    }

    pub fn pointer(&self, address: u64) -> u64 {
        self.word(self.place(address))
    }

    fn byte(&self, address: u64) -> u8 {
        self.bytes[self.place(address) as usize]
    }

    /// Returns a name and its tag: flags, then each with its length in front.
    pub fn name(&self, address: u64) -> (String, String, u8) {
        let mut at = self.place(address) as usize;
        let flags = self.bytes[at];
        at += 1;
        let mut text = || {
            let (mut length, mut shift) = (0_usize, 0);
            loop {
                let byte = self.bytes[at];
                at += 1;
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&self.bytes[at..at + length]).into_owned();
            at += length;
            text
        };
        let name = text();
        let tag = if flags & 2 == 0 { String::new() } else { text() };
        (name, tag, flags)
    }

    pub fn type_name(&self, ty: u64) -> String {
        let name = self.name(self.base + u64::from(self.quarter(self.place(ty + NAME)))).0;
        if self.byte(ty + FLAGS) & EXTRA_STAR == 0 { name } else { name[1..].to_owned() }
    }

    pub fn kind(&self, ty: u64) -> u8 {
        self.byte(ty + KIND) & 31
    }

    /// `k8s.io/api/apps/v1.Deployment`
    pub fn package_and_name(&self, ty: u64) -> String {
        let package = self.name(self.base + u64::from(self.quarter(self.place(ty + STRUCT_PACKAGE)))).0;
        let name = self.type_name(ty);
        let name = name.rsplit_once('.').map_or(name.as_str(), |(_, name)| name);
        format!("{package}.{name}")
    }

    /// Returns every named struct that something points to, by package and name.
    pub fn structs(&self) -> BTreeMap<String, u64> {
        let (_, size, offset) = self.sections[".typelink"];
        let pointers = (0..size / 4).map(|index| self.base + u64::from(self.quarter(offset + index * 4)));
        let mut structs = BTreeMap::new();
        for pointer in pointers.filter(|ty| self.kind(*ty) == POINTER) {
            let ty = self.pointer(pointer + ELEMENT);
            if self.kind(ty) == STRUCT && self.byte(ty + FLAGS) & HAS_PACKAGE != 0 {
                structs.insert(self.package_and_name(ty), ty);
            }
        }
        structs
    }

    /// Adds the fields of a struct and of those that it embeds; false if it is not one that JSON sees field by field.
    fn fields_of(&self, ty: u64, fields: &mut BTreeMap<String, Declared>) -> bool {
        let (first, count) = (self.pointer(ty + STRUCT_FIELDS), self.pointer(ty + STRUCT_FIELDS + 8));
        for field in (0..count).map(|index| first + index * FIELD_SIZE) {
            let (_, tag, flags) = self.name(self.pointer(field));
            let of = self.pointer(field + 8);
            let Some(json) = tag.split_once("json:\"").and_then(|(_, rest)| rest.split('"').next()) else {
                return false;
            };
            let (name, options) = json.split_once(',').unwrap_or((json, ""));
            if name == "-" {
                return false;
            }
            if name.is_empty() && flags & 8 != 0 {
                let inner = if self.kind(of) == POINTER { self.pointer(of + ELEMENT) } else { of };
                self.fields_of(inner, fields);
                continue;
            }
            let mark = match (options.contains("omitzero"), options.contains("omitempty")) {
                (true, _) => "??",
                (false, true) => "?",
                (false, false) => "",
            };
            fields.insert(name.to_owned(), format!("{}{mark}", self.type_name(of)));
        }
        true
    }
}
