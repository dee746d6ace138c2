//! The proxy's faults inside somebody else's server: one tower layer around any HTTP service. An HTTP request comes in and
//! goes through the stack as a call, with the wrapped service at its bottom in place of a server across the network; the
//! answer comes out with the stack's body, and where a fault closes the connection, with one that fails at once.

use crate::body::BodyError;
use crate::call::{self, Call};
use crate::client::Client;
use crate::config::Limits;
use crate::control::{Control, Shared};
use crate::failure::Unanswered;
use crate::journal::Journal;
use crate::local::{Local, LocalFuture};
use crate::measure::Measured;
use crate::proxy::spawn;
use crate::site::Site;
use crate::stack::{Stack, StackFuture, stack};
use brownout_injector::facts::FAULT_HEADER;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio_util::sync::CancellationToken;
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

/// Makes any HTTP service one that faults can act on, by the same stack of layers as in the proxy. Clones, and all
/// services made by them, share one plan.
///
/// ```
/// use brownout_injector::{Plan, load};
/// use brownout_proxy::{FaultsLayer, Journal, Limits, RequestBody};
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::{Empty, Full};
/// use std::convert::Infallible;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = FaultsLayer::start(Journal::none(), Limits::default())?;
/// let control = faults.control();
/// let server = ServiceBuilder::new().layer(faults).service(service_fn(async |_: Request<RequestBody>| {
///     Ok::<_, Infallible>(Response::new(Full::from("all is well")))
/// }));
/// let ask = async || {
///     let request = Request::post("/v1/chat/completions").body(Empty::<Bytes>::new())?;
///     Ok::<_, http::Error>(server.clone().oneshot(request).await.unwrap_or_else(|never| match never {}))
/// };
/// assert_eq!(ask().await?.status(), 200);
///
/// let scenario = load::load(
///     "outage.yaml",
///     "
/// apiVersion: brownout.dev/v1alpha1
/// kind: Scenario
/// metadata: {name: outage}
/// spec:
///   target: {url: 'http://localhost'}
///   phases: {fault: 60s}
///   faults:
///     - name: down
///       httpError: {status: 503}
/// ",
/// )?;
/// control.arm(Plan::compile(&scenario, None), None);
/// let answer = ask().await?;
/// assert_eq!(answer.status(), 503);
/// assert_eq!(answer.headers()["x-brownout-fault"], "down");
///
/// control.heal("seen enough");
/// assert_eq!(ask().await?.status(), 200);
/// # Ok(())
/// # }
/// ```
///
/// # What goes in and out
/// The wrapped service gets its requests with a [`RequestBody`], whatever body they came with: a fault may have read it
/// or changed it. Services that are generic over the body take it as it is; for one that insists on a type of its own,
/// put tower's `map_request` between. Answers may have any body of [`Bytes`]. Errors of the service stay what they are, so
/// a service that never fails is still one that never fails. With nothing armed, heads, bodies and trailers pass
/// untouched, and event streams are read along for what [`Control::snapshot`] tells; each body is boxed once.
///
/// # What a layer cannot do
/// It has no socket. Where a fault closes the connection (`disconnect`, the end of a `blackhole`), the body of the
/// answer fails with [`BodyError::Closed`], upon which hyper, and with it axum, drops the connection:
///
/// - Before headers: the body fails when it is first asked, before hyper has written anything, so that an HTTP/1.1
///   client sees the connection end without one byte. Only an answer to `HEAD`, which has no body to fail, goes out, as
///   a 502 with the faults' names in `x-brownout-fault`. On HTTP/2 the stream is reset with `INTERNAL_ERROR`, sometimes
///   behind that head.
/// - In the middle: what came before reaches the client, then the connection ends without the end of the body; on
///   HTTP/2 the stream is reset.
/// - `close: rst` and `close: fin` are the same: the system ends a dropped connection with FIN, or with RST where bytes
///   of the client were not read yet.
///
/// Whatever lies between this layer and hyper must pass the body on unread, or it meets the failure instead. The
/// limits on connections and their idle times are the server's own affair too; of [`Limits`], `body_bytes`,
/// `answer_bytes` and `event_bytes` count here.
///
/// # Time
/// Waits need a tokio runtime with its timer enabled. A thread that belongs to the layer keeps the time of what is armed:
/// it heals at the plan's end, and when the lease is not renewed, however busy or stuck the server's own threads are. A
/// wait that is let go leaves when the runtime next gets to it. The thread ends when the layer, its services, the
/// requests in flight and all [`Control`]s are gone.
///
/// The service is not polled while its answer is held. Behind the proxy a server goes on computing, and what it computed
/// comes in a burst when the hold ends; in the same process a `firstTokenDelay` or `stall` and the service's own time
/// add up.
///
/// A client that leaves makes hyper drop the answer, and with it the wrapped service's own future or body. A panic of the
/// service goes on to whoever polls the answer; the request counts as one that was not answered, or was cut.
#[derive(Clone, Debug)]
pub struct FaultsLayer {
    control: Control,
    client: Arc<Client>,
}

impl FaultsLayer {
    /// A layer with nothing armed, and the thread that keeps its time.
    ///
    /// # Errors
    /// The system gives no further thread, or no timer for it.
    pub fn start(journal: Journal, limits: Limits) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(journal));
        let kept = CancellationToken::new();
        let site = Site::of_many(shared.clone(), limits, kept.clone().drop_guard());
        let keeper = shared.clone();
        spawn("brownout-keeper", async move {
            tokio::select! {
                () = keeper.keep_time() => {}
                () = kept.cancelled() => {}
            }
        })?;
        let client = Client::elsewhere(site.clone());
        Ok(Self { control: Control { shared, sites: Arc::new([site]) }, client })
    }

    /// The handle by which faults are armed and healed.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }
}

impl<S> Layer<S> for FaultsLayer {
    type Service = Faults<S>;

    fn layer(&self, inner: S) -> Faults<S> {
        Faults { stack: stack(self.client.site(), Local::new(inner)), client: self.client.clone() }
    }
}

/// A service that faults can act on; see [`FaultsLayer`].
#[derive(Clone)]
pub struct Faults<S> {
    stack: Stack<Local<S>>,
    client: Arc<Client>,
}

impl<S> fmt::Debug for Faults<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Faults<S>
where
    S: Service<Request<RequestBody>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = FaultsFuture<S::Future, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(match ready!(self.stack.poll_ready(cx)) {
            Err(Unanswered::Service(error)) => Err(error),
            // Only the service can be unready or broken; the layers around it never are.
            _ => Ok(()),
        })
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (head, body) = request.into_parts();
        let body = if body.is_end_stream() {
            call::RequestBody::Full(Bytes::new())
        } else {
            call::RequestBody::Foreign(body.map_err(Into::into).boxed_unsync())
        };
        FaultsFuture { inner: self.stack.call(Call::new(head, body, self.client.clone())) }
    }
}

pin_project_lite::pin_project! {
    /// The answer to come; see [`FaultsLayer`]. `F` is the wrapped service's future, `E` its error.
    pub struct FaultsFuture<F, E> {
        #[pin]
        inner: StackFuture<LocalFuture<F>, E>,
    }
}

impl<F, E> fmt::Debug for FaultsFuture<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultsFuture").finish_non_exhaustive()
    }
}

impl<F, R, E> Future for FaultsFuture<F, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().inner.poll(cx)) {
            Ok(response) => Ok(response.map(|body| ResponseBody { measured: Some(body) })),
            Err(Unanswered::Service(error)) => Err(error),
            Err(Unanswered::Hung(mark)) => Ok(hang_up(mark)),
            // Became an answer further down.
            Err(Unanswered::Failed(_)) => Ok(hang_up(None)),
        })
    }
}

/// An answer upon which hyper drops the connection before it writes a byte.
fn hang_up(mark: Option<HeaderValue>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody { measured: None });
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    if let Some(mark) = mark {
        response.headers_mut().insert(FAULT_HEADER, mark);
    }
    response
}

/// The body that the wrapped service gets its request with.
#[derive(Debug)]
pub struct RequestBody(call::RequestBody);

impl RequestBody {
    pub(crate) const fn new(body: call::RequestBody) -> Self {
        Self(body)
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// The body of an answer, as far as faults let it pass. Dropped before its end, it cancels what the wrapped service
/// still does for it.
#[derive(Debug)]
pub struct ResponseBody {
    /// Nothing where a fault closes the connection in place of an answer.
    measured: Option<Measured>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.measured {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(Some(Err(BodyError::Closed))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.measured.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.measured.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
