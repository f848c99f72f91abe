//! aya reads and writes these as plain bytes.

macro_rules! pod {
    ($($layout:ty),*) => {$(
        // SAFETY: `repr(C)`, Copy, 'static and without implicit padding (see the tests of their files). Enums
        // inside are written by epguard only; whoever reads them from a foreign map validates them first.
        unsafe impl aya::Pod for $layout {}
    )*};
}

pod!(
    crate::Addr,
    crate::Config,
    crate::View,
    crate::Owner,
    crate::Suspect,
    crate::Vip,
    crate::Slot,
    crate::SocketIntent,
    crate::Sender,
    crate::Aimed,
    crate::Backends,
    crate::Flow,
    crate::Steered,
    crate::Direct,
    crate::Return,
    crate::Target,
    crate::Denial,
    crate::Counter,
    crate::Count
);
