//! aya reads and writes these as plain bytes.

macro_rules! pod {
    ($($layout:ty),*) => {$(
        // SAFETY: `repr(C)`, Copy, 'static, integers only and without implicit padding (see the
        // tests of their files).
        unsafe impl aya::Pod for $layout {}
    )*};
}

pod!(
    crate::Addr,
    crate::RawConfig,
    crate::View,
    crate::Gate,
    crate::Owner,
    crate::Vip,
    crate::Flow,
    crate::DenialKey,
    crate::Count,
    crate::DenialCount,
    crate::Keyed<crate::Addr, crate::Suspect>,
    crate::Keyed<crate::Addr, crate::Terminated>,
    crate::Keyed<crate::Vip, crate::ServiceNumber>,
    crate::Keyed<crate::DenialKey, crate::RawDenial>,
    crate::Keyed<crate::DenialKey, crate::Backends>,
    crate::Keyed<crate::Flow, crate::Redirected>,
    crate::Keyed<crate::Flow, crate::Return>,
    crate::Keyed<u32, crate::RawRole>
);
