//! Any serializable value as bytes that are equal exactly if the values mean the same.

use std::fmt::Display;

use serde::ser::{self, Serialize};

use kube_rules::Quantity;

/// The power of ten of the smallest amount that a quantity has.
const BILLIONTHS: i32 = -9;

/// Returns the bytes of `value`; map entries named `without` are left out.
pub fn bytes<T: Serialize>(value: &T, without: &str) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(1024), without };
    // Kubernetes' types have string keys and plain values, so this can't fail; if it did, the bytes so far would differ
    // from those of anything whole.
    if value.serialize(&mut writer).is_err() {
        writer.out.push(b'!');
    }
    writer.out
}

struct Writer<'a> {
    out: Vec<u8>,
    without: &'a str,
}

/// The choice if the written text says anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Something,
    Nothing,
}

#[derive(Debug)]
struct Unwritable;

impl Display for Unwritable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value that has no canonical form")
    }
}

impl std::error::Error for Unwritable {}

impl ser::Error for Unwritable {
    fn custom<T: Display>(_: T) -> Unwritable {
        Unwritable
    }
}

impl Writer<'_> {
    fn text(&mut self, tag: u8, text: &[u8]) -> Result<Said, Unwritable> {
        self.out.push(tag);
        self.out.extend_from_slice(text.len().to_string().as_bytes());
        self.out.push(b':');
        self.out.extend_from_slice(text);
        Ok(Said::Something)
    }

    fn number(&mut self, number: impl Display) -> Result<Said, Unwritable> {
        self.text(b'n', number.to_string().as_bytes())
    }
}

/// A list, map or struct under way.
struct Inside<'w, 'a> {
    writer: &'w mut Writer<'a>,
    start: usize,
    entries: usize,
    /// The beginning of a map entry's key.
    key: usize,
}

impl Inside<'_, '_> {
    fn close(self, tag: u8) -> Said {
        if self.entries == 0 {
            self.writer.out.truncate(self.start);
            return Said::Nothing;
        }
        self.writer.out.push(tag);
        Said::Something
    }
}

impl<'w, 'a> ser::Serializer for &'w mut Writer<'a> {
    type Ok = Said;
    type Error = Unwritable;
    type SerializeSeq = Inside<'w, 'a>;
    type SerializeTuple = ser::Impossible<Said, Unwritable>;
    type SerializeTupleStruct = ser::Impossible<Said, Unwritable>;
    type SerializeTupleVariant = ser::Impossible<Said, Unwritable>;
    type SerializeMap = Inside<'w, 'a>;
    type SerializeStruct = Inside<'w, 'a>;
    type SerializeStructVariant = ser::Impossible<Said, Unwritable>;

    fn serialize_bool(self, value: bool) -> Result<Said, Unwritable> {
        self.text(b'b', if value { b"1" } else { b"0" })
    }
    fn serialize_i8(self, value: i8) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_i16(self, value: i16) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_i32(self, value: i32) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_i64(self, value: i64) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_u8(self, value: u8) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_u16(self, value: u16) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_u32(self, value: u32) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_u64(self, value: u64) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_f32(self, value: f32) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_f64(self, value: f64) -> Result<Said, Unwritable> {
        self.number(value)
    }
    fn serialize_char(self, value: char) -> Result<Said, Unwritable> {
        self.text(b's', value.to_string().as_bytes())
    }
    fn serialize_str(self, value: &str) -> Result<Said, Unwritable> {
        self.text(b's', value.as_bytes())
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<Said, Unwritable> {
        self.text(b'y', value)
    }
    fn serialize_none(self) -> Result<Said, Unwritable> {
        Ok(Said::Nothing)
    }
    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<Said, Unwritable> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<Said, Unwritable> {
        Ok(Said::Nothing)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Said, Unwritable> {
        Ok(Said::Nothing)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Said, Unwritable> {
        self.text(b's', variant.as_bytes())
    }
    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Said, Unwritable> {
        let start = self.out.len();
        let said = value.serialize(&mut *self)?;
        if name == "Quantity" {
            let text = self.out[start..].split(|byte| *byte == b':').nth(1).unwrap_or_default();
            if let Some(amount) = std::str::from_utf8(text).ok().and_then(|text| Quantity::parse(text).ok()) {
                self.out.truncate(start);
                return self.text(b'q', amount.in_units_of(BILLIONTHS).to_string().as_bytes());
            }
        }
        Ok(said)
    }
    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Said, Unwritable> {
        self.text(b's', variant.as_bytes())?;
        value.serialize(self)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Inside<'w, 'a>, Unwritable> {
        let start = self.out.len();
        self.out.push(b'[');
        Ok(Inside { writer: self, start, entries: 0, key: 0 })
    }
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Unwritable> {
        Err(Unwritable)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Unwritable> {
        Err(Unwritable)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        Err(Unwritable)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Inside<'w, 'a>, Unwritable> {
        let start = self.out.len();
        self.out.push(b'{');
        Ok(Inside { writer: self, start, entries: 0, key: 0 })
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside<'w, 'a>, Unwritable> {
        self.serialize_map(None)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritable> {
        Err(Unwritable)
    }
}

impl ser::SerializeSeq for Inside<'_, '_> {
    type Ok = Said;
    type Error = Unwritable;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.entries += 1;
        // An element that says nothing still takes its place.
        if value.serialize(&mut *self.writer)? == Said::Nothing {
            self.writer.out.push(b'-');
        }
        Ok(())
    }

    fn end(self) -> Result<Said, Unwritable> {
        Ok(self.close(b']'))
    }
}

impl ser::SerializeMap for Inside<'_, '_> {
    type Ok = Said;
    type Error = Unwritable;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.key = self.writer.out.len();
        key.serialize(&mut *self.writer).map(drop)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Unwritable> {
        let without = self.writer.without;
        let key = &self.writer.out[self.key..];
        let left_out =
            !without.is_empty() && key == [format!("s{}:", without.len()).as_bytes(), without.as_bytes()].concat();
        // In a map, a key counts even if its value says nothing.
        if !left_out && value.serialize(&mut *self.writer)? == Said::Nothing {
            self.writer.out.push(b'-');
        }
        if left_out {
            self.writer.out.truncate(self.key);
        } else {
            self.entries += 1;
        }
        Ok(())
    }

    fn end(self) -> Result<Said, Unwritable> {
        Ok(self.close(b'}'))
    }
}

impl ser::SerializeStruct for Inside<'_, '_> {
    type Ok = Said;
    type Error = Unwritable;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Unwritable> {
        let start = self.writer.out.len();
        self.writer.text(b'f', name.as_bytes())?;
        let before = self.writer.out.len();
        let said = value.serialize(&mut *self.writer)?;
        // `resources: {}` stands in every container without any; elsewhere an empty block is there on purpose.
        let empty_block = name == "resources" && self.writer.out[before..] == *b"{}";
        if said == Said::Nothing || empty_block {
            self.writer.out.truncate(start);
        } else {
            self.entries += 1;
        }
        Ok(())
    }

    fn end(self) -> Result<Said, Unwritable> {
        self.writer.out.push(b'}');
        Ok(Said::Something)
    }
}
