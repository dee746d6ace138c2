//! The Kubernetes side: CRD, admission, controller, plan stream; holds no code yet.
