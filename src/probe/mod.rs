//! Who watches: position, checkpoint, marker, host; the sampler.
