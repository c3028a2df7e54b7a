// The XID errors that an operator can do something about: what they mean and what to
// do, after NVIDIA's documentation "XID Errors" and "GPU Debug Guidelines". Those of
// severity critical are the ones that the exporter shows with 0 from its start.
{
  critical: {
    '48': ['a double-bit error of the memory that could not be corrected', 'Reset the GPU or reboot the node; replace the GPU if it comes again.'],
    '62': ['its internal micro-controller has halted', 'Drain the node and reset the GPU; report it to the vendor.'],
    '64': ['a row of the memory or a page could not be taken out of use', 'Drain the node and reset the GPU; if it comes again, replace it.'],
    '74': ['an error of an NVLink connection', 'Drain the node; look at the other GPUs and at the fabric manager, and reset all GPUs that the link joins.'],
    '79': ['it has fallen off the bus', 'Drain the node and reboot it, or power it off and on; check power, cooling and the seat of the card.'],
    '94': ['a memory error that was contained: the program that met it was killed, others go on', 'Restart the program; reset the GPU when the node is idle.'],
    '95': ['a memory error that was not contained: everything on the GPU may be wrong', 'Stop everything on the GPU and reset it before it is used again.'],
    '119': ['its system processor (GSP) did not answer in time', 'Drain the node and reset the GPU, or reboot; update the driver if it comes again.'],
    '120': ['an error of its system processor (GSP)', 'Drain the node and reset the GPU, or reboot; update the driver if it comes again.'],
    '140': ['memory errors that the driver could not recover from', 'Drain the node and reset the GPU.'],
    '143': ['it could not be initialised', 'Drain the node and reset the GPU, or reboot.'],
  },
  warning: {
    '61': ['its internal micro-controller has stopped at a breakpoint', 'Reset the GPU when the node is idle; report it to the vendor if it comes again.'],
    '63': ['a row of the memory or a page was taken out of use because of errors', 'Reset the GPU when the node is idle, for it to take effect.'],
    '92': ['many single-bit errors of the memory', 'Run the diagnostics when the node is idle.'],
    '109': ['a program could not be switched away from in time', 'Restart the program; update the driver if it comes again.'],
    '121': ['an error of the link between chip and processor (C2C)', 'Reset the GPU when the node is idle.'],
    '144': ['an error of NVLink 5 (SAW)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '145': ['an error of NVLink 5 (RLW)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '146': ['an error of NVLink 5 (TLW)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '147': ['an error of NVLink 5 (TREX)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '148': ['an error of NVLink 5 (NVLPW_CTRL)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '149': ['an error of NVLink 5 (NETIR)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '150': ['an error of NVLink 5 (MSE)', 'Look at the other GPUs and at the fabric manager; reset the GPUs that the link joins when the node is idle.'],
    '154': ['the driver asks for a recovery', 'gpu_recovery_action tells which.'],
    '171': ['what XID 48 counted was in the DRAM', 'See XID 48.'],
    '172': ['what XID 48 counted was in the SRAM', 'See XID 48.'],
  },
  // Programs cause these as a rule; hardware does so if many different ones meet them.
  info: {
    '13': ['an exception of the graphics engine, such as an access out of bounds', 'Run the program under compute-sanitizer.'],
    '31': ['a program has touched memory that is not its own', 'Run the program under compute-sanitizer.'],
    '43': ['a program has been stopped after an error of its own', 'Look at the log of the program.'],
    '45': ['the work of a program was cleaned up before it was done, as it is when it is killed or dies of out-of-memory', 'Look at the log of the program.'],
  },
}
