//! Which instructions this CPU has, as a value that proves it.

use crate::KernelError;

/// An instruction set that kernels are written for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Isa {
    /// Plain Rust.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// The same, with 8-bit dot products (VNNI).
    Avx512Vnni,
}

impl Isa {
    /// All of them, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Vnni];

    #[cfg(target_arch = "x86_64")]
    fn is_present(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match self {
            Self::Portable => true,
            Self::Avx2 => avx2,
            Self::Avx512 => avx512,
            Self::Avx512Vnni => avx512 && is_x86_feature_detected!("avx512vnni"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_present(self) -> bool {
        matches!(self, Self::Portable)
    }
}

/// Proof that this CPU has an instruction set: kernels take it instead of an [`Isa`], so none is called in vain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cpu(Isa);

impl Cpu {
    /// Proves that `isa` is here.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`] when it is not.
    pub fn with(isa: Isa) -> Result<Self, KernelError> {
        if isa.is_present() { Ok(Self(isa)) } else { Err(KernelError::Unsupported { isa }) }
    }

    /// The fastest that is here.
    #[must_use]
    pub fn best() -> Self {
        Self(Isa::ALL.into_iter().rfind(|isa| isa.is_present()).unwrap_or(Isa::Portable))
    }

    /// Each that is here, slowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        Isa::ALL.into_iter().filter(|isa| isa.is_present()).map(Self)
    }

    /// Which it is.
    #[must_use]
    pub const fn isa(self) -> Isa {
        self.0
    }
}

/// Compiles one body of plain Rust for each instruction set. The compiler may use wider registers, never another order of
/// floating-point operations, so each version gives the same bits.
macro_rules! versions {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)? = $body:ident) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "a kernel takes what it takes")]
        $vis fn $name(cpu: crate::Cpu, $($arg: $ty),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments, reason = "a kernel takes what it takes")]
            fn avx2($($arg: $ty),*) $(-> $out)? { $body($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments, reason = "a kernel takes what it takes")]
            fn avx512($($arg: $ty),*) $(-> $out)? { $body($($arg),*) }
            match cpu.isa() {
                crate::Isa::Portable => $body($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // JUSTIFICATION: the same source, compiled for wider registers.
                // SAFETY: a `Cpu` is made only after the CPU was asked for these features.
                crate::Isa::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // JUSTIFICATION: the same source, compiled for wider registers.
                // SAFETY: a `Cpu` is made only after the CPU was asked for these features.
                crate::Isa::Avx512 | crate::Isa::Avx512Vnni => unsafe { avx512($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                crate::Isa::Avx2 | crate::Isa::Avx512 | crate::Isa::Avx512Vnni => $body($($arg),*),
            }
        }
    };
}
pub(crate) use versions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_last_of_all() {
        assert_eq!(Cpu::all().last(), Some(Cpu::best()));
        assert_eq!(Cpu::all().next(), Cpu::with(Isa::Portable).ok());
    }
}
