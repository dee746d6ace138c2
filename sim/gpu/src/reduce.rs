//! What a reduction does with numbers.

use std::ffi::c_int;

use crate::error::{Error, Outcome};

/// `ncclDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
}

/// `ncclRedOp_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Sum,
    Product,
    Maximum,
    Minimum,
    Average,
}

impl Numbers {
    pub(crate) fn new(number: c_int) -> Outcome<Self> {
        use Numbers::*;
        let all = [I8, U8, I32, U32, I64, U64, F16, F32, F64, Bf16];
        usize::try_from(number).ok().and_then(|at| all.get(at).copied()).ok_or(Error::INVALID_VALUE)
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

impl Operation {
    pub(crate) fn new(number: c_int) -> Outcome<Self> {
        use Operation::*;
        let all = [Sum, Product, Maximum, Minimum, Average];
        usize::try_from(number).ok().and_then(|at| all.get(at).copied()).ok_or(Error::INVALID_VALUE)
    }
}

/// Reduces the sources, each of as many bytes, in their order: every rank comes to the same.
///
/// # Safety
/// All ranges are as long as `bytes` says, which is a multiple of the numbers' size.
pub(crate) unsafe fn reduce(
    to: *mut u8,
    sources: &[*const u8],
    bytes: usize,
    numbers: Numbers,
    operation: Operation,
) {
    macro_rules! integers {
        ($type:ty) => {{
            let combine: fn($type, $type) -> $type = match operation {
                Operation::Sum | Operation::Average => <$type>::wrapping_add,
                Operation::Product => <$type>::wrapping_mul,
                Operation::Maximum => <$type>::max,
                Operation::Minimum => <$type>::min,
            };
            let count = sources.len() as $type;
            let finish = |sum: $type| if operation == Operation::Average { sum / count } else { sum };
            let whole = |value| <$type>::to_le_bytes(finish(value));
            // SAFETY: as this function's own.
            unsafe { each(to, sources, bytes, <$type>::from_le_bytes, whole, combine) }
        }};
    }
    macro_rules! floats {
        ($type:ty, $read:expr, $write:expr) => {{
            let combine: fn($type, $type) -> $type = match operation {
                Operation::Sum | Operation::Average => |a, b| a + b,
                Operation::Product => |a, b| a * b,
                Operation::Maximum => <$type>::max,
                Operation::Minimum => <$type>::min,
            };
            let count = sources.len() as $type;
            let finish = |sum: $type| if operation == Operation::Average { sum / count } else { sum };
            // SAFETY: as this function's own.
            unsafe { each(to, sources, bytes, $read, |value| $write(finish(value)), combine) }
        }};
    }
    match numbers {
        Numbers::I8 => integers!(i8),
        Numbers::U8 => integers!(u8),
        Numbers::I32 => integers!(i32),
        Numbers::U32 => integers!(u32),
        Numbers::I64 => integers!(i64),
        Numbers::U64 => integers!(u64),
        Numbers::F32 => floats!(f32, f32::from_le_bytes, f32::to_le_bytes),
        Numbers::F64 => floats!(f64, f64::from_le_bytes, f64::to_le_bytes),
        Numbers::F16 => {
            floats!(f32, |bytes| from_half(u16::from_le_bytes(bytes)), |value| to_half(value).to_le_bytes())
        }
        Numbers::Bf16 => {
            floats!(f32, |bytes| from_brain(u16::from_le_bytes(bytes)), |value| to_brain(value).to_le_bytes())
        }
    }
}

/// # Safety
/// As `reduce`'s.
unsafe fn each<T: Copy, const SIZE: usize>(
    to: *mut u8,
    sources: &[*const u8],
    bytes: usize,
    read: impl Fn([u8; SIZE]) -> T,
    write: impl Fn(T) -> [u8; SIZE],
    combine: impl Fn(T, T) -> T,
) {
    let Some((first, others)) = sources.split_first() else { return };
    // SAFETY: within the ranges; any alignment is right for bytes.
    let at =
        |source: &*const u8, offset: usize| unsafe { read(source.add(offset).cast::<[u8; SIZE]>().read()) };
    for offset in (0..bytes).step_by(SIZE) {
        let value = others.iter().fold(at(first, offset), |value, source| combine(value, at(source, offset)));
        // SAFETY: as above.
        unsafe { to.add(offset).cast::<[u8; SIZE]>().write(write(value)) };
    }
}

/// Half precision: 1 sign, 5 exponent, 10 fraction bits.
fn from_half(half: u16) -> f32 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f32::from(half & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

/// Rounds to the nearest, ties to even.
fn to_half(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    // Half of the step above the greatest number rounds to infinity.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The step between neighbours here; the smallest one below the normal numbers.
    let exponent = ((size.to_bits() >> 23) as i32 - 127).max(-14);
    let steps = (size / 2f32.powi(exponent - 10)).round_ties_even() as u16;
    // A normal number has its leading bit among the steps, which is what the exponent counts one less for; rounding up
    // into the next exponent comes out right by itself.
    sign | (((exponent + 14) as u16) << 10).wrapping_add(steps)
}

/// bfloat16: the upper half of a float.
fn from_brain(brain: u16) -> f32 {
    f32::from_bits(u32::from(brain) << 16)
}

/// Rounds to the nearest, ties to even.
fn to_brain(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_halves_come_back_as_they_were() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if value.is_nan() {
                assert!(from_half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), half, "{value}");
            }
        }
    }

    #[test]
    fn halves_round_to_the_nearest_and_ties_to_even() {
        assert_eq!(to_half(1.0), 0x3c00);
        assert_eq!(to_half(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(to_half(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(to_half(65519.0), 0x7bff);
        assert_eq!(to_half(65520.0), 0x7c00);
        assert_eq!(to_half(2f32.powi(-26)), 0);
        assert_eq!(to_half(-2f32.powi(-14) + 2f32.powi(-26)), 0x8400);
    }

    #[test]
    fn brain_floats_round_to_the_nearest() {
        assert_eq!(to_brain(1.0), 0x3f80);
        assert_eq!(to_brain(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_brain(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert!(from_brain(to_brain(f32::NAN)).is_nan());
        assert_eq!(from_brain(to_brain(f32::NEG_INFINITY)), f32::NEG_INFINITY);
    }

    #[test]
    fn each_operation_does_what_its_name_says() {
        let sources =
            [[1i32, -5, 7].map(i32::to_le_bytes).concat(), [3i32, 2, 8].map(i32::to_le_bytes).concat()];
        let pointers = sources.each_ref().map(|source| source.as_ptr());
        for (operation, expected) in [
            (Operation::Sum, [4, -3, 15]),
            (Operation::Product, [3, -10, 56]),
            (Operation::Maximum, [3, 2, 8]),
            (Operation::Minimum, [1, -5, 7]),
            (Operation::Average, [2, -1, 7]),
        ] {
            let mut out = [0u8; 12];
            // SAFETY: three numbers everywhere.
            unsafe { reduce(out.as_mut_ptr(), &pointers, 12, Numbers::I32, operation) };
            assert_eq!(out.to_vec(), expected.map(i32::to_le_bytes).concat(), "{operation:?}");
        }
    }
}
