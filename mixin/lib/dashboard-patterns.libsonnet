// The patterns of memory: as numbers for state timelines, in words, and in colors that
// both themes can show. The colors go from what is well to what is not.
[
  { name: 'stable', text: 'stable', color: 'semi-dark-green' },
  { name: 'idle', text: 'idle', color: '#7b8087' },
  { name: 'warmup', text: 'warm-up', color: 'super-light-blue' },
  { name: 'plateau', text: 'plateau', color: 'dark-green' },
  { name: 'step', text: 'step', color: 'light-blue' },
  { name: 'sawtooth', text: 'sawtooth', color: 'semi-dark-blue' },
  { name: 'spikes', text: 'spikes', color: 'semi-dark-yellow' },
  { name: 'fragmentation', text: 'fragmentation', color: 'orange' },
  { name: 'zombie', text: 'zombie', color: 'semi-dark-purple' },
  { name: 'unreleased', text: 'unreleased', color: 'dark-purple' },
  { name: 'leak_cyclic', text: 'cyclic leak', color: 'light-red' },
  { name: 'leak_staircase', text: 'staircase leak', color: 'semi-dark-red' },
  { name: 'leak_linear', text: 'linear leak', color: 'red' },
]
