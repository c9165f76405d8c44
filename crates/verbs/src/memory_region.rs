//! Memory regions.

use std::ops::RangeBounds;

use uroce_memory::{
    Access, AtomicError, DeregError, Lkey, Mr, MrId, OutOfRange, RegMrError, Region, Rereg,
    ReregError, Rkey, Sge,
};

use crate::error::AllocMrError;
use crate::protection_domain::ProtectionDomain;
use crate::range::{start_and_length, wire_length};
use crate::remote::RemoteSlice;

/// A registered region of memory (`ibv_mr`). Dropping it deregisters it.
///
/// A peer that holds the rkey can change the bytes at any time, so they are copied in and out and
/// never lent as a slice. A copy that meets a concurrent change may see some old and some new
/// bytes; 8-byte words can be read and written whole.
///
/// Work requests name the region by its key. One that is still queued when the region goes fails
/// with a local protection error; nothing dangles. A region that a memory window is bound to stays
/// registered until the window has gone as well (B40). A program that registered memory of its own
/// ([`Region::from_raw`]) calls [`deregister`](Self::deregister) before it frees that memory: the call says whether the
/// device is done with it.
///
/// ```
/// # use uroce_verbs::*;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = Context::builder().address([10, 0, 0, 1]).loopback(&LoopbackFabric::new()).open()?;
/// # let pd = context.alloc_pd()?;
/// let mr = pd.alloc_mr(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
/// mr.write(0, b"hello")?;
/// let mut bytes = [0; 5];
/// mr.read(0, &mut bytes)?;
/// assert_eq!(&bytes, b"hello");
/// let to_the_peer = mr.remote().to_bytes(); // what its WRITEs name
/// let send = SendWr::send(1, &[mr.sge(..5)]); // what work requests of this side name
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryRegion {
    mr: Mr,
    iova: u64,
    access: Access,
    region: Region,
    pd: ProtectionDomain,
}

/// Where users of the key see the first byte.
fn first_address(iova: u64, access: Access) -> u64 {
    if access.contains(Access::ZERO_BASED) { 0 } else { iova }
}

impl ProtectionDomain {
    /// Allocates `len` zeroed bytes and registers them at the address where they are. Without
    /// [`Access::LOCAL_WRITE`] neither receives nor READs may fill the region.
    ///
    /// # Errors
    /// [`AllocMrError`]: no memory, or rights that do not go together.
    pub fn alloc_mr(&self, len: usize, access: Access) -> Result<MemoryRegion, AllocMrError> {
        Ok(self.reg_mr(Region::alloc(len)?, access)?)
    }

    /// Registers a region at the address where it is (`ibv_reg_mr`).
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr(&self, region: Region, access: Access) -> Result<MemoryRegion, RegMrError> {
        let iova = region.addr();
        self.reg_mr_iova(region, iova, access)
    }

    /// Registers a region (`ibv_reg_mr_iova`); work requests and peers address its first byte as
    /// `iova`. With [`Access::ZERO_BASED`] that is 0, whatever `iova` says.
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr_iova(
        &self,
        region: Region,
        iova: u64,
        access: Access,
    ) -> Result<MemoryRegion, RegMrError> {
        MemoryRegion::new(self, region, iova, access)
    }
}

impl MemoryRegion {
    pub(crate) fn new(
        pd: &ProtectionDomain,
        region: Region,
        iova: u64,
        access: Access,
    ) -> Result<Self, RegMrError> {
        let iova = first_address(iova, access);
        let mr = pd.context().device().memory().reg_mr(pd.id(), region.clone(), iova, access)?;
        Ok(MemoryRegion { mr, iova, access, region, pd: pd.clone() })
    }

    /// The number of the region inside its device, for display.
    pub fn id(&self) -> MrId {
        self.mr.id
    }

    /// Key for work requests of this side.
    pub fn lkey(&self) -> Lkey {
        self.mr.lkey
    }

    /// Key for peers. Whoever has it may do what [`access`](Self::access) allows.
    pub fn rkey(&self) -> Rkey {
        self.mr.rkey
    }

    /// Address of the first byte, as work requests and peers see it.
    pub fn addr(&self) -> u64 {
        self.iova
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    /// The rights that the region is registered with.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The bytes of the region, to be registered once more, or to be kept beyond the registration.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The protection domain of this region.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// Copies `out.len()` bytes at `offset` into `out`.
    ///
    /// # Errors
    /// [`OutOfRange`], with `out` untouched.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.region.read(offset, out)
    }

    /// Copies `data` to `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        self.region.write(offset, data)
    }

    /// Sets `len` bytes at `offset` to `byte`.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), OutOfRange> {
        self.region.fill(offset, len, byte)
    }

    /// Reads 8 bytes at once, in host order, with sequential consistency. Atomic with respect to
    /// RDMA atomics of peers.
    ///
    /// # Errors
    /// [`AtomicError`] when `offset` is not a multiple of 8 or outside the region.
    pub fn load_u64(&self, offset: usize) -> Result<u64, AtomicError> {
        self.region.load_u64(offset)
    }

    /// Writes 8 bytes at once, in host order, with sequential consistency. Atomic with respect to
    /// RDMA atomics of peers.
    ///
    /// # Errors
    /// [`AtomicError`] when `offset` is not a multiple of 8 or outside the region.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), AtomicError> {
        self.region.store_u64(offset, value)
    }

    /// A part of the region as an entry of a scatter/gather list.
    ///
    /// A range that reaches beyond the region is not cut: the work request will complete with a local
    /// protection error that says by how much.
    pub fn sge(&self, range: impl RangeBounds<usize>) -> Sge {
        let (start, length) = start_and_length(range, self.len());
        let addr = self.iova.wrapping_add(start);
        Sge { addr, length: wire_length(length), lkey: self.lkey() }
    }

    /// The whole region as a peer names it: its address, rkey and length, to be sent to peers that shall have access.
    pub fn remote(&self) -> RemoteSlice {
        RemoteSlice::new(self.iova, self.rkey(), self.len() as u64)
    }

    /// Changes the rights (`ibv_rereg_mr`); the keys stay.
    ///
    /// # Errors
    /// [`ReregError`]: the rights do not go together, or a window is bound. The region is then as it was.
    pub fn set_access(&mut self, access: Access) -> Result<(), ReregError> {
        self.rereg(Rereg { access: Some(access), ..Rereg::default() })?;
        self.access = access;
        Ok(())
    }

    /// Moves the region to another protection domain of its device (`ibv_rereg_mr`).
    ///
    /// # Errors
    /// [`ReregError`]: the domain is of another device, or a window is bound. The region is then as it
    /// was.
    pub fn set_pd(&mut self, pd: &ProtectionDomain) -> Result<(), ReregError> {
        if !pd.context().is(self.pd.context()) {
            return Err(ReregError::Reg(RegMrError::UnknownPd));
        }
        self.rereg(Rereg { pd: Some(pd.id()), ..Rereg::default() })?;
        self.pd = pd.clone();
        Ok(())
    }

    /// Replaces the memory behind the registration (`ibv_rereg_mr`). The keys change.
    ///
    /// # Errors
    /// [`ReregError`]. The region is then as it was.
    pub fn set_region(&mut self, region: Region, iova: u64) -> Result<(), ReregError> {
        let iova = first_address(iova, self.access);
        let translation = Some((region.clone(), iova));
        self.rereg(Rereg { translation, ..Rereg::default() })?;
        (self.region, self.iova) = (region, iova);
        Ok(())
    }

    fn rereg(&mut self, change: Rereg) -> Result<(), ReregError> {
        self.mr = self.pd.context().device().memory().rereg_mr(self.mr.id, change)?;
        Ok(())
    }

    /// Deregisters now (`ibv_dereg_mr`). When this succeeds, no packet reaches the memory any more.
    ///
    /// # Errors
    /// [`DeregError::Busy`] while a window is bound to the region, which comes back with the error.
    pub fn deregister(self) -> Result<(), (MemoryRegion, DeregError)> {
        match self.pd.context().device().memory().dereg_mr(self.mr.id) {
            Ok(()) => Ok(()), // the drop that follows finds nothing, and does nothing
            Err(error) => Err((self, error)),
        }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        self.pd.drop_mr(self.mr.id);
    }
}
