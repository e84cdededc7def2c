//! Packs of a server that means no good: small ones that grow, and ones that lack something or are damaged.

use std::collections::BTreeMap;
use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::hostile_answers::{Body, CAPABILITIES, Says, all_are_refused, fetched_from, named, pkt, sends};
use crate::support::repository::Repository;

/// zlib without compression.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap();
        packed.push(u8::from(blocks.peek().is_none()));
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    packed.extend(((b << 16) | a).to_be_bytes());
    packed
}

/// zlib of so many zeros, without an end: 13 bits for 258 of them.
fn zeros(count: usize) -> Vec<u8> {
    // The last block, with the fixed codes; a zero as such; and then it 258 times, again and again: length 258, distance 1.
    let mut bits = vec![true, true, false, false, false, true, true, false, false, false, false];
    for _ in 0..16 {
        bits.extend([true, true, false, false, false, true, false, true]);
        bits.extend([false; 5]);
    }
    let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | (u8::from(*bit) << at));
    let bytes: Vec<u8> = bits.chunks_exact(8).map(byte).collect();
    // Behind the first two bytes they repeat after 13: eight lengths.
    let again = bytes[2..15].repeat(count / 258 / 8);
    [&[0x78, 0x01][..], &bytes[..2], &again].concat()
}

/// The head of an object in a pack.
fn head(kind: u8, mut size: u64) -> Vec<u8> {
    let mut bytes = vec![(kind << 4) | u8::try_from(size & 15).unwrap()];
    size >>= 4;
    while size > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(u8::try_from(size & 0x7f).unwrap());
        size >>= 7;
    }
    bytes
}

const BLOB: u8 = 3;
const REF_DELTA: u8 = 7;

/// A pack of so many objects, with the right sum at its end.
fn pack(count: u32, objects: &[u8]) -> Vec<u8> {
    let mut pack = [b"PACK", &2_u32.to_be_bytes()[..], &count.to_be_bytes(), objects].concat();
    pack.extend(Sha1::digest(&pack));
    pack
}

/// An answer with this pack.
fn with_pack(pack: &[u8]) -> Body {
    let mut said = b"0008NAK\n".to_vec();
    for part in pack.chunks(60_000) {
        said.extend(pkt(&[&[1], part].concat()));
    }
    said.extend(b"0000");
    Body::of(said)
}

fn size(mut size: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(size & 0x7f).unwrap();
        size >>= 7;
        bytes.push(if size > 0 { low | 0x80 } else { low });
        if size == 0 {
            return bytes;
        }
    }
}

/// An object that is a base, copied so many times.
fn copies(base: &[u8], times: u64) -> Vec<u8> {
    let blob = [format!("blob {}\0", base.len()).as_bytes(), base].concat();
    let length = u16::try_from(base.len()).unwrap().to_le_bytes();
    let copy = [0x80 | 0x30, length[0], length[1]].repeat(usize::try_from(times).unwrap());
    let delta = [size(base.len() as u64), size(base.len() as u64 * times), copy].concat();
    [head(REF_DELTA, delta.len() as u64), Sha1::digest(&blob).to_vec(), stored(&delta)].concat()
}

#[test]
fn packs_that_grow() {
    let base = vec![b'a'; 60_000];
    let whole = [head(BLOB, base.len() as u64), stored(&base)].concat();
    let grows = |times: u64, count: u32| {
        let one = copies(&base, times);
        pack(count + 1, &[whole.clone(), one.repeat(count as usize)].concat())
    };
    let bomb = |declared: u64| pack(1, &[head(BLOB, declared), zeros(4 << 30)].concat());
    let another = |number: u32| [&number.to_be_bytes()[..], &base[..]].concat();
    let blob = |bytes: Vec<u8>| [head(BLOB, bytes.len() as u64), stored(&bytes)].concat();
    let many: Vec<u8> = (0..1000).flat_map(|number| blob(another(number))).collect();
    let refused: &[&str] = &["takes more memory", "took longer", "failed to fetch", "did not send all"];
    all_are_refused(vec![
        ("a difference of a gigabyte", sends(with_pack(&grows(20_000, 1))), refused),
        ("many differences of 60 MB", sends(with_pack(&grows(1000, 3000))), refused),
        ("4 GiB of zeros in a blob", sends(with_pack(&bomb(4 << 30))), refused),
        ("4 GiB of zeros in a blob of a byte", sends(with_pack(&bomb(1))), refused),
        ("a blob that says it is larger than any", sends(with_pack(&bomb(u64::MAX >> 4))), refused),
        ("four thousand million objects", sends(with_pack(&pack(u32::MAX, &whole))), refused),
        ("a difference to itself", sends(with_pack(&pack(1, &copies(&base, 1)))), &["failed to fetch", "did not send"]),
        ("more than a fetch may bring", sends(with_pack(&pack(1000, &many))), &["the limit is 33554432"]),
    ]);
}

/// Packs of a real commit that lack something, or are damaged.
#[test]
fn packs_that_are_not_whole() {
    let mut repository = Repository::new();
    repository.write("a.yaml", "one").write("folder/b.yaml", "two");
    let first = repository.commit("First");
    repository.write("folder/b.yaml", "three");
    let second = repository.commit("Second");
    repository.push();
    let bare = git2::Repository::open_bare(repository.path()).unwrap();
    let at = |commit: &str, path: &str| {
        let tree = bare.find_commit(commit.parse().unwrap()).unwrap().tree().unwrap();
        let entry = tree.get_path(Path::new(path)).unwrap();
        (entry.id(), format!("{path} of {commit}"))
    };
    let tree = |commit: &str| bare.find_commit(commit.parse().unwrap()).unwrap().tree_id();
    let mut objects: BTreeMap<git2::Oid, String> =
        [at(&first, "a.yaml"), at(&first, "folder"), at(&first, "folder/b.yaml")].into();
    objects.extend([at(&second, "folder"), at(&second, "folder/b.yaml")]);
    for commit in [&first, &second] {
        objects.insert(commit.parse().unwrap(), format!("commit {commit}"));
        objects.insert(tree(commit), format!("tree of {commit}"));
    }
    assert_eq!(objects.len(), 9);
    let without = |lacking: Option<&git2::Oid>| {
        let mut builder = bare.packbuilder().unwrap();
        for id in objects.keys().filter(|id| Some(*id) != lacking) {
            builder.insert_object(*id, None).unwrap();
        }
        let mut bytes = git2::Buf::new();
        builder.write_buf(&mut bytes).unwrap();
        bytes.to_vec()
    };
    let references = named(&[(&second, "HEAD"), (&second, "refs/heads/main")], CAPABILITIES);
    let says = |pack: &[u8]| Says { references: Body::of(references.clone()), ..sends(with_pack(pack)) };
    let whole = without(None);
    let (came, sent) = fetched_from(&repository, says(&whole));
    assert_eq!((came.said, came.head), (format!("took {second}"), format!("{:?}", Some(&second))));
    assert!(sent > whole.len() as u64);

    let lacking = "it did not send all";
    for (id, what) in &objects {
        let (came, _) = fetched_from(&repository, says(&without(Some(id))));
        assert!(came.said.contains(lacking) && came.said.contains(&id.to_string()[..7]), "{what}: {}", came.said);
        assert_eq!(came.head, "None", "{what}: {}", came.said);
    }
    let mut wrong = whole.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let mut broken = whole.clone();
    broken[20] ^= 0x55;
    for (what, pack) in
        [("a wrong sum", wrong), ("a damaged object", broken), ("another format", b"PACK\0\0\0\x09".to_vec())]
    {
        let (came, _) = fetched_from(&repository, says(&pack));
        assert!(came.said.contains("failed to fetch"), "{what}: {}", came.said);
        assert_eq!(came.head, "None", "{what}: {}", came.said);
    }
    for length in [0, 4, 11, 12, 13, 40, whole.len() - 20, whole.len() - 1] {
        let (came, _) = fetched_from(&repository, says(&whole[..length]));
        assert_eq!(came.head, "None", "cut off after {length}: {}", came.said);
    }
}
