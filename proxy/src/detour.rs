//! The future of a layer that usually does nothing: the next layer's own future, or a detour where there is work.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pin_project_lite::pin_project! {
    /// Straight on, or by a detour. Only the detour costs an allocation.
    #[project = Way]
    pub(crate) enum Detour<F: Future> {
        // The next layer's future as it is.
        Straight {
            // It.
            #[pin]
            next: F,
        },
        // Something else first.
        Around {
            // All of it, with the next layer's future inside.
            way: Boxed<F::Output>,
        },
    }
}

impl<F: Future> Detour<F> {
    pub(crate) const fn straight(next: F) -> Self {
        Self::Straight { next }
    }

    pub(crate) fn around(way: impl Future<Output = F::Output> + Send + 'static) -> Self {
        Self::Around { way: Box::pin(way) }
    }
}

impl<F: Future> Future for Detour<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            Way::Straight { next } => next.poll(cx),
            Way::Around { way } => way.as_mut().poll(cx),
        }
    }
}

impl<F: Future> fmt::Debug for Detour<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Straight { .. } => "Straight",
            Self::Around { .. } => "Around",
        })
    }
}
