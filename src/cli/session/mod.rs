//! The surroundings of a command: the cluster, the state folder, the configuration, the history, the person.

pub(in crate::cli) mod configured;
pub(in crate::cli) mod conflict;
pub(in crate::cli) mod connect;
pub(in crate::cli) mod embedded;
pub(in crate::cli) mod guard_notes;
pub(in crate::cli) mod history_access;
pub(in crate::cli) mod history_view;
pub(in crate::cli) mod identity;
pub(in crate::cli) mod kubeconfig;
pub(in crate::cli) mod repositories;
pub(in crate::cli) mod server;
pub(in crate::cli) mod service;
pub(in crate::cli) mod signals;
pub(in crate::cli) mod source_leases;
pub(in crate::cli) mod threads;
pub(in crate::cli) mod time_warp;
pub(in crate::cli) mod who;
