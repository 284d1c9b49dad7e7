//! Native blocks to and from Arrow.
