//! Which engine has what.

use std::slice;
use std::sync::{Arc, MutexGuard};

use uroce_cm::CommId;
use uroce_transport::{CqId, SrqId, XrcdId};
use uroce_wire::Qpn;

use super::Device;
use crate::engine::Engine;
use crate::engines::shared::Shared;
use crate::engines::{Engines, engine_of_object};
use crate::error::CreateError;

impl Device {
    /// How many engines the device has: the number of its completion vectors.
    pub fn engine_count(&self) -> usize {
        self.engines().len()
    }

    pub(super) fn engines(&self) -> &[Arc<Shared>] {
        match &self.0.several {
            None => slice::from_ref(&self.0.shared),
            Some(engines) => engines.all(),
        }
    }

    /// The engine of the device that `find` finds, if there is a choice.
    #[inline]
    fn engine<'a>(&'a self, find: impl FnOnce(&'a Engines) -> &'a Shared) -> &'a Shared {
        match &self.0.several {
            None => &self.0.shared,
            Some(engines) => find(engines),
        }
    }

    #[inline]
    pub(super) fn of_qp(&self, qpn: Qpn) -> &Shared {
        self.engine(|engines| engines.of_qp(qpn))
    }

    #[inline]
    pub(super) fn of_cq(&self, cq: CqId) -> &Shared {
        self.engine(|engines| engines.of_object(cq.0))
    }

    #[inline]
    pub(super) fn of_srq(&self, srq: SrqId) -> &Shared {
        self.engine(|engines| engines.of_object(srq.0))
    }

    pub(super) fn of_xrcd(&self, xrcd: XrcdId) -> &Shared {
        self.engine(|engines| engines.of_object(xrcd.0))
    }

    /// The engine that gave out the id: that of the queue pair which called, and the first one for calls that
    /// came.
    pub(super) fn of_connection(&self, id: CommId) -> &Shared {
        self.engine(|engines| engines.of_connection(id))
    }

    /// The engine of a completion vector.
    pub(super) fn of_vector(&self, vector: u32) -> Result<&Shared, CreateError> {
        let engines = self.engines();
        let found = usize::try_from(vector).ok().and_then(|vector| engines.get(vector));
        let none = CreateError::CompVector { asked: vector, engines: engines.len() };
        found.map(Arc::as_ref).ok_or(none)
    }

    /// Objects with these numbers can work together.
    pub(super) fn check_together(
        &self,
        (what, one): (&'static str, u32),
        (with, other): (&'static str, u32),
    ) -> Result<(), CreateError> {
        let (engine, home) = (engine_of_object(one), engine_of_object(other));
        if self.0.several.is_none() || engine == home {
            return Ok(());
        }
        Err(CreateError::OtherEngine { what, engine, with, home })
    }

    /// Refuses one more of `what` when all engines together have `limit` of them. Hold the guard until it is
    /// made. One engine counts for itself.
    pub(super) fn room_for_one(
        &self,
        what: &'static str,
        limit: usize,
        count: impl Fn(&Engine) -> usize,
    ) -> Result<Option<MutexGuard<'_, ()>>, CreateError> {
        let Some(engines) = &self.0.several else { return Ok(None) };
        let order = engines.order();
        let made: usize = engines.all().iter().map(|shared| count(&shared.lock())).sum();
        if made >= limit {
            return Err(CreateError::LimitReached { what, limit });
        }
        Ok(Some(order))
    }
}
