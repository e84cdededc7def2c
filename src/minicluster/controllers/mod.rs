//! Controllers: clients of the Kubernetes API that make status follow spec.
