//! Octets in the kernel's format.

/// An attribute around a value.
pub fn nested(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let header = u16::try_from(length).unwrap().to_ne_bytes();
    let mut attribute = [&header[..], &kind.to_ne_bytes(), value].concat();
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

/// A number of 4 octets, in network order.
pub fn number(kind: u16, number: u32) -> Vec<u8> {
    nested(kind, &number.to_be_bytes())
}

/// An expression of a rule.
pub fn expression(name: &str, data: &[u8]) -> Vec<u8> {
    let name = [name.as_bytes(), &[0]].concat();
    nested(1, &[nested(1, &name), nested(2, data)].concat())
}
