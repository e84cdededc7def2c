//! Scheduler and nodes: clients of the Kubernetes API that walk each pod through its life.
