//! Scheduler, sequences, devices and the server that speaks wire
